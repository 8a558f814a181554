//! What is seen of the file system, by which everything else is kept apart.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use super::files::{text, writable};
use super::{Tried, any, attempts, blocked, may};
use crate::call::{NONE, call};
use crate::ground::Ground;

attempts! {
    "F05" Answer "make a read-only mount writable" "bwrap as root" remount;
    "F11" Answer "have another root" "the classic way out of a root" |_| may(call!(libc::SYS_chroot, c"."), &[]);
    "F12" Answer "put another root in place of this one" "runc" |_| may(call!(libc::SYS_pivot_root, c".", c"."), &[libc::EINVAL, libc::EBUSY]);
    "F13" Answer "mount a procfs that nothing covers" "masks of runc" |_| mount(c"proc", c"proc", NONE.into());
    "F14" Answer "begin a mount by the new calls" "CVE-2021-41133" |_| may(call!(libc::SYS_fsopen, c"tmpfs", 0), &[]);
    "F15" Answer "copy the tree of mounts by the new calls" "CVE-2021-41133" |_| may(call!(libc::SYS_open_tree, libc::AT_FDCWD, c"/", 0x8001), &[]);
    "F16" Answer "take a mount away" "bwrap as root" unmount;
    "F21" Answer "change where the kernel sends crashes" "bwrap as root" |_| writable(Path::new("/proc/sys/kernel/core_pattern"));
    "F22" Answer "tell the kernel of another kind of program" "masks of runc" |_| writable(Path::new("/proc/sys/fs/binfmt_misc/register"));
    "F23" Answer "give the kernel commands of its keyboard" "masks of runc" |_| writable(Path::new("/proc/sysrq-trigger"));
    "F25" Answer "write a file of sysfs" "masks of runc" sysfs;
    "F26" Answer "name a program that the kernel runs when a control group empties" "CVE-2022-0492" |_| of_control_groups("release_agent");
    "F27" Answer "leave its control group" "control groups" leave_group;
    "F31" Answer "mount an overlay in a user namespace of its own" "CVE-2023-0386" overlay;
    "F39" Answer "reach a covered file of procfs by another name" "CVE-2025-31133, -52565, -52881" |_| any(
        ["/proc/self/task/../../sys/kernel/core_pattern", "/proc/self/../sys/kernel/core_pattern", "/proc/thread-self/../../../sys/kernel/core_pattern"],
        "such name", |name| writable(Path::new(name)));
}

/// Mounts something on a directory of the workspace, and takes it away again.
fn mount(kind: &CStr, at: &CStr, options: crate::call::Argument<'_>) -> Tried {
    let _ = call!(libc::SYS_mkdirat, libc::AT_FDCWD, at, 0o700);
    let no_devices = libc::MS_NOSUID | libc::MS_NODEV;
    crate::call::system_call(
        libc::SYS_mount,
        [
            kind.into(),
            at.into(),
            kind.into(),
            no_devices.into(),
            options,
        ],
    )?;
    let _ = call!(libc::SYS_umount2, at, libc::MNT_DETACH);
    Ok("it was mounted".into())
}

fn remount(ground: &Ground) -> Tried {
    let at = text(&ground.readonly)?;
    let writable_again = libc::MS_REMOUNT | libc::MS_BIND;
    // Where it is no mount, who may make one is told so.
    may(
        call!(libc::SYS_mount, NONE, &*at, NONE, writable_again, NONE),
        &[libc::EINVAL],
    )
}

fn unmount(_: &Ground) -> Tried {
    let no_mount = Path::new("no-mount");
    std::fs::create_dir_all(no_mount)?;
    may(
        call!(libc::SYS_umount2, c"no-mount", libc::MNT_DETACH),
        &[libc::EINVAL],
    )
}

fn sysfs(_: &Ground) -> Tried {
    let known = [
        "/sys/kernel/uevent_helper",
        "/sys/kernel/uevent_seqnum",
        "/sys/power/state",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/mm/ksm/run",
        "/sys/block/loop0/queue/read_ahead_kb",
        "/sys/devices/system/cpu/cpu1/online",
        "/sys/module/kernel/parameters/panic",
    ];
    any(known, "such file", |path| writable(Path::new(path)))
}

/// A file at the top of each hierarchy.
fn of_control_groups(name: &str) -> Tried {
    any(hierarchies()?, "control group to be seen", |top| {
        writable(&top.join(name))
    })
}

/// The group above its own in each hierarchy, which a process enters by writing its number.
pub(super) fn leave_group(_: &Ground) -> Tried {
    let own = std::fs::read_to_string("/proc/self/cgroup")?;
    let own: Vec<&str> = own
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .collect();
    // Which path belongs to which hierarchy shows by what is there.
    let above = hierarchies()?.into_iter().flat_map(|top| {
        let paths = own
            .iter()
            .filter_map(|path| Path::new(path.trim_start_matches('/')).parent());
        paths
            .map(|path| top.join(path).join("cgroup.procs"))
            .collect::<Vec<_>>()
    });
    any(above, "control group to be seen", |file| writable(&file))
}

/// Where control groups are mounted.
fn hierarchies() -> std::io::Result<Vec<PathBuf>> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let tops = mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup")
            .then(|| place.split(' ').nth(4))?
    });
    Ok(tops.map(PathBuf::from).collect())
}

fn overlay(_: &Ground) -> Tried {
    for directory in ["lower", "lower-too", "over"] {
        std::fs::create_dir_all(directory)?;
    }
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
    if call!(libc::SYS_unshare, flags).is_err() {
        return blocked("no user namespace");
    }
    mount(c"overlay", c"over", c"lowerdir=lower:lower-too".into())
}

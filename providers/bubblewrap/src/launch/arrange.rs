//! What root shows to a sandbox, arranged before root goes over to the sandbox's user.
//!
//! That user may enter no directory of others, and owns nothing. So each thing is taken as root, its owner is
//! mapped to the sandbox's user, and it is put into a small directory that only this mount namespace has. The place
//! is `/tmp`, because bwrap needs it to be there anyway; what is shown was taken before it is covered.
//!
//! **Invariant:** everything is made in a mount namespace of this process alone, from which nothing comes back to
//! the machine's. It ends with its last process.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::idmap::{Maps, Owner};
use super::{Access, Failure, FailureKind, Item, Order};

/// Where things are put.
const STAGE: &str = "/tmp";

/// Takes what is to be shown, and returns for each bind what bwrap is told, in order.
pub(super) fn prepare(order: &Order, user: u32) -> Result<Vec<Vec<OsString>>, Failure> {
    let other = |doing: &'static str| move |error| Failure::doing(doing, error);
    leave_mounts().map_err(other("making a mount namespace"))?;
    let mut maps = Maps::new(user);
    let mut taken = Vec::new();
    for item in &order.items {
        if let Item::Bind { access, source, at } = item {
            taken.push((take(source, *access, &mut maps)?, *access, at));
        }
    }
    mount(
        "spp",
        STAGE,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        c"size=64k,mode=0755",
    )
    .map_err(other("making a place to arrange mounts in"))?;
    let stage = |(number, (tree, access, at)): (usize, (Taken, Access, &OsString))| {
        let place = Path::new(STAGE).join(number.to_string());
        put(&tree, &place).map_err(other("arranging mounts"))?;
        let option = match access {
            Access::ReadOnly => "--ro-bind",
            Access::ReadWrite => "--bind",
        };
        Ok(vec![option.into(), place.into_os_string(), at.clone()])
    };
    taken.into_iter().enumerate().map(stage).collect()
}

/// Leaves the machine's mounts: what is mounted from here on is nobody else's.
fn leave_mounts() -> rustix::io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "unsharing descriptors would be unsound; mounts are not"
    )]
    // SAFETY: the flags do not have the one that makes descriptors of another thread disappear.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
}

/// Something that was taken out of the machine's tree.
struct Taken {
    tree: OwnedFd,
    kind: FileType,
}

/// Takes a copy of the mount that something is on, with its owner mapped to the sandbox's user.
fn take(source: &Path, access: Access, maps: &mut Maps) -> Result<Taken, Failure> {
    let failed = |error| {
        let kind = match error {
            Errno::PERM => FailureKind::Forbidden,
            _ => FailureKind::Source,
        };
        Failure::of(kind, source.display(), error)
    };
    let place = super::open(source)?;
    let stat = rustix::fs::fstat(&place).map_err(failed)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&place, "", flags).map_err(failed)?;
    let mapped = maps.apply(tree.as_fd(), owner(&stat));
    match (mapped, access) {
        (Ok(()), _) => {}
        // It can still be read as anybody may read it, and cannot be written at all.
        (Err(_), Access::ReadOnly) => {}
        (Err(error), Access::ReadWrite) => {
            return Err(Failure::of(FailureKind::Idmap, source.display(), error));
        }
    }
    Ok(Taken {
        tree,
        kind: FileType::from_raw_mode(stat.st_mode),
    })
}

fn owner(stat: &Stat) -> Owner {
    Owner {
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}

/// Puts it at a new place.
fn put(taken: &Taken, place: &PathBuf) -> rustix::io::Result<()> {
    if taken.kind == FileType::Directory {
        rustix::fs::mkdir(
            place,
            Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH,
        )?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(place, flags, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
    }
    move_mount(
        taken.tree.as_fd(),
        "",
        rustix::fs::CWD,
        place,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

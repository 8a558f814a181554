//! Devices, which are the machine itself.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::files::writable;
use super::{Tried, any, attempts};
use crate::call::call;
use crate::ground::Ground;

attempts! {
    "F08" Answer "make the disk's device and open it" "Shocker, privileged containers" disk;
    "F09" Answer "make the memory's device and open it" "baseline" |_| device(libc::S_IFCHR, libc::makedev(1, 1));
    "F24" Answer "read the kernel's memory" "masks of runc" |_| readable("/proc/kcore");
    "F28" Answer "open a device of the machine" "masks of runc" |_| any(
        ["/dev/mem", "/dev/port", "/dev/kvm", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/fuse"], "such device", readable);
    "F40" Answer "open what makes devices of files" "loop devices" |_| writable(Path::new("/dev/loop-control"));
    "F51" Answer "read the kernel's log by its device" "dmesg" |_| readable("/dev/kmsg");
}

fn readable(path: &str) -> Tried {
    File::open(path)?;
    Ok(format!("{path} can be read"))
}

fn disk(_: &Ground) -> Tried {
    device(libc::S_IFBLK, std::fs::metadata("/")?.dev())
}

fn device(kind: u32, number: u64) -> Tried {
    let _ = std::fs::remove_file("device");
    call!(
        libc::SYS_mknodat,
        libc::AT_FDCWD,
        c"device",
        kind | 0o600,
        number
    )?;
    let had = readable("device");
    std::fs::remove_file("device")?;
    had
}

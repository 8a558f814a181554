//! New content for a file that is mounted by itself.
//!
//! Nothing can be renamed over a mount, nor is there always a directory beside it that could be written. So here, and
//! nowhere else, content is written over what is there: whoever reads meanwhile sees some of both, and a crash
//! or a full disk leaves that.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use sandbox_core::Effect;
use sandbox_core::file::Durability;

use super::stage::Attributes;
use super::write::Failure;
use crate::root::{Entry, Outcome};

/// Whether what has a name there is a mount of its own.
pub(super) fn is_mounted(entry: &Entry<'_>) -> Outcome<bool> {
    let found = rustix::fs::statx(
        entry.dir(),
        entry.name(),
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::TYPE,
    );
    match found {
        Ok(found) => Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        // A kernel or a filter without this call; then the rename tells.
        Err(Errno::NOSYS | Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes over a file that was looked at.
pub(super) fn overwrite(
    entry: &Entry<'_>,
    content: &[u8],
    attributes: &Attributes<'_>,
) -> Result<(), Failure> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(entry.dir(), entry.name(), flags, Mode::empty())?;
    let now = rustix::fs::fstat(&file)?;
    let is_same = |old: &rustix::fs::Stat| (old.st_dev, old.st_ino) == (now.st_dev, now.st_ino);
    if !attributes.old.is_some_and(is_same) {
        return Err(Errno::BUSY.into());
    }
    write(&file, content, attributes).map_err(|errno| Failure {
        // Some of it may be there.
        effect: Effect::Unknown,
        ..Failure::publishing(errno)
    })
}

fn write(file: &OwnedFd, content: &[u8], attributes: &Attributes<'_>) -> Result<(), Errno> {
    let mut rest = content;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    rustix::fs::ftruncate(file, content.len() as u64)?;
    if let Some(mode) = attributes.mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    }
    if attributes.durability == Durability::Durable {
        rustix::fs::fsync(file)?;
    }
    Ok(())
}

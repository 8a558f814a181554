//! A user of its own for each sandbox that root starts, so that two of them have nothing of each other's.
//!
//! The numbers are ones that nobody else hands out: above those of containers, directories and domains, and not among
//! those of `useradd`, systemd's dynamic users and its foreign files. One is held by a lock on a file of its name,
//! which is never removed: a file that is removed and made again could be locked twice.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::{Failure, FailureKind, pass_on};

/// The first number. See the [module](self).
pub(super) const FIRST: u32 = 2_010_000_000;
/// How many there are.
const COUNT: u32 = 65_536;
/// Where the locks are. On every Linux it is emptied when the machine starts.
const LOCKS: &str = "/run/spp-bubblewrap";

/// A number that is held.
pub(super) struct Lone {
    pub(super) id: u32,
    /// Holds the lock until the last process that has it is gone.
    pub(super) lock: OwnedFd,
}

/// Takes the first number that is free.
pub(super) fn take() -> Result<Lone, Failure> {
    let failed = |doing: &str, error: Errno| {
        Failure::new(FailureKind::User, format_args!("{doing} {LOCKS}: {error}"))
    };
    match rustix::fs::mkdir(LOCKS, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(failed("making", error)),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(LOCKS, flags, Mode::empty()).map_err(|error| failed("opening", error))?;
    let stat = rustix::fs::fstat(&directory).map_err(|error| failed("looking at", error))?;
    if stat.st_uid != 0 || FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(failed("trusting", Errno::PERM));
    }
    for id in FIRST..FIRST + COUNT {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&directory, id.to_string(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed("making a lock in", error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lone { id, lock }),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(failed("taking a lock in", error)),
        }
    }
    Err(Failure::new(
        FailureKind::User,
        format_args!("all {COUNT} users of sandboxes are in use"),
    ))
}

/// Goes over to the user that was taken, for good.
pub(super) fn become_user(id: u32) -> Result<(), Failure> {
    let failed = |error: Errno| {
        Failure::new(
            FailureKind::User,
            format_args!("becoming user {id}: {error}"),
        )
    };
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[]).map_err(failed)?;
    set_thread_res_gid(gid, gid, gid).map_err(failed)?;
    set_thread_res_uid(uid, uid, uid).map_err(failed)?;
    Ok(())
}

/// What makes bwrap hold the lock for as long as the sandbox runs.
pub(super) fn hold(lock: &OwnedFd) -> Result<[OsString; 2], Failure> {
    let number = pass_on(lock).map_err(|error| {
        Failure::new(FailureKind::User, format_args!("keeping the lock: {error}"))
    })?;
    Ok(["--sync-fd".into(), number.into()])
}

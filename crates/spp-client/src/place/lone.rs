//! A user of its own for each sandbox that root starts, so that two of them have nothing of each other's.
//!
//! The numbers are ones that nobody else hands out: above those of containers, directories and domains, and not among
//! those of `useradd`, systemd's dynamic users and its foreign files. One is held by a lock on a file of its name,
//! which is never removed: a file that is removed and made again could be locked twice.
//!
//! **Invariant:** the lock is held for as long as this process knows of the sandbox. After this process was killed the
//! place takes some milliseconds to end, and its number may be taken meanwhile. That gives neither sandbox anything of
//! the other's: they see no common process, file or user namespace.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Refusal;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// The first number. See the [module](self).
const FIRST: u32 = 2_010_000_000;
/// How many there are.
const COUNT: u32 = 65_536;
/// Where the locks are. On every Linux it is emptied when the machine starts.
const LOCKS: &str = "/run/spp-users";

/// What this process holds itself, so that it need not ask for each. With a thousand sandboxes that was a thousand files for
/// one more.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn own() -> MutexGuard<'static, BTreeSet<u32>> {
    // Nothing that runs under the lock leaves it half-changed.
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that is held, of a user and of a group.
#[derive(Debug)]
pub struct Lone {
    /// The number.
    pub id: u32,
    /// Whose end gives the number back.
    _lock: OwnedFd,
}

impl Drop for Lone {
    fn drop(&mut self) {
        own().remove(&self.id);
    }
}

impl Lone {
    /// Takes the first number that is free. Only root can.
    ///
    /// # Errors
    ///
    /// There is none, or no lock can be made.
    pub fn take() -> Result<Self, Refusal> {
        take()
    }
}

fn take() -> Result<Lone, Refusal> {
    let failed = |doing: &str, error: Errno| {
        Refusal::new(
            format!("there is no user for the sandbox to run as: {doing} {LOCKS}: {error}"),
            "start this as an ordinary user instead of root, or let root write to /run",
        )
    };
    match rustix::fs::mkdir(LOCKS, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(failed("making", error)),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(LOCKS, flags, Mode::empty()).map_err(|error| failed("opening", error))?;
    let stat = rustix::fs::fstat(&directory).map_err(|error| failed("looking at", error))?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if stat.st_uid != 0
        || FileType::from_raw_mode(stat.st_mode) != FileType::Directory
        || mode.intersects(Mode::RWXG | Mode::RWXO)
    {
        return Err(failed("trusting", Errno::PERM));
    }
    let mut own = own();
    for id in FIRST..FIRST + COUNT {
        if own.contains(&id) {
            continue;
        }
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&directory, id.to_string(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed("making a lock in", error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                own.insert(id);
                return Ok(Lone { id, _lock: lock });
            }
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(failed("taking a lock in", error)),
        }
    }
    Err(failed("finding a free number in", Errno::NOSPC))
}

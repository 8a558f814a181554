//! Which processes descend from which, read from `/proc` without allocating.
//!
//! The parent of every process is read from `/proc/PID/stat`. (`/proc/PID/task/TID/children` would
//! be shorter to read, but kernels are built without it, and there has to be one way that always
//! works.) Only runs that left something behind pay for it.
//!
//! What is read is a picture, and may be old when it is acted upon. Two facts make that harmless:
//! whoever kills looks again until the kernel says that no child is left, and process numbers are
//! handed out in a circle, so that a number is not given to a stranger within a look and a kill.
//!
//! Not here: deciding what to do with them (`child`, `fork`).

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir};

/// Most descendants that one look can hold. A bigger tree takes more than one.
const CAPACITY: usize = 4096;

/// A list of process numbers of fixed size.
pub(super) struct Pids {
    pids: [i32; CAPACITY],
    length: usize,
}

impl Pids {
    pub(super) const fn new() -> Self {
        Pids {
            pids: [0; CAPACITY],
            length: 0,
        }
    }

    pub(super) fn as_slice(&self) -> &[i32] {
        self.pids.get(..self.length).unwrap_or_default()
    }

    fn push(&mut self, pid: i32) {
        if let Some(slot) = self.pids.get_mut(self.length) {
            *slot = pid;
            self.length += 1;
        }
    }
}

/// One process as `/proc/PID/stat` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// It has ended, and waits for its parent to notice.
    pub(super) zombie: bool,
}

/// The process table.
pub(super) struct Table {
    proc: Option<OwnedFd>,
}

impl Table {
    /// Opens it. Where there is no `/proc`, it stays empty.
    pub(super) fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Table {
            proc: rustix::fs::open(c"/proc", flags, Mode::empty()).ok(),
        }
    }

    /// Whether there is a process table to look at.
    pub(super) fn is_readable(&self) -> bool {
        self.proc.is_some()
    }

    /// Puts every descendant of `root` into `found`, parents before their children. Those that have
    /// ended and were not reaped are among them: such a one may still have threads that run.
    ///
    /// Only descendants are held, so it does not matter how many processes the machine has. A child
    /// mostly has a higher number than its parent and is met after it, so that one look finds nearly
    /// all and the last finds nothing new.
    pub(super) fn descendants(&self, root: i32, found: &mut Pids) {
        found.length = 0;
        loop {
            let before = found.length;
            self.each(|stat| {
                let below = stat.parent == root || found.as_slice().contains(&stat.parent);
                if below && !found.as_slice().contains(&stat.pid) {
                    found.push(stat.pid);
                }
            });
            if found.length == before {
                return;
            }
        }
    }

    /// Whether this process has ended and waits to be reaped, or is gone.
    pub(super) fn is_zombie(&self, pid: i32) -> bool {
        let mut zombie = true;
        self.each(|stat| zombie &= stat.pid != pid || stat.zombie);
        zombie
    }

    /// The session of a process, as the table numbers it; nothing if the process is gone.
    ///
    /// Zero is a session too: one whose leader is outside this process namespace, as it is for
    /// whatever a container manager or `unshare --pid` starts. So `getsid` is not asked: its zero
    /// would have to be told from "no process", and it has to match what the table says anyway.
    pub(super) fn session(&self, pid: i32) -> Option<i32> {
        let mut session = None;
        self.each(|stat| {
            if stat.pid == pid {
                session = Some(stat.session);
            }
        });
        session
    }

    /// Calls `see` with every process there is.
    pub(super) fn each(&self, mut see: impl FnMut(Stat)) {
        let Some(proc) = &self.proc else { return };
        // A second open, because reading a directory moves its one position.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = rustix::fs::openat(proc, c".", flags, Mode::empty()) else {
            return;
        };
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut entries = RawDir::new(&directory, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let named = entry.file_name();
            if named.to_bytes().first().is_some_and(u8::is_ascii_digit)
                && let Some(stat) = read_stat(proc.as_fd(), named)
            {
                see(stat);
            }
        }
    }
}

/// Reads `/proc/PID/stat`, or nothing if the process is gone.
fn read_stat(proc: BorrowedFd<'_>, pid: &CStr) -> Option<Stat> {
    let mut path = [0_u8; 32];
    let name = pid.to_bytes();
    path.get_mut(..name.len())?.copy_from_slice(name);
    path.get_mut(name.len()..name.len() + 6)?
        .copy_from_slice(b"/stat\0");
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let file =
        rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0_u8; 512];
    let length = rustix::io::read(&file, &mut text).ok()?;
    parse_stat(text.get(..length)?)
}

/// Takes `pid (name) state parent group session ...` apart. The name may hold anything, brackets
/// and newlines too, but what follows the last bracket is the kernel's.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = number(text.get(..open)?)?;
    let mut fields = text.get(close + 1..)?.split(|byte| *byte == b' ').skip(1);
    let state = fields.next()?;
    let parent = number(fields.next()?)?;
    let _group = fields.next()?;
    let session = number(fields.next()?)?;
    Some(Stat {
        pid,
        parent,
        session,
        zombie: matches!(state, b"Z" | b"X"),
    })
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.trim_ascii().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_brackets_does_not_hide_the_parent() {
        let text = b"812 (a) S 1 (b) Z 9 9 9) S 77 812 811 0 -1 4194304";
        let stat = Stat {
            pid: 812,
            parent: 77,
            session: 811,
            zombie: false,
        };
        assert_eq!(parse_stat(text), Some(stat));
    }

    #[test]
    fn an_ended_process_is_told_from_a_running_one() {
        assert_eq!(
            parse_stat(b"5 (x) Z 4 5 5 0").map(|stat| stat.zombie),
            Some(true)
        );
        assert_eq!(parse_stat(b"5 (x"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn a_session_whose_leader_is_outside_the_namespace_is_zero() {
        let text = b"9 (sh) S 1 0 0 0 -1 4194304";
        assert_eq!(parse_stat(text).map(|stat| stat.session), Some(0));
    }

    #[test]
    fn this_process_is_found_below_its_parent() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        let parent = rustix::process::getppid()
            .expect("a parent")
            .as_raw_nonzero()
            .get();
        let mut found = Pids::new();
        Table::open().descendants(parent, &mut found);
        assert!(found.as_slice().contains(&own));
    }
}

//! The process table, read from `/proc` without allocating.
//!
//! The parent of every process is read from `/proc/PID/stat`. (`/proc/PID/task/TID/children` would
//! be shorter to read, but kernels are built without it, and there has to be one way that always
//! works.) Only runs that left something behind pay for it.
//!
//! Numbers that were given out last can be looked at alone: the kernel tells the last one. That takes
//! microseconds, where the whole table takes milliseconds.
//!
//! What is read is a picture, and may be old when it is acted upon. So whoever is to be signalled is
//! signalled as soon as it is seen, by a handle that stays with one process ([`Table::signal`]), and
//! whoever kills looks again until the kernel says that no child is left.
//!
//! Not here: who descends from whom (`hunt`), and deciding what to do with them (`end`, `fork`).

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::sys;

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
    /// Opens it. Where there is no `/proc`, or one that numbers processes as others do, it stays empty.
    pub(super) fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open(c"/proc", flags, Mode::empty()).ok();
        Table {
            proc: proc.filter(|proc| {
                let own = rustix::process::getpid().as_raw_nonzero().get();
                let seen = read_stat(proc.as_fd(), c"self");
                // In a new process namespace with the old `/proc` these are two numbers, and what is read
                // would be about strangers.
                seen.is_some_and(|seen| seen.pid == own)
            }),
        }
    }

    /// Whether there is a process table to look at.
    pub(super) fn is_readable(&self) -> bool {
        self.proc.is_some()
    }

    /// The number that was given to a process or thread last; nothing if the kernel does not tell.
    pub(super) fn last_number(&self) -> Option<i32> {
        let mut text = [0_u8; 128];
        let text = read(self.proc.as_ref()?.as_fd(), c"loadavg", &mut text)?;
        number(text.trim_ascii().rsplit(|byte| *byte == b' ').next()?)
    }

    /// What has this number now: a process, or one of its threads.
    pub(super) fn numbered(&self, number: i32) -> Option<Stat> {
        let mut name = [0_u8; 12];
        read_stat(self.proc.as_ref()?.as_fd(), decimal(number, &mut name)?)
    }

    /// Signals a process that was just read from the table. Whoever has got its number since is not
    /// signalled.
    ///
    /// - `own`: this process, whose children keep their numbers until it has reaped them
    pub(super) fn signal(&self, stat: Stat, own: i32, signal: i32) {
        let child = stat.parent == own;
        let handle = Pid::from_raw(stat.pid)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match handle {
            Ok(handle) => {
                // What was read before is of the handle's process only if it still is so.
                let same = |again: Stat| again.parent == stat.parent || again.parent == own;
                if child || self.numbered(stat.pid).is_some_and(same) {
                    sys::signal_handle(&handle, signal);
                }
            }
            // Kernels before 5.3, or no descriptor is to be had. Numbers are given out in a circle, so that
            // a stranger does not get one between a look and a signal.
            Err(Errno::NOSYS) => sys::kill(stat.pid, signal),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) if child => {
                sys::kill(stat.pid, signal);
            }
            // It is gone, or only a thread.
            Err(_) => {}
        }
    }

    /// Whether this process has ended and waits to be reaped, or is gone.
    pub(super) fn is_zombie(&self, pid: i32) -> bool {
        self.numbered(pid).is_none_or(|stat| stat.zombie)
    }

    /// The session of a process, as the table numbers it; nothing if the process is gone.
    ///
    /// Zero is a session too: one whose leader is outside this process namespace, as it is for
    /// whatever a container manager or `unshare --pid` starts. So `getsid` is not asked: its zero
    /// would have to be told from "no process", and it has to match what the table says anyway.
    pub(super) fn session(&self, pid: i32) -> Option<i32> {
        self.numbered(pid).map(|stat| stat.session)
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
    parse_stat(read(proc, path, &mut [0_u8; 512])?)
}

/// The beginning of a file of `/proc`, as far as the buffer takes it.
fn read<'a>(proc: BorrowedFd<'_>, path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(proc, path, flags, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut *buffer).ok()?;
    buffer.get(..length)
}

/// A number as text.
fn decimal(number: i32, text: &mut [u8; 12]) -> Option<&CStr> {
    let mut rest = u32::try_from(number).ok()?;
    // From the end, where the 0 is that ends it.
    let mut at = text.len() - 1;
    loop {
        at -= 1;
        *text.get_mut(at)? = b'0' + u8::try_from(rest % 10).ok()?;
        rest /= 10;
        if rest == 0 {
            return CStr::from_bytes_with_nul(text.get(at..)?).ok();
        }
    }
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
    fn a_number_is_written_as_it_is_read() {
        for sample in [0, 7, 10, 32_768, i32::MAX] {
            let mut text = [0; 12];
            let written = decimal(sample, &mut text).expect("it fits");
            assert_eq!(number(written.to_bytes()), Some(sample));
        }
        assert_eq!(decimal(-1, &mut [0; 12]), None);
    }

    #[test]
    fn what_is_made_now_has_the_last_number_or_one_before() {
        let table = Table::open();
        let before = table.last_number().expect("the kernel tells it");
        let ours = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let ours = ours.join().expect("it ends");
        let after = table.last_number().expect("the kernel tells it");
        // Unless numbers began anew in between.
        assert!(after < before || (before < ours && ours <= after));
        assert!(table.numbered(after.max(1) + 1_000_000_000).is_none());
    }
}

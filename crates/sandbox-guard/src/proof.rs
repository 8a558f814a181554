//! A child that puts a guard on and tries what it should be kept from.
//!
//! What a kernel says that it has is one thing; what it does is what counts, under whatever other rules this
//! machine has. Every attempt is one that would succeed without the guard, changes nothing if it does, and
//! needs nothing but this process and a second child.
//!
//! **Invariant:** no child has a descriptor of this process that it does not need, and none outlives the trial.

#![expect(
    unsafe_code,
    reason = "what runs after the fork is vouched for where it is forked"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{MemfdFlags, Mode};
use rustix::process::{Pid, WaitOptions};

use crate::domain::Domain;
use crate::error::GuardError;
use crate::guard::Guard;
use crate::neighbour::Neighbour;
use crate::sys::{self, Access};

/// Bits of the status that the trying child ends with: what was not kept from it.
const CALLS: u8 = 1;
const NETWORK: u8 = 2;
const WRITES: u8 = 4;
const SIGNALS: u8 = 8;
const TRACING: u8 = 16;
/// Statuses of a child that could not put the guard on.
const NO_FILTERS: u8 = 64;
const NO_DOMAIN: u8 = 65;
/// Status of one that could not close what is not its own.
const NOT_ALONE: u8 = 66;

/// Held by whoever tries.
static TRIAL: Mutex<()> = Mutex::new(());

/// What a guarded process was really kept from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// System calls that no guarded process may make.
    pub calls: bool,
    /// Sockets that lead to a network.
    pub network: bool,
    /// Files that it may not write to.
    pub writes: bool,
    /// Sending signals to a process outside.
    pub signals: bool,
    /// Looking into the memory of a process outside.
    pub tracing: bool,
}

impl Guard {
    /// Tries the guard out, in a child.
    ///
    /// # Errors
    ///
    /// [`GuardError::Refused`] if the kernel does not accept it, [`GuardError::Trial`] if no child can be had.
    pub fn prove(&self) -> Result<Proof, GuardError> {
        let left_open = self.tried().map_err(GuardError::Trial)?;
        match left_open {
            NO_FILTERS => Err(GuardError::Refused {
                step: "a filter of system calls",
            }),
            NO_DOMAIN => Err(GuardError::Refused {
                step: "a Landlock domain",
            }),
            NOT_ALONE => Err(GuardError::Trial(io::Error::other(
                "a child of the trial could not close what is not its own",
            ))),
            open => Ok(Proof {
                calls: open & CALLS == 0,
                network: open & NETWORK == 0,
                writes: open & WRITES == 0,
                signals: open & SIGNALS == 0,
                tracing: open & TRACING == 0,
            }),
        }
    }

    fn tried(&self) -> io::Result<u8> {
        // One at a time: a child of one trial is made without copies of what another one waits for.
        let _alone = TRIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let file = rustix::fs::memfd_create(c"trial", MemfdFlags::CLOEXEC)?;
        let neighbour = Neighbour::new()?;
        let subject = Subject::of(&neighbour)?;
        // Where procfs shows other processes than ours, or is none, nothing would be shown by a failure.
        let mut unshown = 0;
        if sys::try_to_open(&subject.name, Access::Writing).is_err() {
            unshown |= WRITES;
        }
        if sys::try_to_open(&subject.environment, Access::Reading).is_err() {
            unshown |= TRACING;
        }
        // SAFETY: it makes system calls on memory that is there.
        let trying = unsafe { sys::fork(|| self.attempt(&subject, file.as_fd())) }?;
        match wait(trying)? {
            status if status >= NO_FILTERS => Ok(status),
            status => Ok(status | unshown),
        }
    }

    /// Is the child that tries.
    fn attempt(&self, subject: &Subject, file: BorrowedFd<'_>) -> u8 {
        let domain = self.domain().map(AsFd::as_fd);
        let kept = [file.as_raw_fd(), domain.map_or(-1, |held| held.as_raw_fd())];
        if sys::close_all_but(kept).is_err() {
            return NOT_ALONE;
        }
        if self.install_filters().is_err() {
            return NO_FILTERS;
        }
        if domain.is_some_and(|domain| Domain::enter(domain).is_err()) {
            return NO_DOMAIN;
        }
        let mut open = 0;
        let mut unless = |kept: bool, bit: u8| {
            if !kept {
                open |= bit;
            }
        };
        let set_id = Mode::from_raw_mode(0o4700);
        let marked = rustix::fs::fchmod(file, set_id);
        unless(marked == Err(rustix::io::Errno::PERM), CALLS);
        unless(!sys::can_make_socket(libc::AF_INET), NETWORK);
        let written = sys::try_to_open(&subject.name, Access::Writing);
        unless(written == Err(libc::EACCES), WRITES);
        let signalled = rustix::process::test_kill_process(subject.pid);
        unless(signalled == Err(rustix::io::Errno::PERM), SIGNALS);
        // The kernel asks who attaches, and who only looks, by two questions.
        unless(!sys::can_read_memory(subject.pid), TRACING);
        let looked = sys::try_to_open(&subject.environment, Access::Reading);
        unless(looked == Err(libc::EACCES), TRACING);
        open
    }
}

/// What is tried on a neighbour.
struct Subject {
    pid: Pid,
    /// A file of the kernel's that is beneath no root, and this user's to write.
    name: CString,
    /// A part of its memory, as a file.
    environment: CString,
}

impl Subject {
    fn of(neighbour: &Neighbour) -> io::Result<Self> {
        let pid = neighbour.pid();
        let file = |name: &str| CString::new(format!("/proc/{}/{name}", pid.as_raw_pid()));
        Ok(Subject {
            pid,
            name: file("comm")?,
            environment: file("environ")?,
        })
    }
}

/// The status that a child of ours ended with.
fn wait(pid: Pid) -> io::Result<u8> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let status = status
                    .exit_status()
                    .and_then(|status| u8::try_from(status).ok());
                return status.ok_or_else(|| io::Error::other("a child of the trial was killed"));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

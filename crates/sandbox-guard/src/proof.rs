//! A child that puts a guard on and tries what it should be kept from.
//!
//! What a kernel says that it has is one thing; what it does is what counts, under whatever other rules this
//! machine has. Every attempt is one that would succeed without the guard, changes nothing if it does, and
//! needs nothing but this process and a second child.

#![expect(
    unsafe_code,
    reason = "what runs after the fork is vouched for where it is forked"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{MemfdFlags, Mode};
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid, WaitOptions};

use crate::domain::Domain;
use crate::error::GuardError;
use crate::guard::Guard;
use crate::sys;

/// Bits of the status that the trying child ends with: what was not kept from it.
const CALLS: u8 = 1;
const NETWORK: u8 = 2;
const WRITES: u8 = 4;
const SIGNALS: u8 = 8;
const TRACING: u8 = 16;
/// Statuses of a child that could not put the guard on.
const NO_FILTERS: u8 = 64;
const NO_DOMAIN: u8 = 65;

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
        let file = rustix::fs::memfd_create(c"trial", MemfdFlags::CLOEXEC)?;
        let (ready, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (end, hold) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // A neighbour that may be looked into by whoever has this user's rights, which this process itself
        // may not be. It is one for a moment, and knows nothing that they do not.
        // SAFETY: it makes system calls on memory that is there.
        let neighbour = unsafe {
            sys::fork(|| {
                let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
                let _ = rustix::io::write(&tell, &[1]);
                // Its own copies would keep it waiting for ever.
                libc::close(hold.as_raw_fd());
                let _ = rustix::io::read(&end, &mut [0]);
                0
            })
        }?;
        drop(tell);
        // A file of the kernel's that is beneath no root, and this user's to write.
        let name = CString::new(format!("/proc/{neighbour}/comm"))?;
        let tried = rustix::io::read(&ready, &mut [0])
            .map_err(io::Error::from)
            .and_then(|told| match told {
                0 => Err(io::Error::other("a child of the trial was killed")),
                _ => Ok(()),
            })
            .and_then(|()| {
                // Where procfs shows other processes than ours, or is none, nothing would be shown by a failure.
                let shows = sys::open_for_writing(&name).is_ok();
                // SAFETY: as above.
                let trying = unsafe { sys::fork(|| self.attempt(neighbour, &name, file.as_fd())) }?;
                let status = wait(trying)?;
                Ok(if shows || status >= NO_FILTERS {
                    status
                } else {
                    status | WRITES
                })
            });
        drop(hold);
        let neighbour = wait(neighbour);
        let status = tried?;
        neighbour?;
        Ok(status)
    }

    /// Is the child that tries.
    fn attempt(&self, neighbour: i32, elsewhere: &CStr, file: BorrowedFd<'_>) -> u8 {
        if self.install_filters().is_err() {
            return NO_FILTERS;
        }
        if self
            .domain()
            .is_some_and(|domain| Domain::enter(domain.as_fd()).is_err())
        {
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
        let written = sys::open_for_writing(elsewhere);
        unless(written == Err(libc::EACCES), WRITES);
        let signalled = Pid::from_raw(neighbour).map(rustix::process::test_kill_process);
        unless(signalled == Some(Err(rustix::io::Errno::PERM)), SIGNALS);
        unless(!sys::can_read_memory(neighbour), TRACING);
        open
    }
}

/// The status that a child of ours ended with.
fn wait(pid: i32) -> io::Result<u8> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
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

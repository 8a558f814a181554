//! What is to be started, as the engine says it.

use std::borrow::Cow;
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::MemfdFlags;

use super::image::{self, FLAG_NO_NEW_PRIVILEGES, FLAG_TERMINAL};

/// Everything a process is made from. Nothing of the engine's own is inherited beside it.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Paths of the program, tried in turn: one that is missing gives way to the next.
    pub candidates: Vec<Cow<'a, CStr>>,
    /// Arguments, the program's name first.
    pub argv: Vec<Cow<'a, CStr>>,
    /// `NAME=VALUE`, the whole environment.
    pub env: Vec<Cow<'a, CStr>>,
    /// Resource limits, set in this order.
    pub limits: Vec<RlimitSpec>,
    /// Whether it gets a terminal of its own.
    pub terminal: Terminal,
    /// Whether it may gain privileges by executing something set-id.
    pub privileges: Privileges,
    /// Its working directory.
    pub directory: BorrowedFd<'a>,
    /// Its standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
    /// Ends the tree after this long; the supervisor keeps the time. `None`: never.
    pub timeout: Option<Duration>,
    /// Time between SIGTERM and SIGKILL when that happens.
    pub grace: Duration,
    /// When its start is told.
    pub announce: Announce,
}

/// When the start of a program is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// At once, and waited for.
    Now,
    /// After a moment, and not at all if it has ended by then: most commands are over before
    /// anybody could use the news, and telling it takes a processor from them.
    Later,
}

/// A resource limit (`setrlimit(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlimitSpec {
    /// The kernel's number of the resource.
    pub resource: u32,
    /// Soft limit, in the unit of the resource.
    pub soft: u64,
    /// Hard limit.
    pub hard: u64,
}

/// Whether standard input is a terminal that is to be the controlling one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// It is not.
    None,
    /// It is.
    Controlling,
}

/// Whether a process may gain privileges by executing something set-id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// As the engine may.
    Inherited,
    /// It may not (`no_new_privs`).
    NoNew,
}

impl Launch<'_> {
    /// Lays out what is to be executed.
    pub(super) fn image(&self) -> Vec<u8> {
        let mut flags = 0;
        if self.terminal == Terminal::Controlling {
            flags |= FLAG_TERMINAL;
        }
        if self.privileges == Privileges::NoNew {
            flags |= FLAG_NO_NEW_PRIVILEGES;
        }
        let limits: Vec<_> = self
            .limits
            .iter()
            .map(|limit| (limit.resource, limit.soft, limit.hard))
            .collect();
        image::build(&self.candidates, &self.argv, &self.env, &limits, flags)
    }
}

/// Puts a long image into memory that can be passed on.
pub(super) fn in_memory(image: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"run", MemfdFlags::CLOEXEC)?;
    let mut rest = image;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(file)
}

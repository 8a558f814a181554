//! A guard that is ready to be put on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use seccompiler::BpfProgram;

use crate::domain::Domain;
use crate::error::GuardError;
use crate::filter;
use crate::spec::GuardSpec;
use crate::sys;

/// A guard that is ready to be put on, by any number of processes. See the [crate](crate).
#[derive(Debug)]
pub struct Guard {
    programs: Vec<BpfProgram>,
    domain: Option<Domain>,
}

impl Guard {
    /// Prepares what is asked for.
    ///
    /// - `writable`: directories beneath which writing is possible, where the guard contains writes
    ///
    /// # Errors
    ///
    /// | error | when |
    /// | --- | --- |
    /// | [`GuardError::TooManyRules`] | more than [`MOST_RULES`](crate::MOST_RULES) directories are writable |
    /// | [`GuardError::Processor`], [`GuardError::Filter`], [`GuardError::Domain`] | it cannot be described to this kernel |
    ///
    /// Sources: seccomp(2), landlock(7).
    pub fn prepare(spec: GuardSpec, writable: &[BorrowedFd<'_>]) -> Result<Self, GuardError> {
        Ok(Guard {
            programs: filter::programs(&spec)?,
            domain: Domain::new(spec.writes, writable)?,
        })
    }

    /// Puts this thread, and all it starts, under the filters, for good, and gives up gaining privileges
    /// by what it executes, and giving any to files. May be called after a fork of a process with threads.
    ///
    /// # Errors
    ///
    /// The kernel's reason. Some of them may be on.
    pub fn install_filters(&self) -> Result<(), i32> {
        rustix::thread::set_no_new_privs(true)
            .and_then(|()| gives_no_capabilities())
            .map_err(Errno::raw_os_error)?;
        self.programs
            .iter()
            .try_for_each(|program| sys::install(program))
    }

    /// What processes are in that are guarded; they enter with [`Domain::enter`]. Nothing where the kernel
    /// has no Landlock (Linux 5.13, and not turned off): then only the filters are a guard, and the
    /// [`Proof`](crate::Proof) says what that leaves open.
    #[must_use]
    pub fn domain(&self) -> Option<&Domain> {
        self.domain.as_ref()
    }

    /// Puts all of it on at once: for a process that is guarded and starts no guarded ones.
    ///
    /// # Errors
    ///
    /// The kernel's reason. Some of it may be on.
    pub fn put_on(&self) -> io::Result<()> {
        let entered = |domain: &Domain| Domain::enter(domain.as_fd());
        self.install_filters()
            .and_then(|()| self.domain().map_or(Ok(()), entered))
            .map_err(io::Error::from_raw_os_error)
    }
}

/// Gives up marking files with capabilities, which are to whoever executes them what set-id bits are. A
/// filter does not see them: they are an attribute among others, behind a pointer.
fn gives_no_capabilities() -> rustix::io::Result<()> {
    match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::SETFCAP) {
        // Who may not do this gains nothing by executing either, after having given that up.
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    let mut sets = rustix::thread::capabilities(None)?;
    for set in [
        &mut sets.effective,
        &mut sets.permitted,
        &mut sets.inheritable,
    ] {
        set.remove(CapabilitySet::SETFCAP);
    }
    rustix::thread::set_capabilities(None, sets)
}

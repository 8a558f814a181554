//! Files and processes that are out of reach (Landlock).
//!
//! A domain that contains writes allows them beneath the directories that it was given, and to the devices
//! that every program expects. Reading and executing are not its business: what a place must not show, it
//! does not hold. Whatever the domain allows of files, a process in it can trace only what is in it too, and
//! where the kernel offers that, signal only what is in it and connect to no abstract socket outside.
//!
//! **Invariants.**
//! - Each process that enters is in a domain of its own, with all that it starts. Two of them are out of
//!   each other's reach.
//! - At most [`MOST_RULES`] directories: a process pays for each when it enters.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use rustix::fs::{Mode, OFlags};

use crate::error::GuardError;
use crate::spec::Writes;
use crate::sys;

/// Most directories that can be writable.
pub const MOST_RULES: usize = 256;

/// Devices that every program expects to be able to write to, as far as they are there.
const DEVICES: [&CStr; 8] = [
    c"/dev/null",
    c"/dev/zero",
    c"/dev/full",
    c"/dev/random",
    c"/dev/urandom",
    c"/dev/tty",
    c"/dev/ptmx",
    c"/dev/pts",
];

/// The newest version of which every right was looked at here. A newer kernel offers this one too.
const KNOWN: ABI = ABI::V7;

/// What the running kernel offers of Landlock, as its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Landlock(u32);

impl Landlock {
    /// Asks the kernel. 0 where there is none.
    #[must_use]
    pub fn of_kernel() -> Self {
        Landlock(sys::landlock_version())
    }

    /// Asks nobody: what a kernel offers that has this version of it.
    #[must_use]
    pub const fn of_version(version: u32) -> Self {
        Landlock(version)
    }

    /// Whether there is any.
    #[must_use]
    pub fn is_there(self) -> bool {
        self.0 >= 1
    }

    /// Whether a file can be kept from being shortened by its name (Linux 6.2).
    #[must_use]
    pub fn contains_truncation(self) -> bool {
        self.0 >= 3
    }

    /// Whether devices can be kept from being controlled (Linux 6.10).
    #[must_use]
    pub fn contains_devices(self) -> bool {
        self.0 >= 5
    }

    /// Whether processes outside can be kept from being signalled (Linux 6.12).
    #[must_use]
    pub fn scopes_signals(self) -> bool {
        self.0 >= 6
    }
}

/// A domain that processes can enter.
#[derive(Debug)]
pub struct Domain {
    ruleset: OwnedFd,
}

impl Domain {
    /// Describes a domain to the kernel. Nothing where that knows none.
    pub(crate) fn new(
        writes: Writes,
        writable: &[BorrowedFd<'_>],
    ) -> Result<Option<Self>, GuardError> {
        if writes == Writes::Contained && writable.len() > MOST_RULES {
            return Err(GuardError::TooManyRules(writable.len()));
        }
        if !Landlock::of_kernel().is_there() {
            return Ok(None);
        }
        let ruleset = match writes {
            Writes::Contained => contained(writable),
            Writes::Unguarded => processes_only(),
        };
        let ruleset = ruleset.map_err(|error| GuardError::Domain(error.into()))?;
        let descriptor: Option<OwnedFd> = ruleset.into();
        Ok(descriptor.map(|ruleset| Domain { ruleset }))
    }

    /// Puts this thread, and all it starts, into a new domain of this description, for good. It must have
    /// given up gaining privileges. May be called after a fork of a process with threads.
    ///
    /// - `domain`: what [`AsFd`] of a domain gave, perhaps under another number in a process that was
    ///   forked from its owner
    ///
    /// # Errors
    ///
    /// The kernel's reason. Nothing is restricted then.
    pub fn enter(domain: BorrowedFd<'_>) -> Result<(), i32> {
        sys::restrict(domain)
    }
}

impl AsFd for Domain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ruleset.as_fd()
    }
}

/// Writing beneath these only.
fn contained(writable: &[BorrowedFd<'_>]) -> Result<RulesetCreated, RulesetError> {
    // What a directory grants. Devices are made nowhere.
    let everything =
        AccessFs::from_write(KNOWN) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock});
    let device = make_bitflags!(AccessFs::{WriteFile | Truncate | IoctlDev});
    let mut ruleset = scoped()?
        .handle_access(AccessFs::from_write(KNOWN))?
        .create()?;
    for directory in writable {
        ruleset = ruleset.add_rule(PathBeneath::new(directory, everything))?;
    }
    for path in DEVICES {
        let opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        if let Ok(opened) = opened {
            ruleset = ruleset.add_rule(PathBeneath::new(opened, device))?;
        }
    }
    Ok(ruleset)
}

/// No rule about files, as far as the kernel has domains without.
fn processes_only() -> Result<RulesetCreated, RulesetError> {
    if Landlock::of_kernel().scopes_signals() {
        return scoped()?.create();
    }
    // There has to be some right that is kept. This one nobody needs; but with it comes that files cannot
    // go from one directory to another unless that is allowed everywhere.
    let moves: BitFlags<AccessFs> = AccessFs::Refer.into();
    let ruleset = scoped()?
        .handle_access(AccessFs::MakeBlock | AccessFs::Refer)?
        .create()?;
    match rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(everywhere) => ruleset.add_rule(PathBeneath::new(everywhere, moves)),
        Err(_) => Ok(ruleset),
    }
}

/// What the kernel does not have is left out here, and told by [`Landlock`] and the proof.
fn scoped() -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(KNOWN))
}

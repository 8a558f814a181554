//! A group as it is passed on to a process that cannot see where groups are.
//!
//! What is in namespaces of its own sees no hierarchy, and may make nothing in one. Whoever starts it makes the
//! group, and passes on for each limit a handle to enter by, and one that tells how often the limit was hit
//! ([`Door::open`]). Their numbers travel as text ([`Passed`]).
//!
//! What can be done with the handles is to enter, with a process of one's own, and to read two numbers. The kernel
//! asks who opened them, from Linux 5.16 on also in version 2, so that it does not matter who the process is by then.

#![expect(
    unsafe_code,
    reason = "descriptors come from whoever started this process"
)]

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::str::FromStr;

use rustix::io::FdFlags;

use crate::hierarchy::{Controller, Version};

/// What the kernel calls the file systems that are groups (`linux/magic.h`).
const MAGIC: [(Version, u64); 2] = [(Version::One, 0x0027_e0eb), (Version::Two, 0x6367_7270)];
/// Stands for a handle that there is none of.
const NONE: &str = "-";

/// Where one limit of a group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// What is limited.
    pub controller: Controller,
    /// The interface of its hierarchy.
    pub version: Version,
    /// The directory of the group.
    pub directory: PathBuf,
}

/// The handles of one limit of a group. Both are closed on execution.
#[derive(Debug)]
pub struct Handles {
    /// Where a process enters.
    pub entrance: OwnedFd,
    /// What tells how often the limit was hit; nothing does for some.
    pub events: Option<OwnedFd>,
}

impl Door {
    /// Opens what is passed on.
    ///
    /// # Errors
    ///
    /// The group is gone, or not this user's.
    pub fn open(&self) -> io::Result<Handles> {
        let open = |options: &mut OpenOptions, file: &str| {
            let options = options.custom_flags(libc::O_CLOEXEC);
            options.open(self.directory.join(file)).map(OwnedFd::from)
        };
        let events = events(self.controller, self.version);
        Ok(Handles {
            entrance: open(OpenOptions::new().write(true), "cgroup.procs")?,
            events: events
                .map(|file| open(OpenOptions::new().read(true), file))
                .transpose()?,
        })
    }
}

/// The file that tells how often a limit was hit.
pub(crate) fn events(controller: Controller, version: Version) -> Option<&'static str> {
    match (controller, version) {
        (Controller::Memory, Version::One) => Some("memory.oom_control"),
        (Controller::Memory, Version::Two) => Some("memory.events"),
        (Controller::Processes, _) => Some("pids.events"),
        (Controller::Cpu, _) => None,
    }
}

/// One limit of a group, by the numbers of descriptors that a process was started with. Its text is one word without
/// a `-` at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What is limited.
    pub controller: Controller,
    /// The interface of its hierarchy.
    pub version: Version,
    /// Where a process enters.
    pub entrance: RawFd,
    /// What tells how often the limit was hit.
    pub events: Option<RawFd>,
}

impl Passed {
    /// The descriptors.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + use<> {
        std::iter::once(self.entrance).chain(self.events)
    }

    /// Takes the descriptors, which nothing inherits any more.
    ///
    /// # Errors
    ///
    /// They are not what they are said to be.
    ///
    /// # Safety
    ///
    /// Nobody in this process may own them.
    pub(crate) unsafe fn take(self) -> io::Result<(File, Option<File>)> {
        let magic = MAGIC.iter().find(|(version, _)| *version == self.version);
        let taken = |number: RawFd| {
            // SAFETY: the caller promises that nobody else owns it. Should it not be open, every use of it fails.
            let file = unsafe { OwnedFd::from_raw_fd(number) };
            rustix::io::fcntl_setfd(&file, FdFlags::CLOEXEC)?;
            let kind = rustix::fs::fstatfs(&file)?.f_type;
            match magic {
                Some((_, magic)) if u64::try_from(kind) == Ok(*magic) => Ok(File::from(file)),
                _ => Err(io::Error::other(format!(
                    "descriptor {number} is of no control group"
                ))),
            }
        };
        Ok((taken(self.entrance)?, self.events.map(taken).transpose()?))
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.number();
        write!(f, "{}:{version}:{}:", self.controller.name(), self.entrance)?;
        match self.events {
            Some(events) => write!(f, "{events}"),
            None => f.write_str(NONE),
        }
    }
}

impl FromStr for Passed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split(':').collect();
        let parse = || {
            let [controller, version, entrance, events] = words.as_slice() else {
                return None;
            };
            // Whatever is said, the standard streams are meant for something else.
            let number = |word: &str| word.parse::<RawFd>().ok().filter(|number| *number > 2);
            Some(Self {
                controller: Controller::of_name(controller)?,
                version: Version::of_number(version)?,
                entrance: number(entrance)?,
                events: match *events {
                    NONE => None,
                    events => Some(number(events)?),
                },
            })
        };
        parse().ok_or_else(|| format!("`{text}` names no limit and its descriptors"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn what_is_passed_is_read_as_it_was_written() {
        for (controller, version, events) in [
            (Controller::Memory, Version::One, Some(8)),
            (Controller::Processes, Version::Two, Some(9)),
            (Controller::Cpu, Version::One, None),
        ] {
            let passed = Passed {
                controller,
                version,
                entrance: 7,
                events,
            };
            assert_eq!(passed.to_string().parse(), Ok(passed));
        }
        for damaged in [
            "",
            "memory:1:7",
            "memory:3:7:8",
            "disk:1:7:8",
            "memory:1:2:8",
            "memory:1:7:x",
        ] {
            assert!(damaged.parse::<Passed>().is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn a_descriptor_of_something_else_is_no_way_into_a_group() {
        let something = File::open("/proc/self/status").expect("procfs is there");
        let passed = Passed {
            controller: Controller::Memory,
            version: Version::One,
            entrance: something.into_raw_fd(),
            events: None,
        };
        // SAFETY: it was just given up above.
        let taken = unsafe { passed.take() };
        assert!(taken.is_err());
    }
}

//! A group that processes can enter.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::around;
use crate::delegated;
use crate::hierarchy::{Controller, Hierarchies, Hierarchy, Version};
use crate::passed::{self, Door, Passed};
use crate::stale;

/// Length of the periods in which time on processors is given out, in microseconds.
const PERIOD: u64 = 100_000;
/// The least time that the kernel gives out in one.
const LEAST_QUOTA: u64 = 1000;
/// How often it is tried to remove a group, and how long it is waited in between: a process that was waited
/// for leaves its group a moment later.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// The most processes and threads that the kernel can have (`PID_MAX_LIMIT`). It takes no larger limit, though that would
/// be kept anyway.
const MOST_PROCESSES: u64 = 1 << 22;

/// What a group is to be limited to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of memory, swap included where that can be limited.
    pub memory: Option<u64>,
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Thousandths of one processor.
    pub cpu: Option<u64>,
}

impl Wanted {
    fn each(self) -> [(Controller, Option<u64>); 3] {
        [
            (Controller::Memory, self.memory),
            (Controller::Processes, self.processes),
            (Controller::Cpu, self.cpu),
        ]
    }
}

/// How often a limit was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Processes that were killed because memory was used up.
    pub memory: u64,
    /// Processes that were not made because there were as many as may be.
    pub processes: u64,
}

/// A group of processes with limits. Dropping it removes it, if nothing is in it any more; one that was passed on is
/// removed by whoever made it.
#[derive(Debug)]
pub struct Group {
    parts: BTreeMap<Controller, Part>,
    /// Whether this process is in it, and made neither it nor its limits.
    surrounds: bool,
}

/// Device and number of the file that is the entrance.
type Identity = (u64, u64);

/// The group in one hierarchy, or the same directory of another controller again.
#[derive(Debug)]
struct Part {
    version: Version,
    /// Where it is, if it was made here.
    directory: Option<PathBuf>,
    /// Where processes enter, if they are not in it anyway.
    entrance: Option<Entrance>,
    events: Option<File>,
}

#[derive(Debug)]
struct Entrance {
    file: File,
    /// What tells one directory from another.
    identity: Identity,
}

impl Entrance {
    fn new(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Self { file, identity })
    }
}

impl Group {
    /// Makes a group that is limited as far as this process can do that. What is not wanted gets no directory.
    #[must_use]
    pub fn new(hierarchies: &Hierarchies, wanted: Wanted) -> Self {
        stale::sweep(hierarchies);
        let name = stale::name();
        let part = |(controller, limit): (Controller, Option<u64>)| {
            let part = Part::new(hierarchies.of(controller)?, controller, limit?, &name)?;
            Some((controller, part))
        };
        Group {
            parts: wanted.each().into_iter().filter_map(part).collect(),
            surrounds: false,
        }
    }

    /// The group that this process is in, made by whoever made the place around it. What is wanted and not limited
    /// there to as little, or cannot be seen, is missing in [`enforced`](Self::enforced).
    ///
    /// Nobody has to enter it, and it is not removed.
    #[must_use]
    pub fn around(hierarchies: &Hierarchies, wanted: Wanted) -> Self {
        let part = |(controller, limit): (Controller, Option<u64>)| {
            let limit = limit?;
            let hierarchy = hierarchies.of(controller)?;
            let found = around::limit(hierarchy, controller)?;
            let events = passed::events(controller, hierarchy.version)
                .and_then(|file| File::open(hierarchy.own.join(file)).ok());
            let part = Part {
                version: hierarchy.version,
                directory: None,
                entrance: None,
                events,
            };
            (found <= limit).then_some((controller, part))
        };
        Group {
            parts: wanted.each().into_iter().filter_map(part).collect(),
            surrounds: true,
        }
    }

    /// Whether this process is in it.
    #[must_use]
    pub fn surrounds(&self) -> bool {
        self.surrounds
    }

    /// What limits each of what is limited.
    pub fn enforced(&self) -> impl Iterator<Item = (Controller, Version)> + '_ {
        self.parts
            .iter()
            .map(|(controller, part)| (*controller, part.version))
    }

    /// Handles by which a process [enters](enter) the group: all of them, each once.
    pub fn entrances(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.directories()
            .filter_map(|part| Some(part.entrance.as_ref()?.file.as_fd()))
    }

    /// A group that was made by whoever started this process.
    ///
    /// # Errors
    ///
    /// A descriptor is not what it is said to be. Those that were looked at are closed.
    ///
    /// # Safety
    ///
    /// Nobody in this process may own the descriptors, and each may be among these once.
    #[expect(
        unsafe_code,
        reason = "descriptors come from whoever started this process"
    )]
    pub unsafe fn given(passed: &[Passed]) -> io::Result<Self> {
        let part = |passed: &Passed| {
            // SAFETY: the caller promises it.
            let (entrance, events) = unsafe { passed.take() }?;
            let part = Part {
                version: passed.version,
                directory: None,
                entrance: Some(Entrance::new(entrance)?),
                events,
            };
            Ok((passed.controller, part))
        };
        Ok(Group {
            parts: passed.iter().map(part).collect::<io::Result<_>>()?,
            surrounds: false,
        })
    }

    /// Where the limits are, for a process that is given them.
    pub fn doors(&self) -> impl Iterator<Item = Door> + '_ {
        self.parts.iter().filter_map(|(controller, part)| {
            Some(Door {
                controller: *controller,
                version: part.version,
                directory: part.directory.clone()?,
            })
        })
    }

    /// How often a limit was hit so far.
    #[must_use]
    pub fn fired(&self) -> Fired {
        let count = |controller, word| {
            let mut text = [0; 1024];
            let events = self.parts.get(&controller)?.events.as_ref()?;
            let length = events.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(text.get(..length)?).ok()?;
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(name, _)| *name == word)?.1.trim().parse().ok()
        };
        Fired {
            memory: count(Controller::Memory, "oom_kill").unwrap_or(0),
            processes: count(Controller::Processes, "max").unwrap_or(0),
        }
    }

    /// Removes the group, from which nothing is left but what ends at this moment. Nobody can enter it then.
    ///
    /// # Errors
    ///
    /// Something is still in it.
    pub fn remove(&self) -> io::Result<()> {
        for directory in self
            .directories()
            .filter_map(|part| part.directory.as_ref())
        {
            let mut tries = 0..TRIES;
            loop {
                match std::fs::remove_dir(directory) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        tries.next().ok_or(error)?;
                        std::thread::sleep(PAUSE);
                    }
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => break,
                }
            }
        }
        Ok(())
    }

    /// The parts that have a directory of their own, which is to be entered.
    fn directories(&self) -> impl Iterator<Item = &Part> {
        let mut seen = Vec::new();
        self.parts.values().filter(move |part| {
            let Some(entrance) = &part.entrance else {
                return false;
            };
            let first = !seen.contains(&entrance.identity);
            seen.push(entrance.identity);
            first
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in self
            .directories()
            .filter_map(|part| part.directory.as_ref())
        {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

impl Part {
    fn new(hierarchy: &Hierarchy, controller: Controller, limit: u64, name: &str) -> Option<Self> {
        let version = hierarchy.version;
        let base = hierarchy.base.as_deref()?;
        if version == Version::Two {
            // It may be handed on already; whether it is shows when the limit is set.
            let hand_on = base.join("cgroup.subtree_control");
            let _ = std::fs::write(hand_on, format!("+{}", controller.name()));
        }
        let directory = base.join(name);
        let made = match std::fs::create_dir(&directory) {
            Ok(()) => true,
            // It is there for another controller of the same hierarchy.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(_) => return None,
        };
        let limited = match version {
            // Nobody could enter it.
            Version::Two if !delegated::is_ordinary(&directory) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            Version::One | Version::Two => set(&directory, version, controller, limit),
        };
        let open = |options: &mut OpenOptions, file: &str| {
            let options = options.custom_flags(libc::O_CLOEXEC);
            options.open(directory.join(file))
        };
        let entrance = open(OpenOptions::new().write(true), "cgroup.procs").and_then(Entrance::new);
        let events = passed::events(controller, version)
            .and_then(|file| open(OpenOptions::new().read(true), file).ok());
        match (limited, entrance) {
            (Ok(()), Ok(entrance)) => Some(Part {
                version,
                directory: Some(directory),
                entrance: Some(entrance),
                events,
            }),
            _ => {
                if made {
                    let _ = std::fs::remove_dir(&directory);
                }
                None
            }
        }
    }
}

/// Limits one thing of a group.
fn set(directory: &Path, version: Version, controller: Controller, limit: u64) -> io::Result<()> {
    let write = |file: &str, value: &str| {
        let mut file = OpenOptions::new().write(true).open(directory.join(file))?;
        io::Write::write_all(&mut file, value.as_bytes())
    };
    let quota = limit.saturating_mul(PERIOD / 1000);
    match (controller, version) {
        (Controller::Memory, Version::One) => {
            write("memory.limit_in_bytes", &limit.to_string())?;
            // Not every kernel counts swap.
            let _ = write("memory.memsw.limit_in_bytes", &limit.to_string());
            Ok(())
        }
        (Controller::Memory, Version::Two) => {
            write("memory.max", &limit.to_string())?;
            let _ = write("memory.swap.max", "0");
            Ok(())
        }
        (Controller::Processes, _) => write("pids.max", &limit.min(MOST_PROCESSES).to_string()),
        (Controller::Cpu, _) if quota < LEAST_QUOTA => Err(io::ErrorKind::InvalidInput.into()),
        (Controller::Cpu, Version::One) => {
            write("cpu.cfs_period_us", &PERIOD.to_string())?;
            write("cpu.cfs_quota_us", &quota.to_string())
        }
        (Controller::Cpu, Version::Two) => write("cpu.max", &format!("{quota} {PERIOD}")),
    }
}

/// Puts this process into the group whose entrance this is. May be called after a fork of a process with
/// threads.
///
/// # Errors
///
/// The kernel's reason. The process is where it was.
pub fn enter(entrance: BorrowedFd<'_>) -> Result<(), i32> {
    rustix::io::write(entrance, b"0")
        .map(drop)
        .map_err(rustix::io::Errno::raw_os_error)
}

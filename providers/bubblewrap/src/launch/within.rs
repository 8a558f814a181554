//! What lies within something else that is shown: mounted or hidden after bwrap has made the place, and before
//! anything runs in it.
//!
//! bwrap could be told of it, and is where it is little. But it takes a limited number of arguments, and for each mount it
//! reads the whole table of mounts and compares each with each: two thousand take seconds, twenty thousand
//! minutes. Here each takes some microseconds.
//!
//! A process is forked that stays as it is, in the launcher's namespaces, when the launcher becomes bwrap. bwrap tells
//! it the first process of the place (`--info-fd`), and has that wait before it executes the engine (`--block-fd`). That
//! it waits shows in that it has given up its capabilities, which is the last thing before.
//!
//! **Invariants.**
//! - The engine is not executed before everything is in its place. bwrap goes on at the end of what it waits for as
//!   well as at a word; so what it is given has no end: it holds the other side of it itself. A failure ends the place,
//!   and whoever is killed here leaves one that waits until the provider has waited long enough.
//! - Each is put on what has its name there, by a handle and without following links. Nothing is made to put it on.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, move_mount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, move_into_link_name_space, move_into_thread_name_spaces,
};

use spp_client::place::idmap::{Attributes, Maps};

use super::arrange::{Machine, STAGE, clone};
use super::{Failure, FailureKind, Item, Kind};

/// How many are taken before they are put, so that namespaces are changed rarely and few descriptors are open.
const BATCH: usize = 256;
/// How often it is looked whether bwrap is done.
const LOOK: Duration = Duration::from_millis(1);

/// What the process that puts them needs.
pub(super) struct Within<'a> {
    /// In order: what lies in others after them.
    pub(super) items: Vec<&'a Item>,
    pub(super) machine: Machine,
    pub(super) maps: Option<Maps>,
}

impl Within<'_> {
    /// Forks the process, and returns what bwrap is told for it.
    ///
    /// - `kept`: gets the descriptors that bwrap inherits
    pub(super) fn begin(self, kept: &mut Vec<OwnedFd>) -> Result<Vec<OsString>, Failure> {
        let doing = |error| Failure::doing("preparing to mount within others", error);
        let (told, tells) = pipe_with(PipeFlags::CLOEXEC).map_err(doing)?;
        let (waits, go) = pipe_with(PipeFlags::CLOEXEC).map_err(doing)?;
        // Both sides at once: who holds it never sees its end.
        let name = format!("/proc/self/fd/{}", waits.as_raw_fd());
        let waits =
            rustix::fs::open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(doing)?;
        let parent = rustix::process::getpid();
        #[expect(unsafe_code, reason = "a process that stays in these namespaces")]
        // SAFETY: this process has one thread, so the child may do anything.
        let child = unsafe { libc::fork() };
        match child {
            ..0 => return Err(doing(super::last_error())),
            0 => {
                drop((tells, waits));
                self.run(parent, &told, &go)
            }
            _ => {}
        }
        let mut pass = |option: &str, file: OwnedFd| {
            Ok([option.into(), OsString::from(super::passed_on(file, kept)?)])
        };
        let told = [pass("--info-fd", tells)?, pass("--block-fd", waits)?];
        Ok(told.into_iter().flatten().collect())
    }

    /// Is that process.
    fn run(mut self, parent: Pid, told: &OwnedFd, go: &OwnedFd) -> ! {
        // What the engine is spoken to by is nothing for it to hold.
        if let Ok(nothing) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
            let _ = rustix::stdio::dup2_stdin(&nothing);
            let _ = rustix::stdio::dup2_stdout(&nothing);
        }
        let parent = u32::try_from(parent.as_raw_pid()).unwrap_or(0);
        let done = super::die_with(parent)
            .map_err(|error| Failure::doing("asking to die with the launcher", error))
            .and_then(|()| first_process(told))
            .and_then(|first| {
                let put = self.put_into(&first);
                if put.is_err() {
                    // It waits for a word that does not come.
                    let _ = pidfd_send_signal(&first.process, Signal::KILL);
                }
                put
            })
            .and_then(|()| {
                rustix::io::write(go, b"x")
                    .map(drop)
                    .map_err(|error| Failure::doing("letting the engine begin", error))
            });
        let status = match done {
            Ok(()) => 0,
            Err(failure) => {
                eprintln!("{}", failure.line());
                1
            }
        };
        #[expect(unsafe_code, reason = "ending without what the parent would clean up")]
        // SAFETY: nothing runs after it.
        unsafe {
            libc::_exit(status)
        }
    }

    fn put_into(&mut self, first: &First) -> Result<(), Failure> {
        let other = |doing: &'static str| move |error| Failure::doing(doing, error);
        first.waits().map_err(other("waiting for bubblewrap"))?;
        let own = rustix::fs::open("/proc/self/ns/mnt", OFlags::CLOEXEC, Mode::empty())
            .map_err(other("opening a mount namespace"))?;
        let nothing = Nothing::new().map_err(other("making something to hide others with"))?;
        let items = std::mem::take(&mut self.items);
        for batch in items.chunks(BATCH) {
            let taken: Vec<_> = batch
                .iter()
                .map(|item| self.take(item, &nothing))
                .collect::<Result<_, _>>()?;
            move_into_thread_name_spaces(first.process.as_fd(), ThreadNameSpaceType::MOUNT)
                .map_err(other("entering the place"))?;
            for (at, tree) in taken.iter().flatten() {
                put(tree, Path::new(at))?;
            }
            move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Mount))
                .map_err(other("leaving the place"))?;
        }
        Ok(())
    }

    /// What is to be put, and where.
    fn take<'i>(
        &mut self,
        item: &'i Item,
        nothing: &Nothing,
    ) -> Result<Option<(&'i OsStr, OwnedFd)>, Failure> {
        Ok(match item {
            Item::Bind { access, source, at } => {
                let taken = self.machine.take(source, *access, self.maps.as_mut())?;
                Some((at, taken.tree))
            }
            Item::Hide { at, kind } => {
                let tree = nothing.copy(*kind);
                let failed = |error| Failure::doing("making something to hide others with", error);
                Some((at, tree.map_err(failed)?))
            }
            Item::Argument(_) | Item::Data { .. } | Item::Limit(_) => None,
        })
    }
}

/// Puts it on what has this name in the place that this process is in.
fn put(tree: &OwnedFd, at: &Path) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let target = rustix::fs::openat2(CWD, at, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|error| super::not_opened(at, error))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", &target, "", flags)
        .map_err(|error| Failure::of(FailureKind::Source, at.display(), error))
}

/// The first process of the place, which will be the engine.
struct First {
    process: OwnedFd,
    status: String,
}

/// Waits for bwrap to tell it.
fn first_process(told: &OwnedFd) -> Result<First, Failure> {
    let mut text = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        match rustix::io::read(told, &mut chunk) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::doing("listening to bubblewrap", error)),
        }
    }
    let pid = process_in(&String::from_utf8_lossy(&text)).ok_or_else(|| {
        Failure::new(
            FailureKind::Other,
            "bubblewrap does not say what it started",
        )
    })?;
    let process = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| Failure::doing("holding the first process of the place", error))?;
    Ok(First {
        process,
        status: format!("/proc/{}/status", pid.as_raw_pid()),
    })
}

/// The process that bwrap names.
fn process_in(info: &str) -> Option<Pid> {
    let (_, rest) = info.split_once("\"child-pid\":")?;
    let digits = rest.trim_start();
    let end = digits.find(|it: char| !it.is_ascii_digit())?;
    Pid::from_raw(digits.get(..end)?.parse().ok()?)
}

impl First {
    /// Returns once it does nothing more but wait. Whoever wants the place limits the time that this takes.
    fn waits(&self) -> Result<(), Errno> {
        loop {
            let status = std::fs::read_to_string(&self.status).map_err(|_| Errno::SRCH)?;
            match powerless(&status) {
                Some(true) => return Ok(()),
                Some(false) => std::thread::sleep(LOOK),
                None => return Err(Errno::SRCH),
            }
        }
    }
}

/// Whether a process of this status has given up all it could do; `None` if that is not told.
fn powerless(status: &str) -> Option<bool> {
    let mut lines = status.lines();
    let held = lines.find_map(|line| line.strip_prefix("CapPrm:"))?.trim();
    u64::from_str_radix(held, 16).ok().map(|held| held == 0)
}

/// What hides others: a file and a directory without anything in them, which nobody may open.
struct Nothing {
    file: OwnedFd,
    directory: OwnedFd,
}

impl Nothing {
    /// On the stage.
    fn new() -> rustix::io::Result<Self> {
        let (file, directory) = (
            Path::new(STAGE).join("nothing"),
            Path::new(STAGE).join("empty"),
        );
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(&file, flags, Mode::empty())?;
        rustix::fs::mkdir(&directory, Mode::empty())?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(Self {
            file: rustix::fs::open(&file, flags, Mode::empty())?,
            directory: rustix::fs::open(&directory, flags, Mode::empty())?,
        })
    }

    /// As much nothing as hides such a thing.
    fn copy(&self, kind: Kind) -> rustix::io::Result<OwnedFd> {
        let tree = clone(match kind {
            Kind::Directory => &self.directory,
            Kind::File => &self.file,
        })?;
        Attributes::READ_ONLY.set(tree.as_fd())?;
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_is_read_from_what_bwrap_tells_and_from_nothing_less() {
        let told = "{\n    \"child-pid\": 7628,\n    \"mnt-namespace\": 4026532178\n}\n";
        assert_eq!(process_in(told), Pid::from_raw(7628));
        for cut in [
            "",
            "{\n    \"child-pid\": 76",
            "{\"child-pid\": }",
            "{\"child-pid\": 0\n",
        ] {
            assert_eq!(process_in(cut), None, "{cut}");
        }
    }

    #[test]
    fn who_holds_any_capability_is_not_done() {
        let status =
            |held: &str| format!("Name:\tbwrap\nCapInh:\t0000000000000000\nCapPrm:\t{held}\n");
        assert_eq!(powerless(&status("000001ffffffffff")), Some(false));
        assert_eq!(powerless(&status("0000000000000000")), Some(true));
        assert_eq!(powerless("Name:\tbwrap\n"), None);
    }
}

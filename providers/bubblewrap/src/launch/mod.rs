//! The process between the provider and bwrap: this executable once more, with a list of what to do.
//!
//! It is alone in its process, so it may do what a process with threads may not: have mounts and a user of its own.
//! Started by root it makes the mounts in a mount namespace that nobody else sees, and goes over to a user that
//! nobody else has, before it becomes bwrap. So nothing is left of them however it ends.
//!
//! **Invariants.** bwrap inherits three descriptors, those that were meant for it, and no others. A failure is one
//! line on standard error that [`Failure::read`] understands.
//!
//! Not here: which arguments bwrap gets (`view`).

mod idmap;
mod item;
mod rooted;
mod user;

use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::{MemfdFlags, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal};

pub(crate) use item::{Access, Item, Order, Starter};

/// The first argument that means this.
pub(crate) const ARGUMENT: &str = "--launch";

/// How the line begins that tells a failure.
const FAILURE: &str = "spp-launch: ";
/// The exit status of a launch that came to nothing.
const EXIT_FAILED: u8 = 71;

/// Why a launch came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What was tried, and what the system said.
    pub(crate) what: String,
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// Something that should be shown is not there, or may not be opened.
    Source,
    /// Something that should be shown is reached by a link, which it was not when it was decided on.
    Link,
    /// No user of its own could be had.
    User,
    /// The owner of a mount could not be mapped.
    Idmap,
    /// This process may not do it.
    Forbidden,
    /// There is no more of something.
    Limit,
    /// The kernel does not know how.
    Kernel,
    /// bwrap could not be executed.
    Execute,
    /// Anything else.
    Other,
}

const KINDS: [(FailureKind, &str); 9] = [
    (FailureKind::Source, "source"),
    (FailureKind::Link, "link"),
    (FailureKind::User, "user"),
    (FailureKind::Idmap, "idmap"),
    (FailureKind::Forbidden, "forbidden"),
    (FailureKind::Limit, "limit"),
    (FailureKind::Kernel, "kernel"),
    (FailureKind::Execute, "execute"),
    (FailureKind::Other, "other"),
];

impl Failure {
    fn new(kind: FailureKind, what: impl std::fmt::Display) -> Self {
        Self {
            kind,
            what: what.to_string(),
        }
    }

    /// What a refusal of the system means, whatever was tried.
    ///
    /// - `kind`: what it means if it is none that means the same everywhere
    fn of(kind: FailureKind, what: impl std::fmt::Display, error: Errno) -> Self {
        let kind = match error {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::NOSPC => {
                FailureKind::Limit
            }
            Errno::NOSYS => FailureKind::Kernel,
            _ => kind,
        };
        Self::new(kind, format_args!("{what}: {error}"))
    }

    /// The same for something that this process does for itself.
    fn doing(what: &'static str, error: Errno) -> Self {
        let kind = match error {
            Errno::PERM | Errno::ACCESS => FailureKind::Forbidden,
            _ => FailureKind::Other,
        };
        Self::of(kind, what, error)
    }

    /// The line that tells it. What it is about may be any name, so no line end of it gets through.
    fn line(&self) -> String {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let name = name.map_or("other", |(_, name)| name);
        format!("{FAILURE}{name} {}", self.what.escape_debug())
    }

    /// The failure that was told among these lines.
    pub(crate) fn read(words: &str) -> Option<Self> {
        let line = words.lines().find_map(|line| line.strip_prefix(FAILURE))?;
        let (name, what) = line.split_once(' ')?;
        let kind = KINDS.iter().find(|(_, known)| *known == name);
        Some(Self::new(
            kind.map_or(FailureKind::Other, |(kind, _)| *kind),
            what,
        ))
    }
}

/// Does what the arguments say and becomes bwrap.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    let failure = match Order::decode(arguments) {
        Some(order) => match launch(&order) {
            Ok(never) => match never {},
            Err(failure) => failure,
        },
        None => Failure::new(FailureKind::Other, "the arguments make no sense"),
    };
    eprintln!("{}", failure.line());
    ExitCode::from(EXIT_FAILED)
}

fn launch(order: &Order) -> Result<std::convert::Infallible, Failure> {
    let other = |doing: &'static str| move |error| Failure::doing(doing, error);
    give_up_descriptors().map_err(other("closing what was inherited"))?;
    die_with(order.parent).map_err(other("asking to die with the provider"))?;
    rustix::process::chdir("/").map_err(other("changing to /"))?;
    rustix::process::umask(Mode::WGRP | Mode::WOTH);

    // Descriptors that bwrap needs, until it has been executed.
    let mut kept = Vec::new();
    let mut arguments = vec![order.bwrap.clone()];
    let binds = match order.starter {
        Starter::Root { becomes } => rooted::prepare(order, becomes)?,
        Starter::User => by_descriptor(order, &mut kept)?,
    };
    let mut binds = binds.into_iter();
    for item in &order.items {
        match item {
            Item::Argument(argument) => arguments.push(argument.clone()),
            Item::Bind { .. } => arguments.extend(binds.next().into_iter().flatten()),
            Item::Data { text, at } => {
                let file = data(text).map_err(other("keeping a small file"))?;
                let number = pass_on(&file).map_err(other("keeping a small file"))?;
                kept.push(file);
                arguments.extend(["--perms", "0644", "--file", &number].map(OsString::from));
                arguments.push(at.clone());
            }
        }
    }
    if let Starter::Root { becomes } = order.starter {
        user::become_user(becomes)?;
        // Another user is another life: the wish has to be said again.
        die_with(order.parent).map_err(other("asking to die with the provider"))?;
    }
    let failure = execute(arguments);
    Err(Failure::of(
        FailureKind::Execute,
        order.bwrap.display(),
        failure,
    ))
}

/// Marks every descriptor but 0, 1 and 2 to be closed when bwrap is executed.
#[expect(
    unsafe_code,
    reason = "the flag is set on descriptors that nobody here owns"
)]
fn give_up_descriptors() -> rustix::io::Result<()> {
    // SAFETY: nothing is closed by it, and no memory is touched.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3_u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Dies when the thread that started this one ends, now or before this was asked.
fn die_with(parent: u32) -> rustix::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let found = rustix::process::getppid().map(Pid::as_raw_pid);
    // Whoever is outside of this process's namespace has no number here.
    if found.is_some_and(|found| u32::try_from(found) != Ok(parent)) {
        return Err(Errno::SRCH);
    }
    Ok(())
}

/// Names what is to be shown, by descriptors where bwrap can bind those, so that a name that changes hands meanwhile
/// changes nothing. Where it cannot, what has the name is looked at all the same, and no descriptor is passed on.
fn by_descriptor(order: &Order, kept: &mut Vec<OwnedFd>) -> Result<Vec<Vec<OsString>>, Failure> {
    let bind = |item: &Item| {
        let Item::Bind { access, source, at } = item else {
            return None;
        };
        Some(open(source).and_then(|file| {
            let (option, what) = match (order.by_descriptor, access) {
                (true, access) => {
                    let number = pass_on(&file)
                        .map_err(|error| Failure::doing("passing a descriptor on", error))?;
                    kept.push(file);
                    let option = match access {
                        Access::ReadOnly => "--ro-bind-fd",
                        Access::ReadWrite => "--bind-fd",
                    };
                    (option, number.into())
                }
                (false, Access::ReadOnly) => ("--ro-bind", source.clone().into_os_string()),
                (false, Access::ReadWrite) => ("--bind", source.clone().into_os_string()),
            };
            Ok([option.into(), what, at.clone()].into())
        }))
    };
    order.items.iter().filter_map(bind).collect()
}

/// Opens something that is to be shown, by its real path: what lies where something inside of a sandbox can write may
/// have become a link to anything since it was decided on.
fn open(source: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(
        rustix::fs::CWD,
        source,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )
    .map_err(|error| {
        let kind = match error {
            Errno::LOOP => FailureKind::Link,
            _ => FailureKind::Source,
        };
        Failure::of(kind, source.display(), error)
    })
}

/// A small file in memory.
fn data(text: &str) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("spp", MemfdFlags::CLOEXEC)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let count = rustix::io::write(&file, rest)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file)
}

/// Lets bwrap inherit a descriptor, and tells its number.
fn pass_on(file: &OwnedFd) -> rustix::io::Result<String> {
    rustix::io::fcntl_setfd(file, FdFlags::empty())?;
    Ok(file.as_raw_fd().to_string())
}

/// Becomes the program that the first argument names, with these arguments and no environment but what tells the
/// engine that it was not started by hand.
#[expect(unsafe_code, reason = "becoming another program")]
fn execute(arguments: Vec<OsString>) -> Errno {
    let arguments: Result<Vec<_>, _> = arguments
        .into_iter()
        .map(|argument| CString::new(argument.into_vec()))
        .collect();
    let Ok(arguments) = arguments else {
        return Errno::INVAL;
    };
    let Some(program) = arguments.first() else {
        return Errno::INVAL;
    };
    let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let environment = [c"SPP_HOST=1".as_ptr(), std::ptr::null()];
    // SAFETY: both arrays end in a null pointer, and what they point at lives until the call returns, if it does.
    unsafe { libc::execve(program.as_ptr(), pointers.as_ptr(), environment.as_ptr()) };
    last_error()
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_as_it_was_told_among_other_lines() {
        for (kind, _) in KINDS {
            let told = Failure::new(kind, "/srv/x: Permission denied");
            let words = format!("a banner\n{}\nbwrap: other\n", told.line());
            assert_eq!(Failure::read(&words), Some(told));
        }
        assert_eq!(Failure::read("bwrap: Can't mount"), None);
    }

    #[test]
    fn a_name_with_a_line_end_cannot_tell_another_failure() {
        let told = Failure::new(FailureKind::Source, "/srv/x\nspp-launch: user forged");
        let read = Failure::read(&told.line()).expect("it was told");
        assert_eq!(read.kind, FailureKind::Source);
    }

    /// What a launch of these binds tells bwrap, and the descriptors that it would inherit.
    fn bound(by_descriptor: bool, source: &Path) -> Result<(Vec<OsString>, usize), Failure> {
        let order = Order {
            starter: Starter::User,
            parent: 1,
            by_descriptor,
            bwrap: "/usr/bin/bwrap".into(),
            items: vec![Item::Bind {
                access: Access::ReadWrite,
                source: source.into(),
                at: "/workspace".into(),
            }],
        };
        let mut kept = Vec::new();
        let binds = super::by_descriptor(&order, &mut kept)?;
        Ok((binds.concat(), kept.len()))
    }

    #[test]
    fn a_descriptor_is_passed_on_only_to_a_bwrap_that_binds_it() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let (told, passed) = bound(true, scratch.path()).expect("it is there");
        assert_eq!((told[0].as_os_str(), passed), ("--bind-fd".as_ref(), 1));
        let (told, passed) = bound(false, scratch.path()).expect("it is there");
        assert_eq!((told[0].as_os_str(), passed), ("--bind".as_ref(), 0));
        assert_eq!(told[1], scratch.path());
    }

    #[test]
    fn what_became_a_link_or_lies_behind_one_is_not_opened() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink("/", &link).expect("a link");
        for by_descriptor in [true, false] {
            for source in [link.clone(), link.join("usr")] {
                let failure = bound(by_descriptor, &source).expect_err("it is a link");
                assert_eq!(failure.kind, FailureKind::Link, "{failure:?}");
            }
            let missing = scratch.path().join("missing");
            let failure = bound(by_descriptor, &missing).expect_err("it is not there");
            assert_eq!(failure.kind, FailureKind::Source, "{failure:?}");
        }
    }
}

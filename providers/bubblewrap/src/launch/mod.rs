//! The process between the provider and bwrap: this executable once more, which is told what to do on its input.
//!
//! It is alone in its process, so it may do what a process with threads may not: have mounts and a user of its own.
//! Started by root it makes the mounts in a mount namespace that nobody else sees, and goes over to a user that
//! nobody else has, before it becomes bwrap. So nothing is left of them however it ends.
//!
//! **Invariants.** bwrap inherits three descriptors, those that were meant for it, and no others. A failure is one
//! line on standard error that [`Failure::read`] understands.
//!
//! Not here: which arguments bwrap gets (`view`).

mod arrange;
mod item;
mod user;
mod within;

use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::{MemfdFlags, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal};
use sandbox_cgroup::{Door, Passed};

use arrange::As;
pub(crate) use item::{Access, Item, Kind, Order, Starter};
use within::Within;

/// The argument that means this.
pub(crate) const ARGUMENT: &str = "--launch";
/// The longest order that is read, in bytes.
const LONGEST_ORDER: u64 = 256 << 20;
/// Most things within others that bwrap is told of one by one, where that is not needed.
const TOLD_APART: usize = 64;

/// What bwrap is told of one thing.
type Told = Vec<OsString>;

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
    /// The group that limits it was not to be had.
    Group,
    /// This process may not do it.
    Forbidden,
    /// There is no more of something.
    Limit,
    /// The kernel does not know how.
    Kernel,
    /// There is so much within other things that it takes a user namespace to arrange it, which cannot be had.
    Many,
    /// bwrap could not be executed.
    Execute,
    /// Anything else.
    Other,
}

const KINDS: [(FailureKind, &str); 11] = [
    (FailureKind::Source, "source"),
    (FailureKind::Link, "link"),
    (FailureKind::User, "user"),
    (FailureKind::Idmap, "idmap"),
    (FailureKind::Group, "group"),
    (FailureKind::Forbidden, "forbidden"),
    (FailureKind::Limit, "limit"),
    (FailureKind::Kernel, "kernel"),
    (FailureKind::Many, "many"),
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

/// The order as a launcher reads it, ahead of what is meant for the engine.
pub(crate) fn ahead(order: &Order) -> Vec<u8> {
    let order = order.encode();
    let length = u64::try_from(order.len()).unwrap_or(u64::MAX);
    [&length.to_be_bytes()[..], &order].concat()
}

/// Does what it is told and becomes bwrap.
pub(crate) fn run() -> ExitCode {
    let failure = match told().map(|bytes| Order::decode(&bytes)) {
        Ok(Some(order)) => match launch(&order) {
            Ok(never) => match never {},
            Err(failure) => failure,
        },
        Ok(None) | Err(Errno::PIPE) => Failure::new(
            FailureKind::Other,
            "what is on its input makes no sense: only the provider starts this",
        ),
        Err(error) => Failure::doing("reading what to do", error),
    };
    eprintln!("{}", failure.line());
    ExitCode::from(EXIT_FAILED)
}

/// Reads what to do, and not a byte of what comes after it.
fn told() -> rustix::io::Result<Vec<u8>> {
    let mut length = [0; 8];
    read_exactly(&mut length)?;
    let length = u64::from_be_bytes(length);
    if length > LONGEST_ORDER {
        return Err(Errno::TOOBIG);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::TOOBIG)?];
    read_exactly(&mut bytes)?;
    Ok(bytes)
}

fn read_exactly(mut buffer: &mut [u8]) -> rustix::io::Result<()> {
    while !buffer.is_empty() {
        match rustix::io::read(rustix::stdio::stdin(), &mut *buffer) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(count) => buffer = buffer.get_mut(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
    // By whoever this still is: the kernel goes by who opened them.
    let mut limits = Vec::new();
    for item in &order.items {
        if let Item::Limit(door) = item {
            limits.push(limit(door, &mut kept)?);
        }
    }
    let mut limits = limits.into_iter();
    let seen: Vec<_> = order
        .items
        .iter()
        .filter(|item| item.at().is_some())
        .collect();
    let holders = arrange::holders(&seen);
    let inner = seen.iter().zip(&holders);
    let inner: Vec<_> = inner
        .filter_map(|(item, holder)| holder.map(|_| *item))
        .collect();
    let arranged = match order.starter {
        Starter::Root { becomes } => Some(As::Root { user: becomes }),
        Starter::User if inner.len() > TOLD_APART => Some(As::User),
        Starter::User => None,
    };
    let told = match arranged {
        Some(by) => {
            let arranged = arrange::arrange(&seen, &holders, by)?;
            // A user namespace is another life: the wish has to be said again.
            die_with(order.parent).map_err(other("asking to die with the provider"))?;
            if !inner.is_empty() {
                let within = Within {
                    items: inner,
                    machine: arranged.machine,
                    maps: arranged.maps,
                };
                arguments.extend(within.begin(&mut kept)?);
            }
            arranged.told
        }
        None => apart(&seen, order.by_descriptor, &mut kept)?,
    };
    let mut told = told.into_iter();
    for item in &order.items {
        match item {
            Item::Argument(argument) => arguments.push(argument.clone()),
            Item::Bind { .. } | Item::Hide { .. } => {
                arguments.extend(told.next().into_iter().flatten());
            }
            Item::Data { text, at } => {
                let file = data(text).map_err(other("keeping a small file"))?;
                let number = pass_on(&file).map_err(other("keeping a small file"))?;
                kept.push(file);
                arguments.extend(["--perms", "0644", "--file", &number].map(OsString::from));
                arguments.push(at.clone());
            }
            Item::Limit(_) => {
                let passed = limits.next().map(|passed| passed.to_string().into());
                arguments.extend(["--limited".into(), passed.unwrap_or_default()]);
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

/// Tells bwrap of each thing by itself, by descriptors where it can bind those, so that a name that changes hands
/// meanwhile changes nothing. Where it cannot, what has the name is looked at all the same, and no descriptor is
/// passed on.
fn apart(
    items: &[&Item],
    by_descriptor: bool,
    kept: &mut Vec<OwnedFd>,
) -> Result<Vec<Told>, Failure> {
    let tell = |item: &&Item| match item {
        Item::Bind { access, source, at } => {
            let file = open(source)?;
            let (option, what) = match (by_descriptor, access) {
                (true, access) => {
                    let number = passed_on(file, kept)?;
                    let option = match access {
                        Access::ReadOnly => "--ro-bind-fd",
                        Access::ReadWrite => "--bind-fd",
                    };
                    (option, number.into())
                }
                (false, Access::ReadOnly) => ("--ro-bind", source.clone().into_os_string()),
                (false, Access::ReadWrite) => ("--bind", source.clone().into_os_string()),
            };
            Ok(vec![option.into(), what, at.clone()])
        }
        Item::Hide { at, kind } => {
            if *kind == Kind::Directory {
                let empty = ["--perms", "0000", "--tmpfs"].map(OsString::from);
                let told = empty.into_iter().chain([at.clone()]);
                return Ok(told.chain(["--remount-ro".into(), at.clone()]).collect());
            }
            let nothing = data("")
                .map_err(|error| Failure::doing("making something to hide others with", error))?;
            let number = passed_on(nothing, kept)?;
            let empty = ["--perms", "0000", "--ro-bind-data", &number].map(OsString::from);
            Ok(empty.into_iter().chain([at.clone()]).collect())
        }
        Item::Argument(_) | Item::Data { .. } | Item::Limit(_) => Ok(Told::new()),
    };
    items.iter().map(tell).collect()
}

/// Lets bwrap inherit a descriptor, and tells its number.
fn passed_on(file: OwnedFd, kept: &mut Vec<OwnedFd>) -> Result<String, Failure> {
    let number =
        pass_on(&file).map_err(|error| Failure::doing("passing a descriptor on", error))?;
    kept.push(file);
    Ok(number)
}

/// Opens something that is to be shown, by its real path: what lies where something inside of a sandbox can write may
/// have become a link to anything since it was decided on.
fn open(source: &Path) -> Result<OwnedFd, Failure> {
    open_at(rustix::fs::CWD, source).map_err(|error| not_opened(source, error))
}

/// The same, from a directory, without leaving it where the path is relative.
fn open_at(from: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(from, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

fn not_opened(path: &Path, error: Errno) -> Failure {
    let kind = match error {
        Errno::LOOP => FailureKind::Link,
        _ => FailureKind::Source,
    };
    Failure::of(kind, path.display(), error)
}

/// Passes a limit on. The engine is told the numbers; what runs in the sandbox has no descriptor but three.
fn limit(door: &Door, kept: &mut Vec<OwnedFd>) -> Result<Passed, Failure> {
    let handles = door.open().map_err(|error| {
        let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Failure::of(FailureKind::Group, door.directory.display(), error)
    })?;
    let mut pass = |handle: OwnedFd| {
        let number = handle.as_raw_fd();
        passed_on(handle, kept)?;
        Ok(number)
    };
    Ok(Passed {
        controller: door.controller,
        version: door.version,
        entrance: pass(handles.entrance)?,
        events: handles.events.map(pass).transpose()?,
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

    /// What bwrap is told of something that is to be shown, and the descriptors that it would inherit.
    fn bound(by_descriptor: bool, source: &Path) -> Result<(Vec<OsString>, usize), Failure> {
        let item = Item::Bind {
            access: Access::ReadWrite,
            source: source.into(),
            at: "/workspace".into(),
        };
        let mut kept = Vec::new();
        let told = apart(&[&item], by_descriptor, &mut kept)?;
        Ok((told.concat(), kept.len()))
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

//! Numbers of the operating system as errors of the port.
//!
//! This is the one place where such a number becomes a kind of error and a sentence about what to do.
//!
//! **Invariant:** an error made here promises that nothing happened. Whoever fails after a change
//! replaces the effect.

use std::io;

use rustix::io::Errno;
use sandbox_core::{Error, ErrorKind, Verb};

/// The error for a number of the operating system, without a subject and without effect.
#[must_use]
pub fn os_error(verb: Verb, errno: Errno) -> Error {
    let (kind, advice) = explain(errno);
    Error::refused(verb, kind)
        .detail(advice)
        .caused_by(io::Error::from(errno))
}

/// The kind of a number of the operating system, and what to do about it.
fn explain(errno: Errno) -> (ErrorKind, &'static str) {
    match errno {
        Errno::NOENT => (
            ErrorKind::NotFound,
            "nothing has this name, or a directory on the way is missing",
        ),
        Errno::NOTDIR => (
            ErrorKind::NotADirectory,
            "something on the way is not a directory",
        ),
        Errno::EXIST => (
            ErrorKind::AlreadyExists,
            "remove it first, or allow replacing it",
        ),
        Errno::ISDIR => (ErrorKind::NotAFile, "it is a directory"),
        Errno::NOTEMPTY => (
            ErrorKind::NotEmpty,
            "remove what is in it first, or ask for recursion",
        ),
        Errno::ACCESS | Errno::PERM => (
            ErrorKind::PermissionDenied,
            "the permissions of the entry or of a directory on the way forbid it to the user this runs as",
        ),
        Errno::ROFS => (
            ErrorKind::ReadOnly,
            "the file system is mounted read-only; write elsewhere",
        ),
        Errno::NOSPC => (
            ErrorKind::NoSpace,
            "the disk is full; remove something and try again",
        ),
        Errno::DQUOT => (
            ErrorKind::NoSpace,
            "the quota of this user is used up; remove something and try again",
        ),
        Errno::FBIG => (
            ErrorKind::TooLarge,
            "the file would be larger than the file system or a limit allows",
        ),
        Errno::NAMETOOLONG => (
            ErrorKind::InvalidArgument,
            "the file system does not take so long a name; choose a shorter one",
        ),
        Errno::INVAL => (
            ErrorKind::InvalidArgument,
            "the operating system refuses this combination, such as moving a directory into itself",
        ),
        Errno::XDEV => (
            ErrorKind::InvalidArgument,
            "the two names lie on different file systems; write the new one and remove the old",
        ),
        Errno::LOOP => (ErrorKind::Io, "too many links lie on the way"),
        Errno::BUSY | Errno::TXTBSY => (
            ErrorKind::Io,
            "it is in use by the system, such as a mount point",
        ),
        Errno::MFILE | Errno::NFILE => (
            ErrorKind::Io,
            "too many files are open; try again when fewer calls are running",
        ),
        Errno::OPNOTSUPP | Errno::NOSYS => (
            ErrorKind::Unsupported,
            "the file system or the kernel cannot do this",
        ),
        Errno::STALE => (
            ErrorKind::Io,
            "the network file system lost the entry; try again",
        ),
        _ => (ErrorKind::Io, "the operating system reports a failure"),
    }
}

//! Why something under a root could not be reached or done, and how that is told.
//!
//! This is the one place where a number of the operating system becomes a kind of error and a
//! sentence about what to do.
//!
//! **Invariant:** an error made here promises that nothing happened. Whoever fails after a change
//! replaces the effect.

use std::io;

use rustix::io::Errno;
use sandbox_core::{Error, ErrorKind, SandboxPath, Verb};

/// A failure before it is known on whose behalf it happened.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The operating system said no.
    Os(Errno),
    /// The path leaves every root, by a link of this text if there was one.
    Outside { link: Option<Vec<u8>> },
    /// The root of this prefix is read-only.
    ReadOnly { root: SandboxPath },
    /// The entry belongs to a file system that shows the kernel's own state.
    KernelFiles,
    /// More links than anybody means.
    TooManyLinks,
    /// A regular file is meant, and this is there.
    NotAFile { found: &'static str },
    /// An entry of a directory is meant, and the path names a root.
    IsRoot,
    /// Anything else, as kind and sentence.
    Other(ErrorKind, String),
}

/// Results inside the engine.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Os(errno)
    }
}

impl Fault {
    /// Says it on behalf of `verb` about `path`.
    pub(crate) fn on(self, verb: Verb, path: &SandboxPath) -> Error {
        let refused = |kind| Error::refused(verb, kind).on(path);
        match self {
            Self::Os(errno) => os_error(verb, errno).on(path),
            Self::Outside { link: Some(text) } => {
                let text = String::from_utf8_lossy(&text);
                refused(ErrorKind::OutsideRoot).detail(format_args!(
                    "a link leads to {text:?}, which no root of this sandbox holds; name the real file or declare its directory as a mount"
                ))
            }
            Self::Outside { link: None } => refused(ErrorKind::OutsideRoot)
                .detail("no root of this sandbox holds it; name it relative to the workspace or declare its directory as a mount"),
            Self::ReadOnly { root } => refused(ErrorKind::ReadOnly)
                .detail(format_args!("the root {root} may only be read; change a copy in the workspace")),
            Self::KernelFiles => refused(ErrorKind::OutsideRoot)
                .detail("it shows the kernel's own state (procfs or sysfs), which the file verbs do not; run a program that reads it"),
            Self::TooManyLinks => refused(ErrorKind::Io)
                .detail("more than 40 links lie on the way, or they form a loop; name the real file"),
            Self::NotAFile { found } => refused(ErrorKind::NotAFile).detail(format_args!("it is {found}")),
            Self::IsRoot => refused(ErrorKind::InvalidArgument)
                .detail("it is a root of the sandbox, which stays as it is; name an entry in it"),
            Self::Other(kind, detail) => refused(kind).detail(detail),
        }
    }
}

/// The error for a number of the operating system, without a subject and without effect.
pub(crate) fn os_error(verb: Verb, errno: Errno) -> Error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_verb_subject_kind_and_what_to_do_and_promises_no_effect() {
        let path = SandboxPath::parse("a/b").expect("valid");
        for fault in [
            Fault::Os(Errno::NOSPC),
            Fault::Outside { link: None },
            Fault::Outside {
                link: Some(b"/etc/passwd".to_vec()),
            },
            Fault::ReadOnly { root: path.clone() },
            Fault::KernelFiles,
            Fault::TooManyLinks,
            Fault::NotAFile { found: "a FIFO" },
            Fault::IsRoot,
        ] {
            let error = fault.on(Verb::Read, &path);
            assert_eq!(error.effect(), sandbox_core::Effect::None);
            assert!(
                error.to_string().starts_with("failed to read a/b: "),
                "{error}"
            );
            assert!(!error.detail_text().is_empty());
        }
    }

    #[test]
    fn the_text_of_a_link_cannot_forge_a_line_of_output() {
        let path = SandboxPath::parse("door").expect("valid");
        let error = Fault::Outside {
            link: Some(b"/x\n\x1b[31mok".to_vec()),
        }
        .on(Verb::Read, &path);
        assert!(!error.to_string().contains(['\n', '\x1b']), "{error:?}");
        assert!(error.to_string().contains("/x"));
    }
}

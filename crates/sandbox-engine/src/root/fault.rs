//! Why something under a root could not be reached or done, and how that is told.
//!
//! A number of the operating system becomes a kind of error and a sentence about what to do in
//! `sandbox_tree::errno`, and nowhere else.
//!
//! **Invariant:** an error made here promises that nothing happened. Whoever fails after a change
//! replaces the effect.

use rustix::io::Errno;
use sandbox_core::{Error, ErrorKind, SandboxPath, Verb};
pub(crate) use sandbox_tree::errno::os_error;

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

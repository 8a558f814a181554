//! Names that the host chooses, so that repeating a call is safe.
//!
//! Ids are short and plain (letters, digits, `-`, `_`, `.`), because they end up in container
//! labels, file names and log lines at every location.

use std::fmt;

/// Longest id accepted, in bytes.
pub const MAX_ID_BYTES: usize = 64;

/// Why a text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an id is 1 to {MAX_ID_BYTES} letters, digits, `-`, `_` or `.`, and starts with a letter or digit"
)]
pub struct IdError;

fn check(text: &str) -> Result<(), IdError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let starts_well = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts_well && text.len() <= MAX_ID_BYTES && text.bytes().all(plain) {
        Ok(())
    } else {
        Err(IdError)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks and wraps an id.
            ///
            /// # Errors
            ///
            /// [`IdError`] if the text is not a plain short name.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                check(text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
    };
}

id! {
    /// Names a sandbox at its provider. Chosen by the host; acquiring the same id with the same
    /// spec twice gives the same sandbox.
    SandboxId
}

id! {
    /// Names a process in its sandbox: the handle of `spawn`, and of an `exec` while its output is
    /// kept. Not an operating system pid.
    ProcId
}

/// Counts the lives of a sandbox id. A sandbox that died and was made anew has the next one, so
/// that nobody mistakes the new tree for the old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_short_names_are_ids() {
        for good in ["a", "build-1", "A.b_c", &"x".repeat(64)] {
            assert!(SandboxId::new(good).is_ok(), "{good:?} was refused");
        }
        for bad in [
            "",
            "-rf",
            ".hidden",
            "a/b",
            "a b",
            "ä",
            "a\n",
            &"x".repeat(65),
        ] {
            assert_eq!(ProcId::new(bad), Err(IdError), "{bad:?} was accepted");
        }
    }
}

//! Paths as a sandbox sees them, spelled one way only.
//!
//! A [`SandboxPath`] is parsed once, where untrusted text enters, and trusted everywhere after. It
//! is relative to the workspace root, or absolute in the sandbox's own view; `/` separates on every
//! platform; bytes that are not UTF-8 are kept as they are.
//!
//! Parsing settles spelling: no `..`, no NUL, no empty or `.` component. It does *not* settle
//! containment: a link inside the root can still point outside, and only the engine, which holds
//! the directory handle, can refuse that (`sandbox_engine::root`).
//!
//! **Invariant:** two equal `SandboxPath`s name the same entry, so they may key a map.
//!
//! Not here: globs ([`search`](crate::search)), host paths (plain [`std::path::Path`], never mixed
//! with these).

use std::fmt;

/// Longest path accepted, in bytes: the kernel's `PATH_MAX`.
pub const MAX_PATH_BYTES: usize = 4096;
/// Longest component accepted, in bytes: the kernel's `NAME_MAX`.
pub const MAX_COMPONENT_BYTES: usize = 255;

/// A parsed path; see the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxPath(Box<[u8]>);

/// Why a text is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text is empty. The root is spelled `.`.
    #[error("the path is empty; the workspace root is spelled `.`")]
    Empty,
    /// The text contains a NUL byte.
    #[error("the path contains a NUL byte")]
    Nul,
    /// The text contains a `..` component.
    #[error("the path contains `..`; name the entry from the workspace root instead")]
    ParentComponent,
    /// A component is longer than [`MAX_COMPONENT_BYTES`].
    #[error("a component of the path is longer than {MAX_COMPONENT_BYTES} bytes")]
    ComponentTooLong,
    /// The whole is longer than [`MAX_PATH_BYTES`].
    #[error("the path is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
}

impl SandboxPath {
    /// The workspace root.
    #[must_use]
    pub fn root() -> Self {
        Self(Box::new([]))
    }

    /// Parses a path. `.` components and repeated or trailing slashes vanish, so that the result
    /// is spelled one way only; everything else is data, backslashes and dashes included.
    ///
    /// # Errors
    ///
    /// See [`PathError`].
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        if text.contains(&0) {
            return Err(PathError::Nul);
        }
        let absolute = text[0] == b'/';
        let mut bytes = Vec::with_capacity(text.len());
        for component in text.split(|&byte| byte == b'/') {
            match component {
                b"" | b"." => continue,
                b".." => return Err(PathError::ParentComponent),
                _ if component.len() > MAX_COMPONENT_BYTES => {
                    return Err(PathError::ComponentTooLong);
                }
                _ => {}
            }
            if absolute || !bytes.is_empty() {
                bytes.push(b'/');
            }
            bytes.extend_from_slice(component);
        }
        if absolute && bytes.is_empty() {
            bytes.push(b'/');
        }
        Ok(Self(bytes.into()))
    }

    /// Appends one or more components.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); `tail` must not be absolute.
    pub fn join(&self, tail: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let mut bytes = if self.is_root() {
            b".".to_vec()
        } else {
            self.0.to_vec()
        };
        bytes.push(b'/');
        bytes.extend_from_slice(tail.as_ref());
        Self::parse(bytes)
    }

    /// The canonical spelling: empty for the workspace root, otherwise `a/b` or `/a/b`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes that it takes at most as a text with escapes in an answer, its quotes and a comma included.
    #[must_use]
    pub fn quoted_bytes(&self) -> usize {
        match self.as_str() {
            Some(text) => {
                let escaped = text.bytes().map(|byte| match byte {
                    b'"' | b'\\' => 2,
                    0..0x20 => 6,
                    _ => 1,
                });
                3 + escaped.sum::<usize>()
            }
            // Base64, in an object that says so.
            None => 16 + self.as_bytes().len().div_ceil(3) * 4,
        }
    }

    /// The canonical spelling, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether this is the workspace root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the path starts at the sandbox's `/` rather than at the workspace root.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.0.first() == Some(&b'/')
    }

    /// The components from the outside in.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0
            .split(|&byte| byte == b'/')
            .filter(|component| !component.is_empty())
    }

    /// The last component; `None` for a root.
    #[must_use]
    pub fn file_name(&self) -> Option<&[u8]> {
        self.components().next_back()
    }

    /// The path without its last component; `None` for a root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.file_name()?;
        Some(match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(0) => Self(Box::new(*b"/")),
            Some(slash) => Self(self.0[..slash].into()),
            None => Self::root(),
        })
    }
}

impl fmt::Display for SandboxPath {
    /// For people: `.` for the root, control characters escaped, other bytes replaced. Lossy; never parse it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for character in String::from_utf8_lossy(&self.0).chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SandboxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SandboxPath({:?})", String::from_utf8_lossy(&self.0))
    }
}

impl std::str::FromStr for SandboxPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, canonical: Result<&str, PathError>) {
        let parsed = SandboxPath::parse(text);
        assert_eq!(
            parsed
                .as_ref()
                .map(|path| path.as_str().expect("the input is UTF-8")),
            canonical.as_ref().copied()
        );
    }

    #[test]
    fn every_spelling_of_an_entry_becomes_one() {
        for text in ["a/b", "./a/b", "a//b", "a/./b/", "a/b/."] {
            check(text, Ok("a/b"));
        }
        for text in [".", "./", "././"] {
            check(text, Ok(""));
        }
        check("/", Ok("/"));
        check("//etc///passwd", Ok("/etc/passwd"));
    }

    #[test]
    fn what_could_leave_or_confuse_is_refused() {
        check("", Err(PathError::Empty));
        check("../x", Err(PathError::ParentComponent));
        check("a/../b", Err(PathError::ParentComponent));
        check("/..", Err(PathError::ParentComponent));
        check("a\0b", Err(PathError::Nul));
        check(&"x".repeat(256), Err(PathError::ComponentTooLong));
        check(&"x/".repeat(2049), Err(PathError::TooLong));
    }

    #[test]
    fn odd_names_are_data() {
        for text in [
            "-rf",
            "--help",
            "~",
            "*",
            "a'b",
            "$(touch x)",
            "..a",
            "a..",
            "...",
            " a ",
            "a\\..\\b",
            "a\nb",
        ] {
            check(text, Ok(text));
        }
        let latin1 = SandboxPath::parse(b"caf\xe9").expect("names need not be UTF-8");
        assert_eq!(latin1.as_bytes(), b"caf\xe9");
        assert_eq!(latin1.as_str(), None);
    }

    #[test]
    fn parents_and_names_are_found() {
        let path = SandboxPath::parse("/a/b").expect("valid");
        assert_eq!(path.file_name(), Some(&b"b"[..]));
        assert_eq!(
            path.parent(),
            Some(SandboxPath::parse("/a").expect("valid"))
        );
        assert_eq!(
            SandboxPath::parse("/a").expect("valid").parent(),
            Some(SandboxPath::parse("/").expect("valid"))
        );
        assert_eq!(
            SandboxPath::parse("a").expect("valid").parent(),
            Some(SandboxPath::root())
        );
        assert_eq!(SandboxPath::root().parent(), None);
        assert_eq!(
            SandboxPath::root().join("x/y").expect("valid").as_str(),
            Some("x/y")
        );
    }

    #[test]
    fn a_name_with_control_characters_cannot_forge_a_line_of_output() {
        let path = SandboxPath::parse("a\nb\x1b[31m").expect("valid");
        assert_eq!(path.to_string(), "a\\nb\\u{1b}[31m");
    }
}

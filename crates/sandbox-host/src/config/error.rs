//! What is wrong with a configuration, and where: file, line and column, or the flag or variable
//! that named it.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, at this position if it is about one.
    File {
        /// The file.
        path: PathBuf,
        /// Where in it.
        position: Option<Position>,
    },
    /// On the command line, or by the embedding program.
    CommandLine,
    /// In the variable `SPP_LOCATION`.
    Environment,
    /// Nowhere: it is the default.
    Default,
}

/// A position in a file, as editors count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File {
                path,
                position: None,
            } => write!(f, "{}", path.display()),
            Self::File {
                path,
                position: Some(Position { line, column }),
            } => write!(f, "{}:{line}:{column}", path.display()),
            Self::CommandLine => f.write_str("the command line"),
            Self::Environment => write!(f, "the variable {}", super::LOCATION_VARIABLE),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// A configuration that is refused. The text says where, what, and what to do.
#[derive(Debug)]
pub struct ConfigError {
    kind: ConfigErrorKind,
    place: Place,
    problem: String,
    remedy: String,
    source: Option<std::io::Error>,
}

/// What is wrong with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigErrorKind {
    /// The file cannot be read.
    Unreadable,
    /// The file is not TOML.
    NotToml,
    /// A key that does not exist.
    UnknownKey,
    /// A location that does not exist.
    UnknownLocation,
    /// A key or a location that this version does not offer yet.
    NotOffered,
    /// A project file sets what only the user may set.
    Untrusted,
    /// A value that makes no sense for its key.
    Invalid,
}

impl ConfigError {
    pub(crate) fn new(kind: ConfigErrorKind, place: Place, problem: impl Into<String>) -> Self {
        Self {
            kind,
            place,
            problem: problem.into(),
            remedy: String::new(),
            source: None,
        }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    pub(crate) fn caused_by(mut self, source: std::io::Error) -> Self {
        self.source = Some(source);
        self
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> ConfigErrorKind {
        self.kind
    }

    /// Where.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

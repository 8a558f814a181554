//! How a walk ended, and what it could not see.

use rustix::io::Errno;
use sandbox_core::SandboxPath;
use sandbox_core::search::{Completeness, IncompleteCause};

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything was looked at, but for what the [`Summary`] counts.
    Complete,
    /// A visitor stopped it.
    Stopped,
    /// The call was cancelled.
    Cancelled,
    /// The deadline came first.
    Late,
}

/// What a walk says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How it ended.
    pub end: End,
    /// Directories, and files of ignore patterns, that could not be read.
    pub unreadable: Trouble,
    /// Directories that were gone, or something else, when they were to be read.
    pub changed: Trouble,
}

/// Entries of which the same must be said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// How many.
    pub count: u64,
    /// The first by the bytes of its path, from the scope's root, and what the system said.
    pub first: Option<(Vec<u8>, Errno)>,
}

impl Trouble {
    /// Counts an entry.
    pub fn add(&mut self, path: &[u8], errno: Errno) {
        self.count += 1;
        if self.first.as_ref().is_none_or(|(first, _)| path < &**first) {
            self.first = Some((path.to_vec(), errno));
        }
    }

    /// Counts what another counted.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        if let Some((path, errno)) = other.first
            && self.first.as_ref().is_none_or(|(first, _)| path < *first)
        {
            self.first = Some((path, errno));
        }
    }

    /// A sentence, such as "2 could not be read, such as a/b (permission denied)".
    fn sentence(&self, what: &str) -> String {
        let Some((path, errno)) = &self.first else {
            return format!("{} {what}", self.count);
        };
        // A path may be longer than any that can be named; its end says most.
        let tail = &path[path.len().saturating_sub(200)..];
        let shown = SandboxPath::parse(if tail.is_empty() { b"." } else { tail })
            .map_or_else(|_| "an entry".to_owned(), |path| path.to_string());
        format!("{} {what}, such as {shown} ({errno})", self.count)
    }
}

impl Summary {
    /// Whether what was visited is all there is. A visitor that stopped the walk knows why and says so itself.
    #[must_use]
    pub fn completeness(&self) -> Completeness {
        let incomplete = |cause, reason| Completeness::Incomplete { reason, cause };
        match self.end {
            End::Late => incomplete(
                IncompleteCause::Deadline,
                "the deadline came before the whole tree was looked at; allow more time, or narrow the scope"
                    .to_owned(),
            ),
            End::Cancelled => incomplete(
                IncompleteCause::Deadline,
                "it was cancelled before the whole tree was looked at".to_owned(),
            ),
            End::Complete | End::Stopped if self.unreadable.count > 0 => incomplete(
                IncompleteCause::Permission,
                self.unreadable.sentence("could not be read"),
            ),
            End::Complete | End::Stopped if self.changed.count > 0 => incomplete(
                IncompleteCause::Changed,
                self.changed
                    .sentence("went away or became something else meanwhile"),
            ),
            End::Complete | End::Stopped => Completeness::Complete,
        }
    }
}

//! What of a tree was seen, and what was not.
//!
//! What is absent from an incomplete record is not gone. So a record says where it has holes, and
//! nothing is concluded from absence there.

use rustix::io::Errno;
use sandbox_core::search::{Completeness, IncompleteCause};

/// Holes that are kept by name. With more, nothing is concluded from any absence.
const MAX_HOLES: usize = 256;

/// What was seen. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    cut: Option<Cut>,
    /// Directories whose entries are not known.
    holes: Vec<Box<[u8]>>,
    more_holes: u64,
    /// The first of those that were not found again, and why it could not be read then.
    passing: Option<(Box<[u8]>, Errno)>,
    /// Files whose content is not known.
    unread: u64,
    first_unread: Option<Box<[u8]>>,
    /// Entries that changed while they were looked at.
    moving: u64,
}

/// Why a look at a tree ended before all was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// More entries than the request considers.
    Limit(u64),
    /// More than is held in memory for one tree.
    Memory,
    /// The time was over.
    Deadline,
}

impl Coverage {
    /// Nothing beyond what was seen so far is known.
    pub(super) fn cut(&mut self, cut: Cut) {
        self.cut.get_or_insert(cut);
    }

    /// The entries of this directory are not known.
    pub(super) fn hole(&mut self, path: &[u8]) {
        if self.holes.len() < MAX_HOLES {
            self.holes.push(path.into());
        } else {
            self.more_holes += 1;
        }
    }

    /// The content of this file is not known.
    pub(super) fn unread(&mut self, path: &[u8]) {
        self.unread += 1;
        self.first_unread.get_or_insert_with(|| path.into());
    }

    /// So many entries changed while they were looked at.
    pub(super) fn moving(&mut self, entries: u64) {
        self.moving += entries;
    }

    /// So many directories could not be read, and can be now: nobody knows which they were.
    ///
    /// - `first`: one that could not be read, and why
    pub(super) fn passing_holes(&mut self, directories: u64, first: Option<(Vec<u8>, Errno)>) {
        self.more_holes += directories;
        if directories > 0 && self.passing.is_none() {
            self.passing = first.map(|(path, errno)| (path.into(), errno));
        }
    }

    /// Adds what somebody else saw of the same tree.
    pub(super) fn merge(&mut self, other: Self) {
        if let Some(cut) = other.cut {
            self.cut(cut);
        }
        other.holes.iter().for_each(|path| self.hole(path));
        self.passing_holes(
            other.more_holes,
            other.passing.map(|(path, errno)| (path.into(), errno)),
        );
        self.unread += other.unread;
        if self.first_unread.is_none() {
            self.first_unread = other.first_unread;
        }
        self.moving += other.moving;
    }

    /// Whether an entry at `path` would have been seen.
    pub(super) fn includes(&self, path: &[u8]) -> bool {
        self.cut.is_none()
            && self.more_holes == 0
            && !self.holes.iter().any(|hole| beneath(path, hole))
    }

    /// Bytes that this takes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.holes
            .iter()
            .map(|hole| hole.len() + size_of::<Box<[u8]>>())
            .sum()
    }

    /// The same as an answer says it.
    pub(super) fn completeness(&self) -> Completeness {
        let incomplete = |cause, reason| Completeness::Incomplete { reason, cause };
        match self.cut {
            Some(Cut::Limit(limit)) => {
                return incomplete(
                    IncompleteCause::Limit,
                    format!(
                        "there are more than the {limit} entries considered; raise the limit or narrow the scope"
                    ),
                );
            }
            Some(Cut::Memory) => {
                return incomplete(
                    IncompleteCause::Limit,
                    "there are more entries than are held in memory; narrow the scope".to_owned(),
                );
            }
            Some(Cut::Deadline) => {
                return incomplete(
                    IncompleteCause::Deadline,
                    "the time was over before all entries were seen; allow more, or narrow the scope"
                        .to_owned(),
                );
            }
            None => {}
        }
        let directories = self.holes.len() as u64 + self.more_holes;
        let directories_unread = counted(directories, "directory", "directories");
        if let Some(first) = self.holes.first() {
            return incomplete(
                IncompleteCause::Permission,
                unreadable(&directories_unread, first),
            );
        }
        if let Some((path, errno)) = &self.passing {
            return incomplete(
                IncompleteCause::Permission,
                format!(
                    "{directories_unread} could not be read for a moment, such as {} ({errno}); ask again",
                    name(path)
                ),
            );
        }
        if directories > 0 {
            return incomplete(
                IncompleteCause::Permission,
                format!("{directories_unread} could not be read for a moment; ask again"),
            );
        }
        if let Some(first) = &self.first_unread {
            return incomplete(
                IncompleteCause::Permission,
                unreadable(&counted(self.unread, "file", "files"), first),
            );
        }
        if self.moving > 0 {
            return incomplete(
                IncompleteCause::Changed,
                format!(
                    "{} changed while looked at; ask again when nothing changes them",
                    counted(self.moving, "entry", "entries")
                ),
            );
        }
        Completeness::Complete
    }
}

fn unreadable(what: &str, first: &[u8]) -> String {
    format!(
        "{what} could not be read, such as {}; exclude what cannot be, or let the user this runs as read it",
        name(first)
    )
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A name in a sentence: no line of output can be forged with it.
fn name(path: &[u8]) -> String {
    let path = if path.is_empty() { b"." } else { path };
    format!("{:?}", String::from_utf8_lossy(path))
}

/// Whether `path` lies beneath the directory `hole`.
fn beneath(path: &[u8], hole: &[u8]) -> bool {
    hole.is_empty()
        || path
            .strip_prefix(hole)
            .is_some_and(|rest| rest.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_concluded_from_absence_in_a_hole() {
        let mut coverage = Coverage::default();
        coverage.hole(b"a/closed");
        assert!(coverage.includes(b"a/closed"));
        assert!(!coverage.includes(b"a/closed/file"));
        assert!(coverage.includes(b"a/closed-not/file"));
        coverage.hole(b"");
        assert!(!coverage.includes(b"b"));
    }

    #[test]
    fn nothing_is_concluded_from_absence_after_a_cut_or_with_too_many_holes() {
        let mut cut = Coverage::default();
        cut.cut(Cut::Limit(10));
        assert!(!cut.includes(b"a"));
        let mut holes = Coverage::default();
        for number in 0..=MAX_HOLES {
            holes.hole(format!("{number}").as_bytes());
        }
        assert!(!holes.includes(b"elsewhere"));
    }

    #[test]
    fn a_reason_says_how_much_is_missing_and_what_to_do() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.completeness(), Completeness::Complete);
        coverage.moving(1);
        coverage.unread(b"secret\n");
        let Completeness::Incomplete { reason, cause } = coverage.completeness() else {
            panic!("it is not complete");
        };
        assert_eq!(cause, IncompleteCause::Permission);
        assert_eq!(
            reason,
            r#"1 file could not be read, such as "secret\n"; exclude what cannot be, or let the user this runs as read it"#
        );
    }

    #[test]
    fn what_could_not_be_read_for_a_moment_is_told_with_its_reason() {
        let mut coverage = Coverage::default();
        coverage.passing_holes(2, Some((Vec::new(), Errno::MFILE)));
        assert!(!coverage.includes(b"a"));
        let Completeness::Incomplete { reason, .. } = coverage.completeness() else {
            panic!("it is not complete");
        };
        assert!(
            reason.starts_with("2 directories")
                && reason.contains(r#"".""#)
                && reason.contains("open files"),
            "{reason}"
        );
    }
}

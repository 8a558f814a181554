//! What a tree looked like, as a record that is small enough to keep.
//!
//! Entries lie one behind the other in the order of their paths' bytes, each path as what it does
//! not share with the one before. An entry of a usual source tree takes some 60 bytes, and 32 more
//! with the digest of its content: a million of them 60 to 95 MB. A record is only ever read from
//! front to back, beside another one.
//!
//! **Invariant:** paths ascend strictly. [`Builder::push`] drops what does not.

use sandbox_core::Digest;
use sandbox_core::file::EntryKind;

use super::coverage::Coverage;
use super::moment::Moment;

/// The entries of a tree, and what of it was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Manifest {
    records: Vec<u8>,
    entries: u64,
    coverage: Coverage,
}

/// What is known of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts<'a> {
    pub(super) kind: EntryKind,
    /// Permission bits, with set-id and sticky ones.
    pub(super) mode: u32,
    /// Not kept for directories: theirs changes with entries that do not count.
    pub(super) identity: Identity,
    pub(super) age: Age,
    pub(super) body: Body<'a>,
}

/// By which an entry is taken for the same without looking into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) size: u64,
    /// Last change of the content, which anybody can set.
    pub(super) modified: Moment,
    /// Last change of anything, which nobody can.
    pub(super) changed: Moment,
    pub(super) inode: u64,
}

/// Whether an identity could be relied on when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Every later change shows in it.
    Settled,
    /// The entry had changed just before; another change in the same moment does not show.
    Fresh,
}

/// What an entry holds, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    Unknown,
    /// The text of a link.
    Text(&'a [u8]),
    /// The digest of a file's content.
    Content(Digest),
}

const KIND: u8 = 0b0000_0011;
const FRESH: u8 = 0b0000_0100;
const TEXT: u8 = 0b0000_1000;
const CONTENT: u8 = 0b0001_0000;

impl Manifest {
    /// How many entries there are.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Bytes that it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.records.capacity() + self.coverage.bytes()
    }

    /// Before the first entry.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor {
            rest: &self.records,
            path: Vec::new(),
            facts: None,
        }
    }
}

/// Makes a [`Manifest`].
#[derive(Debug, Default)]
pub(super) struct Builder {
    records: Vec<u8>,
    entries: u64,
    last: Vec<u8>,
}

impl Builder {
    /// Adds an entry behind the others. One that does not belong there, because the tree named it
    /// twice while it changed, is left out.
    pub(super) fn push(&mut self, path: &[u8], facts: &Facts<'_>) {
        if self.entries > 0 && path <= self.last.as_slice() {
            return;
        }
        let shared = path
            .iter()
            .zip(&self.last)
            .take_while(|(one, other)| one == other)
            .count();
        let suffix = &path[shared..];
        put_number(&mut self.records, shared as u64);
        put_bytes(&mut self.records, suffix);
        self.last.truncate(shared);
        self.last.extend_from_slice(suffix);

        let kind = match facts.kind {
            EntryKind::File => 0,
            EntryKind::Directory => 1,
            EntryKind::Link => 2,
            EntryKind::Special => 3,
        };
        let age = match facts.age {
            Age::Settled => 0,
            Age::Fresh => FRESH,
        };
        let body = match facts.body {
            Body::Unknown => 0,
            Body::Text(_) => TEXT,
            Body::Content(_) => CONTENT,
        };
        self.records.push(kind | age | body);
        put_number(&mut self.records, facts.mode.into());
        if facts.kind != EntryKind::Directory {
            let identity = facts.identity;
            put_number(&mut self.records, identity.size);
            put_moment(&mut self.records, identity.modified);
            put_moment(&mut self.records, identity.changed);
            put_number(&mut self.records, identity.inode);
        }
        match &facts.body {
            Body::Unknown => {}
            Body::Text(text) => put_bytes(&mut self.records, text),
            Body::Content(digest) => self.records.extend_from_slice(digest.as_bytes()),
        }
        self.entries += 1;
    }

    /// The record of all of it.
    pub(super) fn finish(mut self, coverage: Coverage) -> Manifest {
        self.records.shrink_to_fit();
        Manifest {
            records: self.records,
            entries: self.entries,
            coverage,
        }
    }
}

/// A place in a [`Manifest`]: an entry, or the end.
#[derive(Debug)]
pub(super) struct Cursor<'m> {
    rest: &'m [u8],
    path: Vec<u8>,
    facts: Option<Facts<'m>>,
}

impl<'m> Cursor<'m> {
    /// Goes to the next entry, and says what it is; `None` at the end.
    pub(super) fn advance(&mut self) -> Option<Facts<'m>> {
        self.facts = if self.rest.is_empty() {
            None
        } else {
            let facts = self.decode();
            debug_assert!(facts.is_some(), "a record that this process wrote is whole");
            facts
        };
        self.facts
    }

    /// Goes to the first entry that is not before `path`, and says what is at `path`.
    pub(super) fn seek(&mut self, path: &[u8]) -> Option<Facts<'m>> {
        if self.facts.is_none() && !self.rest.is_empty() {
            self.advance();
        }
        while self.facts.is_some() && self.path.as_slice() < path {
            self.advance();
        }
        self.facts.filter(|_| self.path == path)
    }

    /// The path of the entry.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// What the entry is; `None` at the end, and before the first.
    pub(super) fn facts(&self) -> Option<Facts<'m>> {
        self.facts
    }

    fn decode(&mut self) -> Option<Facts<'m>> {
        let shared = usize::try_from(self.number()?).ok()?;
        let suffix = self.bytes()?;
        self.path.truncate(shared);
        self.path.extend_from_slice(suffix);
        let flags = self.take(1)?.first().copied()?;
        let kind = match flags & KIND {
            0 => EntryKind::File,
            1 => EntryKind::Directory,
            2 => EntryKind::Link,
            _ => EntryKind::Special,
        };
        let mode = u32::try_from(self.number()?).ok()?;
        let identity = if kind == EntryKind::Directory {
            Identity::default()
        } else {
            Identity {
                size: self.number()?,
                modified: self.moment()?,
                changed: self.moment()?,
                inode: self.number()?,
            }
        };
        let body = if flags & TEXT != 0 {
            Body::Text(self.bytes()?)
        } else if flags & CONTENT != 0 {
            Body::Content(Digest::from_bytes(self.take(32)?.try_into().ok()?))
        } else {
            Body::Unknown
        };
        Some(Facts {
            kind,
            mode,
            identity,
            age: if flags & FRESH == 0 {
                Age::Settled
            } else {
                Age::Fresh
            },
            body,
        })
    }

    fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn bytes(&mut self) -> Option<&'m [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)?.first().copied()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn moment(&mut self) -> Option<Moment> {
        Some(Moment {
            seconds: i64::from_le_bytes(self.take(8)?.try_into().ok()?),
            nanos: u32::from_le_bytes(self.take(4)?.try_into().ok()?),
        })
    }
}

fn put_number(records: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        records.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    records.push(number.to_le_bytes()[0]);
}

fn put_bytes(records: &mut Vec<u8>, bytes: &[u8]) {
    put_number(records, bytes.len() as u64);
    records.extend_from_slice(bytes);
}

fn put_moment(records: &mut Vec<u8>, moment: Moment) {
    records.extend_from_slice(&moment.seconds.to_le_bytes());
    records.extend_from_slice(&moment.nanos.to_le_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A settled file of this size.
    pub(in super::super) fn file(size: u64) -> Facts<'static> {
        Facts {
            kind: EntryKind::File,
            mode: 0o644,
            identity: Identity {
                size,
                modified: Moment {
                    seconds: 1_700_000_000,
                    nanos: 17,
                },
                changed: Moment {
                    seconds: 1_700_000_001,
                    nanos: 18,
                },
                inode: 4711,
            },
            age: Age::Settled,
            body: Body::Unknown,
        }
    }

    pub(in super::super) fn manifest(entries: &[(&str, Facts<'_>)]) -> Manifest {
        let mut builder = Builder::default();
        for (path, facts) in entries {
            builder.push(path.as_bytes(), facts);
        }
        builder.finish(Coverage::default())
    }

    #[test]
    fn what_was_recorded_comes_back() {
        let digest = Digest::from_bytes([7; 32]);
        let all = [
            (
                "a",
                Facts {
                    kind: EntryKind::Directory,
                    identity: Identity::default(),
                    mode: 0o1777,
                    ..file(0)
                },
            ),
            ("a/b", file(u64::MAX)),
            (
                "a/bc",
                Facts {
                    kind: EntryKind::Link,
                    body: Body::Text(b"\xffsomewhere"),
                    ..file(10)
                },
            ),
            (
                "b",
                Facts {
                    identity: Identity {
                        modified: Moment {
                            seconds: -5,
                            nanos: 999_999_999,
                        },
                        ..file(3).identity
                    },
                    age: Age::Fresh,
                    body: Body::Content(digest),
                    ..file(3)
                },
            ),
            (
                "c",
                Facts {
                    kind: EntryKind::Special,
                    ..file(0)
                },
            ),
        ];
        let manifest = manifest(&all);
        assert_eq!(manifest.entries(), 5);
        let mut cursor = manifest.cursor();
        for (path, facts) in &all {
            assert_eq!(cursor.advance().as_ref(), Some(facts));
            assert_eq!(cursor.path(), path.as_bytes());
        }
        assert_eq!(cursor.advance(), None);
    }

    #[test]
    fn seeking_finds_what_is_there_and_passes_what_is_not() {
        let manifest = manifest(&[("b", file(1)), ("d", file(2)), ("d/e", file(3))]);
        let mut cursor = manifest.cursor();
        let sizes: Vec<_> = ["a", "b", "c", "d", "d/e", "f"]
            .iter()
            .map(|path| {
                cursor
                    .seek(path.as_bytes())
                    .map(|facts| facts.identity.size)
            })
            .collect();
        assert_eq!(sizes, [None, Some(1), None, Some(2), Some(3), None]);
    }

    #[test]
    fn a_name_that_comes_twice_is_kept_once() {
        let manifest = manifest(&[("a", file(1)), ("a", file(2)), ("b", file(3))]);
        assert_eq!(manifest.entries(), 2);
    }

    /// A tree is kept as a base: its size is what bounds how large a tree may be.
    #[test]
    fn a_hundred_thousand_entries_with_content_take_less_than_ten_megabytes() {
        let mut builder = Builder::default();
        for number in 0..100_000_u32 {
            let path = format!(
                "workspace/crates/crate-{:04}/src/module_{:02}/source_file_{:06}.rs",
                number / 100,
                number / 10 % 10,
                number
            );
            let facts = Facts {
                body: Body::Content(Digest::from_bytes([1; 32])),
                ..file(u64::from(number))
            };
            builder.push(path.as_bytes(), &facts);
        }
        let manifest = builder.finish(Coverage::default());
        assert_eq!(manifest.entries(), 100_000);
        assert!(manifest.bytes() < 10_000_000, "{}", manifest.bytes());
    }
}

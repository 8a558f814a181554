//! What a walk notes of each entry, and all of it in order.
//!
//! Each thread notes by itself, names one behind the other; put in order, the notes of all threads
//! are one list.

use std::ffi::CString;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;
use sandbox_core::file::EntryKind;
use sandbox_tree::walk::{Entry, Visitor};

use super::content::together;
use super::coverage::{Coverage, Cut};
use super::manifest::Identity;
use super::moment::Moment;
use crate::file::stat::kind;

/// Most bytes that are noted before they become a record: some three million entries.
const MAX_BYTES: usize = 512 << 20;

/// What all threads of a walk share.
#[derive(Debug)]
pub(super) struct Shared {
    limit: u64,
    entries: AtomicU64,
    bytes: AtomicUsize,
    cut: Mutex<Option<Cut>>,
}

impl Shared {
    /// - `limit`: most entries that are noted
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            entries: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            cut: Mutex::new(None),
        }
    }

    /// The notes of one thread.
    pub(super) fn notes(&self) -> Notes<'_> {
        Notes {
            shared: self,
            items: Vec::new(),
            bytes: Vec::new(),
            coverage: Coverage::default(),
        }
    }

    /// Why the walk was ended by what it found.
    pub(super) fn cut(&self) -> Option<Cut> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Cut>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one thread notes.
#[derive(Debug)]
pub(super) struct Notes<'s> {
    shared: &'s Shared,
    items: Vec<Item>,
    /// Paths, each followed by the text of a link.
    bytes: Vec<u8>,
    coverage: Coverage,
}

/// An entry that was noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    start: usize,
    path: u32,
    text: Option<u32>,
    pub(super) kind: EntryKind,
    pub(super) mode: u32,
    pub(super) identity: Identity,
}

impl Item {
    fn path<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start..][..self.path as usize]
    }

    fn text<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let length = self.text? as usize;
        Some(&bytes[self.start + self.path as usize..][..length])
    }
}

impl Notes<'_> {
    /// Ends the walk.
    fn cut(&self, cut: Cut) -> ControlFlow<()> {
        self.shared.lock().get_or_insert(cut);
        ControlFlow::Break(())
    }
}

impl Visitor for Notes<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
        let stat = match entry.stat() {
            Ok(stat) => stat,
            // Gone since the directory was read.
            Err(Errno::NOENT) => return ControlFlow::Continue(()),
            Err(_) => {
                self.coverage.unread(entry.path());
                return ControlFlow::Continue(());
            }
        };
        let kind = kind(&stat);
        let text = match kind {
            EntryKind::Link => {
                rustix::fs::readlinkat(entry.directory(), entry.name(), Vec::new()).ok()
            }
            _ => None,
        };
        if self.shared.entries.fetch_add(1, Ordering::Relaxed) >= self.shared.limit {
            return self.cut(Cut::Limit(self.shared.limit));
        }
        let path = entry.path();
        let text = text.as_ref().map(CString::as_bytes);
        let bytes = size_of::<Item>() + path.len() + text.map_or(0, <[u8]>::len);
        if self.shared.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_BYTES {
            return self.cut(Cut::Memory);
        }
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.items.push(Item {
            start: self.bytes.len(),
            path: length(path),
            text: text.map(length),
            kind,
            mode: stat.st_mode & 0o7777,
            identity: match kind {
                EntryKind::Directory => Identity::default(),
                _ => Identity::of(&stat),
            },
        });
        self.bytes.extend_from_slice(path);
        self.bytes.extend_from_slice(text.unwrap_or_default());
        ControlFlow::Continue(())
    }
}

impl Identity {
    /// That of what was looked at.
    #[expect(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the types differ between architectures"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        // Below 1,000,000,000.
        let nanos = |nanos: u64| u32::try_from(nanos).unwrap_or(0);
        Self {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: Moment {
                seconds: stat.st_mtime as i64,
                nanos: nanos(stat.st_mtime_nsec as u64),
            },
            changed: Moment {
                seconds: stat.st_ctime as i64,
                nanos: nanos(stat.st_ctime_nsec as u64),
            },
            inode: stat.st_ino.into(),
        }
    }
}

/// Everything that was noted, in the order of the paths.
#[derive(Debug)]
pub(super) struct Sorted<'n> {
    /// Paths and texts of each thread.
    bytes: Vec<&'n [u8]>,
    /// Each with the thread that noted it.
    items: Vec<(usize, &'n Item)>,
}

/// Puts the notes of all threads in order, and what they could not see together.
pub(super) fn sort<'n>(notes: &'n mut [Notes<'_>]) -> (Sorted<'n>, Coverage) {
    let parts = notes.len();
    let next = Mutex::new(notes.iter_mut());
    together(parts, || {
        loop {
            let note = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(Notes { items, bytes, .. }) = note else {
                break;
            };
            items.sort_unstable_by(|one, other| one.path(bytes).cmp(other.path(bytes)));
        }
    });
    let mut coverage = Coverage::default();
    let mut heads = Vec::new();
    let mut bytes = Vec::new();
    for note in notes.iter() {
        coverage.merge(note.coverage.clone());
        heads.push(note.items.iter().peekable());
        bytes.push(note.bytes.as_slice());
    }
    let mut items = Vec::with_capacity(notes.iter().map(|note| note.items.len()).sum());
    loop {
        let first = heads
            .iter_mut()
            .enumerate()
            .filter_map(|(at, head)| Some((head.peek()?.path(bytes[at]), at)))
            .min();
        let Some((_, at)) = first else { break };
        items.extend(heads[at].next().map(|item| (at, item)));
    }
    (Sorted { bytes, items }, coverage)
}

impl Sorted<'_> {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// What was noted of an entry.
    pub(super) fn item(&self, at: usize) -> &Item {
        self.items[at].1
    }

    /// The path of an entry.
    pub(super) fn path(&self, at: usize) -> &[u8] {
        let (thread, item) = self.items[at];
        item.path(self.bytes[thread])
    }

    /// The text of a link.
    pub(super) fn text(&self, at: usize) -> Option<&[u8]> {
        let (thread, item) = self.items[at];
        item.text(self.bytes[thread])
    }
}

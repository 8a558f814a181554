//! How far a push or a pull has come, for whoever shows it meanwhile.
//!
//! Counted where the work is done, read from wherever: nobody who shows it can slow the work down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a push or a pull has come. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    entries: Arc<AtomicU64>,
    bytes: AtomicU64,
    /// One more than the entries there are; zero while that is not known.
    expected: AtomicU64,
}

impl Tally {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Entries that were looked at, by a push, or that came, in a pull.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.0.entries.load(Ordering::Relaxed)
    }

    /// Bytes of the archive that were handed on.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// How many entries there are. A push knows once it has listed them, a pull never.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        self.0.expected.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(super) fn expect(&self, entries: usize) {
        self.0.expected.store(entries as u64 + 1, Ordering::Relaxed);
    }

    pub(super) fn done(&self) {
        self.0.entries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn carried(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn entries_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.entries)
    }
}

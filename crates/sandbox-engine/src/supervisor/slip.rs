//! The memory in which a leader leaves word for its supervisor.
//!
//! A leader shares its supervisor's memory until it executes, so it can say what it has to without a
//! descriptor and without waking anybody: the supervisor looks when something else wakes it. That
//! there is no sharing any more is told by the kernel itself, which clears [`Slip::shared`] when a
//! process leaves the memory it ran in, be it to execute or to end.
//!
//! **Invariant:** there is one leader at a time, so each field has one writer at a time: the supervisor
//! while there is none ([`clear`]), the leader afterwards. `taken` is written last.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;

use super::wire::Stage;

/// What a leader says. See the [module](self).
pub(super) struct Slip {
    /// Not 0 as long as the leader shares this memory: it has not executed, and not ended.
    pub(super) shared: AtomicU32,
    /// Not 0 once the leader has begun to receive a run.
    receiving: AtomicU32,
    /// The number of the run that was taken, from 1 on; 0 while the leader waits.
    taken: AtomicU64,
    timeout_ms: AtomicU64,
    grace_ms: AtomicU64,
    announce_ms: AtomicU64,
    begun: AtomicU64,
    /// Code of the stage that failed; 0 if none has.
    failed: AtomicU64,
    errno: AtomicI32,
    /// Where a long image was mapped.
    mapped: AtomicUsize,
    mapped_bytes: AtomicUsize,
}

/// What a run is told to keep, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Its number.
    pub(super) run: u64,
    /// When it was taken ([`now`](super::sys::now)).
    pub(super) begun: u64,
    /// After this long the tree is ended; 0: never.
    pub(super) timeout_ms: u64,
    /// How politely.
    pub(super) grace_ms: u64,
    /// After this long it is told that the program runs.
    pub(super) announce_ms: u64,
}

/// The slip of this process. (In the engine it is there too, and nobody looks at it.)
pub(super) static SLIP: Slip = Slip {
    shared: AtomicU32::new(0),
    receiving: AtomicU32::new(0),
    taken: AtomicU64::new(0),
    timeout_ms: AtomicU64::new(0),
    grace_ms: AtomicU64::new(0),
    announce_ms: AtomicU64::new(0),
    begun: AtomicU64::new(0),
    failed: AtomicU64::new(0),
    errno: AtomicI32::new(0),
    mapped: AtomicUsize::new(0),
    mapped_bytes: AtomicUsize::new(0),
};

impl Slip {
    /// Makes it ready for the next leader, and returns where the last one mapped an image.
    pub(super) fn clear(&self) -> Option<(usize, usize)> {
        self.receiving.store(0, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.shared.store(1, Ordering::Release);
        let bytes = self.mapped_bytes.swap(0, Ordering::Acquire);
        (bytes > 0).then(|| (self.mapped.load(Ordering::Relaxed), bytes))
    }

    /// Says that a run is being received: from here on it may be gone with the leader.
    pub(super) fn begin_receiving(&self) {
        self.receiving.store(1, Ordering::Release);
    }

    /// Whether a run was being received.
    pub(super) fn was_receiving(&self) -> bool {
        self.receiving.load(Ordering::Acquire) != 0
    }

    /// Says that a run was taken.
    pub(super) fn take(&self, terms: Terms) {
        self.timeout_ms.store(terms.timeout_ms, Ordering::Relaxed);
        self.grace_ms.store(terms.grace_ms, Ordering::Relaxed);
        self.announce_ms.store(terms.announce_ms, Ordering::Relaxed);
        self.begun.store(terms.begun, Ordering::Relaxed);
        self.taken.store(terms.run, Ordering::Release);
    }

    /// The run that was taken.
    pub(super) fn taken(&self) -> Option<Terms> {
        let run = self.taken.load(Ordering::Acquire);
        (run > 0).then(|| Terms {
            run,
            begun: self.begun.load(Ordering::Relaxed),
            timeout_ms: self.timeout_ms.load(Ordering::Relaxed),
            grace_ms: self.grace_ms.load(Ordering::Relaxed),
            announce_ms: self.announce_ms.load(Ordering::Relaxed),
        })
    }

    /// Says that nothing can be executed, and why.
    pub(super) fn fail(&self, (stage, errno): (Stage, i32)) {
        self.errno.store(errno, Ordering::Relaxed);
        self.failed.store(stage.code(), Ordering::Release);
    }

    /// Why nothing was executed.
    pub(super) fn failure(&self) -> Option<(Stage, i32)> {
        let stage = Stage::from_code(self.failed.load(Ordering::Acquire))?;
        Some((stage, self.errno.load(Ordering::Relaxed)))
    }

    /// Says where a long image was mapped, for whoever is left with it.
    pub(super) fn note_mapped(&self, (start, bytes): (usize, usize)) {
        self.mapped.store(start, Ordering::Relaxed);
        self.mapped_bytes.store(bytes, Ordering::Release);
    }

    /// Whether the leader has executed or ended; waits for that, at most this long.
    pub(super) fn has_left(&self, patience: Duration) -> bool {
        if self.shared.load(Ordering::Acquire) != 0 && !patience.is_zero() {
            let patience = Timespec::try_from(patience).ok();
            // Woken or not, what counts is what is there afterwards. Not a private futex: the kernel
            // wakes as the owner of one that is not.
            let _ = futex::wait(&self.shared, futex::Flags::empty(), 1, patience.as_ref());
        }
        self.shared.load(Ordering::Acquire) == 0
    }
}

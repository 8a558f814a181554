//! One output stream: everything that can be read back, and the tail of what cannot.
//!
//! A log is a window `[start, kept)` of the stream, by absolute offset, beside `total`, the number of
//! bytes the process wrote. Until the log is full `kept` is `total`. Beyond that, what follows is
//! counted, and its last bytes stay in a ring, so that an outcome has its tail: an error message is
//! usually the last thing that a failing command says.
//!
//! **Invariants.** `start <= kept <= total`. A byte is in the window, in the ring, or counted as
//! unlogged; never silently none of them.
//!
//! Not here: reading the pipe (`pump`), sharing space between logs (`budget`).

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use sandbox_core::output::cut;
use sandbox_core::process::{BeyondLog, Output, OutputPolicy};
use tokio::sync::Notify;

use super::budget::Budget;
use super::store::Store;

/// What the pump has to do after it added something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// Go on.
    Fine,
    /// The log is full, and the policy wants the process ended.
    Over,
}

/// A log. See the [module](self).
#[derive(Debug)]
pub(super) struct Log {
    state: Mutex<State>,
    changed: Notify,
    policy: OutputPolicy,
    directory: PathBuf,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct State {
    store: Store,
    /// First byte that a reader can get.
    start: u64,
    /// Everything between the head and this was given back.
    released: u64,
    /// Bytes of the budget that this log has.
    held: u64,
    /// End of what is in the store.
    kept: u64,
    total: u64,
    /// Why nothing is added any more although the stream goes on.
    closed: Option<Closed>,
    /// The last bytes after `kept`.
    ring: VecDeque<u8>,
    /// A full log no longer makes the process wait.
    unblocked: bool,
    ended: bool,
}

#[derive(Clone, Debug)]
enum Closed {
    Full,
    Failed(String),
}

/// A piece of a log, as it was read.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    pub(super) total: u64,
    pub(super) ended: bool,
}

impl Log {
    pub(super) fn new(policy: OutputPolicy, directory: PathBuf, budget: Arc<Budget>) -> Self {
        // A head that the log could not hold would be lost to the outcome.
        let policy = OutputPolicy {
            log: policy.log.max(policy.head),
            ..policy
        };
        let state = State {
            store: Store::new(),
            start: 0,
            released: 0,
            held: 0,
            kept: 0,
            total: 0,
            closed: None,
            ring: VecDeque::new(),
            unblocked: false,
            ended: false,
        };
        Log {
            state: Mutex::new(state),
            changed: Notify::new(),
            policy,
            directory,
            budget,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many more bytes may be read from the process now: a full log makes it wait if the policy
    /// says so.
    pub(super) fn room(&self) -> u64 {
        let state = self.state();
        match self.policy.beyond {
            BeyondLog::Block if state.closed.is_none() && !state.unblocked => {
                self.policy.log.saturating_sub(state.total - state.start)
            }
            BeyondLog::Block | BeyondLog::Drop | BeyondLog::Kill => u64::MAX,
        }
    }

    /// Adds what the process wrote.
    pub(super) fn add(&self, bytes: &[u8]) -> Added {
        let added = {
            let mut state = self.state();
            let logged = self.keep(&mut state, bytes);
            state.total += bytes.len() as u64;
            let rest = bytes.get(logged..).unwrap_or_default();
            state.remember(rest, self.policy.tail);
            match (&state.closed, self.policy.beyond) {
                (Some(Closed::Full), BeyondLog::Kill) => Added::Over,
                _ => Added::Fine,
            }
        };
        self.changed.notify_waiters();
        added
    }

    /// Stores what fits, and says how much that was.
    fn keep(&self, state: &mut State, bytes: &[u8]) -> usize {
        if state.closed.is_some() {
            return 0;
        }
        let room = if state.unblocked {
            u64::MAX
        } else {
            self.policy.log.saturating_sub(state.kept - state.start)
        };
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let fitting = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        if !self.budget.take(fitting.len() as u64) {
            state.closed = Some(Closed::Failed("the logs of this sandbox are full".into()));
            return 0;
        }
        match state.store.append(state.kept, fitting, &self.directory) {
            Ok(()) => {
                state.kept += fitting.len() as u64;
                state.held += fitting.len() as u64;
                if fitting.len() < bytes.len() {
                    state.closed = Some(Closed::Full);
                }
                fitting.len()
            }
            Err(error) => {
                self.budget.give_back(fitting.len() as u64);
                state.closed = Some(Closed::Failed(format!(
                    "the log could not be written: {error}"
                )));
                0
            }
        }
    }

    /// Stops making the process wait, because it has ended: what is still in its pipe is taken even
    /// if nobody made room for it.
    pub(super) fn unblock(&self) {
        if self.policy.beyond == BeyondLog::Block {
            self.state().unblocked = true;
            self.changed.notify_waiters();
        }
    }

    /// Says that nothing follows.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_waiters();
    }

    /// Gives up what lies before `from`, if that is the policy. Head and tail stay for the outcome.
    pub(super) fn release(&self, from: u64) {
        if self.policy.beyond != BeyondLog::Block {
            return;
        }
        {
            let mut state = self.state();
            let from = from.min(state.kept);
            if from <= state.start {
                return;
            }
            state.start = from;
            let to = from.min(state.kept.saturating_sub(self.policy.tail));
            let since = state.released.max(self.policy.head);
            if to > since {
                state.store.release(since, to);
                state.released = to;
                state.held = state.held.saturating_sub(to - since);
                self.budget.give_back(to - since);
            }
        }
        self.changed.notify_waiters();
    }

    /// Says that nobody needs it for an answer any more, so that it may give way to newer ones.
    pub(super) fn finish(self: &Arc<Self>) {
        self.budget.finished(self);
    }

    /// Reads up to `max` bytes from `from` on, or from where the window starts.
    pub(super) fn read(&self, from: u64, max: usize) -> std::io::Result<Piece> {
        let state = self.state();
        let offset = from.max(state.start);
        let available = usize::try_from(state.kept.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = match available.min(max) {
            0 => Vec::new(),
            length => state.store.read(offset, length)?,
        };
        // What was dropped is skipped, so that a reader that follows the offset gets to the end.
        let offset = if available == 0 {
            offset.max(state.total)
        } else {
            offset
        };
        Ok(Piece {
            offset,
            bytes: Bytes::from(bytes),
            total: state.total,
            ended: state.ended,
        })
    }

    /// Whether a reader at `from` would get anything: bytes, or the news that some were dropped.
    pub(super) fn has_news(&self, from: u64) -> bool {
        let state = self.state();
        state.total > from || state.ended
    }

    /// Resolves when something changes after this was called.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Forgets everything, to make room for others.
    pub(super) fn discard(&self) {
        let mut state = self.state();
        self.budget.give_back(std::mem::take(&mut state.held));
        state.store = Store::new();
        state.start = state.kept;
        state.released = state.kept;
        state
            .closed
            .get_or_insert(Closed::Failed("it gave way to newer logs".into()));
    }

    /// Head and tail as the policy wants them.
    pub(super) fn output(&self) -> Output {
        let OutputPolicy { head, tail, .. } = self.policy;
        let state = self.state();
        let total = state.total;
        let log_failure = match &state.closed {
            Some(Closed::Failed(reason)) => Some(reason.clone()),
            Some(Closed::Full) | None => None,
        };
        let ring_start = total - state.ring.len() as u64;
        // Between the log and the ring, where the stream outgrew both.
        let gap = ring_start > state.kept;
        let (first, last) = if total <= head.saturating_add(tail) && !gap {
            (state.range(0, total), Bytes::new())
        } else {
            let to = if gap {
                head.min(state.kept)
            } else {
                head.min(total)
            };
            let from = total
                .saturating_sub(tail)
                .max(if gap { ring_start } else { to });
            (state.range(0, to), state.range(from, total))
        };
        // Pieces that the disk would not take or give are missing like any others.
        Output {
            unlogged: total - state.kept,
            log_failure,
            ..cut(first, last, total)
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let held = self.state().held;
        self.budget.give_back(held);
    }
}

impl State {
    /// Keeps the last `most` bytes of what the log does not have.
    fn remember(&mut self, bytes: &[u8], most: u64) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let bytes = bytes
            .get(bytes.len().saturating_sub(most)..)
            .unwrap_or_default();
        let over = (self.ring.len() + bytes.len()).saturating_sub(most);
        self.ring.drain(..over.min(self.ring.len()));
        self.ring.extend(bytes);
    }

    /// A range that no gap lies in, from the store and then from the ring.
    fn range(&self, from: u64, to: u64) -> Bytes {
        let mut all = BytesMut::new();
        if from < self.kept {
            let length = usize::try_from(to.min(self.kept) - from).unwrap_or(usize::MAX);
            all.extend_from_slice(&self.store.read(from, length).unwrap_or_default());
        }
        if to > self.kept {
            let ring_start = self.total - self.ring.len() as u64;
            let skip = usize::try_from(from.saturating_sub(ring_start)).unwrap_or(usize::MAX);
            let end = usize::try_from(to.saturating_sub(ring_start)).unwrap_or(0);
            all.extend(self.ring.iter().take(end).skip(skip));
        }
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(head: u64, tail: u64, log: u64, beyond: BeyondLog) -> Log {
        let policy = OutputPolicy {
            head,
            tail,
            log,
            beyond,
        };
        Log::new(policy, std::env::temp_dir(), Arc::new(Budget::new(1 << 30)))
    }

    fn numbered(length: u32) -> Vec<u8> {
        (0..length)
            .map(|at| b'a' + u8::try_from(at % 26).expect("small"))
            .collect()
    }

    #[test]
    fn a_short_stream_is_all_head() {
        let log = log(10, 10, 100, BeyondLog::Drop);
        log.add(b"hello ");
        log.add(b"there");
        let output = log.output();
        assert_eq!(
            (&output.head[..], &output.tail[..]),
            (&b"hello there"[..], &b""[..])
        );
        assert_eq!((output.dropped, output.total, output.unlogged), (0, 11, 0));
    }

    #[test]
    fn head_and_tail_are_right_wherever_the_log_ends() {
        let all = numbered(2000);
        for size in [64, 100, 128, 1000, 1990, 1999, 2000, 5000] {
            for piece in [1, 7, 64, 999, 2000] {
                let log = log(64, 32, size, BeyondLog::Drop);
                for bytes in all.chunks(piece) {
                    log.add(bytes);
                }
                let output = log.output();
                assert_eq!(output.head, all[..64], "log {size}, pieces of {piece}");
                assert_eq!(
                    output.tail,
                    all[2000 - 32..],
                    "log {size}, pieces of {piece}"
                );
                assert_eq!((output.total, output.dropped), (2000, 2000 - 96));
                assert_eq!(output.unlogged, 2000_u64.saturating_sub(size));
            }
        }
    }

    #[test]
    fn a_reader_by_offset_sees_the_window_and_is_told_what_it_missed() {
        let log = log(0, 4, 10, BeyondLog::Drop);
        log.add(&numbered(15));
        let piece = log.read(4, 100).expect("readable");
        assert_eq!(
            (piece.offset, &piece.bytes[..], piece.total),
            (4, &b"efghij"[..], 15)
        );
        let piece = log.read(10, 100).expect("readable");
        assert_eq!((piece.offset, piece.bytes.len()), (15, 0));
    }

    #[test]
    fn a_blocking_log_makes_room_only_when_it_is_read() {
        let log = log(4, 4, 1000, BeyondLog::Block);
        log.add(&numbered(1000));
        assert_eq!(log.room(), 0);
        log.release(600);
        assert_eq!(log.room(), 600);
        log.add(&numbered(600));
        assert_eq!(
            (log.room(), log.read(0, 1).expect("readable").offset),
            (0, 600)
        );
        assert_eq!(log.output().head, numbered(4));
    }

    #[test]
    fn a_log_over_its_limit_is_reported_only_if_that_is_the_policy() {
        assert_eq!(
            log(0, 4, 10, BeyondLog::Kill).add(&numbered(10)),
            Added::Fine
        );
        assert_eq!(
            log(0, 4, 10, BeyondLog::Kill).add(&numbered(11)),
            Added::Over
        );
        assert_eq!(
            log(0, 4, 10, BeyondLog::Drop).add(&numbered(11)),
            Added::Fine
        );
    }

    #[test]
    fn old_logs_give_way_and_running_ones_say_that_they_are_short() {
        let budget = Arc::new(Budget::new(100));
        let policy = OutputPolicy {
            head: 0,
            tail: 4,
            log: 1000,
            beyond: BeyondLog::Drop,
        };
        let new = || Arc::new(Log::new(policy, std::env::temp_dir(), Arc::clone(&budget)));
        let old = new();
        old.add(&numbered(80));
        old.end();
        budget.finished(&old);
        let young = new();
        young.add(&numbered(90));
        assert_eq!(young.output().unlogged, 0);
        assert_eq!(
            old.read(0, 10).expect("readable").bytes.len(),
            0,
            "the old log kept its bytes"
        );
        young.add(&numbered(90));
        let output = young.output();
        assert_eq!((output.unlogged, output.tail.len()), (90, 4));
        assert!(output.log_failure.is_some());
        drop((old, young));
        assert!(budget.take(100), "space was lost");
    }

    #[test]
    fn cuts_never_split_a_character() {
        let text = "你好".repeat(100);
        for head in 0..12 {
            for tail in 0..12 {
                let log = log(head, tail, 1000, BeyondLog::Drop);
                log.add(text.as_bytes());
                let output = log.output();
                assert!(std::str::from_utf8(&output.head).is_ok(), "head {head}");
                assert!(std::str::from_utf8(&output.tail).is_ok(), "tail {tail}");
                let shown = (output.head.len() + output.tail.len()) as u64;
                assert_eq!(output.dropped + shown, output.total);
            }
        }
    }
}

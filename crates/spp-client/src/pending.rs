//! The calls that are under way, and the random ids they have on the wire.
//!
//! An id is drawn for each call from 53 random bits, so that a peer cannot answer a call before
//! it has seen it, nor one that is not its own. An entry lives from the moment the call is made
//! until its answer is here, even if the caller has long dropped it: its slot is taken that long.
//!
//! **Invariant:** `$/cancel` never overtakes the request it is for. While the request is still on
//! its way to the writer the wish is noted, and [`PendingCalls::sent`] says that it is due.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox_core::{Progress, Verb};
use spp_link::Taken;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

/// The table of calls under way.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls(Mutex<HashMap<u64, PendingCall>>);

/// One call under way.
#[derive(Debug)]
pub(crate) struct PendingCall {
    /// Streams from the peer that end with the answer.
    pub(crate) streams: Vec<u64>,
    /// Where progress is told.
    pub(crate) progress: Option<mpsc::Sender<Progress>>,
    /// What was asked for.
    pub(crate) verb: Verb,
    /// How long the peer may take to answer once the call is cancelled.
    pub(crate) patience: Duration,
    /// The call's slot, free again when the entry is dropped; `None` for what needs none.
    _slot: Option<OwnedSemaphorePermit>,
    /// Whether the peer may have seen the request.
    pub(crate) taken: Arc<Taken>,
    /// The result, once the answer is here.
    pub(crate) result: Arc<ResultSlot>,
    sent: bool,
    cancelled: Option<Instant>,
}

/// Where the result of a call is put by the reader, for whoever made the call: JSON, or what was said to
/// be.
#[derive(Debug, Default)]
pub(crate) struct ResultSlot(Mutex<Option<String>>);

impl ResultSlot {
    pub(crate) fn put(&self, result: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl PendingCall {
    pub(crate) fn new(verb: Verb, slot: Option<OwnedSemaphorePermit>, patience: Duration) -> Self {
        Self {
            verb,
            streams: Vec::new(),
            progress: None,
            patience,
            _slot: slot,
            taken: Arc::default(),
            result: Arc::default(),
            sent: false,
            cancelled: None,
        }
    }
}

impl PendingCalls {
    pub(crate) fn insert(&self, id: u64, call: PendingCall) {
        self.lock().insert(id, call);
    }

    /// Takes a call whose answer is here.
    pub(crate) fn take(&self, id: u64) -> Option<PendingCall> {
        let mut calls = self.lock();
        match calls.get(&id) {
            // An answer before the request was written can only be a guess.
            Some(call) if call.taken.is_set() => calls.remove(&id),
            _ => None,
        }
    }

    /// Takes back a call whose request was never sent.
    pub(crate) fn forget(&self, id: u64) {
        self.lock().remove(&id);
    }

    /// The request is handed to the writer. Returns the flag that the writer sets, and whether a
    /// `$/cancel` is due right behind it; `None` if no such call is under way.
    pub(crate) fn sent(&self, id: u64) -> Option<(Arc<Taken>, bool)> {
        let mut calls = self.lock();
        let call = calls.get_mut(&id)?;
        call.sent = true;
        Some((Arc::clone(&call.taken), call.cancelled.is_some()))
    }

    /// The caller no longer wants the call. Returns whether `$/cancel` is to be sent now.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        let mut calls = self.lock();
        let Some(call) = calls.get_mut(&id) else {
            return false;
        };
        let first = call.cancelled.is_none();
        call.cancelled.get_or_insert_with(Instant::now);
        first && call.sent
    }

    pub(crate) fn progress(&self, id: u64, progress: Progress) {
        if let Some(listener) = self.lock().get(&id).and_then(|call| call.progress.as_ref()) {
            // A listener that is behind misses a step; the next one tells it more.
            let _ = listener.try_send(progress);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// A cancelled call that the peer owes an answer for longer than it may take.
    pub(crate) fn overdue(&self) -> Option<(Verb, Duration)> {
        self.lock()
            .values()
            .find(|call| {
                call.cancelled
                    .is_some_and(|since| since.elapsed() > call.patience)
            })
            .map(|call| (call.verb, call.patience))
    }

    /// Forgets every call: the connection is gone.
    pub(crate) fn clear(&self) {
        let calls = std::mem::take(&mut *self.lock());
        drop(calls);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, PendingCall>> {
        // Nothing that runs under the lock can panic half-way, so a poisoned state is a good one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A random integer below 2^53, for ids of calls and streams.
///
/// # Panics
///
/// If the operating system has no random numbers: ids that can be guessed are no ids.
pub(crate) fn random_id() -> u64 {
    let random = getrandom::u64().expect("the operating system gives random numbers");
    random >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> PendingCall {
        PendingCall::new(Verb::Read, None, Duration::from_secs(5))
    }

    #[test]
    fn an_answer_that_comes_before_its_request_was_written_is_a_guess() {
        let calls = PendingCalls::default();
        calls.insert(7, call());
        let (taken, _) = calls.sent(7).expect("the call is under way");
        assert!(calls.take(7).is_none());
        taken.set();
        assert!(calls.take(7).is_some());
        assert!(calls.take(7).is_none(), "one answer per call");
    }

    #[test]
    fn a_cancel_never_overtakes_its_request_and_is_sent_once() {
        let calls = PendingCalls::default();
        calls.insert(1, call());
        assert!(!calls.cancel(1), "the request is not on its way yet");
        let (_, due) = calls.sent(1).expect("the call is under way");
        assert!(due);
        assert!(!calls.cancel(1), "the wish was sent already");

        calls.insert(2, call());
        calls.sent(2).expect("the call is under way");
        assert!(calls.cancel(2));
        assert!(!calls.cancel(2));
        assert!(!calls.cancel(3), "nobody knows this call");
    }

    #[test]
    fn ids_are_exact_in_every_json_library() {
        for _ in 0..1000 {
            assert!(random_id() < 1 << 53);
        }
    }
}

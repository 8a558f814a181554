//! What one connection knows: its calls, its sandboxes, what the host said in `initialize`.
//!
//! **Invariants.** A sandbox is found only under the generation that it was given out with; another
//! one is `Lost`, never the new tree in the old one's place. A handle that is released is dropped
//! here at once, so that what it holds can end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use sandbox_core::id::MAX_ID_BYTES;
use sandbox_core::{
    Closed, Ctx, Disposition, Error, ErrorKind, Provider, ProviderInfo, Result, Sandbox, SandboxId,
    Verb,
};
use spp_link::{Lanes, Receivers, Senders};
use spp_protocol::limits::Limits;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::call::{Call, Id};
use crate::junk::Junk;
use crate::lease::Leases;
use crate::serve::LogLevel;
use crate::{failure, notice};

/// Places for calls that may begin when all others are taken.
const ENDING_PLACES: usize = 256;

/// The state of one connection.
pub(crate) struct Session {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) info: Arc<ProviderInfo>,
    pub(crate) lanes: Lanes,
    pub(crate) senders: Senders,
    pub(crate) receivers: Receivers,
    /// What this side receives at most.
    pub(crate) limits: Limits,
    /// Tells this start of the provider from every other.
    pub(crate) instance: String,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) junk: Junk,
    pub(crate) leases: Leases,
    /// What the host receives at most; set by `initialize`.
    host: OnceLock<Limits>,
    draining: AtomicBool,
    /// Answers that wait for a place among the data.
    pub(crate) long_answers: AtomicUsize,
    calls: Mutex<HashMap<Id, Call>>,
    call_ended: Notify,
    sandboxes: Mutex<HashMap<SandboxId, Entry>>,
    /// Sandboxes that were lost, with the reason, so that a late verb is told.
    lost: Mutex<HashMap<SandboxId, String>>,
}

struct Entry {
    sandbox: Arc<dyn Sandbox>,
    generation: u64,
    outlives: Outlives,
    /// How long the host may be silent.
    lease: Option<Duration>,
    watcher: AbortHandle,
}

/// Whether a sandbox outlives the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlives {
    No,
    ForAWhile,
}

/// Why a request is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBegun {
    DuplicateId,
    TooMany,
}

impl Session {
    pub(crate) fn new(
        provider: Arc<dyn Provider>,
        lanes: Lanes,
        senders: Senders,
        receivers: Receivers,
        limits: Limits,
        instance: String,
        log_level: Option<LogLevel>,
    ) -> Self {
        Self {
            info: provider.info(),
            provider,
            lanes,
            senders,
            receivers,
            limits,
            instance,
            log_level,
            junk: Junk::default(),
            leases: Leases::default(),
            host: OnceLock::new(),
            draining: AtomicBool::new(false),
            long_answers: AtomicUsize::new(0),
            calls: Mutex::default(),
            call_ended: Notify::new(),
            sandboxes: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// The host's limits, once it has initialized the connection.
    pub(crate) fn host(&self) -> Option<&Limits> {
        self.host.get()
    }

    /// Opens the connection for verbs. `false` if it was open already.
    pub(crate) fn initialize(&self, host: Limits) -> bool {
        if self.host.set(host).is_err() {
            return false;
        }
        self.senders.set_window(host.window);
        true
    }

    /// The longest line in either direction, in bytes without its end: this side's own limit until the host
    /// has said its.
    pub(crate) fn max_line(&self) -> usize {
        let theirs = self.host().map_or(u64::MAX, |host| host.max_line_bytes);
        usize::try_from(self.limits.max_line_bytes.min(theirs)).unwrap_or(usize::MAX)
    }

    /// Requests at once.
    pub(crate) fn places(&self) -> usize {
        let theirs = self.host().map_or(u32::MAX, |host| host.max_in_flight);
        self.limits.max_in_flight.min(theirs) as usize
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// No new work from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Registers a call. `exempt`: it may begin even when all places are taken.
    ///
    /// Whoever waits for an answer counts, also when the place of the call is free again and only
    /// its long answer still waits for the host to read.
    pub(crate) fn begin(&self, id: Id, exempt: bool) -> Result<Call, NotBegun> {
        let mut calls = self.calls();
        if calls.contains_key(&id) {
            return Err(NotBegun::DuplicateId);
        }
        let places = self.places();
        let taken = if exempt {
            calls.len() >= places.saturating_add(ENDING_PLACES)
        } else {
            calls.len() >= places || self.long_answers.load(Ordering::SeqCst) >= places
        };
        if taken {
            return Err(NotBegun::TooMany);
        }
        let call = Call::new(id);
        calls.insert(id, call.clone());
        Ok(call)
    }

    /// The call's answer is about to be queued: its id and its place are free.
    pub(crate) fn end(&self, call: &Call) {
        self.calls().remove(&call.id());
        self.call_ended.notify_waiters();
    }

    pub(crate) fn cancel(&self, id: Id) {
        if let Some(call) = self.calls().get(&id) {
            call.cancel().cancel();
        }
    }

    /// Cancels every call but `except`.
    pub(crate) fn cancel_all(&self, except: Option<Id>) {
        let calls: Vec<Call> = self.calls().values().cloned().collect();
        for call in calls {
            if Some(call.id()) != except {
                call.cancel().cancel();
            }
        }
    }

    /// Resolves when no call but `except` is under way.
    pub(crate) async fn idle(&self, except: Id) {
        loop {
            let ended = self.call_ended.notified();
            if self.calls().keys().all(|id| *id == except) {
                return;
            }
            ended.await;
        }
    }

    /// The sandbox of that id and life.
    pub(crate) fn sandbox(
        &self,
        verb: Verb,
        (id, generation): (&str, u64),
    ) -> Result<Arc<dyn Sandbox>> {
        let refused = |kind| Error::refused(verb, kind).on(failure::beginning(id, MAX_ID_BYTES));
        let id_of = SandboxId::new(id)
            .map_err(|error| refused(ErrorKind::InvalidArgument).detail(error))?;
        let sandboxes = self.sandboxes();
        let Some(entry) = sandboxes.get(&id_of) else {
            return Err(match self.lost().get(&id_of) {
                Some(reason) => refused(ErrorKind::Lost).detail(reason),
                None => refused(ErrorKind::SandboxNotFound)
                    .detail("acquire or attach it on this connection"),
            });
        };
        if entry.generation != generation {
            return Err(refused(ErrorKind::Lost).detail(format_args!(
                "generation {generation} is gone; the sandbox of that id is generation {} now",
                entry.generation
            )));
        }
        Ok(Arc::clone(&entry.sandbox))
    }

    /// Makes a sandbox known, and watches for its end.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        sandbox: Arc<dyn Sandbox>,
        outlives: Outlives,
        lease: Option<Duration>,
    ) {
        let descriptor = sandbox.descriptor();
        let id = descriptor.id.clone();
        let generation = descriptor.generation.0;
        let watcher = {
            let session = Arc::downgrade(self);
            let (sandbox, id) = (Arc::clone(&sandbox), id.clone());
            tokio::spawn(async move {
                let closed = sandbox.closed().await;
                drop(sandbox);
                if let Some(session) = session.upgrade() {
                    session.forget(&id, generation, &closed);
                }
            })
            .abort_handle()
        };
        let entry = Entry {
            sandbox,
            generation,
            outlives,
            lease,
            watcher,
        };
        self.lost().remove(&id);
        let mut sandboxes = self.sandboxes();
        if let Some(old) = sandboxes.insert(id, entry) {
            old.watcher.abort();
        }
        self.note_leases(&sandboxes);
    }

    /// A sandbox ended: drops it and tells the host.
    fn forget(&self, id: &SandboxId, generation: u64, closed: &Closed) {
        let mut sandboxes = self.sandboxes();
        if sandboxes
            .get(id)
            .is_some_and(|entry| entry.generation == generation)
        {
            sandboxes.remove(id);
            self.note_leases(&sandboxes);
            if let Closed::Lost { reason } = closed {
                self.lost().insert(id.clone(), reason.clone());
            }
        }
        drop(sandboxes);
        let line = notice::sandbox_closed(id.as_str(), generation, closed);
        // If the writer is gone, so is the host.
        let _ = self.lanes.control(line);
    }

    /// A sandbox was released: drops it and tells the host.
    pub(crate) fn released(&self, id: &SandboxId) {
        let entry = {
            let mut sandboxes = self.sandboxes();
            let entry = sandboxes.remove(id);
            self.note_leases(&sandboxes);
            entry
        };
        if let Some(entry) = entry {
            entry.watcher.abort();
            let line = notice::sandbox_closed(id.as_str(), entry.generation, &Closed::Released);
            // If the writer is gone, so is the host.
            let _ = self.lanes.control(line);
        }
    }

    /// Ends the sandboxes: all of them, or those that do not outlive the connection. Takes at most
    /// `limit`; what it could not end by then is left to the place's own clean-up.
    pub(crate) async fn end_sandboxes(&self, which: Ending, limit: Duration) {
        let entries: Vec<(SandboxId, Entry)> = self.sandboxes().drain().collect();
        let releases = entries.iter().map(|(id, entry)| async move {
            entry.watcher.abort();
            if which == Ending::All || entry.outlives == Outlives::No {
                let ctx = Ctx::new().with_timeout(limit);
                let released = self.provider.release(&ctx, id, Disposition::Destroy).await;
                if let Err(error) = released {
                    tracing::warn!(sandbox = %id, %error, "a sandbox could not be released at the end");
                }
            }
        });
        if tokio::time::timeout(limit, join_all(releases))
            .await
            .is_err()
        {
            tracing::warn!("not every sandbox was released in time");
        }
    }

    /// Takes note of how long the host may be silent now.
    fn note_leases(&self, sandboxes: &HashMap<SandboxId, Entry>) {
        let leases = sandboxes.values().filter_map(|entry| entry.lease);
        self.leases.set(leases.min());
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Id, Call>> {
        // Nothing that runs under these locks can panic half-way.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, HashMap<SandboxId, String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<SandboxId, Entry>> {
        self.sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which sandboxes end with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    All,
    ThoseThatDoNotOutlive,
}

impl Drop for Session {
    fn drop(&mut self) {
        for entry in self.sandboxes().values() {
            entry.watcher.abort();
        }
    }
}

//! One request under way: its cancellation, its deadline, its streams.
//!
//! **Invariants.** A call is always answered. When it is cancelled, or its deadline passes, the
//! provider is told and may end in its own way; if it does not within its patience, it is dropped
//! and answered for. What was streamed for a call is queued before its answer, and the senders
//! live until the answer is queued, so that their credit returns at the moment the host returns it.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::{Cancel, Ctx, Error, ErrorKind, Progress, Result, Verb};
use spp_link::Sender;
use tokio::time::Instant;

use crate::failure::failed;

/// How long a verb may take to end once it is cancelled. Shorter than the five seconds that a host
/// waits before it takes its peer for wedged.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same for what makes and ends places: there is a half-made place to take down.
const LIFECYCLE_PATIENCE: Duration = Duration::from_secs(25);

/// One request under way. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Call(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: Id,
    cancel: Cancel,
    arrived: Instant,
    expired: AtomicBool,
    streams: Mutex<Streams>,
    /// The line of the answer, if it is a result.
    line: Mutex<Option<Vec<u8>>>,
}

#[derive(Debug, Default)]
struct Streams {
    /// Whether data was sent for the call.
    streamed: bool,
    senders: Vec<Sender>,
    received: Vec<u64>,
}

/// The id of a request: below 2^53.
pub(crate) type Id = u64;

impl Call {
    pub(crate) fn new(id: Id) -> Self {
        Self(Arc::new(Inner {
            id,
            cancel: Cancel::new(),
            arrived: Instant::now(),
            expired: AtomicBool::new(false),
            streams: Mutex::default(),
            line: Mutex::default(),
        }))
    }

    pub(crate) fn id(&self) -> Id {
        self.0.id
    }

    pub(crate) fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// Ties a sender to the call: whatever becomes of the handler, it lives until the answer is
    /// queued.
    pub(crate) fn tie(&self, sender: Sender) -> Outgoing {
        Outgoing {
            call: self.clone(),
            sender: Some(sender),
        }
    }

    /// Notes a stream from the host that ends with the call.
    pub(crate) fn receives(&self, stream: u64) {
        self.streams().received.push(stream);
    }

    /// Whether the answer has to stay behind data that was streamed for the call.
    pub(crate) fn has_streamed(&self) -> bool {
        let streams = self.streams();
        streams.streamed || streams.senders.iter().any(|sender| sender.sent() > 0)
    }

    /// Ends the call's streams: its answer is queued. Returns those that came from the host.
    pub(crate) fn answered(&self) -> Vec<u64> {
        let streams = std::mem::take(&mut *self.streams());
        drop(streams.senders);
        streams.received
    }

    /// Notes the line that answers the call with a result.
    pub(crate) fn put_line(&self, line: Vec<u8>) {
        *self.0.line.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// The line that answers the call, if it has a result.
    pub(crate) fn take_line(&self) -> Option<Vec<u8>> {
        self.0
            .line
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Does `work` with a context, and sees to it that it ends.
    pub(crate) async fn supervise<T, F>(
        &self,
        verb: Verb,
        limits: CallLimits,
        progress: impl Fn(Progress) + Send + Sync + 'static,
        work: impl FnOnce(Ctx) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let deadline = limits.deadline.map(|after| self.0.arrived + after);
        let mut ctx = Ctx::new().with_cancel(self.0.cancel.clone());
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::refused(verb, ErrorKind::DeadlineExceeded)
                    .detail("the deadline had passed before the work began"));
            }
            ctx = ctx.with_timeout(left);
        }
        if self.0.cancel.is_cancelled() {
            return Err(Error::refused(verb, ErrorKind::Cancelled)
                .detail("it was cancelled before the work began"));
        }
        if is_lifecycle(verb) {
            ctx = ctx.with_progress(progress);
        }
        let mut work = pin!(work(ctx));
        let expiry = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = &mut work => return self.judge(result),
            () = self.0.cancel.cancelled() => {}
            () = expiry => {
                self.0.expired.store(true, Ordering::SeqCst);
                self.0.cancel.cancel();
            }
        }
        let patience = limits.grace
            + if is_lifecycle(verb) {
                LIFECYCLE_PATIENCE
            } else {
                PATIENCE
            };
        let result = tokio::time::timeout(patience, work)
            .await
            .unwrap_or_else(|_| {
                Err(failed(verb, ErrorKind::Cancelled).detail(format_args!(
                    "the provider did not end it within {} ms",
                    patience.as_millis()
                )))
            });
        self.judge(result)
    }

    /// Whether the call was cancelled because its deadline passed.
    pub(crate) fn is_expired(&self) -> bool {
        self.0.expired.load(Ordering::SeqCst)
    }

    fn judge<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::Cancelled && self.is_expired() => {
                Err(Error::new(error.verb(), ErrorKind::DeadlineExceeded)
                    .with_effect(error.effect())
                    .on(error.subject())
                    .detail(error.detail_text()))
            }
            other => other,
        }
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Streams> {
        self.0
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream to the host that ends with the answer of its call, or before it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    call: Call,
    sender: Option<Sender>,
}

impl Outgoing {
    pub(crate) fn sender(&mut self) -> &mut Sender {
        self.sender.as_mut().expect("it is taken at the end only")
    }

    /// The end of the stream is queued: nothing more belongs to it.
    pub(crate) fn finish(mut self) {
        self.call.streams().streamed = true;
        drop(self.sender.take());
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.call.streams().senders.extend(self.sender.take());
    }
}

/// What bounds a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallLimits {
    /// When it must have been answered, counted from its arrival.
    pub(crate) deadline: Option<Duration>,
    /// What the request itself allows for ending what it started.
    pub(crate) grace: Duration,
}

fn is_lifecycle(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Acquire
            | Verb::Attach
            | Verb::Release
            | Verb::Prepare
            | Verb::Update
            | Verb::Shutdown
    )
}

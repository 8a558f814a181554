//! One call: from its slot to its answer, or to the certainty that there will be none.
//!
//! A cancelled call still waits for its answer, because that says what became of it. Only when the
//! peer owes it for longer than it may take is the peer taken for wedged and the connection ended:
//! an answer that comes late would be for a caller that believes something else by then.
//!
//! **Invariant:** the effect of a call that failed without an answer is `None` only if the peer
//! cannot have seen the request, or if the verb changes nothing.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use jsonrpsee::core::client::Error as ClientError;
use jsonrpsee::core::middleware::RpcServiceT;
use jsonrpsee::types::{Id, Request as RpcRequest, ResponsePayload};
use sandbox_core::{Ctx, Effect, Error, ErrorKind, Result, Verb};
use serde_json::value::RawValue;
use spp_link::Taken;
use spp_protocol::codec;
use spp_protocol::convert::meta;
use spp_protocol::error::ErrorObject;
use spp_protocol::message::Request;
use spp_protocol::message::value::Meta;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::options::ConnectionEnd;
use crate::pending::{PendingCall, ResultSlot, random_id};
use crate::shared::{Shared, changes_something};

/// How long the peer may take beyond a call's deadline before it is told to stop.
const AFTER_DEADLINE: Duration = Duration::from_secs(2);
/// How long it may take to answer once it was told to stop.
const AFTER_CANCEL: Duration = Duration::from_secs(5);
/// The same for what makes and ends places: a half-made place has to be taken down.
const AFTER_LIFECYCLE_CANCEL: Duration = Duration::from_secs(30);
/// Steps of progress that wait for a slow listener.
const PROGRESS_QUEUE: usize = 16;
/// What a request's line is longer than its parameters, at most.
const ENVELOPE_BYTES: usize = 128;

/// What a call needs beside its parameters.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) verb: Verb,
    /// Streams from the peer that end with the answer.
    pub(crate) streams: Vec<u64>,
    /// What the request itself allows for ending what it started.
    pub(crate) grace: Duration,
    /// Set once the peer may have seen the request, so that its streams may follow.
    pub(crate) taken: Arc<Taken>,
}

impl Plan {
    pub(crate) fn new(verb: Verb) -> Self {
        Self {
            verb,
            streams: Vec::new(),
            grace: Duration::ZERO,
            taken: Arc::default(),
        }
    }

    pub(crate) fn with_stream(mut self, stream: u64) -> Self {
        self.streams.push(stream);
        self
    }

    pub(crate) fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    fn patience(&self) -> Duration {
        let base = match self.verb {
            Verb::Acquire
            | Verb::Attach
            | Verb::Release
            | Verb::Prepare
            | Verb::Update
            | Verb::Shutdown => AFTER_LIFECYCLE_CANCEL,
            _ => AFTER_CANCEL,
        };
        base.saturating_add(self.grace)
    }
}

/// Calls a method and reads its result.
pub(crate) async fn call<R: Request>(
    shared: &Arc<Shared>,
    ctx: &Ctx,
    plan: Plan,
    params: impl FnOnce(Option<Meta>) -> R,
) -> Result<R::Result> {
    let verb = plan.verb;
    let slot = slot(shared, ctx, verb).await?;
    let params = params(meta(ctx.remaining()));
    let params = raw(shared, verb, &params)?;
    let answer = exchange(shared, ctx, plan, Some(slot), R::METHOD, &params).await;
    judged(verb, answer.and_then(|answer| codec::result::<R>(&answer)))
}

/// A failure as the verb's own: whatever the peer says, the verb is the one that was asked for, and
/// one that changes nothing had no effect.
pub(crate) fn judged<T>(verb: Verb, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        let error = error.with_verb(verb);
        if changes_something(verb) {
            error
        } else {
            error.with_effect(Effect::None)
        }
    })
}

/// Waits for a place among the calls under way.
async fn slot(shared: &Arc<Shared>, ctx: &Ctx, verb: Verb) -> Result<OwnedSemaphorePermit> {
    if shared.end().is_some() {
        return Err(shared.end_error(verb, false));
    }
    if ctx.cancel().is_cancelled() {
        return Err(Error::refused(verb, ErrorKind::Cancelled));
    }
    let late = || {
        Error::refused(verb, ErrorKind::DeadlineExceeded)
            .detail("the deadline passed before the call was made")
    };
    if ctx.remaining().is_some_and(|left| left.is_zero()) {
        return Err(late());
    }
    // What ends other calls does not wait for them.
    let slots = match verb {
        Verb::ProcStop | Verb::Release | Verb::Shutdown => &shared.ending_slots,
        _ => &shared.slots,
    };
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Ok(slot);
    }
    let deadline = async {
        match ctx.remaining() {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        slot = Arc::clone(slots).acquire_owned() => {
            slot.map_err(|_| shared.end_error(verb, false))
        }
        () = ctx.cancel().cancelled() => Err(Error::refused(verb, ErrorKind::Cancelled)),
        () = deadline => Err(late()),
    }
}

fn raw<R: Request>(shared: &Shared, verb: Verb, params: &R) -> Result<Box<RawValue>> {
    let raw = serde_json::value::to_raw_value(params).map_err(|error| {
        Error::refused(verb, ErrorKind::Internal)
            .detail("the request cannot be written as JSON")
            .caused_by(error)
    })?;
    let max = shared.max_line.load(std::sync::atomic::Ordering::Relaxed);
    let length = raw.get().len() + ENVELOPE_BYTES;
    if length > max {
        return Err(Error::refused(verb, ErrorKind::TooLarge).detail(format_args!(
            "the request is a line of {length} bytes, and the provider takes {max}; ask for less at once"
        )));
    }
    Ok(raw)
}

/// Sends one request and waits for its answer.
async fn exchange(
    shared: &Arc<Shared>,
    ctx: &Ctx,
    plan: Plan,
    slot: Option<OwnedSemaphorePermit>,
    method: &str,
    params: &RawValue,
) -> Result<String> {
    let verb = plan.verb;
    let patience = plan.patience();
    let service = shared
        .service
        .get()
        .ok_or_else(|| Error::refused(verb, ErrorKind::Internal))?;
    let id = random_id();
    let (told, mut progress) = mpsc::channel(PROGRESS_QUEUE);
    let mut pending = PendingCall::new(verb, slot, patience);
    pending.streams = plan.streams;
    pending.progress = Some(told);
    pending.taken = Arc::clone(&plan.taken);
    let taken = plan.taken;
    let result = Arc::clone(&pending.result);
    let mut guard = Guard::new(shared, id, pending);

    let request = RpcRequest::borrowed(method, Some(params), Id::Number(id));
    // Unconstrained, so that the first poll hands the request over: a call is either not begun, or
    // under way and cancelled by its guard.
    let answer = tokio::task::unconstrained(service.call(request));
    let mut answer = pin!(answer);
    let mut waits = Waits {
        deadline: ctx
            .deadline()
            .and_then(|deadline| Instant::from_std(deadline).checked_add(AFTER_DEADLINE))
            .map(|end| Box::pin(sleep_until(end))),
        wedged: None,
    };
    let mut expired = false;
    loop {
        let cancelling = waits.wedged.is_some();
        tokio::select! {
            biased;
            answer = &mut answer => {
                guard.answered();
                while let Ok(step) = progress.try_recv() {
                    ctx.report(step);
                }
                return read(shared, verb, answer, &result, taken.is_set(), expired);
            }
            () = ctx.cancel().cancelled(), if !cancelling => {
                shared.cancel(id);
                waits.wedge_after(patience);
            }
            () = elapsed(&mut waits.deadline), if !cancelling => {
                expired = true;
                shared.cancel(id);
                waits.wedge_after(patience);
            }
            () = elapsed(&mut waits.wedged) => {
                // Fails this call too, through its answer.
                shared.finish(wedged(verb, patience));
                waits.wedged = None;
                waits.deadline = None;
            }
            // Last, so that a peer that reports without end keeps nothing else from its turn.
            Some(step) = progress.recv() => ctx.report(step),
        }
    }
}

pub(crate) fn wedged(verb: Verb, patience: Duration) -> ConnectionEnd {
    ConnectionEnd::disconnected(format!(
        "the provider did not answer a cancelled `{verb}` within {} s and is taken for wedged",
        patience.as_secs()
    ))
}

struct Waits {
    deadline: Option<Pin<Box<Sleep>>>,
    wedged: Option<Pin<Box<Sleep>>>,
}

impl Waits {
    fn wedge_after(&mut self, patience: Duration) {
        self.wedged = Some(Box::pin(tokio::time::sleep(patience)));
    }
}

/// Resolves when the time is up; never if there is none.
async fn elapsed(sleep: &mut Option<Pin<Box<Sleep>>>) {
    match sleep {
        Some(sleep) => sleep.as_mut().await,
        None => std::future::pending().await,
    }
}

type RpcAnswer =
    std::result::Result<jsonrpsee::core::client::MiddlewareMethodResponse, ClientError>;

fn read(
    shared: &Shared,
    verb: Verb,
    answer: RpcAnswer,
    result: &ResultSlot,
    seen: bool,
    expired: bool,
) -> Result<String> {
    // Every failure but an error object means that the client behind us has ended.
    let Ok(answer) = answer else {
        return Err(shared.end_error(verb, seen));
    };
    match answer.into_response().into_inner().payload {
        // It came past the client behind us, which has a stand-in for it.
        ResponsePayload::Success(_) => result
            .take()
            .ok_or_else(|| Error::new(verb, ErrorKind::Internal)),
        ResponsePayload::Error(object) => {
            let data = object
                .data()
                .and_then(|data| serde_json::from_str(data.get()).ok());
            let error = ErrorObject {
                code: object.code(),
                message: object.message().to_owned(),
                data,
            }
            .decode(verb);
            Err(if expired && error.kind() == ErrorKind::Cancelled {
                Error::new(verb, ErrorKind::DeadlineExceeded)
                    .with_effect(error.effect())
                    .on(error.subject())
                    .detail("the provider had not answered when the deadline had passed")
            } else {
                error
            })
        }
    }
}

/// Cancels a call whose future is dropped before its answer is here.
struct Guard<'a> {
    shared: &'a Shared,
    id: u64,
    armed: bool,
}

impl<'a> Guard<'a> {
    fn new(shared: &'a Shared, id: u64, pending: PendingCall) -> Self {
        shared.calls.insert(id, pending);
        Self {
            shared,
            id,
            armed: true,
        }
    }

    /// The answer is here, or the connection has ended: either way the entry is gone or useless.
    fn answered(&mut self) {
        self.armed = false;
        self.shared.calls.forget(self.id);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.shared.cancel(self.id);
        }
    }
}

/// Asks the peer for a sign of life. The answer itself does not matter: any line is one.
pub(crate) async fn ping(shared: &Arc<Shared>) {
    let params = spp_protocol::message::handshake::PingParams { meta: None };
    let plan = Plan::new(Verb::Initialize);
    if let Ok(params) = raw(shared, Verb::Initialize, &params) {
        let ctx = Ctx::new();
        // It fails only when the connection has ended.
        let _ = exchange(shared, &ctx, plan, None, "ping", &params).await;
    }
}

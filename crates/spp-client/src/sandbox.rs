//! A sandbox behind a connection.
//!
//! Each verb is one request and one answer. Byte fields that do not fit a line travel on streams
//! beside them: `content` from the peer is collected while the answer is awaited, `content` to the
//! peer is sent once it may have seen the request.
//!
//! Not here: `exec` and `pull_tree`, which go on after they have returned ([`run`](crate::run)).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::file::{
    FileContent, MAX_FILE_BYTES, ReadManyRequest, ReadManyResult, ReadRequest, RemoveReceipt,
    RemoveRequest, StatManyRequest, StatManyResult, WriteRequest, WriteResult,
};
use sandbox_core::process::{
    ExecRequest, Execution, MAX_PROC_READ_BYTES, ProcChunk, ProcReadRequest, ProcStdinRequest,
    ProcStopRequest, SpawnReceipt, SpawnRequest, StdinReceipt, Stop, StopReceipt,
};
use sandbox_core::search::{
    Fingerprint, FingerprintRequest, GlobRequest, GlobResult, GrepRequest, GrepResult,
};
use sandbox_core::transfer::{Pull, PullRequest, PushReceipt, PushRequest};
use sandbox_core::{
    ByteStream, Cancel, Closed, Ctx, Descriptor, Effect, Error, ErrorKind, Result, Sandbox,
    SandboxState, Verb, collect,
};
use spp_link::{Receiver, Taken};
use spp_protocol::codec::write_notification;
use spp_protocol::convert::{Inlet, Outlet, Target};
use spp_protocol::error::ErrorObject;
use spp_protocol::message::Request;
use spp_protocol::message::file::{
    ReadManyParams, ReadParams, RemoveParams, StatManyParams, WriteParams,
};
use spp_protocol::message::lifecycle::CaptureStateParams;
use spp_protocol::message::process::{
    ProcReadParams, ProcStdinParams, ProcStopParams, SpawnParams,
};
use spp_protocol::message::search::{FingerprintParams, GlobParams, GrepParams};
use spp_protocol::message::stream::StreamEnd;
use spp_protocol::message::value::StreamId;

use crate::call::{Plan, call, judged};
use crate::connection::Connection;
use crate::fit;
use crate::life::Life;
use crate::pending::random_id;

/// Most bytes of a manifest that are taken.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 256 * 1024 * 1024;

/// A sandbox behind a connection. Clones are handles of the same life.
#[derive(Clone)]
pub(crate) struct RemoteSandbox {
    pub(crate) connection: Arc<Connection>,
    pub(crate) descriptor: Arc<Descriptor>,
    pub(crate) life: Arc<Life>,
}

impl RemoteSandbox {
    /// Does one verb; remembers if the sandbox turns out to be lost.
    pub(crate) async fn call<R: Request>(
        &self,
        ctx: &Ctx,
        plan: Plan,
        params: impl FnOnce(&Target) -> R,
    ) -> Result<R::Result> {
        let Descriptor { id, generation, .. } = &*self.descriptor;
        self.life.check(plan.verb, id)?;
        let answer = call(&self.connection.shared, ctx, plan, |meta| {
            params(&Target {
                sandbox: id.clone(),
                generation: *generation,
                meta,
            })
        });
        let answer = answer.await;
        if let Err(error) = &answer
            && error.kind() == ErrorKind::Lost
        {
            let reason = error.detail_text().to_owned();
            self.connection
                .shared
                .lives
                .end(id, Some(*generation), Closed::Lost { reason });
        }
        answer
    }

    /// What its verbs are for, before it is known how long they may take.
    pub(crate) fn target(&self) -> Target {
        Target {
            sandbox: self.descriptor.id.clone(),
            generation: self.descriptor.generation,
            meta: None,
        }
    }

    /// Opens a stream from the peer.
    pub(crate) fn receive(&self, verb: Verb) -> Result<Receiver> {
        let receivers = &self.connection.shared.receivers;
        receivers
            .open(random_id(), verb)
            .map_err(|_| id_drawn_twice(verb))
    }

    /// Sends `bytes` on a stream once the peer may have seen the request, and ends the stream.
    pub(crate) async fn send(
        &self,
        verb: Verb,
        stream: StreamId,
        bytes: ByteStream,
        taken: &Taken,
    ) -> Result<()> {
        taken.wait().await;
        let shared = &self.connection.shared;
        let mut sender = shared
            .senders
            .open(stream.0)
            .map_err(|_| id_drawn_twice(verb))?;
        let mut bytes = bytes;
        let mut failed = None;
        loop {
            let next = tokio::select! {
                biased;
                next = bytes.next() => next,
                _ = sender.ended() => break,
            };
            match next {
                None => break,
                Some(Ok(chunk)) => {
                    if sender.send(chunk).await.is_err() {
                        break;
                    }
                }
                Some(Err(error)) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        drop(bytes);
        let mut line = shared.lanes.buffer();
        let end = StreamEnd {
            stream,
            bytes: failed.is_none().then(|| sender.sent()),
            error: failed.as_ref().map(ErrorObject::encode),
        };
        write_notification(&mut line, &end);
        // If the writer is gone the call is about to fail. The sender outlives the line: its credit
        // returns here when it returns at the peer.
        let _ = shared.lanes.data(line).await;
        failed.map_or(Ok(()), Err)
    }

    /// A verb whose request has contents; what of them is in `outlet` goes on its stream.
    async fn call_sending<R: Request>(
        &self,
        ctx: &Ctx,
        verb: Verb,
        outlet: Outlet,
        params: impl FnOnce(&Target) -> R,
    ) -> Result<R::Result> {
        let plan = Plan::new(verb);
        let taken = Arc::clone(&plan.taken);
        match outlet.into_stream() {
            None => self.call(ctx, plan, params).await,
            Some((stream, content)) => {
                let both = Sending::new(ctx);
                let answer = self.call(&both.ctx, plan, params);
                let sending = self.send(verb, stream, chunks(content), &taken);
                both.beside(verb, answer, sending).await
            }
        }
    }

    /// A verb whose result has a content that may come on a stream.
    async fn call_with_content<R: Request, T>(
        &self,
        ctx: &Ctx,
        verb: Verb,
        max: u64,
        params: impl FnOnce(&Target, StreamId) -> R,
        decode: impl FnOnce(R::Result, &mut Inlet) -> Result<T>,
    ) -> Result<T> {
        let receiver = self.receive(verb)?;
        let stream = StreamId(receiver.id());
        let plan = Plan::new(verb).with_stream(stream.0);
        let answer = self.call(ctx, plan, |target| params(target, stream));
        let answer = async {
            let (answer, content) = beside(answer, content(receiver, max)).await?;
            decode(answer, &mut Inlet::new(stream, content))
        };
        judged(verb, answer.await)
    }
}

/// Collects what a result has on a stream; more than was asked for is no answer.
pub(crate) async fn content(receiver: Receiver, max: u64) -> Result<Bytes> {
    let verb = receiver.verb();
    let collected = collect(verb, Box::pin(receiver), max).await;
    collected.map_err(|error| match error.kind() {
        ErrorKind::TooLarge => Error::new(verb, ErrorKind::Protocol).detail(format_args!(
            "the provider answered with more than the {max} bytes that were asked for"
        )),
        _ => error,
    })
}

/// Awaits `call` and what travels beside its answer. If the call fails, why is what it says: its
/// streams fail with it, and know less.
pub(crate) async fn beside<T, U>(
    call: impl Future<Output = Result<T>>,
    content: impl Future<Output = Result<U>>,
) -> Result<(T, U)> {
    let (mut call, mut content) = (pin!(call), pin!(content));
    tokio::select! {
        biased;
        answer = &mut call => Ok((answer?, content.await?)),
        content = &mut content => Ok((call.await?, content?)),
    }
}

/// The context of a call that something is sent for: cancelled with the caller's, and when what is
/// sent fails.
pub(crate) struct Sending {
    caller: Ctx,
    pub(crate) ctx: Ctx,
}

impl Sending {
    pub(crate) fn new(caller: &Ctx) -> Self {
        Self {
            caller: caller.clone(),
            ctx: caller.clone().with_cancel(Cancel::new()),
        }
    }

    /// Awaits `call` while `sending` goes on. Ends with the call: what it did not wait for, nobody
    /// will read. A failure of what is sent ends the call, and is told once it is known what became
    /// of that: what the call has begun is over by then, and it had an effect if the call says so.
    pub(crate) async fn beside<T>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T>>,
        sending: impl Future<Output = Result<()>>,
    ) -> Result<T> {
        let (mut call, mut sending) = (pin!(call), pin!(sending));
        let stop = self.ctx.cancel();
        let mut cancelled = pin!(self.caller.cancel().cancelled());
        let mut sent = false;
        let failure = loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                () = &mut cancelled, if !stop.is_cancelled() => stop.cancel(),
                result = &mut sending, if !sent => match result {
                    Ok(()) => sent = true,
                    Err(failure) => break failure,
                },
            }
        };
        stop.cancel();
        let effect = call
            .await
            .map_or_else(|error| error.effect(), |_| Effect::Unknown);
        Err(Error::new(verb, failure.kind())
            .with_effect(effect)
            .detail(format_args!(
                "what was to be sent failed, and the call was ended: {}",
                failure.detail_text()
            ))
            .caused_by(failure))
    }
}

/// The chunks of an outlet as a stream.
pub(crate) fn chunks(chunks: Vec<Bytes>) -> ByteStream {
    Box::pin(futures_util::stream::iter(chunks.into_iter().map(Ok)))
}

pub(crate) fn id_drawn_twice(verb: Verb) -> Error {
    Error::refused(verb, ErrorKind::Internal).detail("a random stream id was drawn twice")
}

#[async_trait]
impl Sandbox for RemoteSandbox {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    async fn closed(&self) -> Closed {
        self.life.ended().await
    }

    async fn capture_state(&self, ctx: &Ctx) -> Result<SandboxState> {
        let plan = Plan::new(Verb::CaptureState);
        let answer = self.call(ctx, plan, CaptureStateParams::encode);
        judged(Verb::CaptureState, answer.await?.decode())
    }

    async fn read(&self, ctx: &Ctx, request: ReadRequest) -> Result<FileContent> {
        self.call_with_content(
            ctx,
            Verb::Read,
            request.max,
            |target, stream| ReadParams::encode(target, &request, Some(stream)),
            |answer, inlet| fit::file(&request, answer.decode(inlet)?),
        )
        .await
    }

    async fn read_many(&self, ctx: &Ctx, request: ReadManyRequest) -> Result<ReadManyResult> {
        let items = self.call_with_content(
            ctx,
            Verb::ReadMany,
            request.total_max.min(MAX_FILE_BYTES),
            |target, stream| ReadManyParams::encode(target, &request, Some(stream)),
            |answer, inlet| fit::files(&request, answer.decode(inlet)?),
        );
        items.await
    }

    async fn write(&self, ctx: &Ctx, request: WriteRequest) -> Result<WriteResult> {
        let asked = request.changes.len();
        let mut outlet = Outlet::new(Some(StreamId(random_id())));
        let mut params = WriteParams::encode(&self.target(), request, &mut outlet);
        let answer = self.call_sending(ctx, Verb::Write, outlet, move |target| {
            params.meta.clone_from(&target.meta);
            params
        });
        fit::items(Verb::Write, asked, answer.await?.decode()?)
    }

    async fn remove(&self, ctx: &Ctx, request: RemoveRequest) -> Result<RemoveReceipt> {
        let answer = self.call(ctx, Plan::new(Verb::Remove), |target| {
            RemoveParams::encode(target, &request)
        });
        Ok(answer.await?.into())
    }

    async fn stat_many(&self, ctx: &Ctx, request: StatManyRequest) -> Result<StatManyResult> {
        let answer = self.call(ctx, Plan::new(Verb::StatMany), |target| {
            StatManyParams::encode(target, &request)
        });
        let items = answer.await?.decode().and_then(|items| {
            let asked = request.paths.len();
            fit::items(Verb::StatMany, asked, items)
        });
        judged(Verb::StatMany, items)
    }

    async fn glob(&self, ctx: &Ctx, request: GlobRequest) -> Result<GlobResult> {
        let answer = self.call(ctx, Plan::new(Verb::Glob), |target| {
            GlobParams::encode(target, &request)
        });
        let found = answer.await?.decode();
        judged(
            Verb::Glob,
            found.and_then(|found| fit::glob(&request, found)),
        )
    }

    async fn grep(&self, ctx: &Ctx, request: GrepRequest) -> Result<GrepResult> {
        let answer = self.call(ctx, Plan::new(Verb::Grep), |target| {
            GrepParams::encode(target, &request)
        });
        let found = answer.await?.decode();
        judged(
            Verb::Grep,
            found.and_then(|found| fit::grep(&request, found)),
        )
    }

    async fn fingerprint(&self, ctx: &Ctx, request: FingerprintRequest) -> Result<Fingerprint> {
        let answer = self.call(ctx, Plan::new(Verb::Fingerprint), |target| {
            FingerprintParams::encode(target, &request)
        });
        judged(Verb::Fingerprint, answer.await?.decode())
    }

    async fn exec(&self, ctx: &Ctx, request: ExecRequest) -> Result<Execution> {
        crate::run::exec(self, ctx, request)
    }

    async fn spawn(&self, ctx: &Ctx, request: SpawnRequest) -> Result<SpawnReceipt> {
        let answer = self.call(ctx, Plan::new(Verb::Spawn), |target| {
            SpawnParams::encode(target, &request)
        });
        let receipt = answer.await?.decode()?;
        if receipt.id != request.id {
            return Err(Error::new(Verb::Spawn, ErrorKind::Protocol)
                .on(&request.id)
                .detail(format_args!("the provider answered for `{}`", receipt.id)));
        }
        Ok(receipt)
    }

    async fn proc_read(&self, ctx: &Ctx, request: ProcReadRequest) -> Result<ProcChunk> {
        let max = request.max.min(MAX_PROC_READ_BYTES);
        self.call_with_content(
            ctx,
            Verb::ProcRead,
            max,
            |target, stream| ProcReadParams::encode(target, &request, Some(stream)),
            |answer, inlet| fit::chunk(&request, answer.decode(inlet)?),
        )
        .await
    }

    async fn proc_stdin(&self, ctx: &Ctx, request: ProcStdinRequest) -> Result<StdinReceipt> {
        let mut outlet = Outlet::new(Some(StreamId(random_id())));
        let mut params = ProcStdinParams::encode(&self.target(), request, &mut outlet);
        let answer = self.call_sending(ctx, Verb::ProcStdin, outlet, move |target| {
            params.meta.clone_from(&target.meta);
            params
        });
        Ok(answer.await?.into())
    }

    async fn proc_stop(&self, ctx: &Ctx, request: ProcStopRequest) -> Result<StopReceipt> {
        let grace = match request.stop {
            Stop::Graceful { grace } => grace,
            Stop::Signal(_) | Stop::Kill => Duration::ZERO,
        };
        let plan = Plan::new(Verb::ProcStop).with_grace(grace);
        let answer = self.call(ctx, plan, |target| ProcStopParams::encode(target, &request));
        answer.await?.decode()
    }

    async fn push_tree(&self, ctx: &Ctx, request: PushRequest) -> Result<PushReceipt> {
        crate::run::push_tree(self, ctx, request).await
    }

    async fn pull_tree(&self, ctx: &Ctx, request: PullRequest) -> Result<Pull> {
        crate::run::pull_tree(self, ctx, request)
    }
}

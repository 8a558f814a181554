//! The methods: what each does with its parameters, and the frame that is common to all.
//!
//! The frame reads the parameters, refuses what the provider did not declare, writes results, and
//! turns failures into error objects. A result goes past the JSON-RPC library, straight into its line:
//! the library would write it piece by piece and then read all of it again, which for a file of 4 KiB
//! took longer than everything else. A method is then four steps: decode, open the streams that the request names,
//! call the provider under supervision, encode.
//!
//! **Invariant:** a method opens the streams it receives before it first waits, because their data
//! may be on the very next line.

mod files;
mod lifecycle;
mod processes;
mod searches;
mod trees;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jsonrpsee::core::server::{Methods, RpcModule};
use jsonrpsee::types::ErrorObjectOwned;
use sandbox_core::{ByteStream, Ctx, Error, ErrorKind, Result, Sandbox, Verb, collect};
use spp_link::Receiver;
use spp_protocol::codec;
use spp_protocol::convert::{Inlet, Outlet};
use spp_protocol::message::Request;
use spp_protocol::message::value::{Empty, StreamId};

use crate::call::{Call, CallLimits, Outgoing};
use crate::failure::{failed, wire};
use crate::session::Session;
use crate::{gate, notice};

/// Most bytes of content that one request brings on a stream.
const MAX_CONTENT_BYTES: u64 = 256 * 1024 * 1024;

/// Room for the line of an answer that is not long, in bytes.
const LINE_BYTES: usize = 512;

/// Every method, served from `session`.
pub(crate) fn all(session: &Arc<Session>) -> Methods {
    let mut module = RpcModule::from_arc(Arc::clone(session));
    lifecycle::register(&mut module);
    files::register(&mut module);
    searches::register(&mut module);
    processes::register(&mut module);
    trees::register(&mut module);
    module.into()
}

/// A request whose parameters were read.
struct Begun<P> {
    session: Arc<Session>,
    call: Call,
    verb: Verb,
    params: P,
}

/// Makes `handler` the method of `P`.
fn method<P, F, A>(module: &mut RpcModule<Session>, verb: Verb, handler: F)
where
    P: Request,
    F: Fn(Begun<P>) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Result<P::Result>> + Send,
{
    let callback = move |params: jsonrpsee::types::Params<'static>,
                         session: Arc<Session>,
                         extensions: jsonrpsee::core::server::Extensions| async move {
        let answer = async {
            let call = extensions
                .get::<Call>()
                .cloned()
                .ok_or_else(|| Error::new(verb, ErrorKind::Internal))?;
            let answered = call.clone();
            gate::verb(&session.info.capabilities, verb)?;
            let params = codec::params::<P>(params.as_str())?;
            let begun = Begun {
                session,
                call,
                verb,
                params,
            };
            let result = handler(begun).await?;
            let mut line = Vec::with_capacity(LINE_BYTES);
            codec::write_response(&mut line, answered.id(), &result);
            answered.put_line(line);
            Ok(())
        };
        answer
            .await
            .map_err(|error: Error| -> ErrorObjectOwned { wire(&error) })
    };
    module
        .register_async_method(P::METHOD, callback)
        .expect("every method has a name of its own");
}

/// What a method works with.
struct Work {
    session: Arc<Session>,
    call: Call,
    verb: Verb,
    limits: CallLimits,
}

impl<P: Request> Begun<P> {
    /// For a method that concerns the provider.
    fn work(self) -> (Work, P) {
        let deadline = self
            .params
            .meta()
            .and_then(|meta| meta.deadline_ms)
            .map(Duration::from_millis);
        let work = Work {
            session: self.session,
            call: self.call,
            verb: self.verb,
            limits: CallLimits {
                deadline,
                grace: Duration::ZERO,
            },
        };
        (work, self.params)
    }

    /// For a verb of a sandbox.
    fn sandbox_work(self) -> Result<(Work, Arc<dyn Sandbox>, P)> {
        let sandbox = match self.params.target() {
            Some(target) => self.session.sandbox(self.verb, target)?,
            None => return Err(Error::new(self.verb, ErrorKind::Internal)),
        };
        let (work, params) = self.work();
        Ok((work, sandbox, params))
    }
}

impl Work {
    /// Adds to the patience of a call what its request allows for ending what it started.
    fn with_grace(mut self, grace: Duration) -> Self {
        self.limits.grace = grace;
        self
    }

    /// Does `work` under the call's cancellation and deadline.
    async fn run<T, F>(&self, work: impl FnOnce(Ctx) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let lanes = self.session.lanes.clone();
        let id = self.call.id();
        let progress = move |step| {
            if !lanes.is_congested() {
                // If the writer is gone, so is the host.
                let _ = lanes.control(notice::progress(id, &step));
            }
        };
        self.call
            .supervise(self.verb, self.limits, progress, work)
            .await
    }

    /// Bytes that each list of changed entries may take, so that all three leave more than half of
    /// the line to the rest of an answer: a run's outcome is not lost because it changed much.
    fn list_bytes(&self) -> usize {
        self.session.max_line() / 8
    }

    /// Opens a stream from the host. To be called before the method first waits.
    fn receive(&self, stream: StreamId) -> Result<Receiver> {
        let receiver = self
            .session
            .receivers
            .open(stream.0, self.verb)
            .map_err(|_| in_use(self.verb, stream))?;
        self.call.receives(stream.0);
        Ok(receiver)
    }

    /// Opens the stream that byte fields of the request refer to. To be called before the method
    /// first waits.
    fn receive_fields(&self, referenced: Option<(StreamId, u64)>) -> Result<Incoming> {
        Ok(match referenced {
            None => Incoming(None),
            Some((stream, bytes)) => Incoming(Some((self.receive(stream)?, bytes))),
        })
    }

    /// Opens a stream to the host.
    fn send(&self, stream: StreamId) -> Result<Outgoing> {
        let sender = self.session.senders.open(stream.0);
        let sender = sender.map_err(|_| in_use(self.verb, stream))?;
        Ok(self.call.tie(sender))
    }

    /// Tells the host that a stream has ended, behind what was sent on it.
    async fn end_stream(&self, mut outgoing: Outgoing, result: Result<()>) {
        let line = notice::stream_end(outgoing.sender(), result);
        // If the writer is gone, so is the host.
        let _ = self.session.lanes.data(line).await;
        outgoing.finish();
    }

    /// Sends what did not fit the line of the answer.
    async fn send_fields(&self, outlet: Outlet) -> Result<()> {
        let Some((stream, chunks)) = outlet.into_stream() else {
            return Ok(());
        };
        let mut outgoing = self.send(stream)?;
        let cancelled = self.call.cancel().cancelled();
        let sending = async {
            for chunk in chunks {
                if outgoing.sender().send(chunk).await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            () = sending => {}
            () = cancelled => {
                return Err(failed(self.verb, ErrorKind::Cancelled)
                    .detail("it was done, and cancelled while its answer was sent"));
            }
        }
        Ok(())
    }
}

/// Byte fields of a request that come on a stream.
struct Incoming(Option<(Receiver, u64)>);

impl Incoming {
    /// Waits for all of them.
    async fn collect(self, verb: Verb, ctx: &Ctx) -> Result<Inlet> {
        let Some((receiver, bytes)) = self.0 else {
            return Ok(Inlet::none());
        };
        let stream = StreamId(receiver.id());
        let collected = collect(verb, Box::pin(receiver) as ByteStream, bytes);
        let content: Bytes = tokio::select! {
            biased;
            content = collected => content.map_err(nothing_was_done)?,
            () = ctx.cancel().cancelled() => {
                return Err(Error::refused(verb, ErrorKind::Cancelled)
                    .detail("it was cancelled before its content was here"));
            }
        };
        Ok(Inlet::new(stream, content))
    }
}

/// The provider is asked only once the whole content is here.
fn nothing_was_done(error: Error) -> Error {
    error.with_effect(sandbox_core::Effect::None)
}

fn in_use(verb: Verb, stream: StreamId) -> Error {
    Error::refused(verb, ErrorKind::InvalidArgument).detail(format_args!(
        "stream {stream} is in use; every stream has an id of its own"
    ))
}

fn empty() -> Empty {
    Empty {}
}

//! A connection: opening it, its end, and how a silent peer is told from a busy one.
//!
//! **Invariant:** a [`Connection`] that is dropped is ended. Handles of sandboxes hold it, so it lives
//! as long as anybody can use it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jsonrpsee::core::client::async_client::RpcService;
use jsonrpsee::core::client::{Client, ClientBuilder};
use jsonrpsee::core::middleware::RpcServiceBuilder;
use sandbox_core::{Ctx, Disposition, Error, ErrorKind, ProviderInfo, Result, Verb};
use spp_link::{LineReader, Receivers, Senders, lanes};
use spp_protocol::limits::Limits;
use spp_protocol::message::handshake::{
    InitializeParams, InitializeResult, Offer, Peer, ShutdownMode, ShutdownParams,
};
use spp_protocol::version;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::call::{Plan, call, ping, wedged};
use crate::options::{ConnectOptions, ConnectionEnd, Liveness, Stats, Strictness};
use crate::shared::{ENDING_SLOTS, Shared};
use crate::transport::{Answers, Requests};

/// Calls are cancelled by their own futures; this only has to be longer than any.
const NEVER: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long whoever watches an engine may take to say why it takes nothing more.
const TELL: Duration = Duration::from_secs(2);

/// Most bytes of short lines, requests not counted, that may wait for a peer that does not read.
const CONTROL_LIMIT: usize = 16 * 1024 * 1024;

/// A provider at the other end of two pipes.
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) info: Arc<ProviderInfo>,
    pub(crate) location: Option<String>,
    /// Itself, for the sandboxes it gives out.
    pub(crate) me: Weak<Self>,
    instance: String,
    /// Keeps the client behind us running; its end ends its tasks.
    _client: Client<RpcService>,
}

impl Connection {
    /// Opens a connection: starts reading and writing, and does `initialize`.
    ///
    /// Dropping the future, or the connection, ends both directions.
    ///
    /// - `reader`, `writer`: what the peer writes, and what it reads. Their ends are the connection's.
    ///
    /// # Errors
    ///
    /// `UnsupportedVersion` naming what both sides speak; `DeadlineExceeded` after
    /// [`ConnectOptions::start_timeout`]; `Disconnected` if the peer went away first; `Protocol` for an
    /// answer that makes no sense. Never an effect.
    pub async fn open(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: ConnectOptions,
    ) -> Result<Arc<Self>> {
        let limits = options.limits;
        let (shared, client) = start(reader, writer, &options);
        let ending = EndOnDrop(Some(Arc::clone(&shared)));
        let answer = initialize(&shared, &options).await?;
        shared.ready();
        version::accept(answer.protocol.major)?;

        let agreed = limits.agree(Limits::from_wire(answer.limits));
        shared.senders.set_window(agreed.sending);
        shared
            .max_line
            .store(agreed.max_line_bytes, Ordering::Relaxed);
        shared
            .slots
            .forget_permits((limits.max_in_flight - agreed.max_in_flight) as usize);
        tokio::spawn(watch(Arc::downgrade(&shared), options.liveness));
        ending.disarm();
        Ok(Arc::new_cyclic(|me| Self {
            shared,
            me: Weak::clone(me),
            info: Arc::new(ProviderInfo {
                name: answer.provider.name,
                version: answer.provider.version,
                capabilities: answer.capabilities.decode(),
            }),
            location: options.location,
            instance: answer.instance,
            _client: client,
        }))
    }

    /// What the peer drew at its start: another value is another process.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.end().is_some()
    }

    /// Resolves when the connection has ended, with the reason.
    pub async fn closed(&self) -> ConnectionEnd {
        self.shared.ended().await.clone()
    }

    /// Ends the connection at once. Every call that is under way fails with `Disconnected` and this
    /// reason, whatever else still holds the pipes open; so does every later one.
    ///
    /// - `reason`: one sentence without a final stop, such as how the process ended and its last words.
    pub fn abort(&self, reason: impl Into<String>) {
        self.shared.finish(ConnectionEnd::disconnected(reason));
    }

    /// As [`abort`](Self::abort), for an engine: what was behind it is gone with it, so calls fail with `Lost`.
    pub fn lose(&self, reason: impl Into<String>) {
        self.shared.finish(ConnectionEnd::lost(reason));
    }

    /// Asks the peer to end its work and, if asked to destroy, its sandboxes. The connection stays
    /// open: dropping it, or ending the peer, is the caller's.
    ///
    /// # Errors
    ///
    /// Failures to ask.
    pub async fn shutdown(&self, disposition: Disposition) -> Result<()> {
        let mode = match disposition {
            Disposition::Keep => ShutdownMode::Keep,
            Disposition::Destroy => ShutdownMode::Release,
        };
        call(
            &self.shared,
            &Ctx::new(),
            Plan::new(Verb::Shutdown),
            |meta| ShutdownParams {
                mode,
                grace_ms: None,
                meta,
            },
        )
        .await
        .map(|_| ())
    }

    /// What was counted since the start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.finish(ConnectionEnd::disconnected(
            "this side closed the connection",
        ));
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("provider", &self.info.name)
            .field("end", &self.shared.end())
            .finish_non_exhaustive()
    }
}

/// Builds the parts and starts the tasks that read and write.
fn start(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: &ConnectOptions,
) -> (Arc<Shared>, Client<RpcService>) {
    let limits = options.limits;
    let max_in_flight = limits.max_in_flight as usize;
    let (lanes, lane_writer) = lanes(CONTROL_LIMIT);
    let shared = Arc::new(Shared::new(
        lanes.clone(),
        Senders::new(lanes.clone(), Limits::default().window),
        Receivers::new(lanes, limits.window),
        options.strictness,
        max_in_flight,
        line_bytes(Limits::default()),
        options.location.clone().unwrap_or_default(),
    ));
    let writing = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            let Err(error) = lane_writer.run(writer).await else {
                return;
            };
            if shared.strictness == Strictness::Provider {
                shared.finish(ConnectionEnd::disconnected(format!(
                    "writing to the provider failed: {error}"
                )));
                return;
            }
            // Whoever watches the engine knows better why it is gone.
            tokio::time::sleep(TELL).await;
            shared.finish(ConnectionEnd::lost(format!(
                "writing to the engine failed: {error}"
            )));
        }
    });
    shared.set_writer(writing.abort_handle());

    let hook = {
        let shared = Arc::clone(&shared);
        move |service: RpcService| {
            // The library numbers requests from 0 on; with its service in hand we draw their ids.
            let _ = shared.service.set(service.clone());
            service
        }
    };
    let client = ClientBuilder::default()
        .request_timeout(NEVER)
        // Slots bound the calls, and a few pings come on top; so this queue is never full, and
        // handing a request over never waits.
        .max_concurrent_requests(2 * (max_in_flight + ENDING_SLOTS))
        .set_rpc_middleware(RpcServiceBuilder::new().layer_fn(hook))
        .build_with_tokio(
            Requests(Arc::clone(&shared)),
            Answers {
                lines: LineReader::new(reader, line_bytes(limits)),
                shared: Arc::clone(&shared),
                reads: 0,
            },
        );
    (shared, client)
}

fn line_bytes(limits: Limits) -> usize {
    usize::try_from(limits.max_line_bytes).unwrap_or(usize::MAX)
}

async fn initialize(shared: &Arc<Shared>, options: &ConnectOptions) -> Result<InitializeResult> {
    let ctx = Ctx::new();
    let initialize = call(shared, &ctx, Plan::new(Verb::Initialize), |meta| {
        InitializeParams {
            protocol: Offer {
                majors: version::MAJORS.to_vec(),
            },
            host: Peer {
                name: options.host_name.clone(),
                version: options.host_version.clone(),
                pid: Some(std::process::id()),
            },
            capabilities: Default::default(),
            limits: options.limits.to_wire(),
            log_level: options.log_level.clone(),
            meta,
        }
    });
    tokio::time::timeout(options.start_timeout, initialize)
        .await
        .unwrap_or_else(|_| {
            Err(
                Error::refused(Verb::Initialize, ErrorKind::DeadlineExceeded).detail(format_args!(
                    "the provider did not answer within {} s",
                    options.start_timeout.as_secs()
                )),
            )
        })
}

/// Ends a connection that was not opened to the end.
struct EndOnDrop(Option<Arc<Shared>>);

impl EndOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.finish(ConnectionEnd::disconnected(
                "the connection was given up while it was being opened",
            ));
        }
    }
}

/// Watches for a peer that owes an answer and gives no sign of life.
async fn watch(shared: Weak<Shared>, liveness: Liveness) {
    let tick = (liveness.silence.min(liveness.patience) / 3).max(Duration::from_millis(10));
    let mut misses = 0;
    let mut asked: Option<tokio::time::Instant> = None;
    loop {
        tokio::time::sleep(tick).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.end().is_some() {
            return;
        }
        if let Some((verb, patience)) = shared.calls.overdue() {
            shared.finish(wedged(verb, patience));
            return;
        }
        let quiet = shared.calls.is_empty() || shared.silence() < liveness.silence;
        match asked {
            _ if quiet => (misses, asked) = (0, None),
            // Any line since then counts.
            Some(since) if shared.silence() < since.elapsed() => (misses, asked) = (0, None),
            Some(since) if since.elapsed() < liveness.patience => {}
            Some(_) if misses + 1 >= liveness.misses => {
                shared.finish(ConnectionEnd::disconnected(format!(
                    "the provider gave no sign of life for {} s while calls waited",
                    shared.silence().as_secs()
                )));
                return;
            }
            previous => {
                misses += u32::from(previous.is_some());
                asked = Some(tokio::time::Instant::now());
                tokio::spawn(async move { ping(&shared).await });
            }
        }
    }
}

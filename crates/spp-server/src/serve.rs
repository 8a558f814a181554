//! The life of one connection: read, dispatch, and come to an end whatever happens.
//!
//! One loop reads lines and acts on them without ever waiting for the writer, for a stream, or for
//! a provider's verb. Credit, cancellation and stream data take effect in that loop, ahead of
//! everything that is queued. A host that sends without end and reads nothing is given up once too
//! much waits for it.
//!
//! **Invariants.** A request is registered before its handler runs, so that a `$/cancel` right behind
//! it finds it. What a handler does before it first waits happens in the order of the lines, so a
//! stream that a request names is open before its data is read. When the host is gone, everything
//! ends within a few seconds, even what waits for credit that will never come.
//!
//! Not here: what the methods do (`methods`).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jsonrpsee::core::server::Methods;
use sandbox_core::{Cancel, ErrorKind, Provider};
use spp_link::{Fault, LineReader, Receivers, Senders, lanes};
use spp_protocol::codec::Line;
use spp_protocol::limits::Limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{JoinHandle, JoinSet};

use crate::dispatch::{self, Dispatch};
use crate::methods;
use crate::session::{Ending, Session};

/// How long handlers may clean up once the host is gone.
const GRACE: Duration = Duration::from_secs(2);
/// How long ending the sandboxes may take then.
const RELEASE: Duration = Duration::from_secs(2);
/// How long what is still to be written may take then.
const FLUSH: Duration = Duration::from_millis(500);
/// Most bytes of short lines that may wait for a host that does not read.
const CONTROL_LIMIT: usize = 16 * 1024 * 1024;

/// How often is read before the other ends are looked for. Rarely enough to cost a call nothing.
const READS_AT_ONCE: u32 = 64;

/// How a provider is served.
#[derive(Clone)]
pub struct ServeOptions {
    /// What this side receives at most.
    pub limits: Limits,
    /// Ends the connection as if the host had closed it, once it is raised: for a signal, or for a
    /// host that is known to be gone.
    pub stop: Cancel,
    /// Told the least severity that the host wants logged, if it says so.
    pub log_level: Option<LogLevel>,
}

/// Takes `error`, `warn`, `info`, `debug` or `trace`.
pub type LogLevel = Arc<dyn Fn(&str) + Send + Sync>;

impl std::fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeOptions")
            .field("limits", &self.limits)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            limits: Limits::ours(),
            stop: Cancel::new(),
            log_level: None,
        }
    }
}

/// How serving came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The host closed its end.
    HostGone,
    /// The host took no more of what was written.
    HostDeaf,
    /// [`ServeOptions::stop`] was raised.
    Stopped,
    /// Nothing was heard from the host for as long as a sandbox was to live without.
    HostSilent,
}

/// Why a connection could not be served to its end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The operating system has no random numbers, so this start cannot be told from another.
    #[error("failed to draw an instance id: {0}")]
    Random(getrandom::Error),
    /// The reader failed.
    #[error("failed to read from the host")]
    Read(#[source] std::io::Error),
}

/// Serves `provider` on a connection until the host is gone.
///
/// On return nothing that this connection started runs any more: calls are cancelled, given two
/// seconds, then dropped; sandboxes are released, apart from those that were acquired to outlive it.
///
/// - `reader`, `writer`: the two directions of the connection. At the end of `reader` the host is
///   gone; `writer` is then shut down.
///
/// # Errors
///
/// [`ServeError`]; the clean-up was done all the same.
pub async fn serve(
    provider: Arc<dyn Provider>,
    reader: impl AsyncRead + Send + Unpin,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    options: ServeOptions,
) -> Result<Ended, ServeError> {
    let instance = getrandom::u64().map_err(ServeError::Random)?;
    let (lanes, lane_writer) = lanes(CONTROL_LIMIT);
    let session = Arc::new(Session::new(
        provider,
        lanes.clone(),
        Senders::new(lanes.clone(), Limits::default().window),
        Receivers::new(lanes.clone(), options.limits.window),
        options.limits,
        format!("{instance:016x}"),
        options.log_level,
    ));
    let mut writing = tokio::spawn(lane_writer.run(writer));
    let mut connection = Connection {
        methods: methods::all(&session),
        session: Arc::clone(&session),
        handlers: JoinSet::new(),
    };
    let ended = connection.read(reader, &mut writing, &options.stop).await;
    connection.end(writing).await;
    ended
}

struct Connection {
    session: Arc<Session>,
    methods: Methods,
    handlers: JoinSet<()>,
}

impl Connection {
    async fn read(
        &mut self,
        reader: impl AsyncRead + Unpin,
        writing: &mut JoinHandle<std::io::Result<()>>,
        stop: &Cancel,
    ) -> Result<Ended, ServeError> {
        let session = Arc::clone(&self.session);
        let mut stopped = pin!(stop.cancelled());
        let mut lapsed = pin!(session.leases.lapsed());
        let mut lines = LineReader::new(reader, self.session.max_line());
        let mut reads = 0;
        loop {
            while let Some(line) = lines.buffered() {
                self.line(&line);
                // The first line settles what the others may be.
                lines.set_max(self.session.max_line());
            }
            while self.handlers.try_join_next().is_some() {}
            let filled = tokio::select! {
                biased;
                filled = lines.fill() => filled,
                _ = &mut *writing => return Ok(Ended::HostDeaf),
                () = &mut stopped => return Ok(Ended::Stopped),
                lease = &mut lapsed => {
                    tracing::warn!("nothing was heard from the host for {} ms", lease.as_millis());
                    return Ok(Ended::HostSilent);
                }
            };
            match filled {
                Ok(0) => return Ok(Ended::HostGone),
                Ok(_) => session.leases.heard(),
                Err(error) => return Err(ServeError::Read(error)),
            }
            // A host that floods always has more to read: now and then the rest of this process gets
            // its turn, and the other ends are looked for.
            reads += 1;
            if reads < READS_AT_ONCE {
                continue;
            }
            reads = 0;
            tokio::task::yield_now().await;
            if writing.is_finished() {
                return Ok(Ended::HostDeaf);
            }
            if stop.is_cancelled() {
                return Ok(Ended::Stopped);
            }
        }
    }

    fn line(&mut self, line: &Line<'_>) {
        match dispatch::line(&self.session, &self.methods, line) {
            Dispatch::Done => {}
            Dispatch::Begun(mut handler) => {
                // The first step runs here, in the order of the lines; many verbs need no second.
                if (&mut handler).now_or_never().is_none() {
                    self.handlers.spawn(handler);
                }
            }
        }
    }

    /// The host is gone. Bounded in every step.
    async fn end(mut self, mut writing: JoinHandle<std::io::Result<()>>) {
        let session = &self.session;
        session.junk.end();
        session.drain();
        session.cancel_all(None);
        session.senders.close();
        session.receivers.close(&Fault {
            kind: ErrorKind::Disconnected,
            detail: "the host is gone".into(),
        });
        let cleaned = async { while self.handlers.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, cleaned).await.is_err() {
            tracing::warn!("handlers did not end in time and are dropped");
            self.handlers.shutdown().await;
        }
        session
            .end_sandboxes(Ending::ThoseThatDoNotOutlive, RELEASE)
            .await;
        session.lanes.close();
        if !writing.is_finished() && tokio::time::timeout(FLUSH, &mut writing).await.is_err() {
            writing.abort();
        }
    }
}

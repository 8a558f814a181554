//! An engine that was placed: from its start to its certain end.
//!
//! Whoever is told first ends it: the process that exits, the connection that closes, or the provider that has no
//! more use for it. The end of the engine's output is held back until the process was waited for, so that what
//! calls fail with is how the place ended, and not that a pipe was closed.
//!
//! **Invariant:** once [`Placed::end`] has returned, the process was waited for, nobody holds the
//! other ends of its pipes any more, as far as a second shows, and nothing is left in the namespace of processes that it
//! held, if it held one (`first`); or it is said that something is.

use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sandbox_core::{Capabilities, Ctx, Error, ErrorKind, Provider, Verb};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::first::{self, First};
use super::spawner::Spawner;
use super::words::{Words, drain};
use crate::{ConnectOptions, Connection, Strictness};

/// How long an engine may take to end by itself once its input is closed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the other ends of its pipes may stay open after the process was waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long it may take to ask why a place ended.
const WHY: Duration = Duration::from_secs(2);
/// How long the end of the output is held back for the process to be waited for.
const HELD: Duration = Duration::from_secs(5);

/// How an engine is started.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// The provider that places it.
    pub provider: String,
    /// Its version, which has to be the engine's.
    pub version: String,
    /// What the provider promised of it.
    pub capabilities: Capabilities,
    /// How long it may take to answer.
    pub start_timeout: Duration,
    /// What is written to it ahead of the protocol, for whatever becomes the engine; most often nothing.
    pub ahead: Vec<u8>,
    /// Knows more of the end of the place than its process tells.
    pub why: Option<Why>,
}

/// Says why a place ended, given how its process did. `None` if there is nothing more to say.
#[derive(Clone)]
pub struct Why(Arc<Asked>);

type Asked =
    dyn Fn(ExitStatus) -> Pin<Box<dyn Future<Output = Option<String>> + Send>> + Send + Sync;

impl Why {
    /// Asks by this. It is waited for a few seconds.
    pub fn new(
        ask: impl Fn(ExitStatus) -> Pin<Box<dyn Future<Output = Option<String>> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(ask))
    }
}

impl std::fmt::Debug for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Why")
    }
}

/// Why no engine answers. Nothing of it is left.
#[derive(Debug)]
pub enum StartFault {
    /// Nothing was started.
    Spawn(io::Error),
    /// What was started ended before it answered.
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of what it wrote on standard error; may be empty.
        words: String,
    },
    /// What was started gave no usable answer, or was no longer wanted.
    Handshake {
        /// Why.
        error: Error,
        /// The end of what it wrote on standard error; may be empty.
        words: String,
    },
}

/// An engine that was placed and has answered. It is ended when this is dropped.
#[derive(Debug)]
pub struct Placed {
    connection: Arc<Connection>,
    gone: watch::Receiver<State>,
}

/// What has become of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    There,
    /// Nothing of it is left.
    Gone,
    /// What was started is gone, and something that it held is not.
    Left,
}

/// Something of a place that was killed still runs, most often because the kernel waits for a device or another machine.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "something in the place still runs {} s after it was killed; see what it waits for (`ps -e -o pid,stat,wchan`)",
    first::END.as_secs()
)]
pub struct NotEnded;

impl Placed {
    /// Starts an engine and greets it.
    ///
    /// - `command`: what ends up as the engine, speaking on its standard input and output. All three are piped.
    ///
    /// # Errors
    ///
    /// [`StartFault`], after whatever was started has ended.
    pub async fn start(
        ctx: &Ctx,
        spawner: &Spawner,
        mut command: Command,
        options: PlaceOptions,
    ) -> Result<Self, StartFault> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = spawner.spawn(command).await.map_err(StartFault::Spawn)?;
        let (Some(mut input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StartFault::Spawn(io::Error::other("it has no pipes")));
        };
        let words = Words::default();
        let drained = tokio::spawn(drain(errors, options.provider.clone(), words.clone()));
        let (tell, gone) = watch::channel(State::There);
        let output = HeldEnd::new(output, gone.clone());
        let connect = ConnectOptions {
            strictness: Strictness::Engine,
            start_timeout: options.start_timeout,
            ..ConnectOptions::new(&options.provider, &options.version)
        };
        let refused = |kind| Error::refused(Verb::Acquire, kind);
        let opened = tokio::select! {
            biased;
            opened = async {
                tell_ahead(&mut input, &options).await?;
                let connection = Connection::open(output, input, connect).await?;
                check(&connection, &options)?;
                Ok(connection)
            } => opened,
            status = child.wait() => {
                let _ = timeout(LAST_WORDS, drained).await;
                return Err(match status {
                    Ok(status) => StartFault::Ended { status, words: words.text() },
                    Err(error) => StartFault::Spawn(error),
                });
            }
            () = ctx.cancel().cancelled() => Err(refused(ErrorKind::Cancelled)),
            () = until(ctx.remaining()) => Err(refused(ErrorKind::DeadlineExceeded)
                .detail("the place was still starting")),
        };
        match opened {
            Ok(connection) => {
                let life = Life {
                    first: First::beneath(child.id()),
                    child,
                    connection: Arc::clone(&connection),
                    drained,
                    words,
                    why: options.why,
                };
                tokio::spawn(life.watch(tell));
                Ok(Self { connection, gone })
            }
            Err(error) => {
                let first = First::beneath(child.id());
                let _ = child.kill().await;
                if let Some(first) = first {
                    first.ended().await;
                }
                let _ = timeout(LAST_WORDS, drained).await;
                Err(StartFault::Handshake {
                    error,
                    words: words.text(),
                })
            }
        }
    }

    /// The connection with the engine.
    #[must_use]
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether it can still be spoken to.
    #[must_use]
    pub fn is_there(&self) -> bool {
        *self.gone.borrow() == State::There && !self.connection.is_closed()
    }

    /// Ends the place, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// [`NotEnded`], as often as this is called.
    pub async fn end(&self) -> Result<(), NotEnded> {
        self.connection.lose("the place was given back");
        let mut gone = self.gone.clone();
        // The sender is only dropped by a task that was ended with the whole runtime.
        let state = gone.wait_for(|state| *state != State::There).await;
        match state.map(|state| *state) {
            Ok(State::Left) => Err(NotEnded),
            Ok(State::There | State::Gone) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.connection.lose("the place was given up");
    }
}

/// Writes what comes ahead of the protocol.
async fn tell_ahead(input: &mut ChildStdin, options: &PlaceOptions) -> Result<(), Error> {
    let refused =
        |detail: &str| Error::refused(Verb::Acquire, ErrorKind::ProviderUnavailable).detail(detail);
    match timeout(options.start_timeout, input.write_all(&options.ahead)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            // Who does not read has most likely ended, and how it ended says more.
            tokio::time::sleep(LAST_WORDS).await;
            Err(refused("what was started does not read its input").caused_by(error))
        }
        Err(_) => Err(refused("what was started does not read its input in time")),
    }
}

/// Whether an engine can do what the provider has promised of it.
fn check(connection: &Connection, options: &PlaceOptions) -> Result<(), Error> {
    let info = connection.info();
    let missing: Vec<_> = options
        .capabilities
        .iter()
        .filter(|capability| !info.capabilities.has(*capability))
        .collect();
    if info.version == options.version && missing.is_empty() {
        return Ok(());
    }
    Err(
        Error::refused(Verb::Acquire, ErrorKind::ProviderUnavailable).detail(format_args!(
            "the engine beside this provider is version {}, and the provider is {}; install both from one build",
            info.version, options.version
        )),
    )
}

/// The operating system's side of a place that has answered.
struct Life {
    /// What everything inside ends with, if the place is such a one.
    first: Option<First>,
    child: Child,
    connection: Arc<Connection>,
    drained: JoinHandle<()>,
    words: Words,
    why: Option<Why>,
}

impl Life {
    async fn watch(mut self, tell: watch::Sender<State>) {
        let mut why = self.why.take();
        let status = tokio::select! {
            status = self.child.wait() => status,
            // The engine's input is closed with the connection, and that ends it.
            _ = self.connection.closed() => {
                why = None;
                match timeout(GRACE, self.child.wait()).await {
                    Ok(status) => status,
                    Err(_) => {
                        let _ = self.child.start_kill();
                        self.child.wait().await
                    }
                }
            }
        };
        let state = match &self.first {
            Some(first) if !first.ended().await => State::Left,
            Some(_) | None => State::Gone,
        };
        let _ = timeout(LAST_WORDS, self.drained).await;
        let words = self.words.text();
        let mut ended = match status {
            Ok(status) => match told(why, status).await {
                Some(why) => format!("the place ended: {why}"),
                None => format!("the place ended ({status})"),
            },
            Err(error) => format!("the place cannot be watched: {error}"),
        };
        if state == State::Left {
            tracing::error!("{NotEnded}");
            ended = format!("{ended}; {NotEnded}");
        }
        self.connection.lose(match words.lines().last() {
            Some(last) => format!("{ended}; its last words: {last}"),
            None => ended,
        });
        tell.send_replace(state);
    }
}

/// What is known of an end besides how the process ended.
async fn told(why: Option<Why>, status: ExitStatus) -> Option<String> {
    timeout(WHY, (why?.0)(status)).await.ok().flatten()
}

/// Resolves after that time; never without one.
async fn until(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// A reader whose end comes once the process is gone, or does not go.
struct HeldEnd<R> {
    inner: R,
    gone: watch::Receiver<State>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<R> HeldEnd<R> {
    fn new(inner: R, gone: watch::Receiver<State>) -> Self {
        Self {
            inner,
            gone,
            end: None,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for HeldEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.is_none() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut gone = self.gone.clone();
            self.end = Some(Box::pin(async move {
                let _ = timeout(HELD, gone.wait_for(|state| *state != State::There)).await;
            }));
        }
        match &mut self.end {
            Some(end) => end.as_mut().poll(context).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}

//! One life of a provider: from its start through the handshake to its certain end.
//!
//! Whoever is told first ends it: the process that exits, the connection that closes, or the host
//! that has no more use for it. A process that exits ends its connection at once, even while some
//! grandchild still holds its output; a connection that closes ends the process.
//!
//! **Invariant:** once the supervising task is done, the process was waited for, and what was left of
//! its process group was killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, join};
use rustix::process::{Pid, Signal, kill_process_group};
use sandbox_core::{Ctx, Disposition, Error, ErrorKind, Verb};
use spp_client::stderr::Tail;
use spp_client::{ConnectOptions, Connection};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::error::{Ending, StartError, StderrTail};
use crate::preview::{Beginning, Preview};
use crate::spawn::Launch;
use crate::stderr::{drain, snapshot};

/// How long each step of a provider's life may take. The default is what the protocol says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the start to the end of the handshake.
    pub handshake: Duration,
    /// From the end of its input to the polite signal, and from that to the certain one.
    pub grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// How long what a process wrote before it ended may still be on its way: it is in the pipes by
/// then, and only has to be read. Calls wait for it where a grandchild holds a pipe open.
const LAST_WORDS: Duration = Duration::from_millis(25);
/// How long a process that closed its output may take to exit and so say why.
const EXIT_AFTER_CLOSE: Duration = Duration::from_millis(500);

/// A provider that runs and has answered.
pub(crate) struct Process {
    connection: Arc<Connection>,
    stop: mpsc::Sender<Stop>,
    phase: watch::Receiver<Phase>,
    stderr: Tail,
}

/// How a provider is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Asked, then by the end of its input, and only then by signals.
    InOrder,
    /// At once, and with it everything in its process group.
    AtOnce,
}

/// Where in its life a provider is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// It can be used.
    Running,
    /// It cannot be used any more, but may still be there.
    Ending(End),
    /// It is gone, and everything in its process group with it.
    Gone(End),
}

/// Why a life ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// As the host asked.
    Stopped,
    /// By itself.
    Failed {
        /// When that was noticed.
        at: Instant,
        /// What happened, for people.
        what: String,
    },
}

impl Process {
    /// Starts a provider and does the handshake.
    ///
    /// # Errors
    ///
    /// The fault, after whatever was started has ended.
    pub(crate) async fn start(
        provider: &str,
        launch: &Launch,
        timing: Timing,
        ctx: &Ctx,
    ) -> Result<Self, StartError> {
        let child = launch.spawn().map_err(|source| StartError::Spawn {
            provider: provider.to_owned(),
            path: launch.program.clone(),
            source,
        })?;
        let (mut life, pipes) = Life::new(provider, child)?;
        let connection = match handshake(&mut life, pipes, timing, ctx).await {
            Ok(connection) => connection,
            Err(error) => {
                life.kill().await;
                return Err(error);
            }
        };
        life.answered = true;
        // Room for being asked once and for being hurried once.
        let (stop, stopped) = mpsc::channel(2);
        let (tell, phase) = watch::channel(Phase::Running);
        let stderr = life.stderr.clone();
        tokio::spawn(supervise(
            life,
            Arc::clone(&connection),
            stopped,
            tell,
            timing,
        ));
        Ok(Self {
            connection,
            stop,
            phase,
            stderr,
        })
    }

    /// The connection, which may have ended meanwhile.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The end of what it wrote on standard error until now.
    pub(crate) fn stderr(&self) -> StderrTail {
        snapshot(&self.stderr)
    }

    /// Why it cannot be used any more, if that is so. It may still be there.
    pub(crate) fn end(&self) -> Option<End> {
        match &*self.phase.borrow() {
            Phase::Ending(end) | Phase::Gone(end) => Some(end.clone()),
            // The connection is the first to know.
            Phase::Running => self
                .connection
                .closed()
                .now_or_never()
                .map(|closed| End::Failed {
                    at: Instant::now(),
                    what: format!("the provider ended its connection: {closed}"),
                }),
        }
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Gone(_))
    }

    /// Ends it, and waits until it is gone. One that is ending in order already can be hurried.
    pub(crate) async fn stop(&self, how: Stop) {
        // A full channel means that it was asked for the same before, a closed one that it is gone.
        let _ = self.stop.try_send(how);
        let mut phase = self.phase.clone();
        let _ = phase
            .wait_for(|phase| matches!(phase, Phase::Gone(_)))
            .await;
    }
}

/// The operating system's side of a life.
struct Life {
    provider: String,
    child: Child,
    /// The process group, which has the leader's id.
    group: Option<Pid>,
    stderr: Tail,
    drained: tokio::task::JoinHandle<()>,
    beginning: Beginning,
    /// Whether the handshake is done.
    answered: bool,
}

impl Drop for Life {
    /// A start that nobody waits for any more leaves nothing. A provider that has answered is left to
    /// the end of its input: it may have something to clean up.
    fn drop(&mut self) {
        if !self.answered {
            self.signal(Signal::KILL);
        }
    }
}

impl Life {
    /// Takes charge of a process that was just started.
    fn new(provider: &str, mut child: Child) -> Result<(Self, Pipes), StartError> {
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StartError::Stopped(
                Error::refused(Verb::Initialize, ErrorKind::Internal)
                    .on(provider)
                    .detail("a provider was started without pipes"),
            ));
        };
        let stderr = Tail::default();
        let drained = tokio::spawn(drain(errors, provider.to_owned(), stderr.clone()));
        let (output, beginning) = Preview::new(output);
        let life = Self {
            provider: provider.to_owned(),
            group: child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .and_then(Pid::from_raw),
            child,
            stderr,
            drained,
            beginning,
            answered: false,
        };
        let pipes = Pipes { input, output };
        Ok((life, pipes))
    }

    /// Signals everything in its group.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The only failure is that nothing is left to be signalled.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Waits for the process, and kills what is left of its group.
    ///
    /// The group's number cannot be taken by others while a member lives, and if none does, the
    /// moment between the wait and the signal is too short for process ids to come around.
    async fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
        let status = self.child.wait().await;
        self.signal(Signal::KILL);
        self.group = None;
        status
    }

    /// Ends it at once.
    async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.wait().await;
    }

    /// What it wrote on standard error, once that had a moment to arrive.
    async fn last_words(&mut self) -> StderrTail {
        if !self.drained.is_finished() {
            let _ = timeout(LAST_WORDS, &mut self.drained).await;
        }
        snapshot(&self.stderr)
    }

    /// The fault of having ended before the handshake was done.
    async fn ended(&mut self, status: std::io::Result<std::process::ExitStatus>) -> StartError {
        let provider = self.provider.clone();
        let stderr = self.last_words().await;
        match status {
            Ok(status) => StartError::Ended {
                provider,
                ending: Ending(status),
                stderr,
            },
            Err(error) => StartError::Stopped(
                Error::refused(Verb::Initialize, ErrorKind::Io)
                    .on(provider)
                    .detail("waiting for the provider failed")
                    .caused_by(error),
            ),
        }
    }
}

/// A provider's side of the protocol before the connection has it.
struct Pipes {
    input: tokio::process::ChildStdin,
    output: Preview<tokio::process::ChildStdout>,
}

/// Waits for the first answer, or for whatever comes in its place.
async fn handshake(
    life: &mut Life,
    pipes: Pipes,
    timing: Timing,
    ctx: &Ctx,
) -> Result<Arc<Connection>, StartError> {
    let provider = life.provider.clone();
    let beginning = life.beginning.clone();
    let options = ConnectOptions {
        location: Some(provider.clone()),
        // Told apart here from the other ways in which a start fails, so it must not pass before.
        start_timeout: timing.handshake * 2,
        log_level: tracing::level_filters::LevelFilter::current()
            .into_level()
            .map(|level| level.as_str().to_ascii_lowercase()),
        ..ConnectOptions::new("spp", env!("CARGO_PKG_VERSION"))
    };
    let opening = Connection::open(pipes.output, pipes.input, options);
    let failure = tokio::select! {
        biased;
        () = ctx.cancel().cancelled() => {
            return Err(StartError::Stopped(
                Error::refused(Verb::Acquire, ErrorKind::Cancelled).on(provider),
            ));
        }
        () = until(ctx.remaining()) => {
            return Err(StartError::Stopped(
                Error::refused(Verb::Acquire, ErrorKind::DeadlineExceeded)
                    .on(provider)
                    .detail("the provider was still starting"),
            ));
        }
        opened = opening => match opened {
            Ok(connection) => return Ok(connection),
            Err(error) => Some(error),
        },
        status = life.wait() => {
            // A process whose output was given up ends of that, and its status says nothing.
            return Err(match beginning.babble() {
                Some(begins) if beginning.was_given_up() => StartError::Babble {
                    provider,
                    begins,
                    stderr: life.last_words().await,
                    source: Error::refused(Verb::Initialize, ErrorKind::Protocol)
                        .detail("its output was given up"),
                },
                _ => life.ended(status).await,
            });
        }
        () = beginning.framed() => return Err(StartError::Framed { provider }),
        () = sleep(timing.handshake) => None,
    };
    if beginning.is_framed() {
        return Err(StartError::Framed { provider });
    }
    let Some(source) = failure else {
        let waited = timing.handshake;
        let stderr = life.last_words().await;
        return Err(match beginning.babble() {
            Some(begins) => StartError::Babble {
                provider,
                begins,
                stderr,
                source: Error::refused(Verb::Initialize, ErrorKind::DeadlineExceeded)
                    .detail(format_args!("no answer came within {waited:?}")),
            },
            None => StartError::Silent {
                provider,
                waited,
                stderr,
            },
        });
    };
    // While its output is open, it was this side that had enough of it.
    if !beginning.has_ended()
        && let Some(begins) = beginning.babble()
    {
        return Err(StartError::Babble {
            provider,
            begins,
            stderr: life.last_words().await,
            source,
        });
    }
    // Most failures are a process that is about to exit: its status and its last words say more
    // than the pipe that it left.
    if source.kind() == ErrorKind::Disconnected
        && let Ok(status) = timeout(EXIT_AFTER_CLOSE, life.wait()).await
    {
        return Err(life.ended(status).await);
    }
    let stderr = life.last_words().await;
    Err(match (source.kind(), beginning.babble()) {
        (ErrorKind::UnsupportedVersion, _) => StartError::Version {
            provider,
            stderr,
            source,
        },
        (_, Some(begins)) => StartError::Babble {
            provider,
            begins,
            stderr,
            source,
        },
        (ErrorKind::Disconnected, None) => StartError::Closed { provider, stderr },
        (_, None) => StartError::Handshake {
            provider,
            stderr,
            source,
        },
    })
}

/// Waits for whatever ends a provider first, and brings the rest of it to an end.
async fn supervise(
    mut life: Life,
    connection: Arc<Connection>,
    mut stopped: mpsc::Receiver<Stop>,
    tell: watch::Sender<Phase>,
    timing: Timing,
) {
    let end = tokio::select! {
        status = life.wait() => {
            // What it wrote just before is still in the pipes, and both are read meanwhile.
            let answers = life.beginning.clone();
            let (_, words) = join!(timeout(LAST_WORDS, answers.ended()), life.last_words());
            let ending = match status {
                Ok(status) => Ending(status).to_string(),
                Err(error) => format!("waiting for it failed: {error}"),
            };
            fail(&life, &connection, &format!("ended: {ending}"), &words)
        }
        closed = connection.closed() => {
            // Every call has failed by now. For whoever comes next, a status says more.
            let what = match timeout(EXIT_AFTER_CLOSE, life.wait()).await {
                Ok(Ok(status)) => format!("ended: {}", Ending(status)),
                _ => format!("was given up: {closed}"),
            };
            let words = life.last_words().await;
            fail(&life, &connection, &what, &words)
        }
        // `None`: nobody holds the process any more, which is as good as a request.
        how = stopped.recv() => {
            tell.send_replace(Phase::Ending(End::Stopped));
            if how != Some(Stop::AtOnce) {
                // Its answer is a courtesy; the end of its input is what counts.
                let asked = timeout(timing.grace, connection.shutdown(Disposition::Keep));
                tokio::select! {
                    _ = asked => {}
                    () = hurried(&mut stopped) => life.signal(Signal::KILL),
                }
            } else {
                life.signal(Signal::KILL);
            }
            connection.abort(format!("the provider `{}` was shut down", life.provider));
            End::Stopped
        }
    };
    tell.send_replace(Phase::Ending(end.clone()));
    tokio::select! {
        () = finish(&mut life, timing) => {}
        () = hurried(&mut stopped) => life.kill().await,
    }
    tell.send_replace(Phase::Gone(end));
}

/// Resolves when somebody does not want to wait for an orderly end.
async fn hurried(stopped: &mut mpsc::Receiver<Stop>) {
    loop {
        match stopped.recv().await {
            Some(Stop::AtOnce) => return,
            Some(Stop::InOrder) => {}
            None => std::future::pending().await,
        }
    }
}

/// Fails every call on the connection with what happened.
fn fail(life: &Life, connection: &Connection, what: &str, words: &StderrTail) -> End {
    let at = Instant::now();
    let what = format!("the provider `{}` {what}{words}", life.provider);
    tracing::info!(provider = %life.provider, "{what}");
    connection.abort(what.clone());
    End::Failed { at, what }
}

/// The end of its input was said: waits, asks, and at last makes sure.
async fn finish(life: &mut Life, timing: Timing) {
    for (name, signal) in [("SIGTERM", Signal::TERM), ("SIGKILL", Signal::KILL)] {
        if timeout(timing.grace, life.wait()).await.is_ok() {
            return;
        }
        tracing::warn!(
            provider = %life.provider,
            "the provider did not end within {:?}; sending {name}", timing.grace
        );
        life.signal(signal);
    }
    let _ = life.wait().await;
}

/// Resolves after that time; never without one.
async fn until(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

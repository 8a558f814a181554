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
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Capabilities, Ctx, Error, ErrorKind, Provider, Verb};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::door::{Door, Peer};
use super::first::{self, First};
use super::life::{Held, HeldEnd, LAST_WORDS, Life, Outside, State, Why};
use super::spawner::Spawner;
use super::words::{Words, drain};
use crate::{ConnectOptions, Connection, Strictness};

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

/// What is said and heard over the same pipes before the protocol begins, where the engine has to be put there first.
#[async_trait]
pub trait Introduction: Send {
    /// Speaks with whatever was started, until it is the engine that reads, and has said nothing yet.
    ///
    /// It sees to it that it ends. Where the output ends, it may as well wait: how the process ended is told sooner.
    ///
    /// # Errors
    ///
    /// Why there will be no engine.
    async fn introduce(
        &mut self,
        input: &mut ChildStdin,
        output: &mut ChildStdout,
    ) -> Result<(), Error>;
}

/// How long an engine in a place that runs may take to connect.
const REACH: Duration = Duration::from_secs(5);

/// Why no engine answers. Nothing of it is left, but for a place that somebody else has started.
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

/// Why no engine has come through a door.
#[derive(Debug)]
pub enum DialFault {
    /// The place runs, and its engine has not connected, or whether it has cannot be told: why, in one sentence without its
    /// full stop.
    NotReached(String),
    /// As at any start.
    Start(StartFault),
}

impl From<StartFault> for DialFault {
    fn from(fault: StartFault) -> Self {
        Self::Start(fault)
    }
}

/// An engine that was placed and has answered. It is ended when this is dropped.
#[derive(Debug)]
pub struct Placed {
    connection: Arc<Connection>,
    gone: watch::Receiver<State>,
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
        command: Command,
        options: PlaceOptions,
    ) -> Result<Self, StartFault> {
        Self::introduced(ctx, spawner, command, options, &mut Nothing).await
    }

    /// The same, where something has to be said first.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start); a [`StartFault::Handshake`] with what the introduction failed with.
    pub async fn introduced(
        ctx: &Ctx,
        spawner: &Spawner,
        mut command: Command,
        options: PlaceOptions,
        introduction: &mut dyn Introduction,
    ) -> Result<Self, StartFault> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = spawner.spawn(command).await.map_err(StartFault::Spawn)?;
        let (Some(mut input), Some(mut output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StartFault::Spawn(io::Error::other("it has no pipes")));
        };
        let words = Words::default();
        let drained = tokio::spawn(drain(errors, options.provider.clone(), words.clone()));
        let (tell, gone) = watch::channel(State::There);
        let held_end = gone.clone();
        let greeted = async {
            tell_ahead(&mut input, &options).await?;
            introduction.introduce(&mut input, &mut output).await?;
            greet(output, held_end, input, &options).await
        };
        let opened = match wanted(ctx, greeted, &mut child).await {
            Wanted::Done(opened) => opened,
            Wanted::Ended(status) => {
                let _ = timeout(LAST_WORDS, drained).await;
                return Err(ended(status, &words));
            }
        };
        match opened {
            Ok(connection) => {
                let first = First::beneath(child.id());
                let life = Life {
                    held: Held::Child { child, first },
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

    /// Has a place started by somebody else, lets its engine in by a door, and greets it.
    ///
    /// - `command`: asks for the start, and passes on what the engine writes on standard error until it has its pipes. It is
    ///   killed as soon as the engine has answered: the place does not need it
    /// - `outside`: whoever starts it
    ///
    /// # Errors
    ///
    /// [`DialFault`], after the command has ended. The place is left to the caller.
    pub async fn dialled(
        ctx: &Ctx,
        spawner: &Spawner,
        mut command: Command,
        door: Door,
        outside: Arc<dyn Outside>,
        options: PlaceOptions,
    ) -> Result<Self, DialFault> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut client = spawner.spawn(command).await.map_err(StartFault::Spawn)?;
        let Some(errors) = client.stderr.take() else {
            return Err(StartFault::Spawn(io::Error::other("it has no pipes")).into());
        };
        let words = Words::default();
        let told = tokio::spawn(drain(errors, options.provider.clone(), words.clone()));
        let (tell, gone) = watch::channel(State::There);
        let held_end = gone.clone();
        let greeted = async {
            let reached = reach(&door, &*outside, options.start_timeout).await?;
            let (peer, first) = match reached {
                Reached::By(peer, first) => (peer, first),
                Reached::Not(why) => return Ok(Err(why)),
            };
            let pipes = peer.admit(door.secret()).map_err(|error| {
                refused("the engine could not be handed its pipes").caused_by(error)
            })?;
            drop(door);
            let drained = drain(pipes.errors, options.provider.clone(), words.clone());
            let drained = tokio::spawn(drained);
            let connection = greet(pipes.output, held_end, pipes.input, &options).await?;
            Ok(Ok((connection, first, drained)))
        };
        let opened = match wanted(ctx, greeted, &mut client).await {
            Wanted::Done(opened) => opened,
            Wanted::Ended(status) => {
                let _ = timeout(LAST_WORDS, told).await;
                return Err(ended(status, &words).into());
            }
        };
        let _ = client.kill().await;
        let error = match opened {
            Ok(Ok((connection, first, drained))) => {
                let life = Life {
                    held: Held::Outside { first, outside },
                    connection: Arc::clone(&connection),
                    drained,
                    words,
                    why: options.why,
                };
                tokio::spawn(life.watch(tell));
                return Ok(Self { connection, gone });
            }
            Ok(Err(why)) => return Err(DialFault::NotReached(why)),
            Err(error) => error,
        };
        let _ = timeout(LAST_WORDS, told).await;
        let words = words.text();
        Err(StartFault::Handshake { error, words }.into())
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

    /// Resolves when the process that the place hangs on was waited for, whoever ended it.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut gone = self.gone.clone();
        async move {
            // The sender is only dropped by a task that was ended with the whole runtime.
            let _ = gone.wait_for(|state| *state != State::There).await;
        }
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

fn refused(detail: impl std::fmt::Display) -> Error {
    Error::refused(Verb::Acquire, ErrorKind::ProviderUnavailable).detail(detail)
}

/// What came first.
enum Wanted<T> {
    Done(Result<T, Error>),
    Ended(io::Result<ExitStatus>),
}

/// Waits until an engine has answered, what starts it has ended, or nobody waits for it any more.
async fn wanted<T>(
    ctx: &Ctx,
    greeted: impl Future<Output = Result<T, Error>>,
    started: &mut Child,
) -> Wanted<T> {
    let unwanted = |kind| Error::refused(Verb::Acquire, kind);
    tokio::select! {
        biased;
        done = greeted => Wanted::Done(done),
        status = started.wait() => Wanted::Ended(status),
        () = ctx.cancel().cancelled() => Wanted::Done(Err(unwanted(ErrorKind::Cancelled))),
        () = until(ctx.remaining()) => Wanted::Done(Err(
            unwanted(ErrorKind::DeadlineExceeded).detail("the place was still starting")
        )),
    }
}

fn ended(status: io::Result<ExitStatus>, words: &Words) -> StartFault {
    match status {
        Ok(status) => StartFault::Ended {
            status,
            words: words.text(),
        },
        Err(error) => StartFault::Spawn(error),
    }
}

/// Whether an engine has connected.
enum Reached {
    /// And what the place ends with.
    By(Peer, First),
    /// Why not.
    Not(String),
}

/// Waits for an engine to connect.
async fn reach(door: &Door, outside: &dyn Outside, limit: Duration) -> Result<Reached, Error> {
    let waited = async {
        loop {
            match timeout(REACH, door.peer()).await {
                Ok(peer) => return peer.map(Some),
                // Only a place that runs is slow by itself; on a busy machine it may not even be made yet.
                Err(_) if outside.is_running().await => return Ok(None),
                Err(_) => {}
            }
        }
    };
    match timeout(limit, waited).await {
        Ok(Ok(Some(peer))) => known(peer, outside).await,
        Ok(Ok(None)) => Ok(Reached::Not(format!(
            "nothing has connected within {} s",
            REACH.as_secs()
        ))),
        Ok(Err(error)) => Err(refused("nobody can be waited for at a socket").caused_by(error)),
        Err(_) => Err(refused("the place did not start in time")),
    }
}

/// Whether it is the first process of the place that has connected.
async fn known(peer: Peer, outside: &dyn Outside) -> Result<Reached, Error> {
    let Some(pid) = peer.pid else {
        let why = "whoever has connected is not seen from here";
        return Ok(Reached::Not(why.to_owned()));
    };
    let first = match First::of(pid) {
        Ok(first) => first,
        Err(error) => {
            let why = format!("whoever has connected cannot be seen: {error}");
            return Ok(Reached::Not(why));
        }
    };
    match first {
        // The handle is held meanwhile: what is found out of the number is about the process that it names.
        Some(first) if outside.is_first(pid).await && first.is_there() => {
            Ok(Reached::By(peer, first))
        }
        Some(_) | None => Err(refused(format_args!(
            "process {pid} has connected in the place of the engine, and nothing was given to it; see who it is that runs as \
             this user"
        ))),
    }
}

/// Says hello to an engine, and sees whether it is the one that belongs to this provider.
async fn greet(
    output: impl AsyncRead + Send + Unpin + 'static,
    gone: watch::Receiver<State>,
    input: impl AsyncWrite + Send + Unpin + 'static,
    options: &PlaceOptions,
) -> Result<Arc<Connection>, Error> {
    let connect = ConnectOptions {
        strictness: Strictness::Engine,
        start_timeout: options.start_timeout,
        ..ConnectOptions::new(&options.provider, &options.version)
    };
    let connection = Connection::open(HeldEnd::new(output, gone), input, connect).await?;
    check(&connection, options)?;
    Ok(connection)
}

/// Nothing to be said.
struct Nothing;

#[async_trait]
impl Introduction for Nothing {
    async fn introduce(&mut self, _: &mut ChildStdin, _: &mut ChildStdout) -> Result<(), Error> {
        Ok(())
    }
}

/// Writes what comes ahead of the protocol.
async fn tell_ahead(input: &mut ChildStdin, options: &PlaceOptions) -> Result<(), Error> {
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
    Err(refused(format_args!(
        "the engine beside this provider is version {}, and the provider is {}; install both from one build",
        info.version, options.version
    )))
}

/// Resolves after that time; never without one.
async fn until(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;

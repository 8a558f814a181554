//! `spp shell`: a terminal at a location, joined to the caller's.
//!
//! The process is a spawned one: keys go to it by offset, output is read by offset, so that a size
//! change or a slow screen never holds up the other direction. Its log is a window of bounded size:
//! what was shown is given up, and a shell that prints faster than the screen shows it waits.
//!
//! **Invariant:** the terminal is restored on every way out, a panic included.

use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use sandbox_core::process::{
    BeyondLog, ExitReport, MAX_PROC_READ_BYTES, OutputStream, ProcReadRequest, ProcStatus,
    ProcStdinRequest, ProcStopRequest, ProcessSpec, SpawnRequest, SpawnStdin, Status, Stop,
};
use sandbox_core::{
    Cancel, Ctx, Descriptor, EnvChange, ErrorKind, ProcId, Sandbox, SandboxPath, Verb,
};
use sandbox_host::id::draw_process;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::{Global, Shell};
use crate::failure::{Failure, Result, note};
use crate::input;
use crate::output::{Broken, Sink, Target};
use crate::session::Session;
use crate::signals::{Arrived, Signals};
use crate::terminal::{self, Raw};

/// How much output may wait to be shown, in bytes.
const WINDOW: u64 = 1024 * 1024;
/// How long one look for output waits.
const WAIT: Duration = Duration::from_secs(20);
/// How long to wait before another look at a process whose terminal is closed already.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the shell may take to end when `spp` is asked to.
const GRACE: Duration = Duration::from_secs(1);
/// How long the last output of a shell that was ended may take to be shown.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// Runs it, and returns the exit status.
pub(crate) async fn shell(global: &Global, args: &Shell) -> Result<u8> {
    if global.json {
        return Err(Failure::new(
            "`spp shell` has no --json; use `spp run --json` for one command",
        ));
    }
    // Before anything is opened: without a terminal nothing is to happen.
    let raw = Raw::enter()?;
    let mut signals = Signals::listen()?;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let session = match Session::open(global, &ctx, &cancel, &mut signals).await? {
        Ok(session) => session,
        Err(arrived) => return Ok(arrived.code()),
    };
    let result = attach(session.sandbox(), args, &raw, &mut signals).await;
    session.close(&mut signals).await;
    drop(raw);
    let (report, arrived) = match result {
        Ok(Ended::Reported(report, arrived)) => (report, arrived),
        Ok(Ended::GivenUp(arrived)) => return Ok(arrived.code()),
        Err(failure) => return Err(failure.of_start(Verb::Spawn, &args.command)),
    };
    match report.status {
        Status::Cancelled => Ok(arrived.map_or(report.status.shell_code(), Arrived::code)),
        Status::Exited(_) | Status::Signalled { .. } => Ok(report.status.shell_code()),
        status => {
            note(format_args!("the shell {status}"));
            Ok(status.shell_code())
        }
    }
}

/// How a shell ended.
enum Ended {
    /// By itself, or because it was asked to, by this signal.
    Reported(ExitReport, Option<Arrived>),
    /// This signal came, and what was shown last could not be brought to its end.
    GivenUp(Arrived),
}

async fn attach(
    sandbox: &Arc<dyn Sandbox>,
    args: &Shell,
    raw: &Raw,
    signals: &mut Signals,
) -> Result<Ended> {
    let ctx = Ctx::new();
    let id = draw_process(Verb::Spawn)?;
    // Before the size is taken, so that no change is missed.
    let listen = |kind| signal(kind).map_err(|error| Failure::io("listen for signals", error));
    let mut events = Events {
        resized: listen(SignalKind::window_change())?,
        continued: listen(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        signals,
    };
    let request = SpawnRequest {
        stdin: SpawnStdin::Open,
        ..SpawnRequest::new(id.clone(), process(&sandbox.descriptor(), args)?)
    };
    sandbox.spawn(&ctx, request).await?;
    let mut keys = Keys {
        sandbox: Arc::clone(sandbox),
        id: id.clone(),
        offset: 0,
        from: Some(input::chunks()?),
    };
    let mut arrived = None;
    // Side by side: a shell that waits for its output to be read takes no keys meanwhile.
    tokio::select! {
        report = show(sandbox, &id) => Ok(Ended::Reported(report?, arrived)),
        left = drive(&mut keys, raw, &mut events, &mut arrived) => left.map(Ended::GivenUp),
    }
}

/// Passes on what comes from the caller's side, until that fails or a signal was not heeded in time.
async fn drive(
    keys: &mut Keys,
    raw: &Raw,
    events: &mut Events<'_>,
    arrived: &mut Option<Arrived>,
) -> Result<Arrived> {
    loop {
        let step = tokio::select! {
            step = keys.next() => step,
            step = events.next() => step,
        };
        match step {
            Step::Keys(bytes) => keys.send(bytes).await?,
            Step::Resize => keys.resize().await?,
            Step::Continued => {
                raw.again();
                keys.resize().await?;
            }
            Step::Gone => stop(&keys.sandbox, &keys.id).await,
            Step::Signal(signal) => {
                *arrived = Some(signal);
                let stopped = async {
                    stop(&keys.sandbox, &keys.id).await;
                    // The end is about to be shown, if the screen can show anything.
                    tokio::time::sleep(LAST_OUTPUT).await;
                };
                tokio::select! {
                    () = stopped => {}
                    _ = events.signals.next() => {}
                }
                return Ok(signal);
            }
        }
    }
}

/// What happens around the caller's terminal, other than keys.
struct Events<'s> {
    resized: tokio::signal::unix::Signal,
    continued: tokio::signal::unix::Signal,
    signals: &'s mut Signals,
}

impl Events<'_> {
    async fn next(&mut self) -> Step {
        tokio::select! {
            _ = self.resized.recv() => Step::Resize,
            _ = self.continued.recv() => Step::Continued,
            signal = self.signals.next() => Step::Signal(signal),
        }
    }
}

enum Step {
    Keys(Bytes),
    Resize,
    /// This program was stopped, and goes on.
    Continued,
    /// Nobody types any more.
    Gone,
    Signal(Arrived),
}

fn process(place: &Descriptor, args: &Shell) -> Result<ProcessSpec> {
    let argv = if args.command.is_empty() {
        vec![program(place)?]
    } else {
        args.command
            .iter()
            .map(|argument| argument.clone().into_vec())
            .collect()
    };
    let mut process = ProcessSpec::new(argv);
    process.cwd = args.cwd.clone().unwrap_or_else(SandboxPath::root);
    process.pty = Some(terminal::size());
    process.output.log = WINDOW;
    process.output.beyond = BeyondLog::Block;
    // The terminal is the caller's, so what it understands is too.
    for name in ["TERM", "COLORTERM"] {
        if let Some(value) = std::env::var_os(name) {
            process.env.push(EnvChange::set(name, value.into_vec()));
        }
    }
    Ok(process)
}

/// The caller's shell where the programs are the caller's, otherwise the place's.
fn program(place: &Descriptor) -> Result<Vec<u8>> {
    if place.provider == "local"
        && let Some(shell) = std::env::var_os("SHELL").filter(|shell| !shell.is_empty())
    {
        return Ok(shell.into_vec());
    }
    match &place.shell {
        Some(shell) => Ok(shell.as_bytes().to_vec()),
        None => Err(Failure::new(
            "there is no shell in this place; name a program: `spp shell -- PROGRAM`",
        )),
    }
}

/// Shows output until the process has ended.
async fn show(sandbox: &Arc<dyn Sandbox>, id: &ProcId) -> Result<ExitReport> {
    let ctx = Ctx::new();
    let mut sink = Some(
        Sink::open(Target::Stdout).map_err(|error| Failure::io("write to the terminal", error))?,
    );
    let mut from = 0;
    loop {
        let chunk = sandbox
            .proc_read(
                &ctx,
                ProcReadRequest {
                    id: id.clone(),
                    stream: OutputStream::Stdout,
                    from,
                    max: MAX_PROC_READ_BYTES,
                    wait: WAIT,
                },
            )
            .await?;
        from = chunk.offset + chunk.bytes.len() as u64;
        if !chunk.bytes.is_empty()
            && let Some(open) = &mut sink
            && let Err(broken) = open.write(chunk.bytes).await
        {
            // The screen is gone. The shell is about to be told by a hang-up; until it has ended,
            // its output is only passed over.
            sink = None;
            if let Broken::Failed(error) = broken {
                tracing::debug!("the terminal is gone: {error}");
            }
            stop(sandbox, id).await;
        }
        match chunk.status {
            ProcStatus::Ended(report) if chunk.end => {
                if let Some(sink) = sink {
                    // The shell has ended, whether or not its last output could be shown.
                    let _ = sink.finish().await;
                }
                return Ok(report);
            }
            ProcStatus::Running if chunk.end => tokio::time::sleep(PAUSE).await,
            _ => {}
        }
    }
}

/// What is typed, on its way to the process.
struct Keys {
    sandbox: Arc<dyn Sandbox>,
    id: ProcId,
    offset: u64,
    from: Option<mpsc::Receiver<std::io::Result<Bytes>>>,
}

impl Keys {
    async fn next(&mut self) -> Step {
        let Some(from) = &mut self.from else {
            return std::future::pending().await;
        };
        match from.recv().await {
            Some(Ok(bytes)) => Step::Keys(bytes),
            _ => {
                self.from = None;
                Step::Gone
            }
        }
    }

    async fn send(&mut self, bytes: Bytes) -> Result<()> {
        self.request(bytes, None).await
    }

    async fn resize(&mut self) -> Result<()> {
        self.request(Bytes::new(), Some(terminal::size())).await
    }

    async fn request(
        &mut self,
        bytes: Bytes,
        resize: Option<sandbox_core::process::PtySize>,
    ) -> Result<()> {
        let answer = self
            .sandbox
            .proc_stdin(
                &Ctx::new(),
                ProcStdinRequest {
                    id: self.id.clone(),
                    offset: self.offset,
                    bytes,
                    close: false,
                    resize,
                },
            )
            .await;
        match answer {
            Ok(receipt) => self.offset = receipt.next,
            // It is ending; what it said last is still to be shown.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::StdinClosed | ErrorKind::ProcessNotFound
                ) =>
            {
                self.from = None;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Asks the process to end, and makes sure that it does.
async fn stop(sandbox: &Arc<dyn Sandbox>, id: &ProcId) {
    let request = ProcStopRequest {
        id: id.clone(),
        stop: Stop::Graceful { grace: GRACE },
    };
    if let Err(error) = sandbox.proc_stop(&Ctx::new(), request).await {
        tracing::debug!("{error}");
    }
}

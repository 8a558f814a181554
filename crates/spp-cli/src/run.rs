//! `spp run`: a command at a location, as if it ran here.
//!
//! Output is passed on as it comes, each stream to its own descriptor. What ends a run early, in the
//! order of how it is told by the exit status: a signal to `spp`, a standard output that nobody
//! reads any more, a failure to write it.
//!
//! **Invariant:** however a run ends, nothing that it started is left when `spp` exits, except what the
//! outcome names.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use sandbox_core::process::{
    Delivery, ExecRequest, Execution, Outcome, ProcStopRequest, ProcessSpec, Status, Stop,
};
use sandbox_core::search::{Changes, Completeness, FingerprintDepth, FingerprintScope, Scope};
use sandbox_core::{
    Cancel, Capability, Ctx, EnvChange, ErrorKind, ProcId, Sandbox, SandboxPath, Verb,
};
use sandbox_host::id::draw_process;
use tokio::time::{Instant, sleep_until};

use crate::args::{Global, Run, variable};
use crate::failure::{Failure, Result, note};
use crate::input;
use crate::output::{Broken, Target, copy, print};
use crate::report;
use crate::session::Session;
use crate::signals::{Arrived, Signals};

/// How long an interrupted command may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long output of a run that was ended may take to be written, where nobody seems to read it.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// Most entries of a tree that are looked at with `--track`.
const MAX_TRACKED: u64 = 1_000_000;
/// What a shell calls an end by `SIGPIPE`.
const BROKEN_PIPE: u8 = 128 + 13;

/// Runs it, and returns the exit status.
pub(crate) async fn run(global: &Global, args: &Run) -> Result<u8> {
    let process = process(args)?;
    let mut signals = Signals::listen()?;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let session = match Session::open(global, &ctx, &cancel, &mut signals).await? {
        Ok(session) => session,
        Err(arrived) => return Ok(arrived.code()),
    };
    let run = Running {
        sandbox: Arc::clone(session.sandbox()),
        cancel,
        ctx,
        timeout: args.timeout,
        track: args.track.then(tracked),
        abandoned: Cell::new(false),
    };
    let result = if global.json {
        run.whole(process, &mut signals).await
    } else {
        run.live(process, &mut signals).await
    };
    if run.abandoned.get() {
        session.kill().await;
    } else {
        session.close(&mut signals).await;
    }
    result.map_err(|failure| failure.of_start(Verb::Exec, &args.command))
}

fn process(args: &Run) -> Result<ProcessSpec> {
    let mut process = ProcessSpec::new(args.command.iter().map(|argument| argument.as_bytes()));
    process.env = environment(&args.env)?;
    process.timeout = args.timeout;
    process.cwd = args.cwd.clone().unwrap_or_else(SandboxPath::root);
    Ok(process)
}

/// What counts as a change: whatever git would see, told by its metadata.
fn tracked() -> FingerprintScope {
    FingerprintScope {
        scope: Scope::new(SandboxPath::root()),
        depth: FingerprintDepth::Metadata,
        limit: MAX_TRACKED,
    }
}

fn environment(variables: &[OsString]) -> Result<Vec<EnvChange>> {
    variables
        .iter()
        .map(|text| variable(text).map_err(Failure::new))
        .collect()
}

struct Running {
    sandbox: Arc<dyn Sandbox>,
    cancel: Cancel,
    ctx: Ctx,
    timeout: Option<Duration>,
    track: Option<FingerprintScope>,
    /// Whether somebody asked once more when all was done that could be: then nothing is waited for.
    abandoned: Cell<bool>,
}

impl Running {
    /// Runs with output passed on as it comes.
    async fn live(&self, process: ProcessSpec, signals: &mut Signals) -> Result<u8> {
        let mut execution = self.start(process, Delivery::Live).await?;
        let mut stdout = Some(copy(execution.stdout, Target::Stdout).boxed_local());
        let mut stderr = Some(copy(execution.stderr, Target::Stderr).boxed_local());
        let mut watch = Watch::new(self, execution.id.clone());
        let mut outcome = None;
        let mut broken = None;
        while outcome.is_none() || stdout.is_some() || stderr.is_some() {
            let ended = tokio::select! {
                result = &mut execution.outcome, if outcome.is_none() => {
                    outcome = Some(result);
                    continue;
                }
                result = advance(&mut stdout) => {
                    stdout = None;
                    result.map_err(|error| (Target::Stdout, error))
                }
                result = advance(&mut stderr) => {
                    stderr = None;
                    result.map_err(|error| (Target::Stderr, error))
                }
                () = watch.tick(signals) => {
                    if let Some(arrived) = watch.abandoned {
                        return Ok(arrived.code());
                    }
                    if watch.gave_up {
                        (stdout, stderr) = (None, None);
                    }
                    continue;
                }
            };
            if let Err(error) = ended {
                broken.get_or_insert(error);
                watch.end();
            }
        }
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => execution.outcome.await,
        };
        match broken {
            Some((_, Broken::Closed)) if watch.arrived.is_none() => return Ok(BROKEN_PIPE),
            Some((target, Broken::Failed(error))) => {
                return Err(Failure::io(format_args!("write {}", target.name()), error));
            }
            // A stream that ended early is a failure of its own only if the run knows of none.
            Some((_, Broken::Stream(error))) if outcome.is_ok() && watch.arrived.is_none() => {
                return Err(error.into());
            }
            _ => {}
        }
        match settle(outcome, watch.arrived)? {
            Ok(outcome) => Ok(self.conclude(&outcome, watch.arrived)),
            Err(code) => Ok(code),
        }
    }

    /// Runs to the end and then prints one JSON object.
    async fn whole(&self, process: ProcessSpec, signals: &mut Signals) -> Result<u8> {
        let mut execution = self.start(process, Delivery::AtEnd).await?;
        let mut watch = Watch::new(self, execution.id.clone());
        let outcome = loop {
            tokio::select! {
                outcome = &mut execution.outcome => break outcome,
                () = watch.tick(signals) => {
                    if let Some(arrived) = watch.abandoned {
                        return Ok(arrived.code());
                    }
                }
            }
        };
        match settle(outcome, watch.arrived)? {
            Ok(outcome) => {
                let code = exit_code(&outcome, watch.arrived);
                print(report::line(&report::outcome(&outcome)), signals, code).await
            }
            Err(code) => Ok(code),
        }
    }

    async fn start(&self, process: ProcessSpec, delivery: Delivery) -> Result<Execution> {
        let id = draw_process(Verb::Exec)?;
        let mut request = ExecRequest::new(process)
            .id(id)
            .stdin(input::stdin()?)
            .delivery(delivery);
        request.track.clone_from(&self.track);
        Ok(self.sandbox.exec(&self.ctx, request).await?)
    }

    /// Says what the caller must know about the end, and returns the exit status.
    fn conclude(&self, outcome: &Outcome, arrived: Option<Arrived>) -> u8 {
        match outcome.exit.status {
            Status::TimedOut => {
                let after = self.timeout.unwrap_or(outcome.exit.duration);
                note(format_args!(
                    "the command was ended, with everything it started, after {after:?}"
                ));
            }
            status @ (Status::OutputLimit | Status::MemoryLimit | Status::Lost) => {
                note(format_args!("the command was {status}"));
            }
            Status::Exited(_) | Status::Signalled { .. } | Status::Cancelled => {}
        }
        if let Some(changes) = &outcome.changes {
            say_changes(changes);
        }
        let survivors = &outcome.exit.survivors;
        if survivors.left_total > 0 {
            let named: Vec<String> = survivors
                .left
                .iter()
                .map(|left| format!("{} ({})", left.pid, left.name))
                .collect();
            note(format_args!(
                "{} processes could not be ended and still run: {}",
                survivors.left_total,
                named.join(", ")
            ));
        }
        exit_code(outcome, arrived)
    }
}

fn say_changes(changes: &Changes) {
    let lines = report::changed_lines(changes);
    match &changes.complete {
        Completeness::Complete if lines.is_empty() => note("nothing changed"),
        Completeness::Complete => note(format_args!("what changed:{lines}")),
        Completeness::Incomplete { reason, .. } => {
            note(format_args!(
                "what changed is not known in full: {reason}{lines}"
            ));
        }
    }
}

/// An outcome; or the exit status of a run that was cancelled by a signal before it had one.
fn settle(
    outcome: sandbox_core::Result<Outcome>,
    arrived: Option<Arrived>,
) -> Result<std::result::Result<Outcome, u8>> {
    match (outcome, arrived) {
        (Ok(outcome), _) => Ok(Ok(outcome)),
        (Err(error), Some(arrived)) if error.kind() == ErrorKind::Cancelled => {
            Ok(Err(arrived.code()))
        }
        (Err(error), _) => Err(error.into()),
    }
}

fn exit_code(outcome: &Outcome, arrived: Option<Arrived>) -> u8 {
    match (outcome.exit.status, arrived) {
        (Status::Cancelled, Some(arrived)) => arrived.code(),
        (status, _) => status.shell_code(),
    }
}

/// The result of a copy that is under way; never, of one that is done.
async fn advance<F>(copying: &mut Option<F>) -> std::result::Result<(), Broken>
where
    F: Future<Output = std::result::Result<(), Broken>> + Unpin,
{
    match copying {
        Some(copying) => copying.await,
        None => std::future::pending().await,
    }
}

/// Turns signals into an end of the command: first asking, then making sure.
struct Watch<'r> {
    run: &'r Running,
    id: ProcId,
    /// The first signal that arrived.
    arrived: Option<Arrived>,
    /// When to go one step further.
    deadline: Option<Instant>,
    ended: bool,
    /// Whether output is no longer waited for.
    gave_up: bool,
    /// The signal after which nothing is waited for any more: one that came when all was done that
    /// could be.
    abandoned: Option<Arrived>,
}

impl<'r> Watch<'r> {
    fn new(run: &'r Running, id: ProcId) -> Self {
        Self {
            run,
            id,
            arrived: None,
            deadline: None,
            ended: false,
            gave_up: false,
            abandoned: None,
        }
    }

    /// Waits for the next event and acts on it.
    async fn tick(&mut self, signals: &mut Signals) {
        tokio::select! {
            arrived = signals.next() => self.take(arrived),
            () = sleep(self.deadline) => {
                if self.ended {
                    self.gave_up = true;
                    self.deadline = None;
                } else {
                    self.end();
                }
            }
        }
    }

    fn take(&mut self, arrived: Arrived) {
        if self.gave_up {
            self.abandoned = Some(arrived);
            self.run.abandoned.set(true);
            return;
        }
        let first = self.arrived.is_none();
        self.arrived.get_or_insert(arrived);
        match arrived {
            Arrived::Interrupt | Arrived::Quit if first && !self.ended => {
                self.forward(arrived);
                self.deadline = Some(Instant::now() + PATIENCE);
            }
            _ => self.end(),
        }
    }

    /// Sends the signal to everything that the command started.
    fn forward(&self, arrived: Arrived) {
        if !self
            .run
            .sandbox
            .descriptor()
            .capabilities
            .has(Capability::Spawn)
        {
            self.run.cancel.cancel();
            return;
        }
        let sandbox = Arc::clone(&self.run.sandbox);
        let cancel = self.run.cancel.clone();
        let request = ProcStopRequest {
            id: self.id.clone(),
            stop: Stop::Signal(arrived.number().into()),
        };
        tokio::spawn(async move {
            // A command that cannot be signalled, because it is only just starting or because the
            // way to it is broken, is ended.
            if sandbox.proc_stop(&Ctx::new(), request).await.is_err() {
                cancel.cancel();
            }
        });
    }

    /// Ends the command and everything it started. Doing it again, however often, changes nothing.
    fn end(&mut self) {
        if !self.ended {
            self.run.cancel.cancel();
            self.ended = true;
            self.deadline = Some(Instant::now() + LAST_OUTPUT);
        }
    }
}

async fn sleep(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

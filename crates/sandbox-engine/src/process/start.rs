//! From a request to a run: checked, admitted, given its descriptors.
//!
//! Everything that can be refused without effect is refused here, before anything is made.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use sandbox_core::process::{
    Delivery, ExecRequest, Execution, OutcomeFuture, ProcessSpec, SpawnReceipt, SpawnRequest,
    SpawnStdin, Stdin,
};
use sandbox_core::{ByteStream, Ctx, Error, ErrorKind, ProcId, Result, Verb};
use tokio::sync::{mpsc, oneshot, watch};

use super::Processes;
use super::ends::Ends;
use super::environment::Environment;
use super::input::Input;
use super::log::Log;
use super::oversee::Order;
use super::program::Program;
use super::pump;
use super::run::{Checked, Run};
use super::table::{Entry, Process, State};

impl Processes {
    /// Runs something to completion. See [`Sandbox::exec`](sandbox_core::Sandbox::exec).
    ///
    /// - `directory`: where it starts, opened by whoever knows the sandbox's roots
    ///
    /// # Errors
    ///
    /// Those that are seen at once; a program that cannot be started fails the outcome.
    pub fn exec(
        &self,
        ctx: &Ctx,
        request: ExecRequest,
        directory: impl Into<Arc<OwnedFd>>,
    ) -> Result<Execution> {
        let verb = Verb::Exec;
        if request.track.is_some() {
            return Err(Error::refused(verb, ErrorKind::Unsupported)
                .detail("changes are not tracked here; leave `track` out"));
        }
        let checked = self.check(verb, ctx, request.process, directory.into())?;
        let id = match request.id {
            Some(id) => id,
            None => drawn()?,
        };
        let has_input = !matches!(request.stdin, Stdin::Null) || checked.spec.pty.is_some();
        let ends = Ends::open(verb, checked.spec.pty, has_input, &self.spare)?;
        let (stdout, out) = deliver(request.delivery);
        let (stderr, err) = match checked.spec.pty {
            None => deliver(request.delivery),
            Some(_) => (None, pump::nothing()),
        };
        let mut run = self.admit(ctx, checked, ends, &id, None)?;
        // The pipe belongs to the feeder and not to the table: `proc_stdin` cannot write to it.
        run.stdin = run.ends.input.take().map(|pipe| (pipe, request.stdin));
        run.readers = [stdout, stderr];
        let guard = CancelOnDrop(Some(run.entry.orders.downgrade()));
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(run.exec(sender));
        let outcome: OutcomeFuture = Box::pin(async move {
            let answer = receiver.await;
            // What the call left running stays although nobody waits any more.
            guard.disarm();
            answer.unwrap_or_else(|_| Err(abandoned(Verb::Exec)))
        });
        Ok(Execution {
            id,
            stdout: out,
            stderr: err,
            outcome,
        })
    }

    /// Starts something that runs on. See [`Sandbox::spawn`](sandbox_core::Sandbox::spawn).
    ///
    /// - `directory`: as for [`exec`](Self::exec)
    ///
    /// # Errors
    ///
    /// As the port says.
    pub async fn spawn(
        &self,
        ctx: &Ctx,
        request: SpawnRequest,
        directory: impl Into<Arc<OwnedFd>>,
    ) -> Result<SpawnReceipt> {
        let verb = Verb::Spawn;
        if let Some(receipt) = self.repeated(&request).await? {
            return Ok(receipt);
        }
        let checked = self.check(verb, ctx, request.process.clone(), directory.into())?;
        let has_input = request.stdin == SpawnStdin::Open || checked.spec.pty.is_some();
        let ends = Ends::open(verb, checked.spec.pty, has_input, &self.spare)?;
        let id = request.id.clone();
        // Its life is not the call's: only orders end it.
        let run = self.admit(&Ctx::new(), checked, ends, &id, Some(request))?;
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(run.spawn(sender));
        let pid = receiver.await.unwrap_or_else(|_| Err(abandoned(verb)))?;
        Ok(SpawnReceipt { id, pid })
    }

    /// The receipt of an equal request that came before, if there was one.
    async fn repeated(&self, request: &SpawnRequest) -> Result<Option<SpawnReceipt>> {
        let Some(Entry { process, .. }) = self.table.find(&request.id) else {
            return Ok(None);
        };
        if process.spawned.as_ref() != Some(request) {
            return Err(Error::refused(Verb::Spawn, ErrorKind::Conflict)
                .on(&request.id)
                .detail("the id belongs to another request; choose a new one"));
        }
        let mut state = process.state.subscribe();
        let decided = state
            .wait_for(|state| !matches!(state, State::Starting))
            .await;
        Ok(match decided.as_deref() {
            Ok(State::Running(pid) | State::Ended(pid, _)) => Some(SpawnReceipt {
                id: request.id.clone(),
                pid: *pid,
            }),
            // It was never started, so this call is not a repetition.
            Ok(State::Starting | State::Refused) | Err(_) => None,
        })
    }

    /// Checks what can be checked without making anything.
    fn check(
        &self,
        verb: Verb,
        ctx: &Ctx,
        spec: ProcessSpec,
        directory: Arc<OwnedFd>,
    ) -> Result<Checked> {
        if ctx.cancel().is_cancelled() {
            return Err(Error::refused(verb, ErrorKind::Cancelled));
        }
        if ctx.remaining().is_some_and(|left| left.is_zero()) {
            return Err(Error::refused(verb, ErrorKind::DeadlineExceeded));
        }
        let mut environment = self.environment();
        environment.change(verb, &spec.env)?;
        if spec.pty.is_some() {
            environment.name_terminal();
        }
        let program = Program::new(verb, &spec.argv, &environment)?;
        Ok(Checked {
            verb,
            program,
            environment,
            spec,
            directory,
        })
    }

    fn environment(&self) -> Environment {
        self.environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Gives everything that is started from now on these variables.
    pub fn set_environment(&self, environment: Environment) {
        *self
            .environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = environment;
    }

    /// Takes a slot and a place in the table.
    fn admit(
        &self,
        ctx: &Ctx,
        checked: Checked,
        mut ends: Ends,
        id: &ProcId,
        spawned: Option<SpawnRequest>,
    ) -> Result<Run> {
        let verb = checked.verb;
        let permit = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let most = self.settings.concurrency;
            Error::refused(verb, ErrorKind::Busy)
                .on(id)
                .detail(format_args!(
                    "{most} processes run already; wait for one, or raise the limit"
                ))
        })?;
        let log = || {
            let directory = self.settings.log_directory.clone();
            Arc::new(Log::new(
                checked.spec.output,
                directory,
                Arc::clone(&self.budget),
            ))
        };
        let piecewise = if spawned.is_some() {
            ends.input.take()
        } else {
            None
        };
        let (orders, received) = mpsc::unbounded_channel();
        let process = Arc::new(Process {
            id: id.clone(),
            spawned,
            stdout: log(),
            stderr: log(),
            input: Input::new(piecewise, ends.terminal.take()),
            state: watch::Sender::new(State::Starting),
        });
        let entry = Entry { process, orders };
        self.table.add(verb, entry.clone())?;
        let timeout = [checked.spec.timeout, self.settings.wall_time]
            .into_iter()
            .flatten()
            .min();
        Ok(Run {
            checked,
            ends,
            stdin: None,
            readers: [None, None],
            entry,
            orders: received,
            ctx: ctx.clone(),
            table: Arc::clone(&self.table),
            pool: self.pool.clone(),
            spare: Arc::clone(&self.spare),
            timeout,
            limits: self.settings.limits.clone(),
            privileges: self.settings.privileges,
            permit,
        })
    }
}

/// Cancels a run whose outcome nobody waits for any more.
struct CancelOnDrop(Option<mpsc::WeakUnboundedSender<Order>>);

impl CancelOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(orders) = self.0.take().and_then(|orders| orders.upgrade()) {
            let _ = orders.send(Order::Cancel);
        }
    }
}

fn deliver(delivery: Delivery) -> (Option<mpsc::Sender<bytes::Bytes>>, ByteStream) {
    match delivery {
        Delivery::AtEnd => (None, pump::nothing()),
        Delivery::Live => {
            let (sender, stream) = pump::live();
            (Some(sender), stream)
        }
    }
}

fn abandoned(verb: Verb) -> Error {
    Error::new(verb, ErrorKind::Internal).detail("the task that watched the process is gone")
}

/// An id for a request that brought none.
fn drawn() -> Result<ProcId> {
    let failed = |kind| Error::refused(Verb::Exec, kind);
    let number = getrandom::u64().map_err(|error| {
        failed(ErrorKind::Io).detail(format_args!("no randomness for an id: {error}"))
    })?;
    ProcId::new(format!("exec-{number:016x}"))
        .map_err(|error| failed(ErrorKind::Internal).caused_by(error))
}

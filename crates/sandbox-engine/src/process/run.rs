//! One run, from the launch to the moment when nothing of it is left.
//!
//! It is a task of its own, which goes on when the caller does not: a tree is not left behind because
//! nobody waits for it any more, it is ended because of that.
//!
//! **Invariant:** a process is in the state `Ended` only after its output is complete in its logs,
//! apart from what a process that was left on purpose still writes.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::process::{Descendants, Outcome, ProcessSpec, Status, Stdin};
use sandbox_core::{Ctx, Error, Result, Verb};
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::ends::{Ends, Spare};
use super::environment::Environment;
use super::oversee::{MemoryWatch, Order, Overseer};
use super::program::Program;
use super::pump::{self, Flow};
use super::table::{Entry, State, Table};
use super::{input, terminal};
use crate::supervisor::{Announce, Launch, Pool, Privileges, RlimitSpec, Running, Terminal};

/// A request that was found to be in order.
pub(super) struct Checked {
    pub(super) verb: Verb,
    pub(super) program: Program,
    pub(super) environment: Environment,
    pub(super) spec: ProcessSpec,
    pub(super) directory: Arc<OwnedFd>,
}

/// Everything that the task of a run needs.
pub(super) struct Run {
    pub(super) checked: Checked,
    pub(super) ends: Ends,
    /// Written by a task of its own, where the request brought it along.
    pub(super) stdin: Option<(pipe::Sender, Stdin)>,
    pub(super) readers: [Option<mpsc::Sender<bytes::Bytes>>; 2],
    pub(super) entry: Entry,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) ctx: Ctx,
    pub(super) table: Arc<Table>,
    pub(super) pool: Pool,
    pub(super) spare: Arc<Spare>,
    pub(super) timeout: Option<Duration>,
    pub(super) limits: Vec<RlimitSpec>,
    pub(super) privileges: Privileges,
    pub(super) permit: OwnedSemaphorePermit,
}

impl Run {
    /// Answers with the outcome.
    pub(super) async fn exec(self, done: oneshot::Sender<Result<Outcome>>) {
        let answer = self.live(Announce::Later, |_| {}, done).await;
        if let Some((done, error)) = answer {
            let _ = done.send(Err(error));
        }
    }

    /// Answers with the number of the leader.
    pub(super) async fn spawn(self, started: oneshot::Sender<Result<u32>>) {
        let mut started = Some(started);
        let (done, _) = oneshot::channel();
        let told = |pid| {
            if let Some(started) = started.take() {
                let _ = started.send(Ok(pid));
            }
        };
        let answer = self.live(Announce::Now, told, done).await;
        if let (Some((_, error)), Some(started)) = (answer, started) {
            let _ = started.send(Err(error));
        }
    }

    /// Lives through the whole run. Returns what it was given to answer with if nothing was started.
    async fn live(
        mut self,
        announce: Announce,
        started: impl FnOnce(u32),
        done: oneshot::Sender<Result<Outcome>>,
    ) -> Option<(oneshot::Sender<Result<Outcome>>, Error)> {
        let process = Arc::clone(&self.entry.process);
        // Out of the table first, so that whoever hears of it may use the id again.
        let refuse = |table: &Table| {
            table.remove(&process.id);
            process.state.send_replace(State::Refused);
        };
        let memory = MemoryWatch::of(&self.pool);
        let running = match self.launch(announce).await {
            Ok(running) => running,
            Err(error) => {
                refuse(&self.table);
                return Some((done, error));
            }
        };
        let pid = running.pid().unsigned_abs();
        if announce == Announce::Now {
            process.state.send_replace(State::Running(pid));
            started(pid);
        }

        let Run {
            checked,
            ends,
            stdin,
            readers,
            entry,
            orders,
            ctx,
            table,
            spare,
            timeout,
            permit,
            ..
        } = self;
        let ProcessSpec {
            grace, descendants, ..
        } = checked.spec;
        // Held on, they would keep every stream from ending.
        drop((ends.input_end, ends.output_ends));
        // Only a weak way to give orders: the table decides whether anybody can.
        let own_orders = entry.orders.downgrade();
        drop(entry);
        let mut overseer = Overseer::new(running, orders, ctx, timeout, grace, descendants, memory);
        let logs = [&process.stdout, &process.stderr];
        if ends.outputs.len() < logs.len() {
            process.stderr.end();
        }
        for ((pipe, log), reader) in ends.outputs.into_iter().zip(logs).zip(readers) {
            let flow = Arc::new(Flow::new());
            overseer.flows.push(Arc::clone(&flow));
            let over = ordering(own_orders.clone(), Order::Over);
            overseer
                .pumps
                .spawn(pump::pump(pipe, Arc::clone(log), flow, reader, over));
        }
        let end_of_input: &[u8] = if checked.spec.pty.is_some() {
            terminal::END_OF_INPUT
        } else {
            b""
        };
        let feeder = stdin.map(|(pipe, stdin)| {
            let broken = ordering(own_orders.clone(), Order::Cancel);
            tokio::spawn(async move {
                let fed = input::feed(pipe, stdin, end_of_input).await;
                if fed.is_err() {
                    broken();
                }
                fed
            })
        });

        let end = overseer
            .run(|| logs.iter().for_each(|log| log.unblock()))
            .await;
        let torn = match feeder {
            Some(feeder) => {
                feeder.abort();
                // Aborted is as good as fed: the command did not wait for the rest.
                feeder.await.ok().and_then(Result::err)
            }
            None => None,
        };
        let end = match end {
            Ok(end) => end,
            Err(refused) => {
                refuse(&table);
                let Checked {
                    verb,
                    program,
                    directory,
                    ..
                } = &checked;
                return Some((done, program.refusal(*verb, refused, directory.as_fd())));
            }
        };
        let left = descendants == Descendants::Leave && end.report.survivors.left_total > 0;
        if !left {
            logs.iter().for_each(|log| log.end());
        }
        process
            .state
            .send_replace(State::Ended(pid, end.report.clone()));
        drop(permit);
        let answer = match (end.failed, torn) {
            (Some(kind), _) => Err(Error::new(checked.verb, kind)
                .on(&process.id)
                .detail("the process was ended; what it wrote can be read by its id")),
            // It was ended for that, and a status alone would not say so.
            (None, Some(torn)) if end.report.status == Status::Cancelled => {
                Err(Error::new(checked.verb, torn.kind())
                    .on(&process.id)
                    .detail(format_args!(
                        "its input failed ({}), and the process was ended; what it wrote can be read by its id",
                        torn.detail_text()
                    ))
                    .caused_by(torn))
            }
            (None, _) => Ok(Outcome {
                id: process.id.clone(),
                exit: end.report,
                stdout: process.stdout.output(),
                stderr: process.stderr.output(),
                changes: None,
            }),
        };
        let _ = done.send(answer);
        if left {
            overseer.stay().await;
            logs.iter().for_each(|log| log.end());
            process.state.send_modify(|state| {
                if let State::Ended(_, report) = state {
                    report.survivors.left.clear();
                    report.survivors.left_total = 0;
                }
            });
        }
        table.ended(&process.id);
        logs.iter().for_each(|log| log.finish());
        // Whoever waits for the answer comes first; what is tidied up and laid ready is not theirs.
        tokio::task::yield_now().await;
        drop(overseer);
        spare.refill();
        None
    }

    /// Starts it, and gives up our copies of what is the process's.
    async fn launch(&mut self, announce: Announce) -> Result<Running> {
        let Checked {
            verb,
            program,
            environment,
            spec,
            directory,
        } = &self.checked;
        let launch = Launch {
            candidates: borrowed(&program.candidates),
            argv: borrowed(&program.argv),
            env: environment.entries().map(Cow::Borrowed).collect(),
            limits: self.limits.clone(),
            terminal: match spec.pty {
                Some(_) => Terminal::Controlling,
                None => Terminal::None,
            },
            privileges: self.privileges,
            directory: directory.as_fd(),
            streams: self.ends.streams(*verb)?,
            timeout: self.timeout,
            grace: spec.grace,
            announce,
        };
        let started = self.pool.run(&launch).await;
        started.map_err(|error| program.refusal(*verb, error, directory.as_fd()))
    }
}

fn borrowed(strings: &[CString]) -> Vec<Cow<'_, CStr>> {
    strings
        .iter()
        .map(|string| Cow::Borrowed(string.as_c_str()))
        .collect()
}

/// Something that gives an order, as long as anybody may.
fn ordering(orders: mpsc::WeakUnboundedSender<Order>, order: Order) -> impl Fn() + Send {
    move || {
        if let Some(orders) = orders.upgrade() {
            let _ = orders.send(order);
        }
    }
}

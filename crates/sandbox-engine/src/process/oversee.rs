//! What happens to a run between its start and the moment when nothing of it is left.
//!
//! The order is fixed. The leader ends, by itself or because the tree was ended. Then its output is
//! read on for a moment, because what it wrote last may still be in the pipe, and something it
//! started may still hold the other end. Then the rest of the tree is killed, or named. Only then is
//! there a report.
//!
//! **Invariant:** a report says that nothing is left, or names what is. Whoever gets one may free
//! what the run had.
//!
//! Not here: starting (`run`), the tree itself (`supervisor`).

use std::sync::Arc;
use std::time::Duration;

use sandbox_cgroup::{Controller, Group};
use sandbox_core::process::{DRAIN, Descendants, ExitReport, Status, Survivor, Survivors, Usage};
use sandbox_core::{Ctx, ErrorKind};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::input::past;
use super::pump::Flow;
use crate::supervisor::{self, Event, LaunchError, Pool, Running, Scope};

/// How often the drain looks whether a reader makes it wait.
const TICK: Duration = Duration::from_millis(20);

/// What others want of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Send a signal to the tree.
    Signal(i32),
    /// End the tree, politely for this long.
    Stop(Duration),
    /// End the tree as the request says, because whoever waited for it went away.
    Cancel,
    /// End the tree, because it wrote too much.
    Over,
}

/// Why a tree was ended before its leader ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Cancelled,
    Deadline,
    Over,
}

/// Watches over one run.
#[derive(Debug)]
pub(super) struct Overseer {
    pub(super) running: Running,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) pumps: JoinSet<pipe::Receiver>,
    /// Pipes that were read to their end.
    pub(super) read: Vec<pipe::Receiver>,
    pub(super) flows: Vec<Arc<Flow>>,
    pub(super) ctx: Ctx,
    pub(super) grace: Duration,
    pub(super) descendants: Descendants,
    reason: Option<Reason>,
    /// When the tree that was told to end has to be gone.
    due: Option<Instant>,
    /// When the supervisor, which keeps the time, should have ended the tree by itself. If it was
    /// stopped it has not, and whoever waits for it by this moment wakes it.
    last_call: Option<Instant>,
    /// Tells who was killed because memory was used up.
    memory: MemoryWatch,
    /// Nobody can give orders any more.
    abandoned: bool,
}

/// Tells whether a process was killed because the memory of its group was used up.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    group: Option<Arc<Group>>,
    /// How often that had happened before the process was started.
    before: u64,
}

impl MemoryWatch {
    /// Begins to watch the group that a pool puts everything into, if its memory is limited.
    pub(super) fn of(pool: &Pool) -> Self {
        let limited = |group: &&Arc<Group>| {
            let mut enforced = group.enforced();
            enforced.any(|(controller, _)| controller == Controller::Memory)
        };
        let group = pool.confinement().group.as_ref().filter(limited).cloned();
        MemoryWatch {
            before: group.as_ref().map_or(0, |group| group.fired().memory),
            group,
        }
    }

    fn explains(&self, status: i32) -> bool {
        let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
        killed && self.fired()
    }

    fn fired(&self) -> bool {
        let fired = |group: &Arc<Group>| group.fired().memory > self.before;
        self.group.as_ref().is_some_and(fired)
    }

    /// How a run ended whose supervisor is gone, which is in the group too.
    fn of_lost(&self) -> Status {
        match self.fired() {
            true => Status::MemoryLimit,
            false => Status::Lost,
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) report: ExitReport,
    /// The call was cut by its own deadline and has no outcome.
    pub(super) failed: Option<ErrorKind>,
}

/// How the leader ended.
struct Leader {
    status: Status,
    usage: supervisor::Usage,
    alone: bool,
    /// The supervisor ends the rest already, or nothing can be said about it any more.
    ending: bool,
    survivors: Survivors,
}

impl Overseer {
    pub(super) fn new(
        running: Running,
        orders: mpsc::UnboundedReceiver<Order>,
        ctx: Ctx,
        timeout: Option<Duration>,
        grace: Duration,
        descendants: Descendants,
        memory: MemoryWatch,
    ) -> Self {
        let last_call =
            timeout.and_then(|timeout| Instant::now().checked_add(timeout)?.checked_add(grace));
        Overseer {
            running,
            orders,
            pumps: JoinSet::new(),
            read: Vec::new(),
            flows: Vec::new(),
            ctx,
            grace,
            descendants,
            reason: None,
            due: None,
            last_call,
            memory,
            abandoned: false,
        }
    }

    /// Waits until the run is over, or only what was to be left is left.
    ///
    /// - `leader_ended`: called as soon as the leader has
    ///
    /// The error is that it could not be started at all.
    pub(super) async fn run(&mut self, leader_ended: impl FnOnce()) -> Result<End, LaunchError> {
        let started = Instant::now();
        let leader = match self.leader().await {
            Ok(leader) => leader,
            Err(refused) => {
                self.pumps.shutdown().await;
                return Err(refused);
            }
        };
        let duration = started.elapsed();
        leader_ended();
        let mut usage = leader.usage;
        let mut survivors = leader.survivors;
        if !leader.alone {
            let (killed, more, left) = match self.rest(leader.ending).await {
                Some(Event::Swept {
                    killed,
                    usage,
                    survivors,
                }) => (killed, usage, survivors),
                Some(Event::Lost { killed, survivors }) => {
                    (killed, supervisor::Usage::default(), survivors)
                }
                Some(Event::Exited { .. } | Event::Failed(_)) | None => Default::default(),
            };
            usage.add(more);
            survivors.killed = survivors.killed.saturating_add(killed);
            name(&mut survivors, left);
        }
        if self.leaves(&survivors) {
            self.flows.iter().for_each(|flow| flow.detach());
        } else {
            self.drain(false).await;
            self.pumps.shutdown().await;
        }
        let failed = (self.reason == Some(Reason::Deadline)).then_some(ErrorKind::DeadlineExceeded);
        let report = ExitReport {
            status: leader.status,
            duration,
            usage: usage_of(usage),
            survivors,
        };
        Ok(End { report, failed })
    }

    /// Whether something stays on purpose.
    fn leaves(&self, survivors: &Survivors) -> bool {
        self.descendants == Descendants::Leave && self.due.is_none() && survivors.left_total > 0
    }

    /// Stays with what was left until it ends or is told to.
    pub(super) async fn stay(&mut self) {
        loop {
            tokio::select! {
                event = self.running.event(self.due) => match event {
                    Some(Event::Swept { survivors, .. }) if survivors.count > 0 && self.due.is_none() => {}
                    _ => break,
                },
                order = self.orders.recv(), if !self.abandoned => self.obey(order),
            }
        }
        self.drain(false).await;
        self.pumps.shutdown().await;
    }

    /// Waits for the leader, ending the tree if somebody wants that.
    async fn leader(&mut self) -> Result<Leader, LaunchError> {
        loop {
            let patient = self.reason.is_none();
            tokio::select! {
                event = self.running.event(self.due.or(self.last_call)) => match event {
                    Some(Event::Failed(refused)) => return Err(refused),
                    Some(Event::Exited { status, usage, timed_out, alone }) => {
                        let status = self.status(status, timed_out);
                        let ending = timed_out || self.reason.is_some();
                        if ending && self.due.is_none() {
                            self.due = Some(Instant::now() + self.grace);
                        }
                        return Ok(Leader { status, usage, alone, ending, survivors: Survivors::default() });
                    }
                    Some(Event::Swept { .. }) => {}
                    Some(Event::Lost { killed, survivors: left }) => {
                        let mut survivors = Survivors { killed, ..Survivors::default() };
                        name(&mut survivors, left);
                        return Ok(lost(self.memory.of_lost(), survivors));
                    }
                    None => return Ok(lost(self.memory.of_lost(), Survivors::default())),
                },
                order = self.orders.recv(), if !self.abandoned => self.obey(order),
                () = self.ctx.cancel().cancelled(), if patient => {
                    self.end(Reason::Cancelled, self.grace);
                }
                () = past(&self.ctx), if patient => self.end(Reason::Deadline, self.grace),
            }
        }
    }

    fn status(&self, status: i32, timed_out: bool) -> Status {
        match self.reason {
            _ if timed_out => Status::TimedOut,
            Some(Reason::Over) => Status::OutputLimit,
            Some(Reason::Cancelled | Reason::Deadline) => Status::Cancelled,
            None if self.memory.explains(status) => Status::MemoryLimit,
            None if libc::WIFSIGNALED(status) => Status::Signalled {
                signal: libc::WTERMSIG(status),
                core: libc::WCOREDUMP(status),
            },
            None => Status::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX)),
        }
    }

    /// Deals with what outlived the leader, and returns what became of it.
    async fn rest(&mut self, ending: bool) -> Option<Event> {
        if !ending {
            if let Some(event) = self.drain(true).await {
                return Some(event);
            }
            if self.descendants == Descendants::Leave && self.due.is_none() {
                self.running.leave();
                return self.running.event(Some(Instant::now())).await;
            }
            if self.due.is_none() {
                self.running.sweep();
                self.due = Some(Instant::now());
            }
        }
        loop {
            tokio::select! {
                event = self.running.event(self.due) => return event,
                order = self.orders.recv(), if !self.abandoned => self.obey(order),
            }
        }
    }

    /// Reads on until every stream has ended or the time is over. Time in which a reader makes us
    /// wait does not count.
    ///
    /// - `attentive`: comes back early with an event, and when the tree is to be ended
    async fn drain(&mut self, attentive: bool) -> Option<Event> {
        let mut spent = Duration::ZERO;
        while spent < DRAIN {
            tokio::select! {
                // Nobody reads any more: every stream has ended.
                ended = self.pumps.join_next() => self.read.extend(ended?.ok()),
                event = self.running.event(None), if attentive => return event,
                order = self.orders.recv(), if attentive && !self.abandoned => {
                    self.obey(order);
                    if self.due.is_some() {
                        return None;
                    }
                }
                () = self.ctx.cancel().cancelled(), if attentive => {
                    self.end(Reason::Cancelled, self.grace);
                    return None;
                }
                () = tokio::time::sleep(TICK) => {
                    if !self.flows.iter().any(|flow| flow.is_stalled()) {
                        spent += TICK;
                    }
                }
            }
        }
        None
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            // Nobody may be left to hear of it.
            Some(Order::Signal(signal)) => drop(self.running.signal(signal, Scope::Tree)),
            Some(Order::Stop(grace)) => self.end(Reason::Cancelled, grace),
            Some(Order::Cancel) => self.end(Reason::Cancelled, self.grace),
            Some(Order::Over) => self.end(Reason::Over, Duration::ZERO),
            None => {
                self.abandoned = true;
                self.end(Reason::Cancelled, Duration::ZERO);
            }
        }
    }

    /// Has the tree ended. A second time only shortens the grace.
    fn end(&mut self, reason: Reason, grace: Duration) {
        self.reason.get_or_insert(reason);
        let due = Instant::now() + grace;
        if self.due.is_none_or(|before| due < before) {
            self.due = Some(due);
            self.running.stop(grace);
        }
    }
}

fn lost(status: Status, survivors: Survivors) -> Leader {
    // With the supervisor everything that could be killed is gone already.
    Leader {
        status,
        usage: supervisor::Usage::default(),
        alone: true,
        ending: true,
        survivors,
    }
}

fn usage_of(usage: supervisor::Usage) -> Usage {
    Usage {
        user: Duration::from_micros(usage.user_micros),
        system: Duration::from_micros(usage.system_micros),
        peak_memory: usage.peak_kib.saturating_mul(1024),
    }
}

/// Looks up the names of what is left.
fn name(survivors: &mut Survivors, left: supervisor::Survivors) {
    survivors.left_total = left.count;
    survivors.left = left
        .pids()
        .filter_map(|pid| {
            let pid = u32::try_from(pid).ok()?;
            let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            Some(Survivor {
                pid,
                name: String::from_utf8_lossy(name.trim_ascii_end()).into_owned(),
            })
        })
        .collect();
}

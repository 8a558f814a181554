//! The handle of a run: what is asked of its supervisor, and what the supervisor says of it.
//!
//! **Invariants.**
//! - A supervisor goes back to the pool only after it said that no child is left. Any other is closed,
//!   which makes it kill what it has.
//! - Every wait for a supervisor is bounded, once it has been told to end something: it is woken in
//!   case somebody stopped it, then killed, and its orphans are killed from here.
//!
//! Not here: starting a run (`pool`).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fork;
use super::pool::{LaunchError, Shared, Supervisor};
use super::wire::{Reply, Request, Scope, Stage, Survivors, Usage, millis};

/// What happened to a run.
#[derive(Debug)]
pub enum Event {
    /// It could not be started; no event follows. Only with `Announce::Later`.
    Failed(LaunchError),
    /// The leader ended.
    Exited {
        /// As `wait(2)` gives it.
        status: i32,
        /// What the leader and the descendants it waited for used.
        usage: Usage,
        /// The timeout had passed before.
        timed_out: bool,
        /// Nothing of the run is left; no event follows.
        alone: bool,
    },
    /// The rest of the tree ended, was ended, or is named. If nothing survives, no event follows.
    Swept {
        /// Processes that were killed.
        killed: u32,
        /// What processes used that came back to the supervisor.
        usage: Usage,
        /// What is still there.
        survivors: Survivors,
    },
    /// The supervisor is gone. What it left was killed; no event follows.
    Lost {
        /// Processes that were killed.
        killed: u32,
        /// Those that could not be.
        survivors: Survivors,
    },
}

/// A run. Dropping it before its last event kills the tree.
#[derive(Debug)]
pub struct Running {
    supervisor: Option<Supervisor>,
    pool: Arc<Shared>,
    /// Which of its supervisor's runs it is.
    run: u64,
    pid: i32,
    /// When it was to be started, while nothing was heard of it.
    told_by: Option<Instant>,
    ended: bool,
}

impl Running {
    /// A run that was just asked for.
    pub(super) fn new(supervisor: Supervisor, pool: Arc<Shared>) -> Self {
        Running {
            run: supervisor.runs,
            supervisor: Some(supervisor),
            pool,
            pid: 0,
            told_by: Some(Instant::now()),
            ended: false,
        }
    }

    /// Waits until it is told that the program runs.
    pub(super) async fn started(mut self) -> Result<Self, LaunchError> {
        match self.reply(None).await {
            Some(Reply::Started { pid }) => {
                self.note_start(pid);
                Ok(self)
            }
            Some(Reply::Failed { stage, errno }) => {
                self.give_back();
                Err(failed(stage, errno))
            }
            Some(Reply::Exited { .. } | Reply::Swept { .. }) | None => {
                self.lose().await;
                Err(LaunchError::Lost)
            }
        }
    }

    /// The leader's process number; 0 while its start was not told.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal. That nobody is left to get it is no error.
    ///
    /// # Errors
    ///
    /// The supervisor does not read what it is sent: it was stopped, or is gone.
    pub fn signal(&self, signal: i32, scope: Scope) -> io::Result<()> {
        self.send(Request::Signal { signal, scope })
    }

    /// Asks the tree to end; what is left after `grace` is killed. [`Event::Swept`] follows, unless
    /// the tree has already ended.
    pub fn stop(&self, grace: Duration) {
        // A supervisor that cannot be told is found out by `end`.
        let _ = self.send(Request::Stop {
            grace_ms: millis(grace),
        });
    }

    /// Kills what is left. [`Event::Swept`] follows, unless the tree has already ended.
    pub fn sweep(&self) {
        let _ = self.send(Request::Sweep);
    }

    /// Asks what is left, and lets it run. [`Event::Swept`] names it, and comes once more when all
    /// of it has ended.
    pub fn leave(&self) {
        let _ = self.send(Request::Leave);
    }

    /// Waits for the next event; `None` after the last one. Safe to drop and call again.
    ///
    /// - `due`: when something that was told to end should have ended. A supervisor that says
    ///   nothing a little after that is woken, in case somebody stopped it, and then taken for lost.
    pub async fn event(&mut self, due: Option<Instant>) -> Option<Event> {
        if self.ended {
            return None;
        }
        let reply = loop {
            match self.reply(due).await {
                Some(Reply::Started { pid }) if self.told_by.is_some() => self.note_start(pid),
                reply => break reply,
            }
        };
        Some(self.take_note(reply).await)
    }

    /// The supervisor's next word. Its first one is due at once.
    async fn reply(&self, due: Option<Instant>) -> Option<Reply> {
        let due = match (self.told_by, due) {
            (Some(told_by), Some(due)) => Some(told_by.min(due)),
            (told_by, due) => told_by.or(due),
        };
        match (&self.supervisor, due) {
            (Some(supervisor), None) => supervisor.reply().await,
            (Some(supervisor), Some(due)) => supervisor.reply_by(due).await,
            (None, _) => None,
        }
    }

    fn note_start(&mut self, pid: i32) {
        self.pid = pid;
        self.told_by = None;
    }

    async fn take_note(&mut self, reply: Option<Reply>) -> Event {
        let starting = self.told_by.take().is_some();
        match reply {
            Some(Reply::Failed { stage, errno }) if starting => {
                self.give_back();
                Event::Failed(failed(stage, errno))
            }
            Some(Reply::Exited {
                status,
                usage,
                timed_out,
                alone,
            }) => {
                if alone {
                    self.give_back();
                }
                Event::Exited {
                    status,
                    usage,
                    timed_out,
                    alone,
                }
            }
            Some(Reply::Swept {
                killed,
                usage,
                survivors,
            }) => {
                if survivors.count == 0 {
                    self.give_back();
                }
                Event::Swept {
                    killed,
                    usage,
                    survivors,
                }
            }
            Some(Reply::Started { .. } | Reply::Failed { .. }) | None => self.lose().await,
        }
    }

    /// Makes sure that the supervisor is gone, and ends what it left. Whoever drops this half-way
    /// finds the socket ended the next time, and comes here again.
    async fn lose(&mut self) -> Event {
        let mut killed = 0;
        let mut survivors = Survivors::default();
        if let Some(pid) = self.supervisor.as_ref().map(|supervisor| supervisor.pid) {
            fork::kill(pid);
            while !fork::is_gone(pid) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (count, left) = fork::sweep_orphans().await;
            killed = count;
            for pid in left {
                survivors.add(pid);
            }
        }
        self.supervisor = None;
        self.ended = true;
        Event::Lost { killed, survivors }
    }

    fn give_back(&mut self) {
        self.ended = true;
        if let Some(supervisor) = self.supervisor.take() {
            Shared::put(&self.pool, supervisor);
        }
    }

    fn send(&self, request: Request) -> io::Result<()> {
        match &self.supervisor {
            Some(supervisor) => supervisor.send(request, self.run),
            None => Ok(()),
        }
    }
}

fn failed(stage: Stage, errno: i32) -> LaunchError {
    LaunchError::Start {
        stage,
        error: io::Error::from_raw_os_error(errno),
    }
}

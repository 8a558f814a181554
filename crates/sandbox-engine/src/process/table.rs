//! The processes of a sandbox, by the id the host chose.
//!
//! A process is in the table from before it is started until it is one of too many that have ended.
//! The table holds the only lasting end of each process's orders: once it is abandoned, every
//! overseer finds that nobody can ask for anything any more, and ends its tree.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_core::process::{ExitReport, OutputStream, ProcStatus, SpawnRequest};
use sandbox_core::{Error, ErrorKind, ProcId, Result, Verb};
use tokio::sync::{mpsc, watch};

use super::input::Input;
use super::log::Log;
use super::oversee::Order;

/// How far a process has come.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It is being started, or it runs and nobody waits to hear its number.
    Starting,
    /// It runs under this number.
    Running(u32),
    /// It has ended, and its tree is dealt with.
    Ended(u32, ExitReport),
    /// It could not be started.
    Refused,
}

/// What everybody who deals with a process shares.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: ProcId,
    /// The request of a `spawn`, to know a repetition of it.
    pub(super) spawned: Option<SpawnRequest>,
    pub(super) stdout: Arc<Log>,
    pub(super) stderr: Arc<Log>,
    pub(super) input: Input,
    pub(super) state: watch::Sender<State>,
}

impl Process {
    pub(super) fn log(&self, stream: OutputStream) -> &Arc<Log> {
        match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        }
    }

    pub(super) fn status(&self) -> ProcStatus {
        match &*self.state.borrow() {
            State::Starting | State::Running(_) | State::Refused => ProcStatus::Running,
            State::Ended(_, report) => ProcStatus::Ended(report.clone()),
        }
    }

    /// Resolves when it has ended, or was never started.
    pub(super) async fn ended(&self) {
        let mut state = self.state.subscribe();
        let over = |state: &State| matches!(state, State::Ended(..) | State::Refused);
        // The sender lives in `self`, so this cannot fail.
        let _ = state.wait_for(over).await;
    }
}

/// A process and the way to give it orders.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) process: Arc<Process>,
    pub(super) orders: mpsc::UnboundedSender<Order>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Table {
    kept: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<ProcId, Entry>,
    /// Those that have ended, oldest first.
    ended: VecDeque<ProcId>,
    closed: bool,
}

impl Table {
    /// - `kept`: most processes that are remembered after they ended
    pub(super) fn new(kept: usize) -> Self {
        Table {
            kept,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process, unless its id is taken.
    pub(super) fn add(&self, verb: Verb, entry: Entry) -> Result<()> {
        let mut inner = self.inner();
        let id = entry.process.id.clone();
        if inner.closed {
            return Err(Error::refused(verb, ErrorKind::Lost)
                .on(id)
                .detail("the sandbox was released"));
        }
        if inner.entries.contains_key(&id) {
            return Err(Error::refused(verb, ErrorKind::Conflict)
                .on(id)
                .detail("the id belongs to another process; choose a new one"));
        }
        inner.entries.insert(id, entry);
        Ok(())
    }

    pub(super) fn find(&self, id: &ProcId) -> Option<Entry> {
        self.inner().entries.get(id).cloned()
    }

    /// As [`find`](Self::find), for verbs that need it to be there.
    pub(super) fn get(&self, verb: Verb, id: &ProcId) -> Result<Entry> {
        self.find(id).ok_or_else(|| {
            Error::refused(verb, ErrorKind::ProcessNotFound)
                .on(id)
                .detail("it was never started here, or ended so long ago that it is forgotten")
        })
    }

    /// Forgets a process that was never started.
    pub(super) fn remove(&self, id: &ProcId) {
        self.inner().entries.remove(id);
    }

    /// Notes that nothing of a process runs any more, and forgets the oldest such.
    pub(super) fn ended(&self, id: &ProcId) {
        let mut inner = self.inner();
        if !inner.entries.contains_key(id) {
            return;
        }
        inner.ended.push_back(id.clone());
        while inner.ended.len() > self.kept {
            if let Some(oldest) = inner.ended.pop_front() {
                inner.entries.remove(&oldest);
            }
        }
    }

    /// Forgets everything, so that nobody can give orders any more.
    pub(super) fn abandon(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.entries.clear();
    }

    /// Takes no more processes, and returns those there are.
    pub(super) fn close(&self) -> Vec<Entry> {
        let mut inner = self.inner();
        inner.closed = true;
        inner.entries.values().cloned().collect()
    }
}

//! The engine's side: supervisors that wait for work, and the handle of a run.
//!
//! Taking a supervisor from the pool costs nothing; making one costs a fork. So one is always kept
//! waiting, and those that come back clean are kept up to a limit.
//!
//! **Invariants.**
//! - A supervisor comes back only after it said that no child is left. Any other is closed, which
//!   makes it kill what it has.
//! - Every wait for a supervisor is bounded, once it has been told to end something: it is woken in
//!   case somebody stopped it, then killed, and its orphans are killed from here.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::net::UnixDatagram;
use tokio::time::Instant;

use super::fork;
use super::launch::{self, Announce, Launch};
use super::wire::{
    INLINE_BYTES, REPLY_BYTES, RUN_DESCRIPTORS, Reply, Request, Scope, Stage, Survivors, Usage,
    millis,
};

/// How long a supervisor may take over something that takes it no time, before it is woken.
const WAKE_AFTER: Duration = Duration::from_secs(1);
/// How long it may take after that, before it is killed. Longer than a sweep goes on.
const KILL_AFTER: Duration = Duration::from_secs(9);

/// How long a program runs before it is told of ([`Announce::Later`]).
const ANNOUNCE_AFTER: Duration = Duration::from_millis(5);

/// How long supervisors beyond [`PoolOptions::resting`] wait for work.
const RESTLESS: Duration = Duration::from_secs(10);

/// Sizes of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Most supervisors that wait for work right after it, so that a next burst of commands finds
    /// them. Each has about 200 KiB of its own.
    pub busy: usize,
    /// Most that go on waiting when there is no work for a while.
    pub resting: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions {
            busy: 64,
            resting: 2,
        }
    }
}

/// Supervisors of one process. Clones share them.
///
/// Belongs to the runtime it was made on. Making one makes this process a subreaper, for good:
/// orphans of a supervisor that was killed come back here and are ended, and orphans of anything
/// else that this process starts come back here too.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    idle: Mutex<Vec<Supervisor>>,
    options: PoolOptions,
    /// Somebody will look whether too many wait.
    tended: AtomicBool,
}

#[derive(Debug)]
struct Supervisor {
    /// A socket of packets in order. The runtime has no type of that name, and this one does to it
    /// exactly what is wanted: one call, one packet.
    control: UnixDatagram,
    pid: i32,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Only the socket's end makes it go, and the field is closed after this. It is waited for
        // whenever the register is next looked at.
        fork::retire(self.pid);
    }
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The system would not give what a run needs: descriptors, memory, a process.
    #[error("no supervisor could be had")]
    Supervisor(#[source] io::Error),
    /// A step between the supervisor and the program failed.
    #[error("the step {stage:?} failed")]
    Start {
        /// The step.
        stage: Stage,
        /// The kernel's reason.
        #[source]
        error: io::Error,
    },
    /// The supervisor went away without an answer: whether the program ran is not known. What ran
    /// was killed.
    #[error("the supervisor was lost while the program was being started")]
    Lost,
}

/// What happened to a run.
#[derive(Debug)]
pub enum Event {
    /// It could not be started; no event follows. Only with [`Announce::Later`].
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

impl Pool {
    /// Makes a pool with one supervisor waiting.
    ///
    /// # Errors
    ///
    /// What the system says when it gives no process or no descriptor, or when there is no runtime
    /// that watches descriptors.
    pub fn new(options: PoolOptions) -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let first = Supervisor::new()?;
        let shared = Shared {
            idle: Mutex::new(vec![first]),
            options,
            tended: AtomicBool::new(false),
        };
        Ok(Pool {
            shared: Arc::new(shared),
        })
    }

    /// Starts a program, and returns once it runs, or with [`Announce::Later`] once it was asked for.
    ///
    /// # Errors
    ///
    /// With [`LaunchError::Lost`] it is not known whether the program ran; with the others it did
    /// not.
    pub async fn run(&self, launch: &Launch<'_>) -> Result<Running, LaunchError> {
        let image = launch.image();
        let (inline, passed) = if image.len() <= INLINE_BYTES {
            (image.as_slice(), None)
        } else {
            let passed =
                launch::in_memory(&image).map_err(|error| LaunchError::Supervisor(error.into()))?;
            (&[][..], Some(passed))
        };
        let request = Request::Run {
            timeout_ms: launch.timeout.map_or(0, |timeout| millis(timeout).max(1)),
            grace_ms: millis(launch.grace),
            announce_ms: match launch.announce {
                Announce::Now => 0,
                Announce::Later => millis(ANNOUNCE_AFTER),
            },
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
        let [input, output, errors] = launch.streams;
        let mut descriptors = vec![launch.directory, input, output, errors];
        descriptors.extend(passed.as_ref().map(AsFd::as_fd));
        let supervisor = loop {
            let (supervisor, fresh) = self.shared.take().map_err(LaunchError::Supervisor)?;
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            let sent = rustix::net::sendmsg(
                &supervisor.control,
                &[IoSlice::new(&request.encode()), IoSlice::new(inline)],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            );
            match sent {
                Ok(_) => break supervisor,
                // It died while it waited, so it never saw the request: the next one gets it.
                Err(error) if fresh => return Err(LaunchError::Supervisor(error.into())),
                Err(_) => {}
            }
        };
        Shared::restock(&self.shared);
        let mut running = Running {
            supervisor: Some(supervisor),
            pool: Arc::clone(&self.shared),
            pid: 0,
            told_by: Some(Instant::now()),
            ended: false,
        };
        if launch.announce == Announce::Later {
            return Ok(running);
        }
        match running.reply(None).await {
            Some(Reply::Started { pid }) => {
                running.note_start(pid);
                Ok(running)
            }
            Some(Reply::Failed { stage, errno }) => {
                running.give_back();
                Err(failed(stage, errno))
            }
            Some(Reply::Exited { .. } | Reply::Swept { .. }) | None => {
                running.lose().await;
                Err(LaunchError::Lost)
            }
        }
    }
}

fn failed(stage: Stage, errno: i32) -> LaunchError {
    LaunchError::Start {
        stage,
        error: io::Error::from_raw_os_error(errno),
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Supervisor>> {
        // A list of whole supervisors is good whoever panicked.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that waits, or a new one (`true`).
    fn take(&self) -> io::Result<(Supervisor, bool)> {
        let waiting = self.idle().pop();
        match waiting {
            Some(supervisor) => Ok((supervisor, false)),
            None => Ok((Supervisor::new()?, true)),
        }
    }

    /// Keeps one waiting. That none can be made now is said by whoever needs it.
    fn restock(shared: &Arc<Self>) {
        if shared.idle().is_empty()
            && let Ok(supervisor) = Supervisor::new()
        {
            Shared::put(shared, supervisor);
        }
    }

    fn put(shared: &Arc<Self>, supervisor: Supervisor) {
        let mut idle = shared.idle();
        if idle.len() >= shared.options.busy.max(1) {
            return;
        }
        idle.push(supervisor);
        let many = idle.len() > shared.options.resting.max(1);
        drop(idle);
        if many && !shared.tended.swap(true, Ordering::Relaxed) {
            tokio::spawn(Shared::tend(Arc::downgrade(shared)));
        }
    }

    /// Lets those go that nobody needed for a while.
    async fn tend(shared: Weak<Self>) {
        tokio::time::sleep(RESTLESS).await;
        if let Some(shared) = shared.upgrade() {
            shared.tended.store(false, Ordering::Relaxed);
            let surplus = {
                let mut idle = shared.idle();
                let resting = shared.options.resting.max(1).min(idle.len());
                idle.split_off(resting)
            };
            drop(surplus);
        }
    }
}

impl Supervisor {
    fn new() -> io::Result<Self> {
        let (control, pid) = fork::supervisor()?;
        match UnixDatagram::from_std(control.into()) {
            Ok(control) => Ok(Supervisor { control, pid }),
            Err(error) => {
                fork::retire(pid);
                Err(error)
            }
        }
    }

    /// Its next word, or `None` once it is gone.
    async fn reply(&self) -> Option<Reply> {
        let mut bytes = [0; REPLY_BYTES];
        let length = self.control.recv(&mut bytes).await.ok()?;
        bytes.get(..length).and_then(Reply::decode)
    }

    /// Its next word, waiting for it until a while after `due`.
    async fn reply_by(&self, due: Instant) -> Option<Reply> {
        let mut reply = std::pin::pin!(self.reply());
        let wake_at = due + WAKE_AFTER;
        if let Ok(reply) = tokio::time::timeout_at(wake_at, &mut reply).await {
            return reply;
        }
        fork::wake(self.pid);
        tokio::time::timeout_at(wake_at + KILL_AFTER, reply)
            .await
            .ok()
            .flatten()
    }

    fn send(&self, request: Request) -> io::Result<()> {
        rustix::net::send(&self.control, &request.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// A run. Dropping it before its last event kills the tree.
#[derive(Debug)]
pub struct Running {
    supervisor: Option<Supervisor>,
    pool: Arc<Shared>,
    pid: i32,
    /// When it was to be started, while nothing was heard of it.
    told_by: Option<Instant>,
    ended: bool,
}

impl Running {
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
            Some(supervisor) => supervisor.send(request),
            None => Ok(()),
        }
    }
}

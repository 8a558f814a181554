//! The engine's side: supervisors that wait for work, each with a leader that waits for a program.
//!
//! Taking a supervisor from the pool costs nothing; making one costs a fork. So one is always kept
//! waiting, and those that come back clean are kept up to a limit.
//!
//! Not here: what becomes of a run (`running`).

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::net::UnixDatagram;
use tokio::time::Instant;

use super::confinement::Confinement;
use super::fork::{self, Forked};
use super::launch::{self, Announce, Launch};
use super::running::Running;
use super::wire::{INLINE_BYTES, REPLY_BYTES, RUN_DESCRIPTORS, Reply, Request, Stage, millis};

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
pub(super) struct Shared {
    idle: Mutex<Vec<Supervisor>>,
    options: PoolOptions,
    confinement: Confinement,
    /// No supervisor is kept waiting any more.
    closed: AtomicBool,
    /// Somebody will look whether too many wait.
    tended: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Supervisor {
    /// A socket of packets in order. The runtime has no type of that name, and this one does to it
    /// exactly what is wanted: one call, one packet.
    control: UnixDatagram,
    /// Leads to the leader that waits for the next run.
    leader: OwnedFd,
    pub(super) pid: i32,
    /// How many runs it was given.
    pub(super) runs: u64,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Only the sockets' end makes it go, and the fields are closed after this. It is waited for
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

impl Pool {
    /// Makes a pool with one supervisor waiting.
    ///
    /// # Errors
    ///
    /// What the system says when it gives no process or no descriptor, or when there is no runtime
    /// that watches descriptors.
    pub fn new(options: PoolOptions) -> io::Result<Self> {
        Pool::confined(options, Confinement::default())
    }

    /// Makes a pool with one supervisor waiting, and everything that is started under this.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn confined(options: PoolOptions, confinement: Confinement) -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let first = Supervisor::new(&confinement)?;
        let shared = Shared {
            idle: Mutex::new(vec![first]),
            options,
            confinement,
            closed: AtomicBool::new(false),
            tended: AtomicBool::new(false),
        };
        Ok(Pool {
            shared: Arc::new(shared),
        })
    }

    /// What everything is under that is started.
    pub(crate) fn confinement(&self) -> &Confinement {
        &self.shared.confinement
    }

    /// Lets every supervisor go that waits, and each that would wait after its run. One is made for each
    /// run that comes all the same.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut *self.shared.idle());
        drop(waiting);
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
            let (mut supervisor, fresh) = self.shared.take().map_err(LaunchError::Supervisor)?;
            supervisor.runs += 1;
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            let sent = rustix::net::sendmsg(
                &supervisor.leader,
                &[
                    IoSlice::new(&request.encode(supervisor.runs)),
                    IoSlice::new(inline),
                ],
                &mut ancillary,
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            );
            match sent {
                Ok(_) => break supervisor,
                Err(error) if fresh => return Err(LaunchError::Supervisor(error.into())),
                // It died while it waited, and its leader with it, so neither saw the request: the
                // next one gets it. What is left of the leader came back to us.
                Err(_) => {
                    drop(supervisor);
                    fork::sweep_orphans().await;
                }
            }
        };
        Shared::restock(&self.shared);
        let running = Running::new(supervisor, Arc::clone(&self.shared));
        match launch.announce {
            Announce::Now => running.started().await,
            Announce::Later => Ok(running),
        }
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
            None => Ok((Supervisor::new(&self.confinement)?, true)),
        }
    }

    /// Keeps one waiting. That none can be made now is said by whoever needs it.
    fn restock(shared: &Arc<Self>) {
        if !shared.closed.load(Ordering::Relaxed)
            && shared.idle().is_empty()
            && let Ok(supervisor) = Supervisor::new(&shared.confinement)
        {
            Shared::put(shared, supervisor);
        }
    }

    pub(super) fn put(shared: &Arc<Self>, supervisor: Supervisor) {
        let mut idle = shared.idle();
        let closed = shared.closed.load(Ordering::Relaxed);
        if closed || idle.len() >= shared.options.busy.max(1) {
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
    fn new(confinement: &Confinement) -> io::Result<Self> {
        let Forked {
            control,
            leader,
            pid,
        } = fork::supervisor(confinement)?;
        match UnixDatagram::from_std(control.into()) {
            Ok(control) => Ok(Supervisor {
                control,
                leader,
                pid,
                runs: 0,
            }),
            Err(error) => {
                fork::retire(pid);
                Err(error)
            }
        }
    }

    /// Its next word, or `None` once it is gone.
    pub(super) async fn reply(&self) -> Option<Reply> {
        let mut bytes = [0; REPLY_BYTES];
        let length = self.control.recv(&mut bytes).await.ok()?;
        bytes.get(..length).and_then(Reply::decode)
    }

    /// Its next word, waiting for it until a while after `due`.
    pub(super) async fn reply_by(&self, due: Instant) -> Option<Reply> {
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

    /// Asks something about a run.
    pub(super) fn send(&self, request: Request, run: u64) -> io::Result<()> {
        rustix::net::send(&self.control, &request.encode(run), SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

//! A thread that starts places, and lives as long as they may.
//!
//! A process that asks to die with its parent dies with the *thread* that started it: a place that a worker
//! of some pool had started would end with that worker, hours later and for no reason that anybody could see.

use std::io;
use std::sync::mpsc;

use sandbox_core::{Error, ErrorKind, Result, Verb};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Starts processes from one thread of its own, which ends when this is dropped. What asks to die with its
/// parent ends then too.
#[derive(Debug)]
pub struct Spawner(mpsc::Sender<Job>);

#[derive(Debug)]
struct Job {
    command: Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

impl Spawner {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// `ProviderUnavailable`: no thread can be made.
    pub fn new() -> Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("places".into())
            .spawn(move || {
                while let Ok(mut job) = queue.recv() {
                    // Whoever waits for a child is told of its end by the runtime it was started on.
                    let _runtime = job.runtime.enter();
                    // One that nobody waits for any more is killed by being dropped.
                    let _ = job.started.send(job.command.spawn());
                }
            })
            .map_err(|error| {
                Error::refused(Verb::Initialize, ErrorKind::ProviderUnavailable)
                    .detail("no thread can be made; see the limits of this user")
                    .caused_by(error)
            })?;
        Ok(Self(jobs))
    }

    /// Starts a process, which belongs to the runtime that this is called on.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.kill_on_drop(true);
        let (started, answer) = oneshot::channel();
        let job = Job {
            command,
            runtime: Handle::current(),
            started,
        };
        let gone = || io::Error::other("the thread that starts places is gone");
        self.0.send(job).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

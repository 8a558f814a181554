//! One provider, named by its command and without any configuration: for whoever checks providers.
//!
//! It can be [connected](DirectProvider::connect) to as a host does, or started
//! [bare](DirectProvider::start): with its pipes in the caller's hands, so that the caller can say
//! what no host would.
//!
//! **Invariants.** Its standard error is always read. A bare provider that is dropped sees the end of
//! its input, and is killed if that does not end it; [`DirectProvider::ended`] waits for that.
//!
//! Not here: restarting. Who checks a provider wants to know that it ended.

use std::ffi::OsString;
use std::future::poll_fn;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sandbox_core::{Ctx, Provider};
use spp_client::stderr::Tail;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::ProviderConfig;
use crate::error::{StartError, StderrTail};
use crate::locate::SearchPath;
use crate::process::{Process, Stop, Timing};
use crate::spawn::Launch;
use crate::stderr::{drain, snapshot};

/// How to start a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectCommand {
    /// What it is called in messages.
    pub name: String,
    /// The executable: an absolute path, or a name to look up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables on top of the few that every provider gets.
    pub env: Vec<(OsString, OsString)>,
}

/// A provider that can be started any number of times.
pub struct DirectProvider {
    name: String,
    launch: Launch,
    timing: Timing,
    ending: Mutex<JoinSet<()>>,
}

/// How a bare provider is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bare {
    /// As a host starts it.
    ByAHost,
    /// As a person starts it at a shell, with these arguments after its own.
    ByHand(Vec<String>),
}

impl DirectProvider {
    /// Finds the executable. Starts nothing.
    ///
    /// # Errors
    ///
    /// `NotFound`, `IsADirectory` or `NotExecutable`.
    pub fn new(
        command: DirectCommand,
        search: &SearchPath,
        timing: Timing,
    ) -> Result<Self, StartError> {
        let config = ProviderConfig {
            command: Some(command.program),
            args: command.args,
            ..ProviderConfig::unconfigured(&command.name)
        };
        let launch = Launch::new(&config, search, std::env::vars_os())?;
        Ok(Self {
            name: command.name,
            launch: command
                .env
                .into_iter()
                .fold(launch, |launch, (name, value)| {
                    launch.with_variable(name, value)
                }),
            timing,
            ending: Mutex::default(),
        })
    }

    /// What it is called in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts it and does the handshake.
    ///
    /// # Errors
    ///
    /// The fault, after whatever was started has ended.
    pub async fn connect(&self, ctx: &Ctx) -> Result<Connected, StartError> {
        let process = Process::start(&self.name, &self.launch, self.timing, ctx).await?;
        Ok(Connected { process })
    }

    /// Starts it and says nothing.
    ///
    /// # Errors
    ///
    /// `Spawn`.
    pub fn start(&self, how: Bare) -> Result<BareProvider, StartError> {
        let launch = match how {
            Bare::ByAHost => self.launch.clone(),
            Bare::ByHand(args) => self.launch.clone().by_hand().with_more(args),
        };
        let spawned = launch.spawn().and_then(|mut child| {
            let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (Some(input), Some(output), Some(errors)) = pipes else {
                return Err(std::io::Error::other("it was started without pipes"));
            };
            Ok((child, input, output, errors))
        });
        let (child, input, output, errors) = spawned.map_err(|source| StartError::Spawn {
            provider: self.name.clone(),
            path: launch.program.clone(),
            source,
        })?;
        let stderr = Tail::default();
        tokio::spawn(drain(errors, self.name.clone(), stderr.clone()));
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        let (tell, status) = watch::channel(None);
        self.lock()
            .spawn(watch_over(child, pid, tell, self.timing.grace));
        Ok(BareProvider {
            input: Some(input),
            output: Some(output),
            pid,
            status,
            stderr,
        })
    }

    /// Waits until every bare provider that was dropped is gone.
    pub async fn ended(&self) {
        // Polled where it is: whoever gives up waiting ends nobody's watch.
        while poll_fn(|context| self.lock().poll_join_next(context))
            .await
            .is_some()
        {}
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A provider that has answered the handshake. It ends when this is dropped.
pub struct Connected {
    process: Process,
}

impl Connected {
    /// The provider.
    #[must_use]
    pub fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(self.process.connection()) as Arc<dyn Provider>
    }

    /// Why it cannot be used any more, if that is so.
    #[must_use]
    pub fn end(&self) -> Option<String> {
        self.process.end().map(|end| match end {
            crate::process::End::Stopped => "it was stopped".to_owned(),
            crate::process::End::Failed { what, .. } => what,
        })
    }

    /// The end of what it wrote on standard error until now.
    #[must_use]
    pub fn stderr(&self) -> StderrTail {
        self.process.stderr()
    }

    /// Ends it in order, and waits until it is gone.
    pub async fn stop(&self) {
        self.process.stop(Stop::InOrder).await;
    }
}

/// A provider that was started and not spoken to.
pub struct BareProvider {
    /// What it reads. Dropping it is the end of its input.
    pub input: Option<ChildStdin>,
    /// What it writes.
    pub output: Option<ChildStdout>,
    pid: Option<Pid>,
    status: watch::Receiver<Option<ExitStatus>>,
    stderr: Tail,
}

impl BareProvider {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.pid
            .and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn status(&self) -> Option<ExitStatus> {
        *self.status.borrow()
    }

    /// Waits for its end.
    pub async fn exited(&self) -> Option<ExitStatus> {
        let mut status = self.status.clone();
        let ended = status.wait_for(Option::is_some).await;
        ended.ok().and_then(|status| *status)
    }

    /// The end of what it wrote on standard error until now.
    #[must_use]
    pub fn stderr(&self) -> StderrTail {
        snapshot(&self.stderr)
    }

    /// Sends SIGTERM to its process group.
    pub fn terminate(&self) {
        self.signal(kill_process_group, Signal::TERM);
    }

    /// Sends SIGKILL to the process alone.
    pub fn kill(&self) {
        self.signal(kill_process, Signal::KILL);
    }

    fn signal(&self, send: fn(Pid, Signal) -> rustix::io::Result<()>, signal: Signal) {
        // One that has ended has no process id any more.
        if let (Some(pid), None) = (self.pid, self.status()) {
            let _ = send(pid, signal);
        }
    }
}

/// Waits for a process; once nobody holds it any more, gives it `grace` and then kills its group.
async fn watch_over(
    mut child: Child,
    pid: Option<Pid>,
    tell: watch::Sender<Option<ExitStatus>>,
    grace: Duration,
) {
    let unwanted = async {
        tell.closed().await;
        tokio::time::sleep(grace).await;
    };
    let status = tokio::select! {
        status = child.wait() => status,
        () = unwanted => {
            if let Some(pid) = pid {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            child.wait().await
        }
    };
    tell.send_replace(status.ok());
}

//! A host and the executable of `local` with a relay between them.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_conformance::relay::{Cut, Tap, Way, carry};
use sandbox_core::{AcquireSpec, Ctx, Provider, Sandbox, SandboxId};
use spp_client::{ConnectOptions, Connection};
use tokio::process::Child;

use crate::local::executables;

/// Longest that anything may take that takes no time, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// Bytes that the pipes between the host and the relay hold.
const PIPE: usize = 64 * 1024;
/// A variable by whose value everything is found that a provider started.
const MARK: &str = "SPP_TEST_RELAY";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A provider process, the connection to it through a relay, and a sandbox.
pub(crate) struct Wired {
    pub(crate) tap: Tap,
    pub(crate) connection: Arc<Connection>,
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) spec: AcquireSpec,
    pub(crate) left: Left,
}

/// What is left when the connection is gone.
pub(crate) struct Left {
    directory: tempfile::TempDir,
    child: Child,
    mark: String,
}

impl Wired {
    /// Starts all of it.
    pub(crate) async fn start() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let directory = tempfile::tempdir().expect("a scratch directory");
        let mut child = provider(&mark);
        let pid = child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw)
            .expect("it runs");
        let tap = Tap::new(move || {
            let _ = kill_process(pid, Signal::KILL);
        });
        let (near_out, far_in) = tokio::io::duplex(PIPE);
        let (far_out, near_in) = tokio::io::duplex(PIPE);
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            panic!("it was started with pipes");
        };
        tokio::spawn(carry(Way::ToProvider, far_in, input, tap.clone()));
        tokio::spawn(carry(Way::ToHost, output, far_out, tap.clone()));
        let connection = Connection::open(near_in, near_out, ConnectOptions::default())
            .await
            .expect("the handshake");
        let id = SandboxId::new(format!("wired-{number}")).expect("a good id");
        let mut spec = AcquireSpec::new(id);
        let left = Left {
            directory,
            child,
            mark,
        };
        spec.root = left.workspace().to_str().map(str::to_owned);
        let sandbox = connection
            .acquire(&Ctx::new(), &spec)
            .await
            .expect("a sandbox");
        Self {
            tap,
            connection,
            sandbox,
            spec,
            left,
        }
    }

    /// Counts from here on, and cuts there.
    pub(crate) fn arm(&self, cut: Option<Cut>) {
        self.tap.arm(cut);
    }

    /// Lets go of the connection, and waits until the provider and all it started are gone.
    ///
    /// # Errors
    ///
    /// What is left.
    pub(crate) async fn end(self) -> Result<Left, String> {
        let Self {
            connection,
            sandbox,
            mut left,
            ..
        } = self;
        drop((connection, sandbox));
        let ended = tokio::time::timeout(SOON, left.child.wait()).await;
        if ended.is_err() {
            let _ = left.child.start_kill();
            return Err("the provider outlived its connection".into());
        }
        let start = Instant::now();
        loop {
            let marked = marked(&left.mark);
            if marked.is_empty() {
                return Ok(left);
            }
            if start.elapsed() > SOON {
                return Err(format!(
                    "these outlived the provider: {}",
                    marked.join(", ")
                ));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Left {
    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory
            .path()
            .canonicalize()
            .expect("it is still there")
    }
}

fn provider(mark: &str) -> Child {
    let program = executables()
        .expect("the executables are built")
        .join("spp-provider-local");
    #[expect(
        clippy::disallowed_methods,
        reason = "the relay has to be between the host's door and the provider"
    )]
    let mut command = tokio::process::Command::new(program);
    command
        .env("SPP_HOST", "1")
        .env(MARK, mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command.spawn().expect("it starts")
}

/// Every process with that mark in its environment. Zombies have none.
fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").expect("Linux");
    processes
        .flatten()
        .filter(|entry| {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environ
                .split(|&byte| byte == 0)
                .any(|variable| variable == wanted.as_bytes())
        })
        .map(|entry| {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            format!("{} ({})", entry.file_name().display(), name.trim())
        })
        .collect()
}

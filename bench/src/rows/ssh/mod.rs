//! `ssh`: a command over a connection that is there, against `ssh` through a master that is open and against a connection of
//! its own; and how long the first command takes, against `ssh` itself.
//!
//! The server is the one of the tests (`SPP_TEST_SSH`), with the methods that both sides choose by themselves.

mod far;

pub(super) use far::run as far;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sandbox_core::Policy;
use sandbox_host::config::UserFile;
use tokio::process::Child;

use crate::harness::time;
use crate::report::Row;
use crate::rows::placed::{compare, kept, opened, row};
use crate::rows::{Place, Result};
use crate::tree::command;

const MACHINE: &str = "spp-user";
/// Few, because the other ways take long.
const BATCH: usize = 8;
/// What a command may cost of one through an open master.
const MOST_OF_MASTER: f64 = 1.0 / 7.5;
/// What a command may cost of one with a connection of its own.
const MOST_OF_FRESH: f64 = 1.0 / 200.0;
/// What a sandbox and its first command may cost of an `ssh MACHINE true`.
const MOST_ACQUIRE: f64 = 1.5;
/// How often it is looked whether the master is open, and how long.
const PAUSE: Duration = Duration::from_millis(50);
const WAIT: Duration = Duration::from_secs(10);

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let scratch = place.root.join("elsewhere");
    std::fs::create_dir_all(&scratch)?;
    let peer = Peer::new(&scratch, &theirs()?).await?;
    let elsewhere = open(&scratch, &peer.config).await?;
    let rows = vec![
        row(
            "ssh: exec true",
            "at least 7.5 times faster than ssh through an open master, p50",
            MOST_OF_MASTER,
            compare(
                [BATCH, BATCH],
                async || kept(&elsewhere.sandbox).await,
                async || peer.through_master().await,
            )
            .await?,
        ),
        row(
            "ssh: exec true, again",
            "at least 200 times faster than ssh, p50",
            MOST_OF_FRESH,
            compare(
                [1, 1],
                async || kept(&elsewhere.sandbox).await,
                async || peer.fresh().await,
            )
            .await?,
        ),
        row(
            "ssh: connect to first exit",
            "at most 1.5x an ssh, p50",
            MOST_ACQUIRE,
            compare(
                [1, 1],
                async || opened(&elsewhere).await,
                async || peer.fresh().await,
            )
            .await?,
        ),
    ];
    elsewhere.close().await;
    Ok(rows)
}

/// The configuration by which the machines of the tests are reached.
fn theirs() -> Result<String> {
    let known = std::env::var("SPP_TEST_SSH");
    Ok(known
        .map_err(|_| "SPP_TEST_SSH names no configuration of ssh; see `cargo xtask sshd --help`")?)
}

async fn open(scratch: &Path, config: &Path) -> Result<Place> {
    let file = scratch.join("config.toml");
    let options = format!(
        "[sandbox.providers.ssh.options]\nhost = '{MACHINE}'\nroot = '~'\nconfig = '{}'\n",
        config.display()
    );
    std::fs::write(&file, options)?;
    let root = scratch.to_owned();
    Place::open_configured("ssh", root, Policy::default(), UserFile::Named(file)).await
}

/// The program itself.
struct Peer {
    config: PathBuf,
    socket: PathBuf,
    /// Ends when this is dropped.
    _master: Child,
}

impl Peer {
    /// Opens a master.
    async fn new(scratch: &Path, theirs: &str) -> Result<Self> {
        let config = scratch.join("ssh_config");
        // The usual methods: those of the tests are chosen to be quick.
        let text = format!("KexAlgorithms +curve25519-sha256\nInclude {theirs}\n");
        std::fs::write(&config, text)?;
        let socket = scratch.join("master");
        let mut master = ssh(&config);
        master
            .arg("-o")
            .arg(format!("ControlPath={}", socket.display()))
            .args(["-o", "ControlMaster=yes", "-N", MACHINE])
            .kill_on_drop(true);
        let master = master.spawn()?;
        let started = std::time::Instant::now();
        while !socket.exists() {
            if started.elapsed() > WAIT {
                return Err("ssh opened no master".into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Self {
            config,
            socket,
            _master: master,
        })
    }

    async fn through_master(&self) -> Result<Duration> {
        self.timed(&format!("ControlPath={}", self.socket.display()))
            .await
    }

    async fn fresh(&self) -> Result<Duration> {
        self.timed("ControlPath=none").await
    }

    async fn timed(&self, path: &str) -> Result<Duration> {
        let mut run = ssh(&self.config);
        run.args(["-o", "ControlMaster=no", "-o", path, MACHINE, "/bin/true"]);
        let (taken, output) = time(async { run.output().await }).await;
        if !output?.status.success() {
            return Err(format!("ssh {MACHINE} failed").into());
        }
        Ok(taken)
    }
}

fn ssh(config: &Path) -> tokio::process::Command {
    let mut ssh = command("ssh");
    ssh.arg("-F")
        .arg(config)
        .args(["-o", "BatchMode=yes"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    ssh
}

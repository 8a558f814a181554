//! `docker`: verbs in a container that is there already, against `docker exec` in the same container; and how long the first
//! command takes, against `docker run`.
//!
//! The daemon is the one of the tests (`SPP_TEST_DOCKER`), with their image.

use std::path::Path;
use std::process::Stdio;

use sandbox_core::file::ReadRequest;
use sandbox_core::{Ctx, Policy, SandboxPath};
use sandbox_host::config::UserFile;

use super::placed::{self, compare, kept, opened, row};
use super::{Place, Result};
use crate::harness::time;
use crate::report::Row;
use crate::tree::command;

const IMAGE: &str = "spp-test-busybox";
/// Few, because the other way takes long.
const BATCH: usize = 4;
/// What a command may cost of a `docker exec`.
const MOST_EXEC: f64 = 1.0 / 60.0;
/// What a read may cost of a `docker exec cat`.
const MOST_READ: f64 = 1.0 / 250.0;
/// What a container and its first command may cost of a `docker run`.
const MOST_ACQUIRE: f64 = 1.3;
/// How many times as many commands a second there have to be.
const LEAST_THROUGHPUT: f64 = 100.0;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let daemon = std::env::var("SPP_TEST_DOCKER").map_err(
        |_| "SPP_TEST_DOCKER names no daemon; see xtask/src/daemon.rs for what it needs",
    )?;
    let scratch = place.root.join("contained");
    std::fs::create_dir_all(scratch.join("workspace"))?;
    std::fs::write(
        scratch.join("workspace/four-kib"),
        "0123456789abcde\n".repeat(256),
    )?;
    let contained = open(&scratch, &daemon).await?;
    let peer = Peer::of(daemon, &contained).await?;
    let rows = vec![
        row(
            "docker: exec true",
            "at least 60 times faster than docker exec, p50",
            MOST_EXEC,
            compare(
                BATCH,
                async || kept(&contained.sandbox).await,
                async || peer.exec(&["/bin/true"]).await,
            )
            .await?,
        ),
        row(
            "docker: read of 4 KiB",
            "at least 250 times faster than docker exec cat, p50",
            MOST_READ,
            compare(
                BATCH,
                async || read(&contained).await,
                async || peer.exec(&["/bin/cat", "/workspace/four-kib"]).await,
            )
            .await?,
        ),
        row(
            "docker: acquire to first exit",
            "at most 1.3x a docker run, p50",
            MOST_ACQUIRE,
            compare(
                1,
                async || opened(&contained).await,
                async || peer.run().await,
            )
            .await?,
        ),
        placed::at_once(
            "docker: 32 commands at once",
            "at least 100x docker exec",
            LEAST_THROUGHPUT,
            async || kept(&contained.sandbox).await.map(drop),
            async || peer.exec(&["/bin/true"]).await.map(drop),
        )
        .await?,
    ];
    contained.close().await;
    Ok(rows)
}

async fn open(scratch: &Path, daemon: &str) -> Result<Place> {
    let file = scratch.join("config.toml");
    // Whoever owns the workspace: what is measured only reads it.
    let options = format!(
        "[sandbox.providers.docker.options]\nimage = '{IMAGE}'\nhost = '{daemon}'\nuser = '65534:65534'\n"
    );
    std::fs::write(&file, options)?;
    let root = scratch.join("workspace");
    Place::open_configured("docker", root, Policy::default(), UserFile::Named(file)).await
}

async fn read(place: &Place) -> Result<std::time::Duration> {
    let request = ReadRequest::new(SandboxPath::parse("four-kib")?);
    let (taken, content) = time(place.sandbox.read(&Ctx::new(), request)).await;
    match content?.bytes.len() {
        4096 => Ok(taken),
        other => Err(format!("the file came back with {other} bytes").into()),
    }
}

/// The program that makes the same container do things.
struct Peer {
    daemon: String,
    container: String,
}

impl Peer {
    /// - `place`: whose container it is, the only one of this process
    async fn of(daemon: String, place: &Place) -> Result<Self> {
        let id = &place.sandbox.descriptor().id;
        let filter = format!("--filter=label=spp.sandbox={id}");
        let mut list = docker(&daemon);
        list.args(["ps", "--quiet", &filter]).stdout(Stdio::piped());
        let listed = list.output().await?;
        let container = String::from_utf8(listed.stdout)?.trim().to_owned();
        if container.is_empty() {
            return Err("the container was not found".into());
        }
        Ok(Self { daemon, container })
    }

    async fn exec(&self, argv: &[&str]) -> Result<std::time::Duration> {
        self.timed(&[&["exec", &self.container], argv].concat())
            .await
    }

    async fn run(&self) -> Result<std::time::Duration> {
        self.timed(&["run", "--rm", "--network=none", IMAGE, "/bin/true"])
            .await
    }

    async fn timed(&self, arguments: &[&str]) -> Result<std::time::Duration> {
        let mut run = docker(&self.daemon);
        run.args(arguments);
        let (taken, output) = time(async { run.output().await }).await;
        if !output?.status.success() {
            return Err(format!("docker {arguments:?} failed").into());
        }
        Ok(taken)
    }
}

fn docker(daemon: &str) -> tokio::process::Command {
    let mut docker = command("docker");
    docker
        .arg(format!("--host={daemon}"))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    docker
}

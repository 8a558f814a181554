//! `docker`: verbs in a container that is there already, against `docker exec` in the same container; how long the first
//! command takes, against `docker run`; and what an idle sandbox costs on this side of the daemon.
//!
//! The daemon is the one of the tests (`SPP_TEST_DOCKER`), with their image.

mod idle;
mod peer;
mod trees;

use std::path::Path;

use sandbox_core::file::ReadRequest;
use sandbox_core::{Ctx, Policy, SandboxPath};
use sandbox_host::config::UserFile;

use self::peer::Peer;
use super::placed::{self, compare, kept, opened, row};
use super::{Place, Result};
use crate::harness::time;
use crate::memory;
use crate::report::Row;

const IMAGE: &str = "spp-test-busybox";
/// How often something is done in a round, and few of the other way, which takes long: so that both go on for a quarter of a
/// second or so, and neither is measured as it begins.
const BATCH: usize = 128;
const PEERS: usize = 4;
/// Whoever owns the workspace: nothing in a container is root.
const NOBODY: u32 = 65_534;
/// What a command may cost of a `docker exec`.
const MOST_EXEC: f64 = 1.0 / 80.0;
/// What a read may cost of a `docker exec cat`.
const MOST_READ: f64 = 1.0 / 250.0;
/// What a container and its first command may cost of a `docker run`.
const MOST_ACQUIRE: f64 = 1.3;
/// How many times as many commands a second there have to be.
const LEAST_THROUGHPUT: f64 = 100.0;
/// Commands of the other way in each round, of which there are some twenty a second.
const PEERS_AT_ONCE: usize = 64;

/// Verbs, one at a time.
pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    with(place, async |contained, peer| {
        Ok(vec![
            row(
                "docker: exec true",
                "at least 80 times faster than docker exec, p50",
                MOST_EXEC,
                compare(
                    [BATCH, PEERS],
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
                    [BATCH, PEERS],
                    async || read(contained).await,
                    async || peer.exec(&["/bin/cat", "/workspace/four-kib"]).await,
                )
                .await?,
            ),
            row(
                "docker: acquire to first exit",
                "at most 1.3x a docker run, p50",
                MOST_ACQUIRE,
                compare(
                    [1, 1],
                    async || opened(contained).await,
                    async || peer.run().await,
                )
                .await?,
            ),
        ])
    })
    .await
}

/// Many commands at once.
pub(super) async fn many(place: &Place) -> Result<Vec<Row>> {
    with(place, async |contained, peer| {
        Ok(vec![
            placed::at_once(
                "docker: 32 commands at once",
                "at least 100x docker exec",
                LEAST_THROUGHPUT,
                PEERS_AT_ONCE,
                async || kept(&contained.sandbox).await.map(drop),
                async || peer.exec(&["/bin/true"]).await.map(drop),
            )
            .await?,
        ])
    })
    .await
}

/// Trees into a container and out of it.
pub(super) async fn trees(place: &Place) -> Result<Vec<Row>> {
    with(place, async |contained, peer| {
        trees::rows(contained, peer).await
    })
    .await
}

/// What one costs that does nothing.
pub(super) async fn idle(place: &Place) -> Result<Vec<Row>> {
    with(place, async |contained, _| {
        Ok(vec![idle::row(contained).await?])
    })
    .await
}

/// Measures something of a container that is there, and of the program beside it.
async fn with(
    place: &Place,
    measure: impl AsyncFnOnce(&Place, &Peer) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let daemon = std::env::var("SPP_TEST_DOCKER").map_err(
        |_| "SPP_TEST_DOCKER names no daemon; see xtask/src/daemon.rs for what it needs",
    )?;
    // Each of the rows has one of its own.
    let scratch = tempfile::tempdir_in(&place.root)?.keep();
    let workspace = scratch.join("workspace");
    std::fs::create_dir_all(&workspace)?;
    let mut user = String::new();
    if memory::is_root() {
        std::os::unix::fs::chown(&workspace, Some(NOBODY), Some(NOBODY))?;
        user = format!("user = '{NOBODY}:{NOBODY}'\n");
    }
    std::fs::write(
        scratch.join("workspace/four-kib"),
        "0123456789abcde\n".repeat(256),
    )?;
    let contained = open(&scratch, &daemon, &user).await?;
    let peer = Peer::of(daemon, &contained).await?;
    let rows = measure(&contained, &peer).await;
    contained.close().await;
    rows
}

async fn open(scratch: &Path, daemon: &str, user: &str) -> Result<Place> {
    let file = scratch.join("config.toml");
    let options =
        format!("[sandbox.providers.docker.options]\nimage = '{IMAGE}'\nhost = '{daemon}'\n{user}");
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

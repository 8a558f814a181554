//! `bubblewrap`: a command in a place that is there already, against making a place for each; and how long the first
//! takes, the making included.

use std::time::Duration;

use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, SandboxExt as _};

use super::{Place, Result, process};
use crate::harness::{ROUNDS, Side, ours_first, quiet, time};
use crate::report::{Row, micros, ratio};

const BATCH: usize = 20;
/// What a place that is made for each command may cost more than one that is kept.
const MOST_RATIO: f64 = 0.5;
/// From nothing to the end of the first command, the provider's own start included.
const FIRST: Duration = Duration::from_millis(150);

/// The namespaces that the provider asks for, around one command.
const FLAGS: [&str; 20] = [
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--",
];

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let scratch = place.root.join("isolated");
    std::fs::create_dir_all(&scratch)?;
    let (first, isolated) = time(first(&scratch)).await;
    let isolated = isolated?;
    let (mut ours, mut peer) = (Side::default(), Side::default());
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let mut batch = Vec::with_capacity(BATCH);
            for _ in 0..BATCH {
                batch.push(if turn {
                    kept(&isolated).await?
                } else {
                    each().await?
                });
            }
            if turn { &mut ours } else { &mut peer }.round(batch);
        }
    }
    isolated.close().await;
    let (ours, peer) = (ours.p50(), peer.p50());
    let ratio = ratio(ours.as_secs_f64(), peer.as_secs_f64());
    Ok(vec![
        Row {
            row: "bubblewrap: exec /bin/true",
            ours: micros(ours),
            peer: Some(micros(peer)),
            ratio,
            bar: "at most half of a bwrap for each, p50",
            holds: ratio.is_some_and(|ratio| ratio <= MOST_RATIO),
        },
        Row {
            row: "bubblewrap: nothing to first exit",
            ours: micros(first),
            peer: None,
            ratio: None,
            bar: "at most 150 ms, the provider's start included",
            holds: first <= FIRST,
        },
    ])
}

async fn first(scratch: &std::path::Path) -> Result<Place> {
    let place = Place::open_at("bubblewrap", scratch, "first").await?;
    kept(&place).await?;
    Ok(place)
}

async fn kept(place: &Place) -> Result<Duration> {
    let spec: ProcessSpec = process(["/bin/true"]);
    let (taken, outcome) = time(place.sandbox.run(&Ctx::new(), spec)).await;
    if !outcome?.exit.status.is_success() {
        return Err("/bin/true failed in the sandbox".into());
    }
    Ok(taken)
}

async fn each() -> Result<Duration> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the peer that is measured"
    )]
    let mut command = tokio::process::Command::new("/usr/bin/bwrap");
    command
        .args(FLAGS)
        .arg("/bin/true")
        .stdin(std::process::Stdio::null());
    let (taken, output) = time(async { command.output().await }).await;
    if !output?.status.success() {
        return Err("/bin/true failed in a bwrap of its own".into());
    }
    Ok(taken)
}

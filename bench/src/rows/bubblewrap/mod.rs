//! `bubblewrap`: a command in a place that is there already, against making a place for each; 32 of them at once; against
//! the same without a place; and how long the first takes, the making included.

mod idle;
mod paths;
mod peer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Disposition, Sandbox, SandboxExt as _};
use sandbox_host::OpenRequest;

use super::{Place, Result, process};
use crate::harness::{ROUNDS, Side, ours_first, quiet, time};
use crate::report::{Row, micros, per_second, ratio};

pub(super) use idle::run as idle;
pub(super) use paths::run as paths;
use peer::Peer;

const BATCH: usize = 20;
/// What a command may cost of a place that is made for each.
const MOST_RATIO: f64 = 0.5;
/// What a command may cost more than one without a place.
const MOST_LOCAL: f64 = 1.3;
/// What a place and its first command may cost of a place that is made for one and kept by nobody.
const MOST_ACQUIRE: f64 = 2.0;
/// Commands at once, and how many each round.
const AT_ONCE: usize = 32;
const THROUGHPUT_BATCH: usize = 320;
/// How many times as many commands a second there have to be.
const LEAST_THROUGHPUT: f64 = 5.5;
/// From nothing to the end of the first command, the provider's own start included.
const FIRST: Duration = Duration::from_millis(150);

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let scratch = place.root.join("isolated");
    std::fs::create_dir_all(&scratch)?;
    let (first, isolated) = time(first(&scratch)).await;
    let isolated = isolated?;
    let peer = Peer::of(&isolated)?;
    let rows = vec![
        Row {
            row: "bubblewrap: nothing to first exit",
            ours: micros(first),
            peer: None,
            ratio: None,
            bar: "at most 150 ms, the provider's start included",
            holds: first <= FIRST,
        },
        each(&isolated, &peer).await?,
        acquire(&isolated, &peer).await?,
        at_once(&isolated, &peer).await?,
        against_local(&isolated, place).await?,
    ];
    isolated.close().await;
    Ok(rows)
}

async fn first(scratch: &Path) -> Result<Place> {
    let place = Place::open_at("bubblewrap", scratch, "first").await?;
    kept(&place.sandbox).await?;
    Ok(place)
}

/// A command in a place that is there.
async fn kept(sandbox: &Arc<dyn Sandbox>) -> Result<Duration> {
    let spec: ProcessSpec = process(["/bin/true"]);
    let (taken, outcome) = time(sandbox.run(&Ctx::new(), spec)).await;
    if !outcome?.exit.status.is_success() {
        return Err("/bin/true failed in the sandbox".into());
    }
    Ok(taken)
}

/// Two ways of doing something, in interleaved rounds.
async fn compare(
    batch: usize,
    mut ours: impl AsyncFnMut() -> Result<Duration>,
    mut theirs: impl AsyncFnMut() -> Result<Duration>,
) -> Result<(Duration, Duration)> {
    let (mut one, mut other) = (Side::default(), Side::default());
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let mut taken = Vec::with_capacity(batch);
            for _ in 0..batch {
                taken.push(if turn { ours().await? } else { theirs().await? });
            }
            if turn { &mut one } else { &mut other }.round(taken);
        }
    }
    Ok((one.p50(), other.p50()))
}

fn row(row: &'static str, bar: &'static str, most: f64, (ours, peer): (Duration, Duration)) -> Row {
    let ratio = ratio(ours.as_secs_f64(), peer.as_secs_f64());
    Row {
        row,
        ours: micros(ours),
        peer: Some(micros(peer)),
        ratio,
        bar,
        holds: ratio.is_some_and(|ratio| ratio <= most),
    }
}

async fn each(place: &Place, peer: &Peer) -> Result<Row> {
    let measured = compare(
        BATCH,
        async || kept(&place.sandbox).await,
        async || timed(peer).await,
    );
    Ok(row(
        "bubblewrap: exec /bin/true",
        "at most half of a bwrap for each, p50",
        MOST_RATIO,
        measured.await?,
    ))
}

async fn timed(peer: &Peer) -> Result<Duration> {
    let (taken, done) = time(peer.run()).await;
    done.map(|()| taken)
}

async fn acquire(place: &Place, peer: &Peer) -> Result<Row> {
    let root = place
        .root
        .to_str()
        .ok_or("the scratch directory is not UTF-8")?;
    let ours = async || {
        let request = OpenRequest {
            root: Some(root.to_owned()),
            ..OpenRequest::default()
        };
        let (taken, opened) = time(async {
            let opened = place.host.open(&Ctx::new(), None, request).await?;
            kept(&opened.sandbox).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(opened)
        })
        .await;
        opened?.release(&Ctx::new(), Disposition::Destroy).await?;
        Ok(taken)
    };
    let measured = compare(BATCH / 2, ours, async || timed(peer).await).await?;
    Ok(row(
        "bubblewrap: acquire to first exit",
        "at most 2x a bwrap of its own, p50",
        MOST_ACQUIRE,
        measured,
    ))
}

async fn at_once(place: &Place, peer: &Peer) -> Result<Row> {
    let ours = async || {
        let (taken, done) = time(many(async || kept(&place.sandbox).await.map(drop))).await;
        done.map(|()| taken)
    };
    let theirs = async || {
        let (taken, done) = time(many(async || peer.run().await)).await;
        done.map(|()| taken)
    };
    let (ours, theirs) = compare(1, ours, theirs).await?;
    let rate = |taken: Duration| THROUGHPUT_BATCH as f64 / taken.as_secs_f64().max(f64::EPSILON);
    let ratio = ratio(rate(ours), rate(theirs));
    Ok(Row {
        row: "bubblewrap: 32 commands at once",
        ours: per_second(rate(ours)),
        peer: Some(per_second(rate(theirs))),
        ratio,
        bar: "at least 5.5x a bwrap for each",
        holds: ratio.is_some_and(|ratio| ratio >= LEAST_THROUGHPUT),
    })
}

/// Does something [`THROUGHPUT_BATCH`] times, [`AT_ONCE`] at a time.
async fn many(one: impl AsyncFn() -> Result<()>) -> Result<()> {
    let line = async || {
        for _ in 0..THROUGHPUT_BATCH / AT_ONCE {
            one().await?;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    try_join_all((0..AT_ONCE).map(|_| line())).await?;
    Ok(())
}

async fn against_local(place: &Place, local: &Place) -> Result<Row> {
    let measured = compare(
        BATCH * 2,
        async || kept(&place.sandbox).await,
        async || kept(&local.sandbox).await,
    );
    Ok(row(
        "bubblewrap: exec, against local",
        "at most 1.3x without a place or a policy, p50",
        MOST_LOCAL,
        measured.await?,
    ))
}

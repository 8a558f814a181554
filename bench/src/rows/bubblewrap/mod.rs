//! `bubblewrap`: a command in a place that is there already, against making a place for each; 32 of them at once; against
//! the same without a place; and how long the first takes, the making included.

mod idle;
mod paths;
mod peer;

use std::path::Path;
use std::time::Duration;

use super::placed::{self, compare, kept, opened, row};
use super::{Place, Result};
use crate::harness::time;
use crate::report::{Row, micros};

pub(super) use idle::run as idle;
pub(super) use paths::run as paths;
use peer::Peer;

const BATCH: usize = 20;
/// What a command may cost of a place that is made for each.
const MOST_RATIO: f64 = 1.0 / 4.5;
/// What a command may cost more than one without a place.
const MOST_LOCAL: f64 = 1.3;
/// What a place and its first command may cost of a place that is made for one and kept by nobody.
const MOST_ACQUIRE: f64 = 2.0;
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

async fn each(place: &Place, peer: &Peer) -> Result<Row> {
    let measured = compare(
        [BATCH, BATCH],
        async || kept(&place.sandbox).await,
        async || timed(peer).await,
    );
    Ok(row(
        "bubblewrap: exec /bin/true",
        "at least 4.5 times faster than a bwrap for each, p50",
        MOST_RATIO,
        measured.await?,
    ))
}

async fn timed(peer: &Peer) -> Result<Duration> {
    let (taken, done) = time(peer.run()).await;
    done.map(|()| taken)
}

async fn acquire(place: &Place, peer: &Peer) -> Result<Row> {
    let measured = compare(
        [BATCH / 2, BATCH / 2],
        async || opened(place).await,
        async || timed(peer).await,
    );
    Ok(row(
        "bubblewrap: acquire to first exit",
        "at most 2x a bwrap of its own, p50",
        MOST_ACQUIRE,
        measured.await?,
    ))
}

async fn at_once(place: &Place, peer: &Peer) -> Result<Row> {
    placed::at_once(
        "bubblewrap: 32 commands at once",
        "at least 5.5x a bwrap for each",
        LEAST_THROUGHPUT,
        placed::THROUGHPUT_BATCH,
        async || kept(&place.sandbox).await.map(drop),
        async || peer.run().await,
    )
    .await
}

async fn against_local(place: &Place, local: &Place) -> Result<Row> {
    let measured = compare(
        [BATCH * 2, BATCH * 2],
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

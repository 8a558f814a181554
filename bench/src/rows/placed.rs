//! What the rows of locations that place an engine have in common: a command in a place that is there, beside another way to
//! have it done.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Disposition, Sandbox, SandboxExt as _};

use super::{Place, Result, process};
use crate::harness::{ROUNDS, Side, ours_first, quiet, time};
use crate::report::{Row, micros, per_second, ratio};

/// Commands at once, and how many each round.
const AT_ONCE: usize = 32;
pub(super) const THROUGHPUT_BATCH: usize = 320;

/// A command in a place that is there.
pub(super) async fn kept(sandbox: &Arc<dyn Sandbox>) -> Result<Duration> {
    let spec: ProcessSpec = process(["/bin/true"]);
    let (taken, outcome) = time(sandbox.run(&Ctx::new(), spec)).await;
    if !outcome?.exit.status.is_success() {
        return Err("/bin/true failed in the sandbox".into());
    }
    Ok(taken)
}

/// Two ways of doing something, in interleaved rounds.
///
/// - `batches`: how often each is done in a round
pub(super) async fn compare(
    batches: [usize; 2],
    mut ours: impl AsyncFnMut() -> Result<Duration>,
    mut theirs: impl AsyncFnMut() -> Result<Duration>,
) -> Result<(Duration, Duration)> {
    let (mut one, mut other) = (Side::default(), Side::default());
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let batch = batches[usize::from(!turn)];
            let mut taken = Vec::with_capacity(batch);
            for _ in 0..batch {
                taken.push(if turn { ours().await? } else { theirs().await? });
            }
            if turn { &mut one } else { &mut other }.round(taken);
        }
    }
    Ok((one.p50(), other.p50()))
}

pub(super) fn row(
    row: &'static str,
    bar: &'static str,
    most: f64,
    (ours, peer): (Duration, Duration),
) -> Row {
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

/// How many commands a second there are, many at once, with one way of doing them and another.
///
/// - `least`: how many times as many there have to be
/// - `theirs_of`: how many are done in the other way each round, a multiple of [`AT_ONCE`]
pub(super) async fn at_once(
    row: &'static str,
    bar: &'static str,
    least: f64,
    theirs_of: usize,
    ours: impl AsyncFn() -> Result<()>,
    theirs: impl AsyncFn() -> Result<()>,
) -> Result<Row> {
    let (ours, theirs) = compare(
        [1, 1],
        async || {
            let (taken, done) = time(many(THROUGHPUT_BATCH, &ours)).await;
            done.map(|()| taken)
        },
        async || {
            let (taken, done) = time(many(theirs_of, &theirs)).await;
            done.map(|()| taken)
        },
    )
    .await?;
    let rate = |of: usize, taken: Duration| of as f64 / taken.as_secs_f64().max(f64::EPSILON);
    let (ours, theirs) = (rate(THROUGHPUT_BATCH, ours), rate(theirs_of, theirs));
    let ratio = ratio(ours, theirs);
    Ok(Row {
        row,
        ours: per_second(ours),
        peer: Some(per_second(theirs)),
        ratio,
        bar,
        holds: ratio.is_some_and(|ratio| ratio >= least),
    })
}

/// Does something so many times, [`AT_ONCE`] at a time.
async fn many(times: usize, one: &impl AsyncFn() -> Result<()>) -> Result<()> {
    let line = async || {
        for _ in 0..times / AT_ONCE {
            one().await?;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    try_join_all((0..AT_ONCE).map(|_| line())).await?;
    Ok(())
}

/// How long a sandbox on this root takes, with its first command. It is released after that.
pub(super) async fn opened(place: &Place) -> Result<Duration> {
    let request = place.request()?;
    let (taken, opened) = time(async {
        let opened = place.host.open(&Ctx::new(), None, request).await?;
        kept(&opened.sandbox).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(opened)
    })
    .await;
    opened?.release(&Ctx::new(), Disposition::Destroy).await?;
    Ok(taken)
}

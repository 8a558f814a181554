//! `exec` of `/bin/true` against `tokio::process` spawning, capturing and waiting for the same.

use std::time::Duration;

use sandbox_core::Ctx;
use sandbox_core::process::ExecRequest;

use super::{Place, Result, process};
use crate::harness::{ROUNDS, Side, ours_first, quiet, time};
use crate::report::{Row, micros, ratio};

const BATCH: usize = 50;
const MOST_RATIO: f64 = 1.25;
const MOST_MORE: Duration = Duration::from_micros(150);

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let (mut ours, mut peer) = (Side::default(), Side::default());
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let mut batch = Vec::with_capacity(BATCH);
            for _ in 0..BATCH {
                batch.push(if turn {
                    sandboxed(place).await?
                } else {
                    bare().await?
                });
            }
            if turn { &mut ours } else { &mut peer }.round(batch);
        }
    }
    let (ours, peer) = (ours.p50(), peer.p50());
    let ratio = ratio(ours.as_secs_f64(), peer.as_secs_f64());
    Ok(vec![Row {
        row: "exec /bin/true",
        ours: micros(ours),
        peer: Some(micros(peer)),
        ratio,
        bar: "at most 1.25x and 150 us more, p50",
        holds: ratio.is_some_and(|ratio| ratio <= MOST_RATIO)
            && ours.saturating_sub(peer) <= MOST_MORE,
    }])
}

async fn sandboxed(place: &Place) -> Result<Duration> {
    let request = ExecRequest::new(process(["/bin/true"]));
    let (taken, outcome) = time(async {
        place
            .sandbox
            .exec(&Ctx::new(), request)
            .await?
            .outcome
            .await
    })
    .await;
    if !outcome?.exit.status.is_success() {
        return Err("/bin/true failed".into());
    }
    Ok(taken)
}

async fn bare() -> Result<Duration> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the peer that is measured"
    )]
    let mut command = tokio::process::Command::new("/bin/true");
    command.stdin(std::process::Stdio::null());
    // `output` starts the child when it is called, not when it is first polled.
    let (taken, output) = time(async { command.output().await }).await;
    if !output?.status.success() {
        return Err("/bin/true failed".into());
    }
    Ok(taken)
}

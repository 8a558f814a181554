//! A call that does nothing: `stat_many` of no paths, which crosses host, wire and provider and
//! touches no file.

use std::time::Duration;

use sandbox_core::Ctx;
use sandbox_core::file::StatManyRequest;

use super::{Place, Result};
use crate::harness::{ROUNDS, Side, quiet, time};
use crate::report::{Row, micros};

const BATCH: usize = 500;
const MOST: Duration = Duration::from_micros(60);

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let mut ours = Side::default();
    for _ in 0..ROUNDS {
        quiet().await;
        let mut batch = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            batch.push(nothing(place).await?);
        }
        ours.round(batch);
    }
    let ours = ours.p50();
    Ok(vec![Row {
        row: "no-op call",
        ours: micros(ours),
        peer: None,
        ratio: None,
        bar: "at most 60 us, p50",
        holds: ours <= MOST,
    }])
}

/// One call that does nothing, timed.
pub(super) async fn nothing(place: &Place) -> Result<Duration> {
    let request = StatManyRequest { paths: Vec::new() };
    let (taken, answer) = time(place.sandbox.stat_many(&Ctx::new(), request)).await;
    answer?;
    Ok(taken)
}

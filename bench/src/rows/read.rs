//! `read` of a 4 KiB file against `std::fs::read` of the same.

use std::time::Duration;

use sandbox_core::file::ReadRequest;
use sandbox_core::{Ctx, SandboxPath};

use super::{Place, Result};
use crate::harness::{ROUNDS, Side, ours_first, quiet, time};
use crate::report::{Row, micros, ratio};

const BATCH: usize = 300;
const MOST_MORE: Duration = Duration::from_micros(60);

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let path = SandboxPath::parse("four-kib")?;
    let file = place.root.join("four-kib");
    std::fs::write(&file, "0123456789abcde\n".repeat(256))?;
    let (mut ours, mut peer) = (Side::default(), Side::default());
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let mut batch = Vec::with_capacity(BATCH);
            for _ in 0..BATCH {
                let (taken, length) = if turn {
                    let request = ReadRequest::new(path.clone());
                    let (taken, content) = time(place.sandbox.read(&Ctx::new(), request)).await;
                    (taken, content?.bytes.len())
                } else {
                    let (taken, content) = time(async { std::fs::read(&file) }).await;
                    (taken, content?.len())
                };
                if length != 4096 {
                    return Err("the file came back with another length".into());
                }
                batch.push(taken);
            }
            if turn { &mut ours } else { &mut peer }.round(batch);
        }
    }
    let (ours, peer) = (ours.p50(), peer.p50());
    Ok(vec![Row {
        row: "read of 4 KiB",
        ours: micros(ours),
        peer: Some(micros(peer)),
        ratio: ratio(ours.as_secs_f64(), peer.as_secs_f64()),
        bar: "at most 60 us more, p50",
        holds: ours.saturating_sub(peer) <= MOST_MORE,
    }])
}

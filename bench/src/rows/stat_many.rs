//! `stat_many` of a thousand paths: one round trip.

use std::time::Duration;

use sandbox_core::file::StatManyRequest;
use sandbox_core::{Ctx, SandboxPath};

use super::{Place, Result};
use crate::harness::{ROUNDS, Side, ours_first, quiet, time};
use crate::report::{Row, micros, ratio};

const PATHS: usize = 1000;
const BATCH: usize = 20;
const MOST: Duration = Duration::from_millis(5);

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let mut paths = Vec::with_capacity(PATHS);
    for number in 0..PATHS {
        let directory = format!("stat/{}", number % 50);
        std::fs::create_dir_all(place.root.join(&directory))?;
        let name = format!("{directory}/file-{number}");
        std::fs::write(place.root.join(&name), "content")?;
        paths.push(name);
    }
    let (mut ours, mut peer) = (Side::default(), Side::default());
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let mut batch = Vec::with_capacity(BATCH);
            for _ in 0..BATCH {
                let (taken, found) = if turn {
                    let request = StatManyRequest {
                        paths: paths
                            .iter()
                            .map(SandboxPath::parse)
                            .collect::<std::result::Result<_, _>>()?,
                    };
                    let (taken, stats) = time(place.sandbox.stat_many(&Ctx::new(), request)).await;
                    let there = |stat: &sandbox_core::Result<_>| matches!(stat, Ok(Some(_)));
                    (taken, stats?.iter().filter(|stat| there(stat)).count())
                } else {
                    let look = || {
                        let there = |path: &&String| {
                            std::fs::symlink_metadata(place.root.join(path)).is_ok()
                        };
                        paths.iter().filter(there).count()
                    };
                    time(async { look() }).await
                };
                if found != PATHS {
                    return Err(format!("{found} of {PATHS} entries are there").into());
                }
                batch.push(taken);
            }
            if turn { &mut ours } else { &mut peer }.round(batch);
        }
    }
    let (ours, peer) = (ours.p50(), peer.p50());
    Ok(vec![Row {
        row: "stat_many of 1,000 paths",
        ours: micros(ours),
        peer: Some(micros(peer)),
        ratio: ratio(ours.as_secs_f64(), peer.as_secs_f64()),
        bar: "at most 5 ms, p50",
        holds: ours <= MOST,
    }])
}

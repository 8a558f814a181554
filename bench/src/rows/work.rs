//! Real work: the tests of a published crate, by `spp run -- cargo test` and by `cargo test`.
//!
//! The sources are those of a dependency of this workspace that has no dependencies of its own, so
//! that they are on every machine that built it. Every run builds from nothing in a directory of its
//! own. Two runs of the same differ by a tenth, and noise only ever adds time: what counts is the lower of
//! two estimates, the ratio of the fastest runs and the middle one of the ratios of neighbours. A missed bar
//! is measured again before it counts.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::{Place, Result};
use crate::harness::{ours_first, quiet, time};
use crate::report::{Row, ratio};
use crate::tree::{command, copy, sources_of};

const CRATE: &str = "strsim";
const ROUNDS: usize = 3;
const ATTEMPTS: usize = 6;
const MOST_RATIO: f64 = 1.05;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let tree = place.root.join(CRATE);
    copy(&sources_of(CRATE).await?, &tree)?;
    let spp = std::env::current_exe()?.with_file_name("spp");
    let (mut ours, mut peer) = (Duration::MAX, Duration::MAX);
    let mut neighbours = Vec::new();
    let mut result = None;
    for round in 0..ROUNDS * ATTEMPTS {
        let mut pair = [Duration::ZERO; 2];
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let target = place.root.join(format!("target-{round}-{turn}"));
            let mut argv = vec!["cargo", "test", "--offline", "--quiet"];
            let spp = spp.to_str().ok_or("the path of spp is not UTF-8")?;
            if turn {
                argv.splice(0..0, [spp, "run", "--"]);
            }
            let taken = timed(&argv, &tree, &target).await?;
            let best = if turn { &mut ours } else { &mut peer };
            *best = taken.min(*best);
            pair[usize::from(!turn)] = taken;
        }
        neighbours.extend(ratio(pair[0].as_secs_f64(), pair[1].as_secs_f64()));
        let fastest = ratio(ours.as_secs_f64(), peer.as_secs_f64());
        result = fastest
            .into_iter()
            .chain(middle(&neighbours))
            .reduce(f64::min);
        let measured = (round + 1) % ROUNDS == 0;
        if measured && result.is_some_and(|ratio| ratio <= MOST_RATIO) {
            break;
        }
    }
    let seconds = |taken: Duration| format!("{:.2} s", taken.as_secs_f64());
    Ok(vec![Row {
        row: "cargo test of a crate",
        ours: seconds(ours),
        peer: Some(seconds(peer)),
        ratio: result,
        bar: "at most 1.05x",
        holds: result.is_some_and(|ratio| ratio <= MOST_RATIO),
    }])
}

fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

async fn timed(argv: &[&str], tree: &Path, target: &Path) -> Result<Duration> {
    let mut command = command(argv[0]);
    command
        .args(&argv[1..])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // `output` starts the child when it is called, not when it is first polled.
    let (taken, output) = time(async { command.output().await }).await;
    let output = output?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{}` failed: {said}", argv.join(" ")).into());
    }
    Ok(taken)
}

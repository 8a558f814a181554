//! `fingerprint` of a large tree: by metadata against `git status`, by content against `b3sum`.
//!
//! By content nothing is known from before: each call is about a scope of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use sandbox_core::search::{
    Completeness, FingerprintDepth, FingerprintRequest, FingerprintScope, Scope,
};
use sandbox_core::{Ctx, SandboxPath};

use super::{Place, Result};
use crate::harness::{Side, ours_first, quiet, time};
use crate::report::{Row, ratio};
use crate::tree::{self, FILES, command};

const ROUNDS: usize = 9;
const MOST_METADATA: f64 = 0.6;
const MOST_CONTENT: f64 = 0.35;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let directory = place.root.join("tree");
    tree::build(&directory).await?;
    tree::commit(&directory).await?;
    let metadata = compare(
        place,
        &directory,
        FingerprintDepth::Metadata,
        "git status --porcelain",
    );
    let metadata = metadata.await?;
    let hash_all = "find . -path ./.git -prune -o -type f -print0 | xargs -0 b3sum >/dev/null";
    let content = compare(place, &directory, FingerprintDepth::Content, hash_all).await?;
    Ok(vec![
        row(
            "fingerprint by metadata, against git status",
            &metadata,
            "at most 0.6x",
            MOST_METADATA,
        ),
        row(
            "fingerprint by content, against b3sum",
            &content,
            "at most 0.35x",
            MOST_CONTENT,
        ),
    ])
}

fn row(name: &'static str, (ours, peer): &(Side, Side), bar: &'static str, most: f64) -> Row {
    let (ours, peer) = (ours.p50(), peer.p50());
    let ratio = ratio(ours.as_secs_f64(), peer.as_secs_f64());
    let millis = |taken: Duration| format!("{:.0} ms", taken.as_secs_f64() * 1e3);
    Row {
        row: name,
        ours: millis(ours),
        peer: Some(millis(peer)),
        ratio,
        bar,
        holds: ratio.is_some_and(|ratio| ratio <= most),
    }
}

async fn compare(
    place: &Place,
    directory: &Path,
    depth: FingerprintDepth,
    peer_line: &str,
) -> Result<(Side, Side)> {
    let (mut ours, mut peer) = (Side::default(), Side::default());
    // Once each, so that both find everything in memory.
    looked(place, depth, 0).await?;
    run_line(peer_line, directory).await?;
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            if turn {
                ours.round(vec![looked(place, depth, round + 1).await?]);
            } else {
                peer.round(vec![run_line(peer_line, directory).await?]);
            }
        }
    }
    Ok((ours, peer))
}

async fn looked(place: &Place, depth: FingerprintDepth, round: usize) -> Result<Duration> {
    let mut scope = Scope::new(SandboxPath::parse("tree")?);
    // Deeper than anything lies: another scope with the same entries.
    scope.max_depth = Some(1000 + u32::try_from(round)?);
    let request = FingerprintRequest {
        scope: FingerprintScope {
            scope,
            depth,
            limit: 10_000_000,
        },
        base: None,
    };
    let (taken, answer) = time(place.sandbox.fingerprint(&Ctx::new(), request)).await;
    let answer = answer?;
    if answer.complete != Completeness::Complete || answer.entries < FILES as u64 {
        return Err(format!("{} entries: {:?}", answer.entries, answer.complete).into());
    }
    Ok(taken)
}

async fn run_line(line: &str, directory: &Path) -> Result<Duration> {
    let mut shell = command("sh");
    shell
        .args(["-c", line])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // `output` starts the child when it is called, not when it is first polled.
    let (taken, output) = time(async { shell.output().await }).await;
    let output = output?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{line}` failed: {said}").into());
    }
    Ok(taken)
}

//! `push_tree` of 10,000 small files, against `tar c | tar x`; and of 10 that changed since, to a receiver
//! that has the rest, against the first push.
//!
//! Ours is all of it: the walk under ignore rules, packing, the digest of every file, and the tree put in
//! place at once. A destination is new in each round.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use sandbox_core::transfer::{Manifest, PushReceipt};
use sandbox_core::{Ctx, SandboxPath};
use sandbox_host::tree::{self, Onto, Tally};

use super::{Place, Result};
use crate::harness::{Side, ours_first, quiet, time};
use crate::report::Row;
use crate::tree::{command, small};

const FILES: usize = 10_000;
const CHANGED: usize = 10;
const ROUNDS: usize = 7;
const MOST_FIRST: f64 = 1.2;
const MOST_AGAIN: f64 = 0.2;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let tree = place.root.join("tree");
    small(&tree, FILES)?;
    let (mut first, mut again, mut peer) = (Side::default(), Side::default(), Side::default());
    for round in 0..ROUNDS {
        let name = format!("pushed-{round}");
        let mut base = Manifest::default();
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            if turn {
                let (taken, receipt) = time(push(place, &tree, &name, None)).await;
                let receipt = receipt?;
                if receipt.applied < FILES as u64 {
                    return Err(format!("{} of {FILES} files arrived", receipt.applied).into());
                }
                first.round(vec![taken]);
                base = receipt.manifest;
            } else {
                let to = place.root.join(format!("tar-{round}"));
                std::fs::create_dir(&to)?;
                peer.round(vec![tar(&tree, &to).await?]);
            }
        }
        change(&tree, round)?;
        quiet().await;
        let (taken, receipt) = time(push(place, &tree, &name, Some(base))).await;
        let applied = receipt?.applied;
        // Each lies in a directory of its own, which an archive names by its files and which counts too.
        if applied != 2 * CHANGED as u64 {
            return Err(
                format!("{applied} entries arrived, and {CHANGED} files had changed").into(),
            );
        }
        again.round(vec![taken]);
    }
    let (first, again, peer) = (first.p50(), again.p50(), peer.p50());
    Ok(vec![
        Row::at_most(
            "push_tree of 10,000 files, against tar | tar",
            "at most 1.2x",
            MOST_FIRST,
            [first, peer],
        ),
        Row::at_most(
            "push_tree of 10 that changed, against the first",
            "at most 0.2x",
            MOST_AGAIN,
            [again, first],
        ),
    ])
}

/// Writes something else into some of the files.
fn change(tree: &Path, round: usize) -> io::Result<()> {
    for number in 0..CHANGED {
        let directory = tree.join(format!("{number:04}"));
        let first = directory.join(format!("{:05}.txt", number * 20));
        std::fs::write(first, format!("changed in round {round}, file {number}\n"))?;
    }
    Ok(())
}

async fn tar(from: &Path, to: &Path) -> Result<Duration> {
    let mut shell = command("sh");
    shell
        .args(["-c", r#"tar -C "$0" -c . | tar -C "$1" -x"#])
        .args([from, to])
        .stdin(Stdio::null());
    let (taken, status) = time(async { shell.status().await }).await;
    if !status?.success() {
        return Err("tar failed".into());
    }
    Ok(taken)
}

async fn push(place: &Place, from: &Path, to: &str, base: Option<Manifest>) -> Result<PushReceipt> {
    let directory = File::open(from)?;
    let to = SandboxPath::parse(to)?;
    let onto = base.map_or(Onto::Nothing, Onto::Known);
    let (ctx, tally) = (Ctx::new(), Tally::new());
    let (receipt, _) = tree::push(&ctx, &*place.sandbox, directory, to, onto, &tally).await?;
    Ok(receipt)
}

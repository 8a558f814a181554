//! Trees into and out of a container, against `tar` on both sides of a `docker exec`: 10,000 small files, and one large one
//! each way.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use sandbox_core::{Ctx, SandboxPath};
use sandbox_host::tree::{self, Onto, Tally};

use super::peer::Peer;
use super::{Place, Result};
use crate::harness::{Side, ours_first, quiet, time};
use crate::report::Row;
use crate::rows::pull_tree::pulled;
use crate::rows::stream::random;
use crate::tree::small;

const FILES: usize = 10_000;
const BYTES: usize = 256 << 20;
const ROUNDS: usize = 5;
const MOST_SMALL: f64 = 1.0 / 1.5;
const MOST_LARGE: f64 = 1.5;
/// Unpacks what comes into a new directory, whose name is `$2`.
const UNPACK: &str = r#"tar -C "$1" -c . | dx "$0" sh -c 'mkdir "$0" && tar -C "$0" -x' "$2""#;

pub(super) async fn rows(place: &Place, peer: &Peer) -> Result<Vec<Row>> {
    let outside = place.root.with_file_name("outside");
    std::fs::create_dir(&outside)?;
    let (many, large) = (outside.join("many"), outside.join("large"));
    small(&many, FILES)?;
    std::fs::create_dir(&large)?;
    std::fs::write(
        large.join("file"),
        random().take(BYTES).collect::<Vec<u8>>(),
    )?;
    let mut taken = Vec::new();
    for (from, name) in [(&many, "many"), (&large, "large")] {
        let push = async |round| push(place, from, &format!("{name}-{round}")).await;
        let unpack = async |round| {
            let to = format!("/workspace/{name}-by-tar-{round}");
            peer.piped(UNPACK, &[from, Path::new(&to)]).await
        };
        taken.push(sides(push, unpack).await?);
    }
    let scope = SandboxPath::parse("large-0")?;
    let pull = async |_| {
        let (taken, read) = time(pulled(place, scope.clone())).await;
        match read? {
            read if read >= BYTES => Ok(taken),
            read => Err(format!("{read} of {BYTES} bytes arrived").into()),
        }
    };
    const PACK: &str = r#"dx "$0" tar -C /workspace/large-0 -c . | cat > /dev/null"#;
    let pack = async |_| peer.piped(PACK, &[]).await;
    taken.push(sides(pull, pack).await?);
    let rows = [
        (
            "docker: push_tree of 10,000 files",
            "at least 1.5 times faster than tar through docker exec",
            MOST_SMALL,
        ),
        (
            "docker: push_tree of a file of 256 MiB",
            "at most 1.5x tar through docker exec",
            MOST_LARGE,
        ),
        (
            "docker: pull_tree of a file of 256 MiB",
            "at most 1.5x tar through docker exec",
            MOST_LARGE,
        ),
    ];
    let rows = rows.into_iter().zip(taken);
    Ok(rows
        .map(|((name, bar, most), taken)| Row::at_most(name, bar, most, taken))
        .collect())
}

/// Both ways, in interleaved rounds.
async fn sides(
    ours: impl AsyncFn(usize) -> Result<Duration>,
    theirs: impl AsyncFn(usize) -> Result<Duration>,
) -> Result<[Duration; 2]> {
    let (mut one, mut other) = (Side::default(), Side::default());
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            if turn {
                one.round(vec![ours(round).await?]);
            } else {
                other.round(vec![theirs(round).await?]);
            }
        }
    }
    Ok([one.p50(), other.p50()])
}

async fn push(place: &Place, from: &Path, to: &str) -> Result<Duration> {
    let directory = File::open(from)?;
    let to = SandboxPath::parse(to)?;
    let (ctx, tally) = (Ctx::new(), Tally::new());
    let pushed = tree::push(&ctx, &*place.sandbox, directory, to, Onto::Nothing, &tally);
    let (taken, pushed) = time(pushed).await;
    let (receipt, _) = pushed?;
    if receipt.applied == 0 {
        return Err("nothing arrived".into());
    }
    Ok(taken)
}

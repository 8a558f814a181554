//! `pull_tree` of one file of 256 MiB, against reading the same archive from `tar`: once of text, once of
//! random bytes.

use futures_util::StreamExt as _;
use sandbox_core::search::Scope;
use sandbox_core::transfer::{Compression, Pull, PullRequest};
use sandbox_core::{Ctx, Error, SandboxPath};

use super::stream::{Watch, bare, megabytes_per_second, random, text};
use super::{Place, Result};
use crate::harness::{ours_first, quiet, time};
use crate::report::{Row, rate, ratio, size};

const BYTES: usize = 256 << 20;
const ROUNDS: usize = 5;
const LEAST_MB_S: f64 = 250.0;
const MOST_GROWTH: u64 = 16 << 20;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let mut rows = compare(
        place,
        ["pull_tree of text", "memory while pulling text"],
        text(),
    )
    .await?;
    rows.extend(
        compare(
            place,
            ["pull_tree of bytes", "memory while pulling bytes"],
            random(),
        )
        .await?,
    );
    Ok(rows)
}

async fn compare(
    place: &Place,
    names: [&'static str; 2],
    content: impl Iterator<Item = u8>,
) -> Result<Vec<Row>> {
    let name = names[0].replace(' ', "-");
    let directory = place.root.join(&name);
    std::fs::create_dir(&directory)?;
    let content: Vec<u8> = content.take(BYTES).collect();
    std::fs::write(directory.join("file"), content)?;
    let scope = SandboxPath::parse(name)?;
    let tar = [
        "-C".as_ref(),
        directory.as_os_str(),
        "-c".as_ref(),
        "file".as_ref(),
    ];
    let (mut ours, mut peer, mut growth) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let (taken, read) = if turn {
                let watch = Watch::start(place.provider);
                let (taken, read) = time(pulled(place, scope.clone())).await;
                growth = growth.max(watch.stop());
                (taken, read?)
            } else {
                bare("tar", tar).await?
            };
            if read < BYTES {
                return Err(format!("{read} of {BYTES} bytes arrived").into());
            }
            if turn { &mut ours } else { &mut peer }.push(taken);
        }
    }
    let (ours, peer) = (
        megabytes_per_second(BYTES, ours),
        megabytes_per_second(BYTES, peer),
    );
    Ok(vec![
        Row {
            row: names[0],
            ours: rate(ours),
            peer: Some(rate(peer)),
            ratio: ratio(ours, peer),
            bar: "at least 250 MB/s",
            holds: ours >= LEAST_MB_S,
        },
        Row {
            row: names[1],
            ours: format!("+{}", size(growth)),
            peer: None,
            ratio: None,
            bar: "host and provider grow by less than 16 MiB each",
            holds: growth < MOST_GROWTH,
        },
    ])
}

/// Pulls it and forgets it: how many bytes the archive had.
pub(super) async fn pulled(place: &Place, scope: SandboxPath) -> Result<usize> {
    let request = PullRequest {
        scopes: vec![Scope::new(scope)],
        compression: Compression::None,
        base: None,
    };
    let Pull {
        mut archive,
        receipt,
    } = place.sandbox.pull_tree(&Ctx::new(), request).await?;
    let read = async {
        let mut read = 0;
        while let Some(piece) = archive.next().await {
            read += piece?.len();
        }
        Ok::<_, Error>(read)
    };
    let (read, receipt) = futures_util::future::join(read, receipt).await;
    receipt?;
    Ok(read?)
}

//! A policy that hides 20,000 paths: what its start costs, and that commands cost what they do without it.

use std::time::Duration;

use sandbox_core::{Policy, SandboxPath};

use super::super::{Place, Result};
use super::{BATCH, compare, kept, row};
use crate::harness::time;
use crate::report::{Row, micros};

const PATHS: usize = 20_000;
/// Directories that they are in.
const DIRECTORIES: usize = 200;
/// Unchanged, as far as such a comparison tells.
const MOST_RATIO: f64 = 1.1;
/// From the provider's start to the place.
const START: Duration = Duration::from_secs(2);

pub(in super::super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let scratch = place.root.join("paths");
    std::fs::create_dir_all(&scratch)?;
    let without = Place::open_at("bubblewrap", &scratch, "without").await?;
    let root = scratch.join("with");
    let mut policy = Policy::default();
    for number in 0..PATHS {
        let directory = root.join(format!("d{}", number % DIRECTORIES));
        if number < DIRECTORIES {
            std::fs::create_dir_all(&directory)?;
        }
        std::fs::write(directory.join(number.to_string()), "")?;
        let at = format!("/workspace/d{}/{number}", number % DIRECTORIES);
        policy.hidden.insert(SandboxPath::parse(at)?);
    }
    let (started, with) = time(Place::open_with("bubblewrap", root, policy)).await;
    let with = with?;
    let measured = compare(
        [BATCH, BATCH],
        async || kept(&with.sandbox).await,
        async || kept(&without.sandbox).await,
    );
    let measured = measured.await?;
    with.close().await;
    without.close().await;
    Ok(vec![
        Row {
            row: "bubblewrap: start with 20,000 paths hidden",
            ours: micros(started),
            peer: None,
            ratio: None,
            bar: "at most 2 s, the provider's start included",
            holds: started <= START,
        },
        row(
            "bubblewrap: exec with 20,000 paths hidden",
            "at most 1.1x without, p50",
            MOST_RATIO,
            measured,
        ),
    ])
}

//! Other calls while one reader does not read: 64 MiB are pending, and nobody else may notice.

use std::time::Duration;

use futures_util::StreamExt as _;
use sandbox_core::Ctx;
use sandbox_core::process::{Delivery, ExecRequest};

use super::{Place, Result, call, process, stream::Watch};
use crate::harness::{Side, quiet};
use crate::report::{Row, micros, size};

const BYTES: usize = 64 << 20;
const CALLS: usize = 2000;
const MOST: Duration = Duration::from_millis(1);
const MOST_GROWTH: u64 = 2 << 20;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let file = place.root.join("stalled");
    let content: Vec<u8> = (0..BYTES)
        .map(|index| (index / 7 % 251).to_le_bytes()[0])
        .collect();
    let digest = blake3::hash(&content);
    std::fs::write(&file, &content)?;
    drop(content);
    // The allocator's and the tables' first growth is not what is measured.
    for _ in 0..CALLS {
        call::nothing(place).await?;
    }
    quiet().await;

    let watch = Watch::start(place.provider);
    let argv = [b"cat".as_slice(), file.as_os_str().as_encoded_bytes()];
    let request = ExecRequest::new(process(argv)).delivery(Delivery::Live);
    let execution = place.sandbox.exec(&Ctx::new(), request).await?;
    let (mut stdout, outcome) = (execution.stdout, tokio::spawn(execution.outcome));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut others = Side::default();
    let mut batch = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        batch.push(call::nothing(place).await?);
    }
    others.round(batch);
    let growth = watch.stop();

    let mut hasher = blake3::Hasher::new();
    while let Some(chunk) = stdout.next().await {
        hasher.update(&chunk?);
    }
    outcome.await??;
    let intact = hasher.finalize() == digest;
    let others = others.p50();
    Ok(vec![
        Row {
            row: "other calls, one reader stalled",
            ours: micros(others),
            peer: None,
            ratio: None,
            bar: "p50 under 1 ms",
            holds: others < MOST,
        },
        Row {
            row: "memory, one reader stalled",
            ours: format!("+{}", size(growth)),
            peer: None,
            ratio: None,
            bar: "host and provider grow by less than 2 MiB each",
            holds: growth < MOST_GROWTH,
        },
        Row {
            row: "digest after it resumed",
            ours: if intact { "equal" } else { "different" }.into(),
            peer: None,
            ratio: None,
            bar: "equal",
            holds: intact,
        },
    ])
}

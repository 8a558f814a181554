//! 1,000 idle sandboxes: how long it takes to have them, and the memory of everything that is there for them.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use sandbox_core::Ctx;
use sandbox_host::OpenRequest;

use super::super::{Place, Result};
use super::kept;
use crate::harness::time;
use crate::memory::Group;
use crate::report::{Row, size};

const SANDBOXES: usize = 1000;
/// How many are asked for at once.
const AT_ONCE: usize = 4;
const MOST_BYTES: u64 = 1_500_000;
const MOST_TIME: Duration = Duration::from_secs(10);

pub(in super::super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let scratch = place.root.join("crowd");
    std::fs::create_dir_all(&scratch)?;
    let first = Place::open_at("bubblewrap", &scratch, "first").await?;
    kept(&first.sandbox).await?;
    // What it starts from now on is counted with it.
    let Some(group) = Group::new("spp-bench") else {
        return Err(
            "memory is measured by a control group, which this user may not make; see \
                    `cargo xtask bench --help` for the other rows"
                .into(),
        );
    };
    group.take(first.provider)?;
    let before = group.bytes()?;
    let open = |number: usize| {
        let (host, root) = (&first.host, scratch.join(number.to_string()));
        async move {
            std::fs::create_dir(&root)?;
            let request = OpenRequest {
                root: root.to_str().map(str::to_owned),
                ..OpenRequest::default()
            };
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                host.open(&Ctx::new(), None, request).await?,
            )
        }
    };
    let opened = stream::iter(0..SANDBOXES)
        .map(open)
        .buffer_unordered(AT_ONCE);
    let (taken, opened) = time(opened.try_collect::<Vec<_>>()).await;
    let opened = opened?;
    // Their first commands are not under way any more, and what was only needed for the start is given back.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = group.bytes()?.saturating_sub(before) / SANDBOXES as u64;
    // They are what they are counted as: sandboxes in which something runs when it is asked to.
    for opened in opened.iter().step_by(SANDBOXES / 10) {
        kept(&opened.sandbox).await?;
    }
    drop(opened);
    first.close().await;
    group.remove();
    Ok(vec![
        Row {
            row: "bubblewrap: memory of one of 1,000 idle",
            ours: size(each),
            peer: None,
            ratio: None,
            bar: "at most 1.5 MB, by control group",
            holds: each > 0 && each <= MOST_BYTES,
        },
        Row {
            row: "bubblewrap: 1,000 sandboxes to have",
            ours: format!("{:.1} s", taken.as_secs_f64()),
            peer: None,
            ratio: None,
            bar: "under 10 s",
            holds: taken < MOST_TIME,
        },
    ])
}

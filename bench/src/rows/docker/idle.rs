//! What an idle sandbox costs on this side of the daemon: what the provider grows by, and what it keeps running.

use std::time::Duration;

use sandbox_core::{Ctx, Disposition};

use super::{Place, Result};
use crate::memory;
use crate::report::{Row, size};

/// Enough that what is made once for all of them does not count.
const SANDBOXES: u64 = 20;
const MOST: u64 = 2_000_000;

pub(super) async fn row(place: &Place) -> Result<Row> {
    let before = held(place);
    let mut all = Vec::new();
    for _ in 0..SANDBOXES {
        all.push(place.host.open(&Ctx::new(), None, place.request()?).await?);
    }
    // Whatever had to do with their start has ended by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = held(place).saturating_sub(before) / SANDBOXES;
    for opened in all {
        opened.release(&Ctx::new(), Disposition::Destroy).await?;
    }
    Ok(Row {
        row: "docker: an idle sandbox on this side",
        ours: size(each),
        peer: None,
        ratio: None,
        bar: "under 2 MB, clients that are kept counted",
        holds: before > 0 && each < MOST,
    })
}

/// What the provider and everything that it keeps running have in memory.
fn held(place: &Place) -> u64 {
    let clients = memory::children_of(place.provider);
    let clients: u64 = clients.into_iter().map(memory::resident).sum();
    memory::resident(place.provider) + clients
}

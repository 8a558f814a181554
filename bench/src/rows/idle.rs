//! Memory of a provider that holds one idle sandbox.

use std::time::Duration;

use super::{Place, Result, call};
use crate::memory;
use crate::report::{Row, size};

const MOST: u64 = 8 << 20;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    call::nothing(place).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let resident = memory::resident(place.provider);
    Ok(vec![Row {
        row: "provider with one idle sandbox",
        ours: size(resident),
        peer: None,
        ratio: None,
        bar: "under 8 MiB resident",
        holds: resident > 0 && resident < MOST,
    }])
}

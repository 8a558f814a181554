//! What a row says: our figure, the peer's, their ratio, the bar, and whether it holds.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::memory::mib;

/// One measured row. In JSON: `row, ours, peer, ratio, bar, holds`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) row: &'static str,
    /// Our figure with its unit.
    pub(crate) ours: String,
    /// The peer's figure, where there is a peer.
    pub(crate) peer: Option<String>,
    /// Ours by the peer's, where there is a peer.
    pub(crate) ratio: Option<f64>,
    /// What must hold.
    pub(crate) bar: &'static str,
    /// Whether it does.
    pub(crate) holds: bool,
}

impl Row {
    /// A duration in milliseconds that may be so many times the peer's.
    pub(crate) fn at_most(
        row: &'static str,
        bar: &'static str,
        most: f64,
        [ours, peer]: [Duration; 2],
    ) -> Self {
        let ratio = ratio(ours.as_secs_f64(), peer.as_secs_f64());
        let millis = |taken: Duration| format!("{:.0} ms", taken.as_secs_f64() * 1e3);
        Self {
            row,
            ours: millis(ours),
            peer: Some(millis(peer)),
            ratio,
            bar,
            holds: ratio.is_some_and(|ratio| ratio <= most),
        }
    }
}

/// A duration in microseconds for a table.
pub(crate) fn micros(duration: Duration) -> String {
    format!("{:.0} us", duration.as_secs_f64() * 1e6)
}

/// A throughput for a table.
pub(crate) fn rate(megabytes_per_second: f64) -> String {
    format!("{megabytes_per_second:.0} MB/s")
}

/// How often a second, for a table.
pub(crate) fn per_second(times: f64) -> String {
    format!("{times:.0}/s")
}

/// A size for a table.
pub(crate) fn size(bytes: u64) -> String {
    format!("{:.1} MiB", mib(bytes))
}

/// `a / b` with two decimals.
pub(crate) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| (a / b * 100.0).round() / 100.0)
}

/// All rows as an aligned table.
pub(crate) fn table(rows: &[Row]) -> String {
    let header = ["row", "ours", "peer", "ratio", "bar", "holds"].map(String::from);
    let lines: Vec<[String; 6]> = std::iter::once(header)
        .chain(rows.iter().map(|row| {
            [
                row.row.to_owned(),
                row.ours.clone(),
                row.peer.clone().unwrap_or_else(|| "-".into()),
                row.ratio
                    .map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
                row.bar.to_owned(),
                if row.holds { "yes" } else { "NO" }.to_owned(),
            ]
        }))
        .collect();
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

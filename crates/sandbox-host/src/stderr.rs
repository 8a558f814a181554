//! A provider's standard error: its end is kept for errors, and its lines are logged.
//!
//! What it writes is never a failure by itself. A line that is a JSON object with `level` and `message`
//! is logged as such; any other is text.

use serde::Deserialize;
use spp_client::stderr::{self, Tail, Told};
use tokio::io::AsyncRead;

use crate::error::{StderrTail, visible};

/// What is kept now of what a provider wrote.
pub(crate) fn snapshot(tail: &Tail) -> StderrTail {
    StderrTail(tail.bytes())
}

/// Reads to the end.
pub(crate) async fn drain(from: impl AsyncRead + Unpin, provider: String, tail: Tail) {
    let tell = |told: Told<'_>| match told {
        Told::Line(line) => log_line(&provider, line),
        Told::Left(lines) => tracing::warn!(
            provider,
            lines,
            "more lines of standard error than are logged"
        ),
    };
    stderr::drain(from, tail, tell).await;
}

#[derive(Deserialize)]
struct Record {
    level: String,
    message: String,
}

fn log_line(provider: &str, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\r');
    if text.is_empty() {
        return;
    }
    let record = serde_json::from_str::<Record>(text).ok();
    let message = visible(record.as_ref().map_or(text, |record| &record.message));
    let level = match &record {
        Some(record) => record.level.to_ascii_lowercase(),
        None if text.contains("panicked at") || text.contains("panic:") => "error".into(),
        None => "info".into(),
    };
    match level.as_str() {
        "error" => tracing::error!(provider, "{message}"),
        "warn" | "warning" => tracing::warn!(provider, "{message}"),
        "debug" => tracing::debug!(provider, "{message}"),
        "trace" => tracing::trace!(provider, "{message}"),
        _ => tracing::info!(provider, "{message}"),
    }
}

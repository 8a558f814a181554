//! A provider's standard error: always drained, its end kept, the rest logged within bounds.
//!
//! Nobody may forget to read it: a provider that fills the pipe stops in the middle of a call. What
//! it writes is never a failure by itself. A line that is a JSON object with `level` and `message`
//! is logged as such; any other is text.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::error::{StderrTail, visible};

/// How much of the end is kept for errors, in bytes.
const TAIL: usize = 8 * 1024;
/// Longest line that is logged as one, in bytes; a longer one is split.
const LINE: usize = 64 * 1024;
/// Lines that are logged in any one second; the others are counted.
const LINES_PER_SECOND: u32 = 100;

/// The end of a stream that is still being read.
#[derive(Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(TAIL)..];
        let excess = (kept.len() + bytes.len()).saturating_sub(TAIL);
        kept.drain(..excess);
        kept.extend(bytes);
    }

    /// What is kept now, from the beginning of a line if more was written than is kept.
    pub(crate) fn snapshot(&self) -> StderrTail {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let start = match bytes.iter().position(|&byte| byte == b'\n') {
            Some(newline) if bytes.len() == TAIL => newline + 1,
            _ => 0,
        };
        StderrTail(bytes[start..].to_vec())
    }
}

/// Reads to the end.
pub(crate) async fn drain(mut from: impl AsyncRead + Unpin, provider: String, tail: Tail) {
    let mut chunk = vec![0; 16 * 1024];
    let mut lines = Lines {
        provider,
        line: Vec::new(),
        window: Instant::now(),
        logged: 0,
        suppressed: 0,
    };
    loop {
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                tail.push(&chunk[..count]);
                lines.take(&chunk[..count]);
            }
        }
    }
    lines.end();
}

struct Lines {
    provider: String,
    line: Vec<u8>,
    window: Instant,
    logged: u32,
    suppressed: u64,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let complete = piece.ends_with(b"\n");
            let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
            for part in piece.chunks(LINE) {
                if self.line.len() + part.len() > LINE {
                    self.log();
                }
                self.line.extend_from_slice(part);
            }
            if complete {
                self.log();
            }
        }
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            self.log();
        }
        self.tell_suppressed();
    }

    fn log(&mut self) {
        if self.window.elapsed() >= Duration::from_secs(1) {
            self.tell_suppressed();
            self.window = Instant::now();
            self.logged = 0;
        }
        if self.logged < LINES_PER_SECOND {
            self.logged += 1;
            log_line(&self.provider, &self.line);
        } else {
            self.suppressed += 1;
        }
        self.line.clear();
    }

    fn tell_suppressed(&mut self) {
        if self.suppressed > 0 {
            tracing::warn!(
                provider = %self.provider,
                lines = self.suppressed,
                "more lines of standard error than are logged"
            );
            self.suppressed = 0;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_and_begins_with_a_whole_line() {
        let tail = Tail::default();
        tail.push(b"short\n");
        assert_eq!(tail.snapshot().0, b"short\n");
        for number in 0..5000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let kept = String::from_utf8(tail.snapshot().0).expect("ASCII in, ASCII out");
        assert!(
            kept.len() <= TAIL && kept.len() > TAIL - 20,
            "{}",
            kept.len()
        );
        assert!(
            kept.starts_with("line ") && kept.ends_with("line 4999\n"),
            "{kept}"
        );
    }

    #[test]
    fn a_line_without_end_is_split_rather_than_kept() {
        let mut lines = Lines {
            provider: "p".into(),
            line: Vec::new(),
            window: Instant::now(),
            logged: 0,
            suppressed: 0,
        };
        for _ in 0..100 {
            lines.take(&[b'x'; 10_000]);
        }
        assert!(lines.line.len() <= LINE);
        // Each logged piece has six of the ten thousand bytes, which is what fits a line.
        assert_eq!(lines.logged, 16);
    }

    #[test]
    fn a_flood_is_counted_instead_of_logged() {
        let mut lines = Lines {
            provider: "p".into(),
            line: Vec::new(),
            window: Instant::now() + Duration::from_secs(3600),
            logged: 0,
            suppressed: 0,
        };
        lines.take("y\n".repeat(10_000).as_bytes());
        assert_eq!(lines.suppressed, 10_000 - u64::from(LINES_PER_SECOND));
    }
}

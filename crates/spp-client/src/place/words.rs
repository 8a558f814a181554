//! What a place writes on its standard error: always read, its end kept for reasons, lines passed on to
//! the provider's own log within bounds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How much of the end is kept, in bytes.
const KEPT: usize = 8 * 1024;
/// Lines that are passed on in any one second.
const LINES_PER_SECOND: u32 = 100;
/// Longest piece of a line that is passed on, in bytes.
const LINE: usize = 4 * 1024;

/// The end of what was written so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Arc<Mutex<VecDeque<u8>>>);

impl Words {
    /// The end of what was written so far, as text without control characters but line ends.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        drop(kept);
        String::from_utf8_lossy(&bytes)
            .trim()
            .chars()
            .map(|character| match character {
                '\n' => '\n',
                other if other.is_control() => '\u{fffd}',
                other => other,
            })
            .collect()
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }
}

/// Reads to the end.
pub(super) async fn drain(mut from: impl AsyncRead + Unpin, place: String, words: Words) {
    let mut chunk = vec![0; 4 * 1024];
    let mut line = Vec::new();
    let (mut since, mut told) = (Instant::now(), 0);
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let read = chunk.get(..count).unwrap_or_default();
        words.push(read);
        for piece in read.split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") && line.len() < LINE {
                continue;
            }
            if since.elapsed() >= Duration::from_secs(1) {
                (since, told) = (Instant::now(), 0);
            }
            told += 1;
            if told <= LINES_PER_SECOND {
                let text = String::from_utf8_lossy(&line);
                tracing::info!(place, "{}", text.trim().escape_debug());
            }
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept_and_nothing_in_it_can_move_a_cursor() {
        let words = Words::default();
        let mut written = vec![b'x'; 100_000];
        written.extend_from_slice(b"\nlast \x1b[2J words\n");
        drain(written.as_slice(), "p".into(), words.clone()).await;
        let text = words.text();
        assert!(text.len() <= KEPT + 8, "{}", text.len());
        assert!(text.ends_with("last \u{fffd}[2J words"), "{text}");
    }
}

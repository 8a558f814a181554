//! What a place writes on its standard error: its end is kept for reasons, and lines are passed on to the provider's
//! own log.

use tokio::io::AsyncRead;

use crate::stderr::{self, Tail, Told};

/// The end of what was written so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Tail);

impl Words {
    /// The end of what was written so far, as text without control characters but line ends.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.bytes())
            .replace("\r\n", "\n")
            .trim()
            .chars()
            .map(|character| match character {
                '\n' => '\n',
                other if other.is_control() => '\u{fffd}',
                other => other,
            })
            .collect()
    }
}

/// Reads to the end.
pub(super) async fn drain(from: impl AsyncRead + Unpin, place: String, words: Words) {
    let tell = |told: Told<'_>| match told {
        Told::Line(line) => {
            let text = String::from_utf8_lossy(line);
            tracing::info!(place, "{}", text.trim().escape_debug());
        }
        Told::Left(lines) => {
            tracing::warn!(place, lines, "more lines of standard error than are logged");
        }
    };
    stderr::drain(from, words.0, tell).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept_and_nothing_in_it_can_move_a_cursor() {
        let words = Words::default();
        let mut written = vec![b'x'; 100_000];
        written.extend_from_slice(b"\nlast \x1b[2J\rwords\r\nof all\r\n");
        drain(written.as_slice(), "p".into(), words.clone()).await;
        assert_eq!(words.text(), "last \u{fffd}[2J\u{fffd}words\nof all");
    }
}

//! The one rule by which head and tail of an output stream are kept.
//!
//! A stream no longer than head and tail together is kept whole, as head. A longer one keeps its
//! start and its end; both are cut so that no UTF-8 character is torn at the gap, and the bytes
//! between are counted. The engine applies the rule to its log, the receiving side of a live
//! stream to what passes through it, and both come to the same [`Output`].

use bytes::Bytes;

use crate::process::{Output, OutputPolicy};

/// Keeps head and tail of a stream in bounded memory: at most `head + 2 * tail` bytes.
#[derive(Debug)]
pub struct OutputKeeper {
    head_max: usize,
    tail_max: usize,
    head: Vec<u8>,
    /// What follows the head. Grows to twice the tail, then gives up its older half, so that
    /// every byte is moved at most once.
    rest: Vec<u8>,
    total: u64,
}

impl OutputKeeper {
    /// Keeps what `policy` says.
    #[must_use]
    pub fn new(policy: &OutputPolicy) -> Self {
        let clamp = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        Self {
            head_max: clamp(policy.head),
            tail_max: clamp(policy.tail),
            head: Vec::new(),
            rest: Vec::new(),
            total: 0,
        }
    }

    /// Takes in the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_max - self.head.len().min(self.head_max);
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Of one large piece only its end can be in the tail.
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        if self.rest.len() + rest.len() > 2 * self.tail_max {
            let keep = self.tail_max.min(self.rest.len());
            self.rest.drain(..self.rest.len() - keep);
        }
        self.rest.extend_from_slice(rest);
    }

    /// Head, tail and counts. What concerns the log is left at zero.
    #[must_use]
    pub fn finish(mut self) -> Output {
        if self.total <= (self.head.len() + self.tail_max) as u64 {
            self.head.append(&mut self.rest);
        }
        let tail = self.rest.len().saturating_sub(self.tail_max);
        cut(
            self.head.into(),
            Bytes::from(self.rest).slice(tail..),
            self.total,
        )
    }
}

/// Applies the rule to the first and last bytes of a stream of `total` bytes.
///
/// `head` is all of the stream, and `tail` empty, if the stream was kept whole.
#[must_use]
pub fn cut(head: Bytes, tail: Bytes, total: u64) -> Output {
    let (head, tail) = if (head.len() as u64) < total {
        let end = head.len() - incomplete_end(&head);
        (head.slice(..end), tail.slice(incomplete_start(&tail)..))
    } else {
        (head, tail)
    };
    Output {
        dropped: total - (head.len() + tail.len()) as u64,
        head,
        tail,
        total,
        unlogged: 0,
        log_failure: None,
    }
}

/// How many bytes at the end of `bytes` start a UTF-8 character that is not complete: 0 to 3.
#[must_use]
pub fn incomplete_end(bytes: &[u8]) -> usize {
    for back in 1..=3.min(bytes.len()) {
        let byte = bytes[bytes.len() - back];
        if is_continuation(byte) {
            continue;
        }
        let needed = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if needed > back { back } else { 0 };
    }
    0
}

/// How many bytes at the start of `bytes` end a UTF-8 character whose beginning is not there: 0 to 3.
fn incomplete_start(bytes: &[u8]) -> usize {
    let rest = bytes
        .iter()
        .take(4)
        .take_while(|byte| is_continuation(**byte))
        .count();
    // No character has four bytes after its first: that is no text.
    if rest < 4 { rest } else { 0 }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(head: u64, tail: u64, stream: &[u8], piece: usize) -> Output {
        let policy = OutputPolicy {
            head,
            tail,
            ..OutputPolicy::default()
        };
        let mut keeper = OutputKeeper::new(&policy);
        stream.chunks(piece).for_each(|bytes| keeper.push(bytes));
        keeper.finish()
    }

    #[test]
    fn a_stream_that_fits_is_kept_whole() {
        for length in 0..=9 {
            let stream = &b"123456789"[..length];
            for piece in 1..=10 {
                let output = keep(4, 5, stream, piece);
                assert_eq!((&output.head[..], &output.tail[..]), (stream, &b""[..]));
                assert_eq!((output.total, output.dropped), (length as u64, 0));
            }
        }
    }

    #[test]
    fn a_longer_one_keeps_its_start_and_its_end_and_counts_the_rest() {
        let stream: Vec<u8> = (0..1000_u32)
            .map(|index| b'a' + (index % 26).to_le_bytes()[0])
            .collect();
        for piece in [1, 2, 3, 7, 64, 1000] {
            let output = keep(10, 20, &stream, piece);
            assert_eq!(&output.head[..], &stream[..10]);
            assert_eq!(&output.tail[..], &stream[980..]);
            assert_eq!((output.total, output.dropped), (1000, 970));
        }
    }

    #[test]
    fn no_character_is_torn_at_any_cut() {
        let stream = "a界é𝄞".repeat(20);
        for head in 0..12 {
            for tail in 0..12 {
                let output = keep(head, tail, stream.as_bytes(), 5);
                std::str::from_utf8(&output.head).expect("the head is whole characters");
                std::str::from_utf8(&output.tail).expect("the tail is whole characters");
                let kept = (output.head.len() + output.tail.len()) as u64;
                assert_eq!(output.dropped, stream.len() as u64 - kept);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_to_the_limit() {
        let stream = vec![0xff; 100];
        let output = keep(10, 10, &stream, 100);
        assert_eq!(
            (output.head.len(), output.tail.len(), output.dropped),
            (10, 10, 80)
        );
        let output = keep(10, 10, &[0x80; 100], 100);
        assert_eq!((output.head.len(), output.tail.len()), (10, 10));
    }

    #[test]
    fn memory_stays_bounded_however_long_the_stream_is() {
        let policy = OutputPolicy {
            head: 100,
            tail: 100,
            ..OutputPolicy::default()
        };
        let mut keeper = OutputKeeper::new(&policy);
        for _ in 0..10_000 {
            keeper.push(&[b'x'; 777]);
        }
        assert!(
            keeper.rest.capacity() <= 800,
            "{} bytes",
            keeper.rest.capacity()
        );
        assert_eq!(keeper.finish().dropped, 7_770_000 - 200);
    }
}

//! Splits bytes into lines, within bounds.
//!
//! A line ends in LF; a CR before it is dropped, blank lines are skipped, and one byte order mark is
//! tolerated at the very start. A line that is too long is reported once, with its first bytes, so
//! that the call it belongs to can be failed; the rest of it is discarded as it comes.
//!
//! **Invariant:** the buffer never holds more than the longest line and one read.

use memchr::memchr;

/// Room offered for one read, in bytes.
const READ_BYTES: usize = 64 * 1024;
/// How much of an over-long line is reported, in bytes.
const PREFIX_BYTES: usize = 256;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Collects bytes and gives out complete lines.
///
/// ```
/// use spp_protocol::codec::{Line, LineBuffer};
///
/// let mut lines = LineBuffer::new(1024);
/// lines.push(b"{\"a\":1}\r\n\n{\"b\"");
/// assert_eq!(lines.next_line(), Some(Line::Complete(b"{\"a\":1}")));
/// assert_eq!(lines.next_line(), None);
/// lines.push(b":2}\n");
/// assert_eq!(lines.next_line(), Some(Line::Complete(b"{\"b\":2}")));
/// ```
#[derive(Debug)]
pub struct LineBuffer {
    max: usize,
    /// All of it is initialised; `start..filled` is in use.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    /// No line end is before this position.
    scanned: usize,
    /// The end of an over-long line has not come yet.
    discarding: bool,
    /// How much of such a line came so far, in bytes.
    discarded: u64,
    at_stream_start: bool,
}

/// What [`LineBuffer::next_line`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its end, not blank.
    Complete(&'a [u8]),
    /// A line that is longer than the limit.
    TooLong {
        /// Its first bytes, at most 256.
        prefix: &'a [u8],
    },
}

impl LineBuffer {
    /// A buffer for lines of at most `max` bytes, their end not counted.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            scanned: 0,
            discarding: false,
            discarded: 0,
            at_stream_start: true,
        }
    }

    /// Changes the limit, for the lines that come after.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Room for a read, never empty. Follow with [`filled`](Self::filled).
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.filled {
            (self.start, self.filled, self.scanned) = (0, 0, 0);
            // One long line should not hold its memory for ever.
            if self.buffer.len() > 4 * READ_BYTES {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.filled < READ_BYTES / 4 {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.filled, 0);
                self.filled -= self.start;
                self.scanned -= self.start;
                self.start = 0;
            }
            if self.buffer.len() - self.filled < READ_BYTES / 4 {
                let doubled = (2 * self.buffer.len()).min(self.max + READ_BYTES);
                self.buffer.resize(doubled.max(self.filled + READ_BYTES), 0);
            }
        }
        &mut self.buffer[self.filled..]
    }

    /// Says that `count` bytes of [`spare`](Self::spare) now hold input.
    ///
    /// # Panics
    ///
    /// If that is more than `spare` gave.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.filled);
        self.filled += count;
    }

    /// Feeds bytes that are somewhere else already. They should be about a read's worth at a time:
    /// all of them are kept until lines are taken.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = self.spare();
            let count = spare.len().min(bytes.len());
            spare[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
    }

    /// The next line, or `None` until more bytes came.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        loop {
            let end = memchr(b'\n', &self.buffer[self.scanned..self.filled])
                .map(|found| self.scanned + found);
            self.scanned = end.map_or(self.filled, |end| end + 1);
            if self.discarding {
                self.discarded += (self.scanned - self.start) as u64;
                self.start = self.scanned;
                self.discarding = end.is_none();
                end?;
                self.discarded = 0;
                continue;
            }
            let mut begin = self.start;
            if self.at_stream_start && self.buffer[begin..self.filled].starts_with(BYTE_ORDER_MARK)
            {
                begin += BYTE_ORDER_MARK.len();
            }
            let Some(end) = end else {
                // The limit does not count the CR, which may yet turn out to be there.
                if self.filled - begin <= self.max + 1 {
                    return None;
                }
                self.discarding = true;
                self.discarded = (self.filled - self.start) as u64;
                self.at_stream_start = false;
                self.start = self.filled;
                return Some(Line::TooLong {
                    prefix: &self.buffer[begin..begin + PREFIX_BYTES.min(self.filled - begin)],
                });
            };
            self.start = end + 1;
            self.at_stream_start = false;
            let mut line = begin..end;
            if self.buffer[line.clone()].last() == Some(&b'\r') {
                line.end -= 1;
            }
            if line.len() > self.max {
                line.end = line.start + PREFIX_BYTES.min(line.len());
                return Some(Line::TooLong {
                    prefix: &self.buffer[line],
                });
            }
            if self.buffer[line.clone()].trim_ascii().is_empty() {
                continue;
            }
            return Some(Line::Complete(&self.buffer[line]));
        }
    }

    /// How much of an over-long line came whose end did not, in bytes; 0 between lines. Whoever sends
    /// a line without end will not send another message.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Bytes of a line whose end has not come. At the end of input they are no message.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.filled - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(max: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineBuffer::new(max);
        let mut found = Vec::new();
        for piece in pieces {
            lines.push(piece);
            while let Some(line) = lines.next_line() {
                found.push(match line {
                    Line::Complete(line) => String::from_utf8_lossy(line).into_owned(),
                    Line::TooLong { prefix } => format!("!{}", prefix.len()),
                });
            }
        }
        found
    }

    #[test]
    fn lines_come_whole_however_the_bytes_are_cut() {
        let text = b"\xEF\xBB\xBFone\r\n\n  \r\ntwo\nthree\n";
        let whole = split(100, &[text]);
        assert_eq!(whole, ["one", "two", "three"]);
        for size in 1..8 {
            assert_eq!(split(100, &text.chunks(size).collect::<Vec<_>>()), whole);
        }
    }

    #[test]
    fn a_mark_before_a_line_that_is_too_long_is_no_part_of_it_either() {
        let text = [BYTE_ORDER_MARK, &[b'x'; 40], b"\ntwo\n"].concat();
        let prefix = |size: usize| {
            let mut lines = LineBuffer::new(20);
            text.chunks(size).find_map(|piece| {
                lines.push(piece);
                match lines.next_line() {
                    Some(Line::TooLong { prefix }) => Some(prefix.first().copied()),
                    _ => None,
                }
            })
        };
        for size in [1, 2, 3, 4, 30, 100] {
            assert_eq!(prefix(size), Some(Some(b'x')), "in pieces of {size}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_tolerated_once() {
        assert_eq!(
            split(100, &[b"\xEF\xBB\xBFa\n\xEF\xBB\xBFb\n"]),
            ["a", "\u{feff}b"]
        );
    }

    #[test]
    fn the_limit_is_exact_and_a_longer_line_is_reported_once_and_costs_nobody_else() {
        assert_eq!(
            split(4, &[b"1234\n12345\nafter\r\n1234\r\n"]),
            ["1234", "!5", "!5", "1234"]
        );
        let long = vec![b'x'; 1000];
        let mut pieces: Vec<&[u8]> = vec![b"a\n"];
        pieces.extend(long.chunks(100));
        pieces.push(b"x\nb\n");
        assert_eq!(split(300, &pieces), ["a", "!256", "b"]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let mut lines = LineBuffer::new(1 << 20);
        let mut reports = 0;
        for _ in 0..1000 {
            let spare = lines.spare();
            spare.fill(b'x');
            let count = spare.len();
            lines.filled(count);
            reports += usize::from(lines.next_line().is_some());
            assert!(lines.buffer.len() <= (1 << 20) + 2 * READ_BYTES);
        }
        assert_eq!(reports, 1);
        assert!(lines.discarded() > 1000 * READ_BYTES as u64 / 4);
        lines.push(b"x\nafter\n");
        assert_eq!(lines.next_line(), Some(Line::Complete(b"after")));
        assert_eq!(lines.discarded(), 0);
    }

    #[test]
    fn the_memory_of_a_long_line_is_given_back() {
        let mut lines = LineBuffer::new(8 << 20);
        let mut long = vec![b'x'; 4 << 20];
        long.push(b'\n');
        lines.push(&long);
        assert!(matches!(lines.next_line(), Some(Line::Complete(line)) if line.len() == 4 << 20));
        lines.push(b"short\n");
        assert!(lines.buffer.len() <= 4 * READ_BYTES);
        assert_eq!(lines.next_line(), Some(Line::Complete(b"short")));
    }

    #[test]
    fn what_is_left_at_the_end_of_input_is_counted() {
        let mut lines = LineBuffer::new(100);
        lines.push(b"done\nhalf");
        assert_eq!(lines.next_line(), Some(Line::Complete(b"done")));
        assert_eq!(lines.next_line(), None);
        assert_eq!(lines.pending(), 4);
    }
}

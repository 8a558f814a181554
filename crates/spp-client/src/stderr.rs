//! The standard error of a process that was started: always drained, its end kept, its lines told within bounds.
//!
//! Nobody may forget to read it: a process that fills the pipe stops in the middle of a call.
//!
//! Not here: what is made of a line, which is for whoever started the process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How much of the end is kept, in bytes.
const KEPT: usize = 8 * 1024;
/// Longest line that is told as one, in bytes; a longer one is split.
const LINE: usize = 64 * 1024;
/// Lines that are told in any one second; the others are counted.
const LINES_PER_SECOND: u32 = 100;

/// The end of a stream that is still being read.
#[derive(Clone, Debug, Default)]
pub struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    /// What is kept now, from the beginning of a line if more was written than is kept.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = match kept.iter().position(|&byte| byte == b'\n') {
            Some(newline) if kept.len() == KEPT => newline + 1,
            _ => 0,
        };
        kept.iter().skip(start).copied().collect()
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = bytes.get(bytes.len().saturating_sub(KEPT)..);
        kept.extend(end.unwrap_or_default());
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }
}

/// What is told of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// A line without its end, or a piece of a long one.
    Line(&'a [u8]),
    /// So many lines came faster than they are told.
    Left(u64),
}

/// Reads to the end.
pub async fn drain(mut from: impl AsyncRead + Unpin, tail: Tail, tell: impl FnMut(Told<'_>)) {
    let mut chunk = vec![0; 16 * 1024];
    let mut lines = Lines::new(tell);
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let read = chunk.get(..count).unwrap_or_default();
        tail.push(read);
        lines.take(read);
    }
    lines.end();
}

struct Lines<F> {
    tell: F,
    line: Vec<u8>,
    window: Instant,
    told: u32,
    left: u64,
}

impl<F: FnMut(Told<'_>)> Lines<F> {
    fn new(tell: F) -> Self {
        Self {
            tell,
            line: Vec::new(),
            window: Instant::now(),
            told: 0,
            left: 0,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let complete = piece.ends_with(b"\n");
            let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
            for part in piece.chunks(LINE) {
                if self.line.len() + part.len() > LINE {
                    self.line();
                }
                self.line.extend_from_slice(part);
            }
            if complete {
                self.line();
            }
        }
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            self.line();
        }
        self.tell_left();
    }

    fn line(&mut self) {
        if self.window.elapsed() >= Duration::from_secs(1) {
            self.tell_left();
            self.window = Instant::now();
            self.told = 0;
        }
        if self.told < LINES_PER_SECOND {
            self.told += 1;
            (self.tell)(Told::Line(&self.line));
        } else {
            self.left += 1;
        }
        self.line.clear();
    }

    fn tell_left(&mut self) {
        if self.left > 0 {
            (self.tell)(Told::Left(std::mem::take(&mut self.left)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_and_begins_with_a_whole_line() {
        let tail = Tail::default();
        tail.push(b"short\n");
        assert_eq!(tail.bytes(), b"short\n");
        for number in 0..5000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let kept = String::from_utf8(tail.bytes()).expect("ASCII in, ASCII out");
        let length = kept.len();
        assert!(length <= KEPT && length > KEPT - 20, "{length}");
        assert!(
            kept.starts_with("line ") && kept.ends_with("line 4999\n"),
            "{kept}"
        );
    }

    #[test]
    fn a_line_without_end_is_split_rather_than_kept() {
        let mut told = 0;
        let mut lines = Lines::new(|_| told += 1);
        for _ in 0..100 {
            lines.take(&[b'x'; 10_000]);
        }
        assert!(lines.line.len() <= LINE);
        // Each told piece has six of the ten thousand bytes, which is what fits a line.
        assert_eq!(told, 16);
    }

    #[test]
    fn a_flood_is_counted_instead_of_told() {
        let (mut told, mut left) = (0, 0);
        let mut lines = Lines::new(|what| match what {
            Told::Line(_) => told += 1,
            Told::Left(count) => left = count,
        });
        lines.window = Instant::now() + Duration::from_secs(3600);
        lines.take("y\n".repeat(10_000).as_bytes());
        lines.end();
        assert_eq!(
            (told, left),
            (LINES_PER_SECOND, 10_000 - u64::from(LINES_PER_SECOND))
        );
    }
}

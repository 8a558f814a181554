//! What is kept of a match: lines, where they are, and where in them the matches are.
//!
//! A line is shown without its end, be that `\n` or `\r\n`, and cut where it is longer than asked for.
//! Each line that is kept takes its share of what fits the answer; when that is used up, the search
//! stops.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use sandbox_core::search::{GrepRequest, Lines, MatchedLine};

use super::answer::{self, BUDGET};

/// Most ranges that are told of one line.
const MAX_RANGES: usize = 1000;
/// Longest part of a line that is shown, whatever was asked for: some of them fit an answer.
const MAX_LINE: usize = 64 << 10;
/// Bytes that are around a line, and around a range.
const LINE_BYTES: u64 = 90;
const RANGE_BYTES: u64 = 16;

/// What the threads of a search count together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    matches: AtomicU64,
    bytes: AtomicU64,
    /// There is a match more than were asked for.
    over_limit: AtomicBool,
    /// There is more than fits an answer.
    full: AtomicBool,
}

impl Tally {
    pub(super) fn is_over_limit(&self) -> bool {
        self.over_limit.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_over_limit() || self.is_full()
    }

    /// Whether one more match may be told.
    fn match_fits(&self, limit: u64) -> bool {
        let fits = self.matches.fetch_add(1, Ordering::Relaxed) < limit;
        if !fits {
            self.over_limit.store(true, Ordering::Relaxed);
        }
        fits
    }

    /// So much was counted and is not told after all.
    pub(super) fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether so much more fits the answer.
    pub(super) fn bytes_fit(&self, bytes: u64) -> bool {
        let fits = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= BUDGET;
        if !fits {
            self.full.store(true, Ordering::Relaxed);
        }
        fits
    }
}

/// How a file's bytes reach the searcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// All at once.
    Whole,
    /// Part by part; the searcher looks for what makes a file look binary.
    Parts,
}

/// Keeps the matches of one file.
#[derive(Debug)]
pub(super) struct Keep<'a> {
    pub(super) request: &'a GrepRequest,
    pub(super) matcher: &'a RegexMatcher,
    pub(super) tally: &'a Tally,
    pub(super) given: Given,
    /// Bytes of the file before those that are searched.
    pub(super) before: u64,
    pub(super) lines: Vec<MatchedLine>,
    /// Bytes that they were counted with.
    pub(super) cost: u64,
    pub(super) matched: bool,
    pub(super) binary: bool,
}

impl Keep<'_> {
    /// Keeps the line `text`, of which `ranges` match; `false` if it no longer fits.
    fn keep(&mut self, number: u64, offset: u64, text: &[u8], ranges: &[Range<usize>]) -> bool {
        let most = usize::try_from(self.request.max_line_bytes)
            .unwrap_or(usize::MAX)
            .min(MAX_LINE);
        let shown = cut(text, most);
        let matches: Vec<(u64, u64)> = ranges
            .iter()
            .filter(|range| range.start < shown.len() || range.end <= shown.len())
            .take(MAX_RANGES)
            .map(|range| (range.start as u64, range.end.min(shown.len()) as u64))
            .collect();
        let cost = LINE_BYTES + answer::text(shown.len()) + RANGE_BYTES * matches.len() as u64;
        if !self.tally.bytes_fit(cost) {
            return false;
        }
        self.cost += cost;
        self.lines.push(MatchedLine {
            number,
            offset: offset + self.before,
            cut: shown.len() < text.len() || matches.len() < ranges.len(),
            text: shown.to_vec(),
            matches,
        });
        true
    }

    fn ranges(&self, haystack: &[u8], within: Range<usize>) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        // A matcher of this kind cannot fail.
        let _ = self.matcher.find_iter_at(haystack, within.start, |found| {
            if found.start() >= within.end.max(within.start + 1) || ranges.len() > MAX_RANGES {
                return false;
            }
            ranges.push(found.start()..found.end());
            true
        });
        ranges
    }

    fn keep_block(&mut self, found: &SinkMatch<'_>) -> bool {
        let block = found.bytes_range_in_buffer();
        let ranges = self.ranges(found.buffer(), block.clone());
        let (mut number, mut offset) = (
            found.line_number().unwrap_or(0),
            found.absolute_byte_offset(),
        );
        let mut start = block.start;
        for line in found.lines() {
            let text = without_end(line);
            let here = start..start + text.len();
            let parts: Vec<_> = ranges
                .iter()
                .filter(|range| {
                    range.start < here.end && range.end > here.start
                        || range.is_empty() && here.start <= range.start && range.start <= here.end
                })
                .map(|range| range.start.max(here.start) - start..range.end.min(here.end) - start)
                .collect();
            if !self.keep(number, offset, text, &parts) {
                return false;
            }
            number += 1;
            offset += line.len() as u64;
            start += line.len();
        }
        true
    }
}

impl Sink for Keep<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if !self.matched && self.given == Given::Whole {
            self.binary = memchr::memchr(0, found.buffer()).is_some();
        }
        if self.tally.is_done() || !self.tally.match_fits(self.request.limit) {
            return Ok(false);
        }
        self.matched = true;
        if self.binary {
            return Ok(false);
        }
        Ok(match self.request.pattern.lines {
            Lines::Multi => self.keep_block(found),
            Lines::Single => {
                let text = without_end(found.bytes());
                let ranges = self.ranges(text, 0..text.len());
                let number = found.line_number().unwrap_or(0);
                self.keep(number, found.absolute_byte_offset(), text, &ranges)
            }
        })
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if self.binary {
            return Ok(true);
        }
        let number = found.line_number().unwrap_or(0);
        let text = without_end(found.bytes());
        Ok(self.keep(number, found.absolute_byte_offset(), text, &[]))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.binary = true;
        Ok(!self.matched)
    }
}

/// A line without what ends it.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// At most so many bytes of a line, and no part of a character at the end.
fn cut(line: &[u8], most: usize) -> &[u8] {
    if line.len() <= most {
        return line;
    }
    let mut end = most;
    while end > 0 && most - end < 3 && line[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    // Bytes that are no text are cut where asked.
    if line[end] & 0xc0 == 0x80 {
        end = most;
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_between_characters() {
        assert_eq!(cut("a\u{e9}b".as_bytes(), 2), b"a");
        assert_eq!(cut("a\u{e9}b".as_bytes(), 3), "a\u{e9}".as_bytes());
        assert_eq!(cut("\u{1f600}x".as_bytes(), 3), b"");
        assert_eq!(cut(b"\x80\x80\x80\x80\x80", 4), b"\x80\x80\x80\x80");
        assert_eq!(cut(b"ab", 2), b"ab");
        assert_eq!(cut(b"ab", 0), b"");
    }
}

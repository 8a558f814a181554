//! One file of a search: opened, read, searched.
//!
//! A file that is not large is read whole and searched at once; a larger one passes through a buffer, so
//! that memory does not grow with it. Only a line that is longer than the buffer may become cannot
//! be searched, and then the file is named as one that was not. Files are never mapped: one that is truncated
//! meanwhile would end the process.
//!
//! A file in UTF-16 is known by its byte order mark and searched as the UTF-8 that it becomes, in which
//! offsets are counted then. The mark of a file in UTF-8 is no part of its first line, but is counted.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sandbox_core::Ctx;
use sandbox_core::search::{GrepRequest, Lines, MatchedLine};
use sandbox_tree::walk::Entry;

use super::lines::{Given, Keep, Tally};
use crate::file::call::interrupted;

/// Largest file that is read whole, in bytes, but for a search over several lines.
const WHOLE: u64 = 256 << 10;
/// Longest line that can be searched, and largest file for a search over several lines.
const HEAP_SINGLE: usize = 16 << 20;
const HEAP_MULTI: usize = 64 << 20;

/// Searches files on one thread.
pub(super) struct FileSearch<'a> {
    pub(super) request: &'a GrepRequest,
    pub(super) tally: &'a Tally,
    pub(super) ctx: &'a Ctx,
    matcher: RegexMatcher,
    plain: Searcher,
    marked: Searcher,
    buffer: Vec<u8>,
}

/// What a file gave.
#[derive(Debug)]
pub(super) struct Matches {
    pub(super) lines: Vec<MatchedLine>,
    pub(super) binary: bool,
}

/// Why a file was not searched, or not to its end.
#[derive(Debug)]
pub(super) enum Unsearched {
    /// It is gone, or no longer a file.
    Changed(Errno),
    /// It could not be read.
    Unreadable(Errno),
    /// A line, or the file, is longer than what is held in memory.
    TooLarge,
    /// Nobody waits for it any more.
    Stopped,
}

impl<'a> FileSearch<'a> {
    pub(super) fn new(
        request: &'a GrepRequest,
        matcher: RegexMatcher,
        tally: &'a Tally,
        ctx: &'a Ctx,
    ) -> Self {
        let mut builder = SearcherBuilder::new();
        let context = |lines: u32| usize::try_from(lines).unwrap_or(usize::MAX);
        builder
            .line_terminator(
                matcher
                    .line_terminator()
                    .unwrap_or(LineTerminator::byte(b'\n')),
            )
            .multi_line(request.pattern.lines == Lines::Multi)
            .before_context(context(request.before))
            .after_context(context(request.after))
            .max_matches(request.max_per_file)
            .heap_limit(Some(heap(request)))
            .bom_sniffing(false);
        let plain = builder.build();
        builder
            .bom_sniffing(true)
            .binary_detection(BinaryDetection::convert(0));
        Self {
            request,
            tally,
            ctx,
            matcher,
            plain,
            marked: builder.build(),
            buffer: Vec::new(),
        }
    }

    /// Searches an entry that is a file, and what was found before something went wrong.
    pub(super) fn entry(&mut self, entry: &Entry<'_>) -> (Option<Matches>, Result<(), Unsearched>) {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = rustix::fs::openat(entry.directory(), entry.name(), flags, Mode::empty());
        match open.and_then(|file| Ok((rustix::fs::fstat(&file)?, file))) {
            Ok((stat, file)) => self.file(file, &stat),
            Err(errno @ (Errno::NOENT | Errno::LOOP | Errno::NXIO)) => {
                (None, Err(Unsearched::Changed(errno)))
            }
            Err(errno) => (None, Err(Unsearched::Unreadable(errno))),
        }
    }

    /// Searches an open file.
    pub(super) fn file(
        &mut self,
        file: OwnedFd,
        stat: &Stat,
    ) -> (Option<Matches>, Result<(), Unsearched>) {
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return (None, Err(Unsearched::Changed(Errno::INVAL)));
        }
        let mut keep = Keep {
            request: self.request,
            matcher: &self.matcher,
            tally: self.tally,
            given: Given::Whole,
            before: 0,
            lines: Vec::new(),
            cost: 0,
            matched: false,
            binary: false,
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let whole = match read_start(&file, &mut self.buffer, size) {
            Ok(whole) => whole,
            Err(errno) => return (None, Err(Unsearched::Unreadable(errno))),
        };
        let start = &self.buffer[..];
        let utf16 = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
        let mark = if start.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        let searched = if utf16 {
            keep.given = Given::Parts;
            let rest = File::from(file);
            let reader = start.chain(rest);
            self.marked
                .search_reader(&self.matcher, watched(reader, self.ctx), &mut keep)
        } else if whole {
            keep.before = mark as u64;
            self.plain.set_binary_detection(BinaryDetection::none());
            self.plain
                .search_slice(&self.matcher, &start[mark..], &mut keep)
        } else {
            keep.before = mark as u64;
            keep.given = Given::Parts;
            self.plain.set_binary_detection(BinaryDetection::convert(0));
            let reader = start[mark..].chain(File::from(file));
            self.plain
                .search_reader(&self.matcher, watched(reader, self.ctx), &mut keep)
        };
        let result = searched.map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) => Unsearched::Unreadable(errno),
            None if error.kind() == io::ErrorKind::TimedOut => Unsearched::Stopped,
            // The searcher's own error: its buffer may not grow any more.
            None => Unsearched::TooLarge,
        });
        if keep.binary {
            keep.lines = Vec::new();
            self.tally.give_back(keep.cost);
        }
        let matches = keep.matched.then_some(Matches {
            lines: keep.lines,
            binary: keep.binary,
        });
        // A match that no longer fits is none that is told.
        let told = |matches: &Matches| matches.binary || !matches.lines.is_empty();
        (matches.filter(told), result)
    }
}

fn heap(request: &GrepRequest) -> usize {
    match request.pattern.lines {
        Lines::Single => HEAP_SINGLE,
        Lines::Multi => HEAP_MULTI,
    }
}

/// Reads the start of a file; `true` if that is all of it.
fn read_start(file: &OwnedFd, buffer: &mut Vec<u8>, size: u64) -> Result<bool, Errno> {
    buffer.clear();
    // One more than there should be: where less comes, the file has ended.
    let want = usize::try_from(size.min(WHOLE)).unwrap_or(0) + 1;
    buffer.reserve(want);
    while buffer.len() < want {
        let room = buffer.capacity() - buffer.len();
        match rustix::io::read(file, rustix::buffer::spare_capacity(buffer)) {
            Ok(0) => return Ok(true),
            // Less than there was room for, and as much as there should be.
            Ok(read) if read < room && buffer.len() as u64 >= size => return Ok(true),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(false)
}

/// A reader that ends when nobody waits any more.
struct Watched<'a, R> {
    reader: R,
    ctx: &'a Ctx,
}

fn watched<R: Read>(reader: R, ctx: &Ctx) -> Watched<'_, R> {
    Watched { reader, ctx }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if interrupted(self.ctx).is_some() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.reader.read(buffer)
    }
}

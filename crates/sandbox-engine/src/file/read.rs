//! The verbs `read` and `read_many`.
//!
//! What a small file in memory costs decides how an agent feels, so it is read where the call
//! arrives: an open that fails rather than waits for the disk (`RESOLVE_CACHED`), a read that does the
//! same (`RWF_NOWAIT`). Handing a call to another thread and back costs more than all of that.
//! Everything else is read on a thread that may wait.
//!
//! A file that grows or shrinks meanwhile gives what was there when it was read. Its size is then the
//! one that was read, so that content, size, lines and digest belong together.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags};
use sandbox_core::file::{
    FileContent, MAX_FILE_BYTES, Range, ReadManyRequest, ReadManyResult, ReadRequest,
};
use sandbox_core::{Ctx, Digest, Error, ErrorKind, Result, Verb};

use super::call::{self, Interrupt};
use super::text::{self, Part};
use super::{Files, modified};
use crate::root::{Cached, Fault, Opened};

/// Largest file that is read where the call arrives, in bytes.
const INLINE_BYTES: u64 = 64 * 1024;
/// Bytes per system call where a file is gone through, in which a cancel is noticed.
const CHUNK_BYTES: usize = 256 * 1024;

impl Files {
    /// See [`Sandbox::read`](sandbox_core::Sandbox::read).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read(&self, ctx: &Ctx, request: ReadRequest) -> Result<FileContent> {
        call::check(ctx, Verb::Read)?;
        check_request(&request)?;
        if let Some(content) = self.read_inline(ctx, &request) {
            return content;
        }
        let files = self.clone();
        call::blocking(ctx, Verb::Read, Interrupt::Abandon, move |ctx| {
            files.read_now(&ctx, Verb::Read, &request)
        })
        .await
    }

    /// See [`Sandbox::read_many`](sandbox_core::Sandbox::read_many).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read_many(&self, ctx: &Ctx, request: ReadManyRequest) -> Result<ReadManyResult> {
        let files = self.clone();
        call::blocking(ctx, Verb::ReadMany, Interrupt::Abandon, move |ctx| {
            let mut left = request.total_max.min(MAX_FILE_BYTES);
            let mut items = Vec::with_capacity(request.paths.len());
            for path in request.paths {
                call::check(&ctx, Verb::ReadMany)?;
                let item = files.read_now(
                    &ctx,
                    Verb::ReadMany,
                    &ReadRequest {
                        path,
                        range: Range::All,
                        max: left,
                    },
                );
                if let Ok(content) = &item {
                    left -= content.bytes.len() as u64;
                }
                items.push(item);
            }
            Ok(items)
        })
        .await
    }

    /// Reads what needs no waiting; `None` if something would have to be waited for.
    fn read_inline(&self, ctx: &Ctx, request: &ReadRequest) -> Option<Result<FileContent>> {
        let opened = match self.roots.open_file(&request.path, Cached::Only) {
            Ok(opened) => opened,
            // Whatever else stands in the way is judged once, on the way that can wait.
            Err(Fault::Os(_)) => return None,
            Err(fault) => return Some(Err(fault.on(Verb::Read, &request.path))),
        };
        let size = size(&opened);
        if size > INLINE_BYTES || size == 0 {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        let read = rustix::io::preadv2(
            &opened.file,
            &mut [IoSliceMut::new(&mut bytes)],
            0,
            ReadWriteFlags::NOWAIT,
        );
        if read != Ok(bytes.len()) {
            return None;
        }
        if request.range == Range::All && size <= request.max {
            return Some(Ok(whole(&opened, bytes)));
        }
        let reader = Reader {
            ctx,
            verb: Verb::Read,
            request,
            opened: &opened,
            memory: Some(&bytes),
        };
        Some(reader.range())
    }

    fn read_now(&self, ctx: &Ctx, verb: Verb, request: &ReadRequest) -> Result<FileContent> {
        let opened = self
            .roots
            .open_file(&request.path, Cached::No)
            .map_err(|fault| fault.on(verb, &request.path))?;
        let reader = Reader {
            ctx,
            verb,
            request,
            opened: &opened,
            memory: None,
        };
        reader.range()
    }
}

fn check_request(request: &ReadRequest) -> Result<()> {
    match request.range {
        Range::Lines { first: 0, .. } => {
            Err(Error::refused(Verb::Read, ErrorKind::InvalidArgument)
                .on(&request.path)
                .detail("lines are counted from 1"))
        }
        _ => Ok(()),
    }
}

struct Reader<'a> {
    ctx: &'a Ctx,
    verb: Verb,
    request: &'a ReadRequest,
    opened: &'a Opened,
    /// All of the file, if it was read already.
    memory: Option<&'a [u8]>,
}

impl Reader<'_> {
    fn range(&self) -> Result<FileContent> {
        match self.request.range {
            Range::All => self.all(),
            Range::Bytes { offset, length } => self.bytes(offset, length),
            Range::Lines { first, count } => self.lines(first, count),
        }
    }

    fn max(&self) -> u64 {
        self.request.max.min(MAX_FILE_BYTES)
    }

    fn all(&self) -> Result<FileContent> {
        let size = size(self.opened);
        if size > self.max() {
            return Err(self.too_large(size));
        }
        // One byte more than there should be, so that the end is seen with the last read.
        let mut bytes = Vec::with_capacity(capacity(size + 1));
        while self.fill(&mut bytes, 0)? {
            if bytes.len() as u64 > self.max() {
                return Err(self.too_large(size.max(bytes.len() as u64)));
            }
        }
        Ok(whole(self.opened, bytes))
    }

    fn bytes(&self, offset: u64, length: u64) -> Result<FileContent> {
        let size = size(self.opened);
        let wanted = length.min(size.saturating_sub(offset));
        if wanted > self.max() {
            return Err(self.too_large(wanted));
        }
        let mut bytes = Vec::with_capacity(capacity(wanted));
        while (bytes.len() as u64) < wanted && self.fill(&mut bytes, offset)? {}
        bytes.truncate(capacity(wanted));
        if offset == 0 && bytes.len() as u64 == size {
            return Ok(whole(self.opened, bytes));
        }
        self.part(bytes, offset, size)
    }

    /// Goes through the file up to the last line wanted, keeping only those wanted.
    fn lines(&self, first: u64, count: u64) -> Result<FileContent> {
        let mut skip = first - 1;
        let mut left = count;
        let mut start = 0;
        let mut kept = Vec::new();
        let mut position = 0_u64;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut ended = false;
        while left > 0 {
            chunk.clear();
            if !self.fill(&mut chunk, position)? {
                ended = true;
                break;
            }
            position += chunk.len() as u64;
            let mut rest = chunk.as_slice();
            while skip > 0 {
                match memchr::memchr(b'\n', rest) {
                    Some(end) => {
                        rest = &rest[end + 1..];
                        skip -= 1;
                    }
                    None => {
                        rest = &[];
                        break;
                    }
                }
            }
            if skip > 0 {
                continue;
            }
            if kept.is_empty() {
                start = position - rest.len() as u64;
            }
            let mut end = 0;
            while left > 0 {
                match memchr::memchr(b'\n', &rest[end..]) {
                    Some(at) => {
                        end += at + 1;
                        left -= 1;
                    }
                    None => {
                        end = rest.len();
                        break;
                    }
                }
            }
            kept.extend_from_slice(&rest[..end]);
            if kept.len() as u64 > self.max() {
                return Err(self.too_large(kept.len() as u64));
            }
        }
        if kept.is_empty() {
            start = position;
        }
        let size = size(self.opened).max(position);
        if first == 1 && (ended || kept.len() as u64 == size) {
            return Ok(whole(self.opened, kept));
        }
        self.part(kept, start, size)
    }

    fn part(&self, bytes: Vec<u8>, offset: u64, total_bytes: u64) -> Result<FileContent> {
        let mut start = Vec::with_capacity(text::MARK_BYTES);
        self.read_at(&mut start, 0)?;
        Ok(FileContent {
            text: text::facts(&bytes, &start, Part::Some),
            bytes: Bytes::from(bytes),
            offset,
            total_bytes,
            total_lines: None,
            digest: None,
            mode: self.opened.stat.st_mode & 0o7777,
            modified: modified(&self.opened.stat),
        })
    }

    /// Reads on from `base` plus what is there already; `false` at the end of the file.
    fn fill(&self, bytes: &mut Vec<u8>, base: u64) -> Result<bool> {
        call::check(self.ctx, self.verb).map_err(|error| error.on(&self.request.path))?;
        let offset = base.saturating_add(bytes.len() as u64);
        Ok(self.read_at(bytes, offset)? > 0)
    }

    fn read_at(&self, bytes: &mut Vec<u8>, offset: u64) -> Result<usize> {
        if let Some(memory) = self.memory {
            let rest = usize::try_from(offset)
                .ok()
                .and_then(|offset| memory.get(offset..))
                .unwrap_or_default();
            bytes.extend_from_slice(rest);
            return Ok(rest.len());
        }
        append(self.opened.file.as_fd(), bytes, offset).map_err(|errno| self.os(errno))
    }

    fn os(&self, errno: Errno) -> Error {
        Fault::Os(errno).on(self.verb, &self.request.path)
    }

    fn too_large(&self, size: u64) -> Error {
        let max = self.max();
        Error::refused(self.verb, ErrorKind::TooLarge).on(&self.request.path).detail(format_args!(
            "{size} bytes are there and the limit of this call is {max}; read a range of bytes or lines"
        ))
    }
}

/// Everything about a file that was read whole.
fn whole(opened: &Opened, bytes: Vec<u8>) -> FileContent {
    FileContent {
        offset: 0,
        total_bytes: bytes.len() as u64,
        total_lines: Some(text::lines(&bytes)),
        digest: Some(digest(&bytes)),
        mode: opened.stat.st_mode & 0o7777,
        modified: modified(&opened.stat),
        text: text::facts(&bytes, &bytes, Part::Whole),
        bytes: Bytes::from(bytes),
    }
}

/// The digest of some bytes.
pub(super) fn digest(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// Appends what one system call gives, into the room there is or a chunk more.
pub(super) fn append(
    file: BorrowedFd<'_>,
    bytes: &mut Vec<u8>,
    offset: u64,
) -> Result<usize, Errno> {
    if bytes.capacity() == bytes.len() {
        bytes.reserve(CHUNK_BYTES);
    }
    let room = bytes.capacity() - bytes.len();
    if room > 4 * CHUNK_BYTES {
        // A long read is cut, so that a cancel is noticed between the parts.
        let old = bytes.len();
        bytes.resize(old + 4 * CHUNK_BYTES, 0);
        let read = retry(|| rustix::io::pread(file, &mut bytes[old..], offset));
        bytes.truncate(old + *read.as_ref().unwrap_or(&0));
        return read;
    }
    retry(|| rustix::io::pread(file, rustix::buffer::spare_capacity(bytes), offset))
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// The file's size when it was opened, in bytes.
pub(super) fn size(opened: &Opened) -> u64 {
    u64::try_from(opened.stat.st_size).unwrap_or(0)
}

/// A length as the capacity of a buffer; no length here is beyond [`MAX_FILE_BYTES`] and one.
fn capacity(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

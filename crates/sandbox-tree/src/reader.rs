//! A strict reader of tar archives: what it lets through is harmless, and everything else is refused.
//!
//! An archive comes from somebody who is not trusted, on either side of a transfer. The reader takes
//! regular files, directories and symbolic links with the names a [`SandboxPath`] may have, and
//! nothing that could be read in two ways. It reads as a stream, keeps at most one extension record in
//! memory, and is bounded by [`Limits`] whatever an archive declares or decompresses to.
//!
//! | refused | because |
//! | --- | --- |
//! | hard links, devices, FIFOs, sparse files, unknown types | they are not part of a tree as we mean it |
//! | absolute names, `..`, NUL, an empty name | they leave the tree or have no meaning in it |
//! | a second entry of one name, an entry beneath a file or a link | the later would be written through the earlier |
//! | global extension records, keys that change size or add attributes | they are read differently by different readers |
//! | records over 64 KiB, too many entries, bytes or levels | they are bombs |
//! | a wrong checksum, a cut archive, anything after its end | they are not what somebody sent |
//!
//! **Invariant:** for every entry returned, each parent is a directory of the same archive, named or
//! implied. So no link of an archive is ever on the way of another entry of it.
//!
//! Not here: where a link leads ([`unpack`](crate::unpack)); this reader returns its text.
//!
//! Source: POSIX.1-2017, `pax`, "ustar Interchange Format" and "pax Extended Header"; the manual of GNU
//! tar, "Basic Tar Format" for `L` and `K`.

mod error;
mod extension;
mod header;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use sandbox_core::SandboxPath;
use sandbox_core::transfer::Compression;

pub use error::{ArchiveError, Refusal};
use extension::Extensions;
use header::{Header, Type};

/// Size of a header, and what contents are padded to.
pub(crate) const BLOCK: usize = 512;
/// Longest extension record.
const MAX_RECORD_BYTES: u64 = 64 * 1024;
/// Longest text of a link: the kernel's `PATH_MAX` without its end.
const MAX_LINK_BYTES: usize = 4095;

/// What an archive may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries, implied directories included.
    pub entries: u64,
    /// Levels of directories.
    pub depth: usize,
    /// Bytes of the whole archive, after decompression.
    pub bytes: u64,
}

impl Default for Limits {
    /// A million entries, 128 levels, 64 GiB.
    fn default() -> Self {
        Self {
            entries: 1_000_000,
            depth: 128,
            bytes: 64 << 30,
        }
    }
}

/// One entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, relative to the tree's root; the root itself is an entry too.
    pub path: SandboxPath,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, 0 to 0o777: set-id and sticky bits are dropped.
    pub mode: u32,
    /// When it was changed: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file of this many bytes, which [`Reader::read`] returns.
    File {
        /// Its size in bytes.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link with this text.
    Link {
        /// Where it says it leads: not checked.
        text: Vec<u8>,
    },
}

/// What a name was seen to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Leaf,
    Directory,
    /// A directory that was not named so far, and may be once.
    Implied,
}

/// The reader; see the [module](self).
pub struct Reader<R> {
    source: R,
    limits: Limits,
    /// Bytes taken from the source.
    taken: u64,
    /// Bytes of the current entry's content that were not read, and of its padding.
    left: u64,
    padding: u64,
    seen: HashMap<Box<[u8]>, Seen>,
    returned: Arc<AtomicU64>,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("taken", &self.taken)
            .field("entries", &self.seen.len())
            .finish_non_exhaustive()
    }
}

impl Reader<Box<dyn Read + Send>> {
    /// Reads an archive that may be compressed. Several gzip members after one another are one archive.
    pub fn open(
        source: impl Read + Send + 'static,
        compression: Compression,
        limits: Limits,
    ) -> Self {
        Self::new(
            match compression {
                Compression::None => Box::new(source),
                Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
            },
            limits,
        )
    }
}

impl<R: Read> Reader<R> {
    /// Reads an archive that is not compressed.
    pub fn new(source: R, limits: Limits) -> Self {
        Self {
            source,
            limits,
            taken: 0,
            left: 0,
            padding: 0,
            seen: HashMap::new(),
            returned: Arc::default(),
        }
    }

    /// Counts the entries it returns in `count`, for whoever watches from elsewhere.
    #[must_use]
    pub fn counting(mut self, count: Arc<AtomicU64>) -> Self {
        self.returned = count;
        self
    }

    /// The next entry; `None` once the archive has come to its end and nothing follows it. What was
    /// not read of the entry before is skipped.
    ///
    /// # Errors
    ///
    /// See [`ArchiveError`]. The reader is of no use after one.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut extensions = Extensions::default();
        loop {
            self.skip()?;
            let mut block = [0; BLOCK];
            self.fill(&mut block)?;
            if block == [0; BLOCK] {
                if !extensions.is_empty() {
                    return Err(Refusal::ExtensionOfNothing.into());
                }
                return self.end().map(|()| None);
            }
            let header = Header::parse(&block)?;
            let name = header.name();
            let refuse = |refusal| ArchiveError::refused(&name, refusal);
            let kind = header.kind().map_err(&refuse)?;
            let size = header.size().map_err(&refuse)?;
            match kind {
                Type::LongName | Type::LongLink | Type::Extended => {
                    let record = self.record(size).map_err(|error| error.within(&name))?;
                    extensions.add(kind, &record).map_err(&refuse)?;
                    continue;
                }
                Type::File | Type::Directory | Type::Link => {}
            }
            let name = extensions.path.take().unwrap_or(name);
            let refuse = |refusal| ArchiveError::refused(&name, refusal);
            let path = self.admit(&name, kind).map_err(&refuse)?;
            if kind != Type::File && size != 0 {
                return Err(refuse(Refusal::ContentWithoutFile));
            }
            let kind = match kind {
                Type::Directory => Kind::Directory,
                Type::Link => Kind::Link {
                    text: link_text(extensions.link.take().unwrap_or_else(|| header.link()))
                        .map_err(&refuse)?,
                },
                _ => {
                    if extensions.link.is_some() {
                        return Err(refuse(Refusal::LinkOfNoLink));
                    }
                    if size > self.limits.bytes.saturating_sub(self.taken) {
                        return Err(refuse(Refusal::TooManyBytes(self.limits.bytes)));
                    }
                    self.left = size;
                    self.padding = size.next_multiple_of(BLOCK as u64) - size;
                    Kind::File { size }
                }
            };
            let modified = match extensions.modified {
                Some(modified) => modified,
                None => (header.modified().map_err(&refuse)?, 0),
            };
            self.returned.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(Entry {
                path,
                kind,
                mode: header.mode().map_err(&refuse)? & 0o777,
                modified,
            }));
        }
    }

    /// The next bytes of the current entry's content; 0 at its end.
    ///
    /// # Errors
    ///
    /// See [`ArchiveError`]; an archive that ends within a content is cut.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let wanted = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.take(&mut buffer[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(ArchiveError::Cut);
        }
        self.left -= read as u64;
        Ok(read)
    }

    /// Goes to the end of the current entry.
    fn skip(&mut self) -> Result<(), ArchiveError> {
        let mut rest = std::mem::take(&mut self.left) + std::mem::take(&mut self.padding);
        let mut buffer = [0; 8192];
        while rest > 0 {
            let wanted = usize::try_from(rest)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            self.fill(&mut buffer[..wanted])?;
            rest -= wanted as u64;
        }
        Ok(())
    }

    /// After one block of zeros: another must follow, and then nothing but zeros.
    fn end(&mut self) -> Result<(), ArchiveError> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        let mut buffer = [0; 8192];
        buffer[..BLOCK].copy_from_slice(&block);
        let mut filled = BLOCK;
        while filled > 0 {
            if buffer[..filled].iter().any(|&byte| byte != 0) {
                return Err(Refusal::TrailingData.into());
            }
            filled = self.take(&mut buffer)?;
        }
        Ok(())
    }

    fn record(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > MAX_RECORD_BYTES {
            return Err(Refusal::RecordTooLong(size).into());
        }
        let mut record = vec![0; usize::try_from(size).unwrap_or(0)];
        self.fill(&mut record)?;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
        Ok(record)
    }

    /// Checks a name, and that it does not collide with what was there before it.
    fn admit(&mut self, name: &[u8], kind: Type) -> Result<SandboxPath, Refusal> {
        if name.is_empty() {
            return Err(Refusal::NoName);
        }
        if name.first() == Some(&b'/') {
            return Err(Refusal::Absolute);
        }
        let path = SandboxPath::parse(name).map_err(Refusal::Name)?;
        let is_directory = kind == Type::Directory;
        if !is_directory && (path.is_root() || name.last() == Some(&b'/')) {
            return Err(Refusal::NoDirectory);
        }
        let bytes = path.as_bytes();
        let depth = path.components().count();
        if depth > self.limits.depth {
            return Err(Refusal::TooDeep(self.limits.depth));
        }
        // From the inside out: a parent that is known as a directory has parents that are too.
        let mut end = bytes.len();
        while let Some(slash) = bytes[..end].iter().rposition(|&byte| byte == b'/') {
            end = slash;
            match self.seen.get(&bytes[..end]) {
                None => {
                    self.seen.insert(bytes[..end].into(), Seen::Implied);
                }
                Some(Seen::Leaf) => return Err(Refusal::BeneathLeaf),
                Some(Seen::Directory | Seen::Implied) => break,
            }
        }
        let seen = if is_directory {
            Seen::Directory
        } else {
            Seen::Leaf
        };
        match self.seen.entry(bytes.into()) {
            Slot::Vacant(slot) => {
                slot.insert(seen);
            }
            Slot::Occupied(mut slot) if is_directory && *slot.get() == Seen::Implied => {
                slot.insert(seen);
            }
            Slot::Occupied(_) => return Err(Refusal::Twice),
        }
        if self.seen.len() as u64 > self.limits.entries {
            return Err(Refusal::TooManyEntries(self.limits.entries));
        }
        Ok(path)
    }

    fn fill(&mut self, mut buffer: &mut [u8]) -> Result<(), ArchiveError> {
        while !buffer.is_empty() {
            match self.take(buffer)? {
                0 => return Err(ArchiveError::Cut),
                read => buffer = &mut buffer[read..],
            }
        }
        Ok(())
    }

    fn take(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        loop {
            match self.source.read(buffer) {
                Ok(read) => {
                    self.taken += read as u64;
                    if self.taken > self.limits.bytes {
                        return Err(Refusal::TooManyBytes(self.limits.bytes).into());
                    }
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ArchiveError::Source(error)),
            }
        }
    }
}

/// Reads a whole archive and forgets it: the number of its entries. For fuzzing, and for looking at
/// an archive before it is sent.
///
/// # Errors
///
/// As [`Reader::next_entry`].
pub fn check(
    archive: impl Read + Send + 'static,
    compression: Compression,
    limits: Limits,
) -> Result<u64, ArchiveError> {
    let mut reader = Reader::open(archive, compression, limits);
    let mut entries = 0;
    let mut buffer = [0; 8192];
    while reader.next_entry()?.is_some() {
        entries += 1;
        while reader.read(&mut buffer)? > 0 {}
    }
    Ok(entries)
}

fn link_text(text: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    if text.is_empty() || text.len() > MAX_LINK_BYTES || text.contains(&0) {
        return Err(Refusal::LinkText);
    }
    Ok(text)
}

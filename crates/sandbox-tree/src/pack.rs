//! Packs a tree into a tar archive, as a stream: memory does not grow with the size of a file.
//!
//! Every entry is opened in its directory without following a link, as it is when its turn comes. A file
//! declares its size before its content, so one that changes meanwhile is filled up with zeros or cut to what
//! was declared: the archive is whole, and the [`Flaw`] says which content is not one that the file ever
//! had. What no archive can hold, and what may not be read, is left out and said as well. An entry that
//! is gone when its turn comes is no part of the tree any more.
//!
//! With a base, only what differs from it is sent; the manifest has everything.
//!
//! **Invariant:** what is packed here, [`reader`](crate::reader) takes, as long as names and depth are within its
//! limits.
//!
//! Not here: which entries ([`walk`](crate::walk)).

mod header;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sandbox_core::file::EntryKind;
use sandbox_core::transfer::{Flaw, FlawCause, Manifest, ManifestEntry};
use sandbox_core::{Error, ErrorKind, Result, SandboxPath, Verb};

use crate::errno::os_error;
use crate::reader::BLOCK;
use crate::unpack::digest;
use crate::unpack::dirs::{Dirs, Missing, mode_of, open_dir};
use header::Header;

/// Bytes of content that are read at once. A file up to this size is read before it is declared.
const PIECE: usize = 64 * 1024;

/// What was packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Entries in the archive.
    pub entries: u64,
    /// Bytes of file content in it.
    pub bytes: u64,
    /// Everything that is there, sent or not.
    pub manifest: Manifest,
    /// What is not as it should be.
    pub flaws: Vec<Flaw>,
}

/// An archive being written to `out`.
pub struct Packer<'a, W> {
    verb: Verb,
    out: W,
    base: HashMap<&'a SandboxPath, &'a ManifestEntry>,
    packed: Packed,
    buffer: Vec<u8>,
}

impl<W> std::fmt::Debug for Packer<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer")
            .field("entries", &self.packed.entries)
            .finish_non_exhaustive()
    }
}

/// A directory whose entries are packed.
#[derive(Debug)]
pub struct Tree {
    dirs: Dirs,
    /// What stands before every name in the archive; the root for nothing.
    prefix: SandboxPath,
}

impl Tree {
    /// The entries beneath `directory`, as `prefix/NAME`.
    #[must_use]
    pub fn new(directory: OwnedFd, prefix: SandboxPath) -> Self {
        Self {
            dirs: Dirs::new(directory),
            prefix,
        }
    }
}

impl<'a, W: Write> Packer<'a, W> {
    /// Packs into `out`, all of it or what differs from `base`.
    pub fn new(verb: Verb, out: W, base: Option<&'a Manifest>) -> Self {
        let base = base.map_or(&[][..], |base| &base.entries);
        Self {
            verb,
            out,
            base: base.iter().map(|entry| (&entry.path, entry)).collect(),
            packed: Packed::default(),
            buffer: vec![0; PIECE],
        }
    }

    /// Packs one entry of `tree`, at `path` from its root. Entries come in path order, each once.
    ///
    /// - `go_on`: asked between pieces of a content
    ///
    /// # Errors
    ///
    /// On behalf of the verb: what `out` and `go_on` say, and what the system says, unless that is about this entry
    /// alone.
    pub fn entry(
        &mut self,
        tree: &mut Tree,
        path: &SandboxPath,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let name = if tree.prefix.is_root() {
            path.clone()
        } else {
            tree.prefix.join(path.as_bytes()).map_err(|error| {
                Error::refused(self.verb, ErrorKind::InvalidArgument)
                    .on(path)
                    .detail(error)
            })?
        };
        let looked = tree
            .dirs
            .parent(path, Missing::Fail)
            .and_then(|(dir, name)| {
                let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok((dir, name, stat))
            });
        let (dir, file_name, stat) = match looked {
            Ok(looked) => looked,
            Err(errno) => return self.skip(&name, errno),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(&name, dir, file_name, go_on),
            FileType::Directory => {
                // One that may not be opened has entries that nobody saw.
                if let Err(Errno::ACCESS) = open_dir(dir, file_name) {
                    self.flaw(&name, FlawCause::Unreadable);
                }
                self.small(&name, EntryKind::Directory, &stat, &[])
            }
            FileType::Symlink => match rustix::fs::readlinkat(dir, file_name, Vec::new()) {
                Ok(text) => self.small(&name, EntryKind::Link, &stat, text.as_bytes()),
                Err(errno) => self.skip(&name, errno),
            },
            _ => {
                self.flaw(&name, FlawCause::Special);
                Ok(())
            }
        }
    }

    /// Notes that something could not be read, such as a directory whose entries are therefore missing.
    pub fn unreadable(&mut self, path: &SandboxPath) {
        self.flaw(path, FlawCause::Unreadable);
    }

    /// The end mark.
    ///
    /// # Errors
    ///
    /// What `out` says.
    pub fn finish(mut self) -> Result<(Packed, W)> {
        self.write(&[0; 2 * BLOCK])?;
        let mut packed = self.packed;
        packed
            .manifest
            .entries
            .sort_unstable_by(|a, b| a.path.cmp(&b.path));
        packed.flaws.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        packed.flaws.dedup();
        Ok((packed, self.out))
    }

    /// A directory or a link.
    fn small(
        &mut self,
        name: &SandboxPath,
        kind: EntryKind,
        stat: &Stat,
        text: &[u8],
    ) -> Result<()> {
        let entry = ManifestEntry {
            path: name.clone(),
            kind,
            mode: mode_of(stat),
            size: text.len() as u64,
            digest: (kind == EntryKind::Link).then(|| digest(blake3::hash(text))),
        };
        if !self.has(&entry) {
            self.header(&Header {
                name: name.as_bytes(),
                kind,
                mode: entry.mode,
                size: 0,
                modified: seconds(stat),
                link: text,
            })?;
        }
        self.packed.manifest.entries.push(entry);
        Ok(())
    }

    fn file(
        &mut self,
        name: &SandboxPath,
        dir: BorrowedFd<'_>,
        file_name: &OsStr,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(dir, file_name, flags, Mode::empty())
            .and_then(|file| rustix::fs::fstat(&file).map(|stat| (file, stat)));
        let (file, stat) = match opened {
            Ok(opened) => opened,
            Err(errno) => return self.skip(name, errno),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            self.flaw(name, FlawCause::Special);
            return Ok(());
        }
        let mut entry = ManifestEntry {
            path: name.clone(),
            kind: EntryKind::File,
            mode: mode_of(&stat),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            digest: None,
        };
        // Only if everything else is the same does its content decide.
        let expected = self
            .base
            .get(name)
            .filter(|base| same_shape(base, &entry))
            .and_then(|base| base.digest);
        if let Some(expected) = expected {
            let read = self.content(&file, entry.size, Content::Digest, go_on)?;
            let digest = match read {
                Ok((digest, _)) => digest,
                Err(errno) => return self.skip(name, errno),
            };
            if digest == expected {
                entry.digest = Some(digest);
                self.packed.manifest.entries.push(entry);
                return Ok(());
            }
            if let Err(errno) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)) {
                return self.skip(name, errno);
            }
        }
        self.header(&Header {
            name: name.as_bytes(),
            kind: EntryKind::File,
            mode: entry.mode,
            size: entry.size,
            modified: seconds(&stat),
            link: &[],
        })?;
        let read = self.content(&file, entry.size, Content::Send, go_on)?;
        // The header is out: whatever happens, so many bytes must follow.
        let (digest, is_whole) = read.map_err(|errno| {
            os_error(self.verb, errno)
                .on(name)
                .detail("it could not be read to its end; the archive ends there")
        })?;
        let padding = entry.size.next_multiple_of(BLOCK as u64) - entry.size;
        self.write(&[0; BLOCK][..usize::try_from(padding).unwrap_or(0)])?;
        let now = rustix::fs::fstat(&file).ok();
        if !is_whole || !now.is_some_and(|now| unchanged(&now, &stat)) {
            self.flaw(name, FlawCause::Changed);
        }
        entry.digest = Some(digest);
        self.packed.bytes += entry.size;
        self.packed.manifest.entries.push(entry);
        Ok(())
    }

    /// Reads `size` bytes of a file, and whether it had so many; zeros take the place of those it had not.
    fn content(
        &mut self,
        file: &OwnedFd,
        size: u64,
        content: Content,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<std::result::Result<(sandbox_core::Digest, bool), Errno>> {
        let mut hasher = blake3::Hasher::new();
        let mut left = size;
        let mut is_whole = true;
        let mut buffer = std::mem::take(&mut self.buffer);
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let read = if is_whole {
                match rustix::io::read(file, &mut buffer[..wanted]) {
                    Ok(read) => read,
                    Err(Errno::INTR) => continue,
                    Err(errno) => {
                        self.buffer = buffer;
                        return Ok(Err(errno));
                    }
                }
            } else {
                0
            };
            let read = if read == 0 {
                is_whole = false;
                buffer[..wanted].fill(0);
                wanted
            } else {
                read
            };
            hasher.update(&buffer[..read]);
            if content == Content::Send {
                self.write(&buffer[..read])?;
            }
            left -= read as u64;
            if read == PIECE {
                go_on()?;
            }
        }
        self.buffer = buffer;
        Ok(Ok((digest(hasher.finalize()), is_whole)))
    }

    /// Leaves an entry out.
    fn skip(&mut self, name: &SandboxPath, errno: Errno) -> Result<()> {
        match errno {
            // Gone, or on the way to it a directory became something else.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE => Ok(()),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Err(os_error(self.verb, errno).on(name)),
            _ => {
                self.flaw(name, FlawCause::Unreadable);
                Ok(())
            }
        }
    }

    fn flaw(&mut self, name: &SandboxPath, cause: FlawCause) {
        self.packed.flaws.push(Flaw {
            path: name.clone(),
            cause,
        });
    }

    /// Whether the base has it already.
    fn has(&self, entry: &ManifestEntry) -> bool {
        self.base
            .get(&entry.path)
            .is_some_and(|base| same_shape(base, entry) && base.digest == entry.digest)
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        let blocks = header.encode();
        self.write(&blocks)?;
        self.packed.entries += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out
            .write_all(bytes)
            .map_err(|error| match error.downcast::<Error>() {
                Ok(error) => error,
                Err(error) => Error::refused(self.verb, ErrorKind::Io)
                    .detail("the archive could not be written")
                    .caused_by(error),
            })
    }
}

/// What is done with a content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Digest,
    Send,
}

/// Compares two manifests: what the first has and the second has not.
#[must_use]
pub fn gone(base: &Manifest, now: &Manifest) -> Vec<SandboxPath> {
    let now: std::collections::HashSet<_> = now.entries.iter().map(|entry| &entry.path).collect();
    let base = base.entries.iter().map(|entry| &entry.path);
    let mut gone: Vec<_> = base.filter(|path| !now.contains(path)).cloned().collect();
    gone.sort_unstable();
    gone
}

fn same_shape(a: &ManifestEntry, b: &ManifestEntry) -> bool {
    let same_mode = a.kind == EntryKind::Link || a.mode & 0o777 == b.mode & 0o777;
    a.kind == b.kind && same_mode && a.size == b.size
}

fn unchanged(now: &Stat, before: &Stat) -> bool {
    let key = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    key(now) == key(before)
}

fn seconds(stat: &Stat) -> i64 {
    #[expect(
        clippy::useless_conversion,
        reason = "the types differ between systems"
    )]
    stat.st_mtime.into()
}

/// An output that is gone: nobody wants the rest.
#[must_use]
pub fn unwanted(verb: Verb) -> io::Error {
    io::Error::other(
        Error::refused(verb, ErrorKind::Cancelled).detail("nobody reads the archive any more"),
    )
}

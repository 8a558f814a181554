//! Makes the tree of an archive, out of sight, and puts it in place.
//!
//! Whatever an archive holds, a destination has either the whole tree or what it had before. The tree is
//! made in a private directory ([`Staging`]) on the same file system: each entry is created anew
//! (`O_EXCL`), in a directory that was opened one level at a time without following a link. Then it is put
//! in place by renames ([`place`]).
//!
//! Two receivers want different things ([`Receiver`]). A sandbox gets what was sent: permission bits, times,
//! and links with any text, for what they lead to is decided where the sandbox opens them. A host gets
//! only what cannot harm it when somebody works in the tree: the execute bit of modes and nothing else of
//! them, no times, no `.git` (whose hooks and settings are programs that run on the next `git status`), and
//! only links that provably stay in the tree. What it does not get is said.
//!
//! **Links that stay.** The text is relative, has `..` at its beginning only, and not more of them
//! than the link has directories of this tree above it. The directories on the way to an entry are
//! real ones ([`reader`](crate::reader) refuses what lies beneath a link), so each leading `..` goes one
//! level up in the tree; what follows only goes down, through entries of which the same holds. A `..`
//! further back would begin wherever a link before it leads, which counting levels cannot see.
//!
//! Not here: what may be in an archive at all ([`reader`](crate::reader)).

pub(crate) mod dirs;
mod job;
pub mod place;
mod staging;

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use sandbox_core::file::EntryKind;
use sandbox_core::transfer::ManifestEntry;
use sandbox_core::{Digest, Error, ErrorKind, Result, SandboxPath, Verb};

use crate::errno::os_error;
use crate::reader::{ArchiveError, Entry, Kind, Reader};
use dirs::{Dirs, Missing, mode_bits, mode_of, open_dir};
pub use staging::{Staging, is_staging};

/// Times beyond these are brought back to them: what file systems can keep.
const TIMES: std::ops::RangeInclusive<i64> = -(1 << 31)..=(1 << 34) - 1;
/// Permission bits of a directory that no entry names.
const DIRECTORY_MODE: u32 = 0o755;

/// Who gets a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// A sandbox, where links are followed by the sandbox's own rules.
    Sandbox,
    /// A directory of the caller, in which the caller's programs work.
    Host,
}

impl Receiver {
    /// Permission bits of a directory while others are still made in it.
    fn directory_mode(self) -> u32 {
        match self {
            // Set to what was sent once everything is in it.
            Self::Sandbox => 0o700,
            // A host has its own: these, less its umask.
            Self::Host => DIRECTORY_MODE,
        }
    }
}

/// What was made of an archive.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// Every entry, implied directories included, in path order.
    pub entries: Vec<ManifestEntry>,
    /// Bytes of file content.
    pub bytes: u64,
    /// What the archive says about the root, if it does.
    root: Option<Attributes>,
    /// Directories whose permission bits and times are still to be set, in path order.
    directories: Vec<(SandboxPath, Attributes)>,
    /// What a host does not get.
    pub omitted: Vec<Omitted>,
}

/// An entry that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// Where it would be.
    pub path: SandboxPath,
    /// Why it is not there.
    pub reason: Omission,
}

/// Why an entry was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Omission {
    /// It is a link that may lead out of the tree.
    LinkOut {
        /// Its text.
        text: Vec<u8>,
    },
    /// It is or lies in a `.git`.
    Git,
}

#[derive(Clone, Copy, Debug)]
struct Attributes {
    mode: u32,
    /// `None` at a host, and for a directory that no entry names.
    modified: Option<(i64, u32)>,
}

/// Makes everything of an archive in `root`, an empty directory that nobody else knows of.
///
/// - `go_on`: asked between entries and between pieces of content
///
/// # Errors
///
/// On behalf of `verb`, with an unknown effect on `root` and none elsewhere: what the archive is refused for,
/// what `go_on` says, and what the file system says.
pub fn unpack<R: Read>(
    verb: Verb,
    reader: &mut Reader<R>,
    root: OwnedFd,
    receiver: Receiver,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Unpacked> {
    let mut unpacking = Unpacking {
        verb,
        receiver,
        dirs: Dirs::new(root),
        unpacked: Unpacked::default(),
        buffer: vec![0; 64 * 1024],
    };
    while let Some(entry) = reader.next_entry().map_err(|error| error.on(verb))? {
        go_on()?;
        unpacking.entry(entry, reader, go_on)?;
    }
    Ok(unpacking.finish())
}

struct Unpacking {
    verb: Verb,
    receiver: Receiver,
    dirs: Dirs,
    unpacked: Unpacked,
    buffer: Vec<u8>,
}

impl Unpacking {
    fn entry<R: Read>(
        &mut self,
        entry: Entry,
        reader: &mut Reader<R>,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let Entry {
            path,
            kind,
            mode,
            modified,
        } = entry;
        let verb = self.verb;
        if path.components().any(is_staging) {
            return Err(Error::new(verb, ErrorKind::InvalidArgument)
                .on(&path)
                .detail("names of this form are kept for trees that are under way"));
        }
        let mut attributes = Attributes {
            mode,
            modified: Some(modified),
        };
        if self.receiver == Receiver::Host {
            attributes.modified = None;
            attributes.mode = match kind {
                Kind::File { .. } if mode & 0o111 == 0 => 0o644,
                _ => 0o755,
            };
            if path
                .components()
                .any(|name| name.eq_ignore_ascii_case(b".git"))
            {
                self.omit(path, Omission::Git);
                return Ok(());
            }
        }
        let failed = |errno| os_error(verb, errno).on(&path);
        let (kind, size, digest) = match kind {
            Kind::Directory if path.is_root() => {
                self.unpacked.root = Some(attributes);
                return Ok(());
            }
            Kind::Directory => {
                self.directory(&path).map_err(failed)?;
                if self.receiver == Receiver::Sandbox {
                    self.unpacked.directories.push((path.clone(), attributes));
                }
                (EntryKind::Directory, 0, None)
            }
            Kind::Link { text } => {
                if self.receiver == Receiver::Host && !stays(&path, &text) {
                    self.omit(path, Omission::LinkOut { text });
                    return Ok(());
                }
                attributes.mode = 0o777;
                let (dir, name) = self.parent(&path).map_err(failed)?;
                link(dir, name, &text, &attributes).map_err(failed)?;
                let digest = digest(blake3::hash(&text));
                (EntryKind::Link, text.len() as u64, Some(digest))
            }
            Kind::File { size } => {
                let digest = self.file(&path, &attributes, reader, go_on)?;
                (EntryKind::File, size, Some(digest))
            }
        };
        self.unpacked.entries.push(ManifestEntry {
            path,
            kind,
            mode: attributes.mode,
            size,
            digest,
        });
        Ok(())
    }

    fn file<R: Read>(
        &mut self,
        path: &SandboxPath,
        attributes: &Attributes,
        reader: &mut Reader<R>,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Digest> {
        let (verb, receiver) = (self.verb, self.receiver);
        let failed = |errno| os_error(verb, errno).on(path);
        let (dir, name) = self
            .dirs
            .parent(path, Missing::Make(self.receiver.directory_mode()))
            .map_err(failed)?;
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, name, flags, mode_bits(attributes.mode | 0o200))
            .map_err(failed)?;
        let mut hasher = blake3::Hasher::new();
        loop {
            let read = reader
                .read(&mut self.buffer)
                .map_err(|error: ArchiveError| error.on(verb).on(path))?;
            if read == 0 {
                break;
            }
            hasher.update(&self.buffer[..read]);
            self.unpacked.bytes += read as u64;
            write_all(file.as_fd(), &self.buffer[..read]).map_err(failed)?;
            if read == self.buffer.len() {
                go_on()?;
            }
        }
        // A host's umask is a wish of its owner; a sandbox gets what was sent.
        if receiver == Receiver::Sandbox {
            rustix::fs::fchmod(&file, mode_bits(attributes.mode)).map_err(failed)?;
        }
        if let Some(modified) = attributes.modified {
            rustix::fs::futimens(&file, &timestamps(modified)).map_err(failed)?;
        }
        Ok(digest(hasher.finalize()))
    }

    fn directory(&mut self, path: &SandboxPath) -> Result<(), Errno> {
        let mode = self.receiver.directory_mode();
        let (dir, name) = self.parent(path)?;
        match rustix::fs::mkdirat(dir, name, mode_bits(mode)) {
            // Made for what lies in it, before its own entry came.
            Err(Errno::EXIST) => open_dir(dir, name).map(drop),
            made => made,
        }
    }

    fn parent<'a>(
        &'a mut self,
        path: &'a SandboxPath,
    ) -> Result<(BorrowedFd<'a>, &'a OsStr), Errno> {
        self.dirs
            .parent(path, Missing::Make(self.receiver.directory_mode()))
    }

    fn omit(&mut self, path: SandboxPath, reason: Omission) {
        self.unpacked.omitted.push(Omitted { path, reason });
    }

    /// Adds the directories that no entry named, and sorts.
    fn finish(self) -> Unpacked {
        let mut unpacked = self.unpacked;
        unpacked
            .entries
            .sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut implied = Vec::new();
        for entry in &unpacked.entries {
            let mut path = entry.path.parent();
            while let Some(parent) = path.filter(|parent| !parent.is_root()) {
                let named = unpacked
                    .entries
                    .binary_search_by(|other| other.path.cmp(&parent))
                    .is_ok();
                if named || implied.last() == Some(&parent) {
                    break;
                }
                path = parent.parent();
                implied.push(parent);
            }
        }
        implied.sort_unstable();
        implied.dedup();
        for path in implied {
            unpacked.entries.push(ManifestEntry {
                path: path.clone(),
                kind: EntryKind::Directory,
                mode: DIRECTORY_MODE,
                size: 0,
                digest: None,
            });
            if self.receiver == Receiver::Sandbox {
                let attributes = Attributes {
                    mode: DIRECTORY_MODE,
                    modified: None,
                };
                unpacked.directories.push((path, attributes));
            }
        }
        unpacked
            .entries
            .sort_unstable_by(|a, b| a.path.cmp(&b.path));
        unpacked.directories.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        unpacked
    }
}

/// Which directories get their permission bits and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// Those that their owner can still work in.
    Workable,
    /// Those that nobody can move or empty afterwards.
    Locked,
}

impl Unpacked {
    /// Permission bits that an entry gives to a directory.
    fn mode_of_directory(&self, path: &SandboxPath) -> Option<u32> {
        let at = self
            .directories
            .binary_search_by(|(other, _)| other.cmp(path));
        let (_, attributes) = self.directories.get(at.ok()?)?;
        attributes.modified.map(|_| attributes.mode)
    }

    /// Sets permission bits and times of directories beneath `root`, from the inside out.
    ///
    /// - `only`: asked for each
    fn set_directories(
        &self,
        verb: Verb,
        root: BorrowedFd<'_>,
        only: impl Fn(&SandboxPath, Which) -> bool,
    ) -> Result<()> {
        let mut dirs = Dirs::new(again(root).map_err(|errno| os_error(verb, errno))?);
        for (path, attributes) in self.directories.iter().rev() {
            let which = match attributes.mode & 0o700 {
                0o700 => Which::Workable,
                _ => Which::Locked,
            };
            if only(path, which) {
                let opened = match dirs.parent(path, Missing::Fail) {
                    Ok((dir, name)) => open_dir(dir, name),
                    Err(errno) => Err(errno),
                };
                opened
                    .and_then(|dir| set_directory(dir.as_fd(), attributes))
                    .map_err(|errno| os_error(verb, errno).on(path))?;
            }
        }
        Ok(())
    }
}

fn set_directory(dir: BorrowedFd<'_>, attributes: &Attributes) -> Result<(), Errno> {
    rustix::fs::fchmod(dir, mode_bits(attributes.mode))?;
    match attributes.modified {
        Some(modified) => rustix::fs::futimens(dir, &timestamps(modified)),
        None => Ok(()),
    }
}

/// Another handle of a directory.
fn again(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(dir, 3)
}

/// Permission bits that a new directory gets from this user if nobody says otherwise.
fn usual_mode(within: BorrowedFd<'_>) -> Result<u32, Errno> {
    // Tried and not asked for: to ask for the umask is to change it for a moment, in every thread.
    rustix::fs::mkdirat(within, "mode", mode_bits(DIRECTORY_MODE))?;
    let stat = rustix::fs::statat(within, "mode", AtFlags::SYMLINK_NOFOLLOW)?;
    rustix::fs::unlinkat(within, "mode", AtFlags::REMOVEDIR)?;
    Ok(mode_of(&stat))
}

/// Whether a link at `path` with this text stays in the tree, whatever else the tree holds; see the
/// [module](self).
fn stays(path: &SandboxPath, text: &[u8]) -> bool {
    if text.first() == Some(&b'/') {
        return false;
    }
    let above = path.components().count() - 1;
    let names = || {
        text.split(|&byte| byte == b'/')
            .filter(|name| !matches!(*name, b"" | b"."))
    };
    let up = names().take_while(|name| *name == b"..").count();
    // A link to a `.git` brings back what was left out of the tree.
    up <= above
        && names()
            .skip(up)
            .all(|name| name != b".." && !name.eq_ignore_ascii_case(b".git"))
}

fn link(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    text: &[u8],
    attributes: &Attributes,
) -> Result<(), Errno> {
    rustix::fs::symlinkat(OsStr::from_bytes(text), dir, name)?;
    match attributes.modified {
        Some(modified) => {
            rustix::fs::utimensat(dir, name, &timestamps(modified), AtFlags::SYMLINK_NOFOLLOW)
        }
        None => Ok(()),
    }
}

fn timestamps((seconds, nanos): (i64, u32)) -> Timestamps {
    let at = Timespec {
        tv_sec: seconds.clamp(*TIMES.start(), *TIMES.end()),
        tv_nsec: nanos.into(),
    };
    Timestamps {
        last_access: at,
        last_modification: at,
    }
}

fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(crate) fn digest(hash: blake3::Hash) -> Digest {
    Digest::from_bytes(*hash.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_if_its_dots_lead_and_are_no_more_than_its_levels() {
        let path = |text: &str| SandboxPath::parse(text).expect("valid");
        for (at, text, expected) in [
            ("l", "a/b", true),
            ("l", ".", true),
            ("a/l", "../b", true),
            ("a/b/l", "../../c", true),
            ("a/b/l", "./.././../c", true),
            ("l", "..", false),
            ("a/l", "../..", false),
            ("l", "/etc/passwd", false),
            ("s/l", "sub/../../out", false),
            ("x/y/l", "../k/../../out/victim", false),
            ("a/l", "b/../../c", false),
            ("l", ".git/config", false),
            ("l", ".GIT", false),
        ] {
            assert_eq!(
                stays(&path(at), text.as_bytes()),
                expected,
                "{at} -> {text}"
            );
        }
    }
}

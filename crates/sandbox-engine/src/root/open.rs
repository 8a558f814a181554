//! Opening by the kernel's own resolution beneath a root, and what is checked of what was opened.
//!
//! A file is opened twice: as a place (`O_PATH`, which no file notices) to see what it is, then for
//! reading. What was opened for reading is looked at again, because the name may have changed hands
//! between the two.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat};
use rustix::io::Errno;
use sandbox_core::SandboxPath;

use super::walk::{Entry, Found, Last, Missing};
use super::{Fault, Outcome, Root, Roots};

/// How often the kernel is asked again when something was renamed while it resolved.
const RETRIES: u32 = 8;
/// `SYSFS_MAGIC` of `linux/magic.h`.
const SYSFS_MAGIC: u32 = 0x6265_6572;

/// As a place.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// As a place that is a directory.
pub(super) const DIRECTORY: OFlags = PLACE.union(OFlags::DIRECTORY);
/// For reading, without waiting for anybody and without becoming a terminal's owner.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Whether an open may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// It may.
    No,
    /// It may not: `EAGAIN` if something is not in memory, or needs a walk.
    Only,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file.
    pub(crate) file: OwnedFd,
    /// What it was when it was opened.
    pub(crate) stat: Stat,
}

/// Most directories that are kept open while many paths are looked at. A process may have few
/// descriptors, and there are other calls.
const MAX_NEAR: usize = 64;

/// The directories that were looked into before, by root and path.
#[derive(Debug, Default)]
pub(crate) struct Near(HashMap<(usize, Vec<u8>), OwnedFd>);

impl Near {
    /// A directory, opened if it was not looked into before.
    fn directory(&mut self, index: usize, root: &Root, path: &[u8]) -> Result<&OwnedFd, Errno> {
        let key = (index, path.to_vec());
        if self.0.len() == MAX_NEAR && !self.0.contains_key(&key) {
            self.0.clear();
        }
        match self.0.entry(key) {
            Occupied(known) => Ok(known.into_mut()),
            Vacant(place) => Ok(place.insert(beneath(root, path, DIRECTORY, Cached::No)?)),
        }
    }
}

impl Roots {
    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &SandboxPath, cached: Cached) -> Outcome<Opened> {
        let (index, rest) = self.locate(path)?;
        let root = self.root(index);
        if rest.is_empty() {
            return Err(Fault::NotAFile {
                found: "a directory",
            });
        }
        if !root.holds_another {
            match open_beneath(root, &rest, cached) {
                Err(Fault::Os(errno)) if wants_a_walk(errno) && cached == Cached::No => {}
                result => return result,
            }
        } else if cached == Cached::Only {
            return Err(Errno::AGAIN.into());
        }
        for _ in 0..RETRIES {
            let entry = match self.walk(index, &rest, Last::Follow, Missing::Fail)? {
                Found::Entry(entry) => entry,
                Found::Directory { .. } => {
                    return Err(Fault::NotAFile {
                        found: "a directory",
                    });
                }
            };
            match open_entry(&entry) {
                // It became a link after the walk had seen that it is none.
                Err(Fault::Os(Errno::LOOP)) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Opens a directory as a place.
    pub(super) fn directory(&self, path: &SandboxPath) -> Outcome<OwnedFd> {
        let (root, fd) = match self.find(path, Last::Follow, Missing::Fail)? {
            Found::Directory {
                root,
                dir: Some(dir),
            } => (root, dir),
            Found::Directory { root, dir: None } => {
                (root, rustix::io::fcntl_dupfd_cloexec(root.fd(), 3)?)
            }
            Found::Entry(entry) => {
                let flags = DIRECTORY | OFlags::NOFOLLOW;
                (
                    entry.root,
                    rustix::fs::openat(entry.dir(), entry.name(), flags, Mode::empty())?,
                )
            }
        };
        refuse_kernel_files(fd.as_fd(), &rustix::fs::fstat(&fd)?, root)?;
        // A place can be held without the right to enter it, and then nothing could start there.
        check_access(fd.as_fd(), OsStr::new("."), Access::EXEC_OK)?;
        Ok(fd)
    }

    /// What a path names, a link itself, by one look into its directory: of many paths most have
    /// neighbours. `None` if only the walk by hand can tell.
    pub(crate) fn stat_near(
        &self,
        path: &SandboxPath,
        near: &mut Near,
    ) -> Option<Result<Stat, Errno>> {
        let (index, rest) = self.locate(path).ok()?;
        let root = self.root(index);
        if root.holds_another {
            return None;
        }
        let (parent, name) = match rest.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&rest[..slash], &rest[slash + 1..]),
            None => (&rest[..0], &rest[..]),
        };
        if matches!(name, b"" | b".") {
            return None;
        }
        let dir = match parent {
            [] => root.fd(),
            parent => near.directory(index, root, parent).ok()?.as_fd(),
        };
        let name = OsStr::from_bytes(name);
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            // What the kernel's own file systems hold is refused where it is walked to.
            Ok(stat) if stat.st_dev != root.dev => None,
            result => Some(result),
        }
    }

    /// What a path names, a link itself, without waiting for the disk.
    pub(crate) fn stat_cached(&self, path: &SandboxPath) -> Outcome<Stat> {
        let (index, rest) = self.locate(path)?;
        let root = self.root(index);
        if root.holds_another {
            return Err(Errno::AGAIN.into());
        }
        if rest.is_empty() {
            return Ok(rustix::fs::fstat(root.fd())?);
        }
        let fd = beneath(root, &rest, PLACE | OFlags::NOFOLLOW, Cached::Only)?;
        let stat = rustix::fs::fstat(&fd)?;
        refuse_kernel_files(fd.as_fd(), &stat, root)?;
        Ok(stat)
    }
}

/// Opens what has an entry's name for reading, if it is a regular file.
pub(crate) fn open_entry(entry: &Entry<'_>) -> Outcome<Opened> {
    let open = |flags| {
        rustix::fs::openat(
            entry.dir(),
            entry.name(),
            flags | OFlags::NOFOLLOW,
            Mode::empty(),
        )
    };
    let place = open(PLACE)?;
    let stat = rustix::fs::fstat(&place)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP.into());
    }
    regular(place.as_fd(), &stat, entry.root)?;
    let file = open(READ)?;
    opened(file, entry.root)
}

fn open_beneath(root: &Root, rest: &[u8], cached: Cached) -> Outcome<Opened> {
    let place = beneath(root, rest, PLACE, cached)?;
    regular(place.as_fd(), &rustix::fs::fstat(&place)?, root)?;
    let file = beneath(root, rest, READ, cached)?;
    opened(file, root)
}

fn opened(file: OwnedFd, root: &Root) -> Outcome<Opened> {
    let stat = rustix::fs::fstat(&file)?;
    regular(file.as_fd(), &stat, root)?;
    Ok(Opened { file, stat })
}

/// One open by the kernel, beneath a root: no link leads out, and none is the kernel's own magic.
pub(super) fn beneath(
    root: &Root,
    rest: &[u8],
    flags: OFlags,
    cached: Cached,
) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if cached == Cached::Only {
        resolve |= ResolveFlags::CACHED;
    }
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(
            root.fd(),
            OsStr::from_bytes(rest),
            flags,
            Mode::empty(),
            resolve,
        ) {
            Err(Errno::AGAIN) if cached == Cached::No && tries < RETRIES => tries += 1,
            result => return result,
        }
    }
}

/// Whether the walk by hand may know better than the kernel: a link leaves the root (`EXDEV`) or is
/// magic (`ELOOP`), renames never stop (`EAGAIN`), or the call itself is refused.
pub(super) fn wants_a_walk(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::XDEV | Errno::LOOP | Errno::AGAIN | Errno::NOSYS | Errno::PERM
    )
}

fn regular(fd: BorrowedFd<'_>, stat: &Stat, root: &Root) -> Outcome<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => refuse_kernel_files(fd, stat, root),
        other => Err(Fault::NotAFile {
            found: kind_name(other),
        }),
    }
}

/// Refuses what lies on procfs or sysfs. The file system of the root itself was seen to be neither,
/// so that the question costs nothing there.
pub(super) fn refuse_kernel_files(fd: BorrowedFd<'_>, stat: &Stat, root: &Root) -> Outcome<()> {
    if stat.st_dev == root.dev {
        return Ok(());
    }
    if is_kernel_files(fd)? {
        Err(Fault::KernelFiles)
    } else {
        Ok(())
    }
}

/// Whether something lies on procfs or sysfs.
pub(crate) fn is_kernel_files(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let kind = rustix::fs::fstatfs(fd)?.f_type;
    Ok(kind == PROC_SUPER_MAGIC || u32::try_from(kind).is_ok_and(|kind| kind == SYSFS_MAGIC))
}

/// Whether the user this runs as may do something with what has a name. A kernel that cannot be asked
/// (before 5.8) says yes here, and decides when it is done.
pub(crate) fn check_access(dir: BorrowedFd<'_>, name: &OsStr, access: Access) -> Outcome<()> {
    match rustix::fs::accessat(dir, name, access, AtFlags::EACCESS) {
        Ok(()) | Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// What something is that is not a regular file.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown kind",
    }
}

//! Content that becomes visible all at once.
//!
//! The content is written to a file without a name (`O_TMPFILE`), which vanishes by itself whatever
//! ends this process, and gets its name in one step: a link where nothing may be there, a rename
//! where something is replaced. A rename needs a name to come from, so for that moment the file is
//! called `.spp-` and 16 hexadecimal digits; a `SIGKILL` exactly there leaves it. On file
//! systems without nameless files it has that name from the start.
//!
//! What replacing by rename costs: the file is a new inode. Other hard links keep the old content,
//! a program that has the file open does too, and access control lists and extended attributes
//! stay with the old inode. Permission bits are carried over, owner and group as far as the user this
//! runs as may give files away. Writing in place would keep the inode and show readers a mixture, or
//! half a file after a crash or on a full disk.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;
use sandbox_core::file::Durability;

/// Permission bits of a new file, less the umask.
const NEW_MODE: u32 = 0o644;

/// A nameless file gets its name by way of its descriptor, for which an ordinary user needs `/proc`
/// before Linux 6.10.
static NAMELESS: LazyLock<bool> = LazyLock::new(|| Path::new("/proc/self/fd").is_dir());

/// Content that is written and not yet visible.
pub(super) struct Staged<'a> {
    dir: BorrowedFd<'a>,
    file: OwnedFd,
    /// The name it has meanwhile.
    name: Option<String>,
}

/// What a staged file is like.
pub(super) struct Attributes<'a> {
    /// Permission bits, if they are not those of the file that is replaced or the default.
    pub(super) mode: Option<u32>,
    /// The file that is replaced.
    pub(super) old: Option<&'a Stat>,
    pub(super) durability: Durability,
}

impl<'a> Staged<'a> {
    /// Writes `content` beside its destination.
    pub(super) fn write(
        dir: BorrowedFd<'a>,
        content: &[u8],
        attributes: &Attributes<'_>,
    ) -> Result<Self, Errno> {
        let staged = Self::create(dir)?;
        let mut rest = content;
        while !rest.is_empty() {
            match rustix::io::write(&staged.file, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if let Some(old) = attributes.old {
            staged.give_to_owner_of(old)?;
        }
        let mode = attributes
            .mode
            .or(attributes.old.map(|old| old.st_mode & 0o777));
        if let Some(mode) = mode {
            rustix::fs::fchmod(&staged.file, Mode::from_raw_mode(mode))?;
        }
        if attributes.durability == Durability::Durable {
            rustix::fs::fsync(&staged.file)?;
        }
        Ok(staged)
    }

    /// Gives it its name, on which nothing may be: `EEXIST` otherwise.
    pub(super) fn publish_new(mut self, name: &std::ffi::OsStr) -> Result<(), Errno> {
        let Some(own) = &self.name else {
            return self.link(name);
        };
        match rustix::fs::renameat_with(self.dir, own, self.dir, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // This file system has no such rename. A link cannot replace either.
            Err(Errno::INVAL) => {
                rustix::fs::linkat(self.dir, own, self.dir, name, AtFlags::empty())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Gives it its name, in place of what has it.
    pub(super) fn publish_over(mut self, name: &std::ffi::OsStr) -> Result<(), Errno> {
        let own = match self.name.take() {
            Some(own) => own,
            None => {
                let own = passing_name()?;
                self.link(own.as_ref())?;
                own
            }
        };
        let own: &str = self.name.insert(own);
        rustix::fs::renameat(self.dir, own, self.dir, name)?;
        self.name = None;
        Ok(())
    }

    fn create(dir: BorrowedFd<'a>) -> Result<Self, Errno> {
        let mode = Mode::from_raw_mode(NEW_MODE);
        if *NAMELESS {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            match rustix::fs::openat(dir, ".", flags, mode) {
                Ok(file) => {
                    return Ok(Self {
                        dir,
                        file,
                        name: None,
                    });
                }
                // No nameless files on this file system, each kind of which says it differently.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        let name = passing_name()?;
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &name, flags, mode)?;
        Ok(Self {
            dir,
            file,
            name: Some(name),
        })
    }

    fn link(&self, name: &std::ffi::OsStr) -> Result<(), Errno> {
        match rustix::fs::linkat(&self.file, "", self.dir, name, AtFlags::EMPTY_PATH) {
            // Kept from ordinary users before Linux 6.10.
            Err(Errno::NOENT) => {
                let file = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
                rustix::fs::linkat(
                    rustix::fs::CWD,
                    file,
                    self.dir,
                    name,
                    AtFlags::SYMLINK_FOLLOW,
                )
            }
            result => result,
        }
    }

    fn give_to_owner_of(&self, old: &Stat) -> Result<(), Errno> {
        let own = rustix::fs::fstat(&self.file)?;
        if (own.st_uid, own.st_gid) == (old.st_uid, old.st_gid) {
            return Ok(());
        }
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        if rustix::fs::fchown(&self.file, Some(owner), Some(group)) == Err(Errno::PERM) {
            // An ordinary user may give a file to a group of its own at most. Who may write to the
            // directory may replace the file, so that this is no reason to refuse.
            let _ = rustix::fs::fchown(&self.file, None, Some(group));
        }
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing more can be done about a name that does not go.
            let _ = rustix::fs::unlinkat(self.dir, name, AtFlags::empty());
        }
    }
}

/// Waits until the entries of a directory are on the disk.
pub(super) fn sync_directory(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsync(&readable(dir)?)
}

/// Waits until everything of a directory's file system is on the disk.
pub(super) fn sync_file_system(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::syncfs(&readable(dir)?)
}

/// A directory that was opened as a place, open for reading.
fn readable(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, ".", flags, Mode::empty())
}

fn passing_name() -> Result<String, Errno> {
    let random = getrandom::u64().map_err(|_| Errno::IO)?;
    Ok(format!(".spp-{random:016x}"))
}

//! A private directory beside the destination, in which a tree is made before it is there.
//!
//! It is called `.spp-tree-` and 16 hexadecimal digits, has the permission bits 0700, and is held by a
//! lock for as long as it is worked on. Whoever makes one removes first what others left there: one
//! that nobody holds belongs to a process that was killed. So a `SIGKILL` leaves a directory of that
//! name until the next tree is put into the same place.
//!
//! Removing works on names in directories that are open, never through a link, and needs no more handles
//! for a deep tree than for a flat one: a directory that is not empty gives its own directories to the
//! top, where each is emptied in its turn.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, RenameFlags};
use rustix::io::Errno;

use super::dirs::{mode_bits, open_dir};

const PREFIX: &[u8] = b".spp-tree-";
/// How often another name is tried.
const TRIES: u32 = 8;
/// How often a directory is gone through because somebody keeps making entries in it.
const ROUNDS: u32 = 1000;

/// A private directory; removed when dropped, unless it was published.
#[derive(Debug)]
pub struct Staging {
    parent: OwnedFd,
    name: String,
    dir: OwnedFd,
    published: bool,
}

/// Whether a name is one of ours. Such entries are not part of any tree.
#[must_use]
pub fn is_staging(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit))
}

impl Staging {
    /// Makes one in `parent`, and removes those there that nobody holds.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being made. One that cannot be removed is no error.
    pub fn create(parent: OwnedFd) -> Result<Self, Errno> {
        sweep(parent.as_fd());
        for _ in 0..TRIES {
            let random = getrandom::u64().map_err(|_| Errno::IO)?;
            let name = format!(".spp-tree-{random:016x}");
            match rustix::fs::mkdirat(&parent, &name, mode_bits(0o700)) {
                Err(Errno::EXIST) => continue,
                made => made?,
            }
            // Somebody who sweeps may come before the lock, and have removed it.
            let held = open_dir(parent.as_fd(), name.as_ref()).and_then(|dir| {
                // Without locks on this file system nobody else gets one either, and sweeps.
                if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)
                    == Err(Errno::WOULDBLOCK)
                {
                    return Err(Errno::WOULDBLOCK);
                }
                let linked = rustix::fs::fstat(&dir)?.st_nlink > 0;
                if linked { Ok(dir) } else { Err(Errno::NOENT) }
            });
            match held {
                Ok(dir) => {
                    return Ok(Self {
                        parent,
                        name,
                        dir,
                        published: false,
                    });
                }
                Err(Errno::NOENT | Errno::WOULDBLOCK) => {}
                Err(errno) => {
                    let _ = rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR);
                    return Err(errno);
                }
            }
        }
        Err(Errno::AGAIN)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Gives it this name in its parent, on which nothing may be: `EEXIST` otherwise.
    ///
    /// # Errors
    ///
    /// As rename(2); the directory is removed then.
    pub fn publish(mut self, name: &OsStr) -> Result<(), Errno> {
        let own = OsStr::new(&self.name);
        rename_new(
            (self.parent.as_fd(), own),
            (self.parent.as_fd(), name),
            FileType::Directory,
        )?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published {
            // Nothing more can be done about one that does not go; the next sweep tries again.
            let _ = clear(self.dir.as_fd());
            let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
        }
    }
}

/// Renames where nothing may be at the new name.
pub(super) fn rename_new(
    from: (BorrowedFd<'_>, &OsStr),
    to: (BorrowedFd<'_>, &OsStr),
    kind: FileType,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        done => return done,
    }
    // A file system without such a rename. What is made here where nothing is, is what is replaced.
    if kind == FileType::Directory {
        rustix::fs::mkdirat(to.0, to.1, mode_bits(0o700))?;
        let moved = rustix::fs::renameat(from.0, from.1, to.0, to.1);
        if moved.is_err() {
            let _ = rustix::fs::unlinkat(to.0, to.1, AtFlags::REMOVEDIR);
        }
        return moved;
    }
    rustix::fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?;
    rustix::fs::unlinkat(from.0, from.1, AtFlags::empty())
}

/// Removes what processes left that are gone.
fn sweep(parent: BorrowedFd<'_>) {
    // A parent that cannot be listed has nothing that could be found.
    let Ok(names) = names(parent) else { return };
    for (name, _) in names.iter().filter(|(name, _)| is_staging(name)) {
        let name = OsStr::from_bytes(name);
        let Ok(dir) = open_dir(parent, name) else {
            continue;
        };
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
            && clear(dir.as_fd()).is_ok()
        {
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Removes everything in `top`.
fn clear(top: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut given = 0_u64;
    for _ in 0..ROUNDS {
        let inside = names(top)?;
        if inside.is_empty() {
            return Ok(());
        }
        for (name, kind) in inside {
            let name = OsStr::from_bytes(&name);
            if kind != FileType::Directory && unlink(top, name)? == Unlinked::Yes {
                continue;
            }
            let dir = match writable(top, name) {
                Ok(dir) => dir,
                // It is gone, or no directory any more: the next round sees.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(errno),
            };
            for (inner, kind) in names(dir.as_fd())? {
                let inner = OsStr::from_bytes(&inner);
                if kind != FileType::Directory && unlink(dir.as_fd(), inner)? == Unlinked::Yes {
                    continue;
                }
                match rustix::fs::unlinkat(&dir, inner, AtFlags::REMOVEDIR) {
                    Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                    _ => continue,
                }
                // Moving a directory needs the right to write to it.
                let _ = writable(dir.as_fd(), inner);
                given += 1;
                let place = format!("up-{given}");
                rename_new(
                    (dir.as_fd(), inner),
                    (top, place.as_ref()),
                    FileType::Directory,
                )?;
            }
            match rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Err(Errno::NOTEMPTY)
}

#[derive(PartialEq)]
enum Unlinked {
    Yes,
    /// It is a directory.
    No,
}

fn unlink(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Unlinked, Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(Unlinked::Yes),
        // Which of the two is said is up to the system.
        Err(Errno::ISDIR | Errno::PERM) => Ok(Unlinked::No),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory and sees to it that entries can be removed from it.
fn writable(above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let dir = open_dir(above, name)?;
    if rustix::fs::fstat(&dir)?.st_mode & 0o300 != 0o300 {
        rustix::fs::fchmod(&dir, mode_bits(0o700))?;
    }
    Ok(dir)
}

/// What is in a directory, without the directory itself and the one above.
pub(super) fn names(dir: BorrowedFd<'_>) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push((name.to_vec(), entry.file_type()));
        }
    }
    Ok(names)
}

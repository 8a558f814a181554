//! The verb `remove`.
//!
//! A tree is removed from the inside out, through handles: each directory is opened in the one above
//! without following a link, and names are removed in it. A directory that is swapped for a link
//! meanwhile is not entered; the link goes.
//!
//! A tree may be deeper than a process may have files open. So only the innermost handles are
//! kept, and a directory further out is opened again as `..` of the one inside it, if it still is the
//! same directory. If it is another, something was moved meanwhile, and the work stops there.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sandbox_core::file::{Recursion, RemoveReceipt, RemoveRequest};
use sandbox_core::{Ctx, Effect, Error, ErrorKind, Result, Verb};

use super::call::{self, Interrupt};
use super::{Files, lock};
use crate::root::{Fault, Last, Missing};

/// Handles that are kept of a tree.
const HANDLES: usize = 32;
/// How often a directory is gone through again because something was made in it meanwhile.
const ROUNDS: u32 = 16;

impl Files {
    /// See [`Sandbox::remove`](sandbox_core::Sandbox::remove).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove(&self, ctx: &Ctx, request: RemoveRequest) -> Result<RemoveReceipt> {
        let files = self.clone();
        call::blocking(ctx, Verb::Remove, Interrupt::Await, move |ctx| {
            files.remove_now(&ctx, &request)
        })
        .await
    }

    fn remove_now(&self, ctx: &Ctx, request: &RemoveRequest) -> Result<RemoveReceipt> {
        let refused = |fault: Fault| fault.on(Verb::Remove, &request.path);
        let entry = match self
            .roots
            .find_entry(&request.path, Last::Keep, Missing::Fail)
        {
            Err(Fault::Os(Errno::NOENT)) => {
                return Ok(RemoveReceipt {
                    existed: false,
                    entries: 0,
                });
            }
            entry => entry.map_err(refused)?,
        };
        if self.roots.holds_a_root(&entry.real) {
            return Err(refused(Fault::IsRoot));
        }
        let _held = lock::hold([&entry]);
        let Some(stat) = entry.stat().map_err(refused)? else {
            return Ok(RemoveReceipt {
                existed: false,
                entries: 0,
            });
        };
        entry.root.writable().map_err(refused)?;
        let mut removal = Removal { ctx, removed: 0 };
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let result = match (directory, request.recursion) {
            (true, Recursion::Yes) => removal.tree(entry.dir(), entry.name()),
            (true, Recursion::No) => removal.unlink(entry.dir(), entry.name(), AtFlags::REMOVEDIR),
            (false, _) => removal.unlink(entry.dir(), entry.name(), AtFlags::empty()),
        };
        let removed = removal.removed;
        match result {
            Ok(()) => Ok(RemoveReceipt {
                existed: removed > 0,
                entries: removed,
            }),
            Err(stop) => {
                let error = match stop {
                    Stop::Fault(fault) => refused(fault),
                    Stop::Interrupted(error) => error.on(&request.path),
                };
                if removed == 0 {
                    return Err(error);
                }
                let detail = error.detail_text().to_owned();
                Err(error.with_effect(Effect::Unknown).detail(format_args!(
                    "{removed} entries in it are removed already; {detail}"
                )))
            }
        }
    }
}

/// Why a removal ended early.
enum Stop {
    Fault(Fault),
    Interrupted(Error),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Fault(errno.into())
    }
}

struct Removal<'a> {
    ctx: &'a Ctx,
    removed: u64,
}

/// A directory that is being emptied.
struct Level {
    /// Its handle; closed while the work is far inside.
    dir: Option<OwnedFd>,
    id: (u64, u64),
    /// Its name in the level above.
    name: CString,
    /// Directories in it that are not removed yet.
    inside: Vec<CString>,
    rounds: u32,
}

impl Removal<'_> {
    fn unlink(
        &mut self,
        dir: BorrowedFd<'_>,
        name: impl rustix::path::Arg,
        flags: AtFlags,
    ) -> std::result::Result<(), Stop> {
        match rustix::fs::unlinkat(dir, name, flags) {
            Ok(()) => {
                self.removed += 1;
                Ok(())
            }
            // Somebody else removed it, which is what was wanted.
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn tree(&mut self, top: BorrowedFd<'_>, name: &OsStr) -> std::result::Result<(), Stop> {
        let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
        let Some(first) = self.enter(top, name.clone())? else {
            return match self.unlink(top, &name, AtFlags::empty()) {
                // Somebody made it again as a directory after it had gone.
                Err(Stop::Fault(Fault::Os(Errno::ISDIR))) => Err(Errno::NOTEMPTY.into()),
                result => result,
            };
        };
        let mut levels = vec![first];
        while let Some(level) = levels.last_mut() {
            call::check(self.ctx, Verb::Remove).map_err(Stop::Interrupted)?;
            let Some(dir) = &level.dir else {
                return Err(moved());
            };
            if let Some(name) = level.inside.pop() {
                match self.enter(dir.as_fd(), name.clone())? {
                    Some(inner) => {
                        levels.push(inner);
                        if let Some(far) = levels.len().checked_sub(HANDLES + 1) {
                            levels[far].dir = None;
                        }
                    }
                    None => match self.unlink(dir.as_fd(), &name, AtFlags::empty()) {
                        // Somebody made it again as a directory. It keeps this level from going,
                        // which is then gone through once more.
                        Err(Stop::Fault(Fault::Os(Errno::ISDIR))) => {}
                        result => result?,
                    },
                }
                continue;
            }
            let Some(done) = levels.pop() else { break };
            let handle = done.dir.as_ref().ok_or_else(moved)?;
            let above = match levels.last_mut() {
                None => top,
                Some(above) => {
                    if above.dir.is_none() {
                        above.dir = Some(reopen_above(handle.as_fd(), above.id)?);
                    }
                    above.dir.as_ref().ok_or_else(moved)?.as_fd()
                }
            };
            match self.unlink(above, &done.name, AtFlags::REMOVEDIR) {
                // Something was made in it after it was gone through.
                Err(Stop::Fault(Fault::Os(Errno::NOTEMPTY | Errno::EXIST)))
                    if done.rounds < ROUNDS =>
                {
                    if let Some(again) = self.enter(above, done.name)? {
                        levels.push(Level {
                            rounds: done.rounds + 1,
                            ..again
                        });
                    }
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Opens a directory and removes everything in it but directories; `None` if it is no directory any more.
    fn enter(
        &mut self,
        above: BorrowedFd<'_>,
        name: CString,
    ) -> std::result::Result<Option<Level>, Stop> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::openat(above, &name, flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            // Gone already: to unlink it will find the same and count nothing.
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&dir)?;
        let mut inside = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dot(name) {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                inside.push(name.to_owned());
                continue;
            }
            match self.unlink(dir.as_fd(), name, AtFlags::empty()) {
                // Not every file system says what an entry is.
                Err(Stop::Fault(Fault::Os(Errno::ISDIR))) => inside.push(name.to_owned()),
                result => result?,
            }
        }
        Ok(Some(Level {
            dir: Some(dir),
            id: (stat.st_dev, stat.st_ino),
            name,
            inside,
            rounds: 0,
        }))
    }
}

/// Opens the directory above `inner`, if it is the one that is meant.
fn reopen_above(inner: BorrowedFd<'_>, id: (u64, u64)) -> std::result::Result<OwnedFd, Stop> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(inner, "..", flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&dir)?;
    if (stat.st_dev, stat.st_ino) == id {
        Ok(dir)
    } else {
        Err(moved())
    }
}

fn moved() -> Stop {
    Stop::Fault(Fault::Other(
        ErrorKind::Conflict,
        "a directory in it was moved meanwhile; look at what is left and try again".into(),
    ))
}

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

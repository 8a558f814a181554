//! Changes that leave content alone: directories, renames, links, permission bits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use cap_std::fs::{Dir, Permissions};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use sandbox_core::file::{Durability, Existing, WriteReceipt};
use sandbox_core::{Effect, ErrorKind, SandboxPath};

use super::write::Failure;
use super::{Files, lock, stage};
use crate::root::{Entry, Fault, Found, Last, Missing, kind_name, make_directory};

impl Files {
    /// Makes a directory with its parents.
    pub(super) fn make_directory(
        &self,
        path: &SandboxPath,
        mode: Option<u32>,
        durability: Durability,
    ) -> Result<WriteReceipt, Failure> {
        let entry = match self.roots.find(path, Last::Follow, Missing::Make(mode))? {
            Found::Directory { .. } => return Ok(receipt(true, 0)),
            Found::Entry(entry) => entry,
        };
        let _held = lock::hold([&entry]);
        if let Some(stat) = entry.stat()? {
            return is_directory(&stat);
        }
        entry.root.writable()?;
        if !make_directory(entry.dir(), entry.name(), mode)? {
            // Somebody else was faster.
            return entry
                .stat()?
                .map_or_else(|| Err(Errno::NOENT.into()), |stat| is_directory(&stat));
        }
        if durability == Durability::Durable {
            stage::sync_file_system(entry.dir()).map_err(Failure::after)?;
        }
        Ok(receipt(false, 0))
    }

    /// Renames an entry within its root.
    pub(super) fn rename(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        existing: Existing,
        durability: Durability,
    ) -> Result<WriteReceipt, Failure> {
        let from = self.roots.find_entry(from, Last::Keep, Missing::Fail)?;
        let to = self
            .roots
            .find_entry(to, Last::Keep, Missing::Fail)
            .map_err(|fault| match fault {
                Fault::Os(Errno::NOENT) => Failure::new(
                    ErrorKind::NotFound,
                    format!("the directory of the new name {to} is missing; make it first"),
                ),
                fault => fault.into(),
            })?;
        if !std::ptr::eq(from.root, to.root) {
            return Err(Failure::new(
                ErrorKind::InvalidArgument,
                "the two names lie in different roots; write the new one and remove the old",
            ));
        }
        from.root.writable()?;
        if self.roots.holds_a_root(&from.real) || self.roots.holds_a_root(&to.real) {
            return Err(Fault::IsRoot.into());
        }
        let _held = lock::hold([&from, &to]);
        let Some(stat) = from.stat()? else {
            return Err(Errno::NOENT.into());
        };
        let existed = to.stat()?.is_some();
        match existing {
            Existing::Keep => rename_keeping(&from, &to, &stat)?,
            Existing::Replace => {
                rustix::fs::renameat(from.dir(), from.name(), to.dir(), to.name())
                    .map_err(Failure::publishing)?;
            }
        }
        if durability == Durability::Durable {
            stage::sync_directory(to.dir()).map_err(Failure::after)?;
            if from.dir_id != to.dir_id {
                stage::sync_directory(from.dir()).map_err(Failure::after)?;
            }
        }
        Ok(receipt(existed, size(&stat)))
    }

    /// Sets permission bits.
    pub(super) fn set_mode(
        &self,
        path: &SandboxPath,
        mode: u32,
        durability: Durability,
    ) -> Result<WriteReceipt, Failure> {
        let entry = match self.roots.find(path, Last::Follow, Missing::Fail)? {
            Found::Directory { .. } => return Err(Fault::IsRoot.into()),
            Found::Entry(entry) => entry,
        };
        let _held = lock::hold([&entry]);
        let Some(stat) = entry.stat()? else {
            return Err(Errno::NOENT.into());
        };
        entry.root.writable()?;
        // The sticky and set-group bits of a directory say who owns what is made in it. They are
        // nobody's privilege, and numbers up to 0777 do not speak of them.
        let special = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => stat.st_mode & 0o7000,
            _ => 0,
        };
        change_mode(&entry, mode | special)?;
        if durability == Durability::Durable {
            stage::sync_file_system(entry.dir()).map_err(Failure::after)?;
        }
        Ok(receipt(true, size(&stat)))
    }

    /// Makes a symbolic link.
    pub(super) fn link(
        &self,
        path: &SandboxPath,
        target: &[u8],
        durability: Durability,
    ) -> Result<WriteReceipt, Failure> {
        let entry = self.roots.find_entry(path, Last::Keep, Missing::Fail)?;
        entry.root.writable()?;
        let _held = lock::hold([&entry]);
        rustix::fs::symlinkat(OsStr::from_bytes(target), entry.dir(), entry.name())
            .map_err(Failure::publishing)?;
        if durability == Durability::Durable {
            stage::sync_directory(entry.dir()).map_err(Failure::after)?;
        }
        Ok(receipt(false, 0))
    }
}

fn receipt(existed: bool, bytes: u64) -> WriteReceipt {
    WriteReceipt {
        existed,
        bytes,
        line_delta: 0,
        digest: None,
        replaced: 0,
    }
}

fn size(stat: &Stat) -> u64 {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
        _ => 0,
    }
}

fn is_directory(stat: &Stat) -> Result<WriteReceipt, Failure> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(receipt(true, 0)),
        other => Err(Failure::new(
            ErrorKind::NotADirectory,
            format!("{} has this name", kind_name(other)),
        )),
    }
}

/// Renames where nothing may be at the new name.
fn rename_keeping(from: &Entry<'_>, to: &Entry<'_>, stat: &Stat) -> Result<(), Failure> {
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(from.dir(), from.name(), to.dir(), to.name(), flags) {
        Err(Errno::INVAL | Errno::NOSYS) => {}
        done => return done.map_err(Failure::publishing),
    }
    // A file system without such a rename, or a directory into itself. An empty directory or a link can
    // be made where nothing is in one step too, and each of the two can then be replaced by what moves.
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        rustix::fs::mkdirat(to.dir(), to.name(), Mode::RWXU).map_err(Failure::publishing)?;
        let moved = rustix::fs::renameat(from.dir(), from.name(), to.dir(), to.name());
        if moved.is_err() {
            // Only an empty directory goes this way, which is what was made.
            let _ = rustix::fs::unlinkat(to.dir(), to.name(), AtFlags::REMOVEDIR);
        }
        return moved.map_err(Failure::publishing);
    }
    rustix::fs::linkat(
        from.dir(),
        from.name(),
        to.dir(),
        to.name(),
        AtFlags::empty(),
    )
    .map_err(Failure::publishing)?;
    rustix::fs::unlinkat(from.dir(), from.name(), AtFlags::empty()).map_err(|errno| Failure {
        effect: Effect::Unknown,
        ..errno.into()
    })
}

/// Changes permission bits without ever following a link out of the entry's directory.
fn change_mode(entry: &Entry<'_>, mode: u32) -> Result<(), Failure> {
    let dir = Dir::from_std_file(
        entry
            .dir()
            .try_clone_to_owned()
            .map_err(|error| failure(&error))?
            .into(),
    );
    match dir.set_permissions(
        entry.name(),
        Permissions::from_std(std::fs::Permissions::from_mode(mode)),
    ) {
        Ok(()) => return Ok(()),
        // Without `/proc` the mode of something can be changed only once it is open.
        Err(_) if !std::path::Path::new("/proc/self/fd").is_dir() => {}
        Err(error) => return Err(failure(&error)),
    }
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(entry.dir(), entry.name(), flags, Mode::empty())?;
    Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?)
}

fn failure(error: &std::io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(errno) => errno.into(),
        // Made by the library itself, for a link that leaves the directory.
        None => Fault::Outside { link: None }.into(),
    }
}

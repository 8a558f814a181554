//! The roots of a sandbox: which directories its verbs reach, and how a path is opened beneath one.
//!
//! A root is a directory handle with the prefix under which it is seen and whether it may be
//! changed. The first is the workspace. Containment is a matter of handles, never of comparing
//! texts: the kernel resolves beneath a handle (`openat2` with `RESOLVE_BENEATH`), and where it will
//! not, because a link leaves or the call is filtered, `walk` opens one component after the other
//! without following and decides every link itself.
//!
//! **Invariants.**
//! - Nothing is opened by a path from `/` once the table stands.
//! - A link leads into a root or nowhere; the error names its text.
//! - A file is opened for reading only after it was seen to be a regular file, and is looked at
//!   again once open. So a FIFO neither blocks a read nor notices it.
//! - procfs and sysfs are refused: there a path names the engine itself.
//!
//! Not here: what is done with what was opened (`file`).

mod fault;
mod open;
mod tree;
mod walk;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sandbox_core::{Error, ErrorKind, MountAccess, Result, SandboxPath, Verb};

pub(crate) use fault::{Fault, Outcome, os_error};
pub(crate) use open::{Cached, Near, Opened, check_access, is_kernel_files, kind_name, open_entry};
pub(crate) use tree::Destination;
pub(crate) use walk::{Entry, Found, Last, Missing, make_directory, read_link};

/// The roots of one sandbox. See the [module](self).
#[derive(Debug)]
pub struct Roots {
    table: Vec<Root>,
    /// Further prefixes under which a root is known.
    aliases: Vec<(SandboxPath, usize)>,
}

/// One root.
#[derive(Debug)]
pub(crate) struct Root {
    prefix: SandboxPath,
    dir: OwnedFd,
    dev: u64,
    access: MountAccess,
    /// Another root lies beneath this one, so that a resolution by the kernel could enter it
    /// under the wrong access.
    holds_another: bool,
}

impl Roots {
    /// A table with the workspace alone.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NotADirectory`, `PermissionDenied` for the directory, on behalf of `acquire`.
    pub fn new(directory: &Path, access: MountAccess) -> Result<Self> {
        let mut roots = Self {
            table: Vec::new(),
            aliases: Vec::new(),
        };
        roots.add(directory, access)?;
        Ok(roots)
    }

    /// Adds a root. It is known by its real path and by the path given, if that is absolute. One that
    /// is there already keeps its place and takes the new access.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn add(&mut self, directory: &Path, access: MountAccess) -> Result<()> {
        let named = |error: Error| error.on(directory.display());
        let real = std::fs::canonicalize(directory).map_err(|error| {
            named(match rustix::io::Errno::from_io_error(&error) {
                Some(errno) => os_error(Verb::Acquire, errno),
                None => Error::refused(Verb::Acquire, ErrorKind::Io).caused_by(error),
            })
        })?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || {
            let dir = rustix::fs::open(&real, flags, Mode::empty())?;
            let dev = rustix::fs::fstat(&dir)?.st_dev;
            Ok((dir, dev))
        };
        let (dir, dev) = open().map_err(|errno| named(os_error(Verb::Acquire, errno)))?;
        if open::is_kernel_files(dir.as_fd())
            .map_err(|errno| named(os_error(Verb::Acquire, errno)))?
        {
            return Err(named(
                Error::refused(Verb::Acquire, ErrorKind::InvalidArgument).detail(
                    "it shows the kernel's own state (procfs or sysfs) and cannot be a root",
                ),
            ));
        }
        let prefix = sandbox_path(&real).map_err(named)?;
        let index = match self.table.iter().position(|root| root.prefix == prefix) {
            Some(index) => {
                self.table[index].access = access;
                index
            }
            None => {
                self.table.push(Root {
                    prefix,
                    dir,
                    dev,
                    access,
                    holds_another: false,
                });
                self.table.len() - 1
            }
        };
        if directory.is_absolute()
            && let Ok(alias) = sandbox_path(directory)
            && alias != self.table[index].prefix
        {
            self.aliases.push((alias, index));
        }
        let prefixes: Vec<_> = self.table.iter().map(|root| root.prefix.clone()).collect();
        for root in &mut self.table {
            root.holds_another = prefixes
                .iter()
                .any(|other| strip(other, &root.prefix).is_some_and(|rest| !rest.is_empty()));
        }
        Ok(())
    }

    /// The workspace's real path.
    #[must_use]
    pub fn workspace(&self) -> &SandboxPath {
        &self.table[0].prefix
    }

    /// The directories that may be written, by their handles.
    pub(crate) fn writable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.with(MountAccess::ReadWrite).map(Root::fd)
    }

    /// A root that may not be written although it lies beneath one that may, and that one. What keeps
    /// directories from being written may not be able to make such an exception.
    ///
    /// - `also`: directories that may be written and are no roots
    pub(crate) fn exception(&self, also: &[PathBuf]) -> Option<(&SandboxPath, SandboxPath)> {
        let real = |path: &PathBuf| sandbox_path(&std::fs::canonicalize(path).ok()?).ok();
        let also = also.iter().filter_map(real);
        let writable = self.with(MountAccess::ReadWrite);
        let writable: Vec<_> = writable
            .map(|root| root.prefix.clone())
            .chain(also)
            .collect();
        self.with(MountAccess::ReadOnly).find_map(|inner| {
            let above = |outer: &&SandboxPath| strip(&inner.prefix, outer).is_some();
            let outer = writable.iter().find(above)?;
            Some((&inner.prefix, outer.clone()))
        })
    }

    /// Whether a directory lies in a root that may be written, as far as its real path can be told.
    pub(crate) fn has_writable(&self, directory: &Path) -> bool {
        let real = std::fs::canonicalize(directory)
            .ok()
            .and_then(|real| sandbox_path(&real).ok());
        real.and_then(|real| self.locate(&real).ok())
            .is_some_and(|(index, _)| self.root(index).access == MountAccess::ReadWrite)
    }

    fn with(&self, access: MountAccess) -> impl Iterator<Item = &Root> {
        self.table.iter().filter(move |root| root.access == access)
    }

    /// Opens a directory to start a program in.
    ///
    /// # Errors
    ///
    /// On behalf of `verb`, without effect: `NotFound`, `NotADirectory`, `OutsideRoot`, `PermissionDenied`.
    pub fn open_dir(&self, verb: Verb, path: &SandboxPath) -> Result<OwnedFd> {
        self.directory(path).map_err(|fault| fault.on(verb, path))
    }

    fn root(&self, index: usize) -> &Root {
        &self.table[index]
    }

    /// The root that holds a path, and the rest of the path beneath it.
    fn locate(&self, path: &SandboxPath) -> Outcome<(usize, Vec<u8>)> {
        if !path.is_absolute() {
            if !self.table[0].holds_another {
                return Ok((0, path.as_bytes().to_vec()));
            }
            let whole = join(&self.table[0].prefix, path.as_bytes());
            return self.longest(&whole).ok_or(Fault::Outside { link: None });
        }
        self.longest(path.as_bytes())
            .ok_or(Fault::Outside { link: None })
    }

    fn longest(&self, path: &[u8]) -> Option<(usize, Vec<u8>)> {
        let own = self
            .table
            .iter()
            .enumerate()
            .map(|(index, root)| (&root.prefix, index));
        let others = self.aliases.iter().map(|(alias, index)| (alias, *index));
        own.chain(others)
            .filter_map(|(prefix, index)| Some((index, strip_bytes(path, prefix)?)))
            .min_by_key(|(_, rest)| rest.len())
            .map(|(index, rest)| (index, rest.to_vec()))
    }

    /// Whether a root other than `index` lies at or beneath `path`, given from `/`.
    pub(crate) fn holds_a_root(&self, path: &[u8]) -> bool {
        SandboxPath::parse(path).is_ok_and(|path| {
            self.table
                .iter()
                .any(|root| strip(&root.prefix, &path).is_some())
        })
    }
}

impl Root {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    pub(crate) fn writable(&self) -> Outcome<()> {
        match self.access {
            MountAccess::ReadWrite => Ok(()),
            MountAccess::ReadOnly => Err(Fault::ReadOnly {
                root: self.prefix.clone(),
            }),
        }
    }
}

/// A host path that is absolute, as the sandbox path that is spelled the same.
fn sandbox_path(path: &Path) -> Result<SandboxPath> {
    SandboxPath::parse(path.as_os_str().as_bytes())
        .map_err(|error| Error::refused(Verb::Acquire, ErrorKind::InvalidArgument).detail(error))
}

/// What is left of `path` beneath `prefix`, by component.
fn strip<'a>(path: &'a SandboxPath, prefix: &SandboxPath) -> Option<&'a [u8]> {
    strip_bytes(path.as_bytes(), prefix)
}

fn strip_bytes<'a>(path: &'a [u8], prefix: &SandboxPath) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(prefix.as_bytes())?;
    match rest.first() {
        None => Some(rest),
        Some(b'/') => Some(&rest[1..]),
        // `/` is the one prefix that ends in a slash of its own.
        Some(_) if prefix.as_bytes() == b"/" => Some(rest),
        Some(_) => None,
    }
}

/// `prefix` and then `rest`.
fn join(prefix: &SandboxPath, rest: &[u8]) -> Vec<u8> {
    let mut whole = prefix.as_bytes().to_vec();
    if !rest.is_empty() {
        if whole.last() != Some(&b'/') {
            whole.push(b'/');
        }
        whole.extend_from_slice(rest);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SandboxPath {
        SandboxPath::parse(text).expect("valid")
    }

    #[test]
    fn prefixes_are_compared_by_component_not_by_text() {
        assert_eq!(
            strip(&path("/base/safe/x"), &path("/base/safe")),
            Some(&b"x"[..])
        );
        assert_eq!(
            strip(&path("/base/safe"), &path("/base/safe")),
            Some(&b""[..])
        );
        assert_eq!(strip(&path("/base/safe-evil/x"), &path("/base/safe")), None);
        assert_eq!(strip(&path("/etc/x"), &path("/")), Some(&b"etc/x"[..]));
        assert_eq!(join(&path("/"), b"etc"), b"/etc");
        assert_eq!(join(&path("/a"), b""), b"/a");
    }
}

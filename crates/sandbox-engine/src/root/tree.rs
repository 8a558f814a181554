//! Directories that whole trees are put into, taken from and walked in.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use sandbox_core::SandboxPath;

use super::walk::{Found, Last, Missing};
use super::{Fault, Outcome, Root, Roots, open};

const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Where a tree goes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// Into this directory, open for listing.
    There(OwnedFd),
    /// Into this directory, under a name that nothing has; further names are directories in one another.
    New {
        parent: OwnedFd,
        names: Vec<OsString>,
    },
}

/// Where a walk begins.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    root: &'a Root,
    base: Option<OwnedFd>,
    /// The way from there, without links.
    pub(crate) below: Vec<u8>,
}

impl Place<'_> {
    /// The directory that nothing outside of is looked at.
    pub(crate) fn base(&self) -> BorrowedFd<'_> {
        self.base
            .as_ref()
            .map_or_else(|| self.root.fd(), AsFd::as_fd)
    }
}

/// Where a tree comes from.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The root it lies in, as a place.
    pub(crate) root: OwnedFd,
    /// Where it lies in that root, without links; empty for the root itself.
    pub(crate) below: Vec<u8>,
    /// The directory, open for listing.
    pub(crate) dir: OwnedFd,
}

impl Roots {
    /// Where a tree for `path` goes. Nothing is made.
    pub(crate) fn destination(&self, path: &SandboxPath) -> Outcome<Destination> {
        let mut names = Vec::new();
        let mut path = path.clone();
        loop {
            match self.find(&path, Last::Follow, Missing::Fail) {
                Ok(Found::Directory { root, dir }) => {
                    root.writable()?;
                    let dir = list(
                        dir.as_ref().map_or_else(|| root.fd(), AsFd::as_fd),
                        OsStr::new("."),
                        root,
                    )?;
                    return Ok(there(dir, names));
                }
                Ok(Found::Entry(entry)) => {
                    entry.root.writable()?;
                    let Some(stat) = entry.stat()? else {
                        names.push(entry.name().to_owned());
                        let parent = list(entry.dir(), OsStr::new("."), entry.root)?;
                        return Ok(there(parent, names));
                    };
                    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                        return Err(Errno::NOTDIR.into());
                    }
                    let dir = list(entry.dir(), entry.name(), entry.root)?;
                    return Ok(there(dir, names));
                }
                Err(Fault::Os(Errno::NOENT)) => {
                    let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
                        return Err(Errno::NOENT.into());
                    };
                    names.push(OsString::from_vec(name.to_vec()));
                    path = parent;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Where a tree begins that is to be walked: a root, and the way from it without links.
    pub(crate) fn place(&self, path: &SandboxPath) -> Outcome<Place<'_>> {
        let (index, rest) = self.locate(path)?;
        let found = if rest.is_empty() {
            Found::Directory {
                root: self.root(index),
                dir: None,
            }
        } else {
            self.walk(index, &rest, Last::Follow, Missing::Fail)?
        };
        match found {
            Found::Directory { root, dir } => Ok(Place {
                root,
                // The text of a link ended in `..`: what lies above is not known by name.
                base: dir,
                below: Vec::new(),
            }),
            Found::Entry(entry) => Ok(Place {
                below: entry.below(),
                root: entry.root,
                base: None,
            }),
        }
    }

    /// Opens the directory that a tree is taken from.
    pub(crate) fn origin(&self, path: &SandboxPath) -> Outcome<Origin> {
        let (index, rest) = self.locate(path)?;
        // By hand, because what is wanted is the way without links.
        let found = self.walk(index, &rest, Last::Follow, Missing::Fail)?;
        let (root, below, dir) = match found {
            Found::Directory { root, dir: None } => {
                (root, Vec::new(), list(root.fd(), OsStr::new("."), root)?)
            }
            Found::Directory {
                root,
                dir: Some(dir),
            } => {
                // A link such as `..` led here, and its way from the root is not known: it counts as one.
                let dir = list(dir.as_fd(), OsStr::new("."), root)?;
                return Ok(Origin {
                    root: rustix::io::fcntl_dupfd_cloexec(&dir, 3)?,
                    below: Vec::new(),
                    dir,
                });
            }
            Found::Entry(entry) => {
                let dir = list(entry.dir(), entry.name(), entry.root)?;
                (entry.root, entry.below(), dir)
            }
        };
        Ok(Origin {
            root: rustix::io::fcntl_dupfd_cloexec(root.fd(), 3)?,
            below,
            dir,
        })
    }
}

fn there(dir: OwnedFd, mut names: Vec<OsString>) -> Destination {
    if names.is_empty() {
        return Destination::There(dir);
    }
    names.reverse();
    Destination::New { parent: dir, names }
}

fn list(above: BorrowedFd<'_>, name: &OsStr, root: &Root) -> Outcome<OwnedFd> {
    let flags = if name.as_bytes() == b"." {
        LIST
    } else {
        LIST | OFlags::NOFOLLOW
    };
    let dir = rustix::fs::openat(above, name, flags, Mode::empty())?;
    open::refuse_kernel_files(dir.as_fd(), &rustix::fs::fstat(&dir)?, root)?;
    Ok(dir)
}

//! Directories of a walk: how they are reached again, and how few are kept open.
//!
//! A directory knows its parent and its name; the text of its path is made when it is needed. While
//! something in it is still to be done it keeps its descriptor, if the walk may have that many open.
//! Otherwise it is opened again: by way of `..` from one that lies in it, if that leads to the very same
//! directory, or from the nearest one further out that is open, by its names and without following a link. So depth costs neither descriptors nor memory that grows with its square.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A directory, and never what a link leads to.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Descriptors that a thread has beyond those that count.
const RECENT: usize = 3;
/// Longest path that one call of the kernel resolves, with its end.
#[cfg(target_os = "linux")]
const MAX_CALL: usize = 4095;

/// A directory of the tree.
#[derive(Debug)]
pub(super) struct Directory {
    parent: Option<Arc<Directory>>,
    name: Box<CStr>,
    /// Levels below the scope's root; that itself is 0.
    pub(super) depth: u32,
    /// Bytes of its path, with the slash at its end.
    length: usize,
    /// Device and inode, once it was opened.
    identity: OnceLock<(u64, u64)>,
    kept: OnceLock<Kept>,
}

/// A descriptor that counts.
#[derive(Debug)]
struct Kept {
    fd: OwnedFd,
    budget: Option<Arc<Budget>>,
}

/// How many descriptors may still be kept.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(most)))
    }

    fn take(self: &Arc<Self>) -> Option<Arc<Self>> {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .ok()
            .map(|_| Arc::clone(self))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Directory {
    /// The scope's root, which stays open.
    pub(super) fn root(fd: OwnedFd) -> Arc<Self> {
        let root = Self {
            parent: None,
            name: Box::from(c"."),
            depth: 0,
            length: 0,
            identity: OnceLock::new(),
            kept: OnceLock::new(),
        };
        let _ = root.kept.set(Kept { fd, budget: None });
        Arc::new(root)
    }

    pub(super) fn child(parent: &Arc<Self>, name: Box<CStr>) -> Arc<Self> {
        Arc::new(Self {
            parent: Some(Arc::clone(parent)),
            length: parent.length + name.to_bytes().len() + 1,
            name,
            depth: parent.depth.saturating_add(1),
            identity: OnceLock::new(),
            kept: OnceLock::new(),
        })
    }

    /// The file system it lies on, once it was opened; `None` for the root.
    pub(super) fn device(&self) -> Option<u64> {
        self.identity.get().map(|(device, _)| *device)
    }

    /// Makes `path`, which from byte `start` on is that of `from`, the path of this directory: below the
    /// scope's root, with a slash at its end. Costs what the two do not have in common.
    pub(super) fn path(&self, from: &Self, path: &mut Vec<u8>, start: usize) {
        let (mut a, mut b) = (from, self);
        while !std::ptr::eq(a, b) {
            let (depth_a, depth_b) = (a.depth, b.depth);
            if depth_a >= depth_b
                && let Some(parent) = &a.parent
            {
                a = parent;
            }
            if depth_b >= depth_a {
                match &b.parent {
                    Some(parent) => b = parent,
                    None => break,
                }
            }
        }
        path.truncate(start + a.length);
        path.resize(start + self.length, b'/');
        let mut directory = self;
        while !std::ptr::eq(directory, a) {
            let Some(parent) = &directory.parent else {
                break;
            };
            let name = directory.name.to_bytes();
            let at = start + parent.length;
            path[at..at + name.len()].copy_from_slice(name);
            directory = parent;
        }
    }
}

impl Drop for Directory {
    /// One after the other: a tree may be deeper than the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut directory) = next.and_then(Arc::into_inner) {
            next = directory.parent.take();
        }
    }
}

/// Opens directories on behalf of one thread.
#[derive(Debug)]
pub(super) struct Opener {
    budget: Arc<Budget>,
    /// Directories opened last that could not keep their descriptors, the latest at the end: what comes
    /// next most often lies in one of them.
    last: Vec<(Arc<Directory>, OwnedFd)>,
}

impl Opener {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            last: Vec::with_capacity(RECENT),
        }
    }

    /// A descriptor of the directory.
    pub(super) fn open<'a>(
        &'a mut self,
        directory: &'a Arc<Directory>,
    ) -> Result<BorrowedFd<'a>, Errno> {
        if self.known(directory).is_none() {
            let fd = self.reach(directory)?;
            let stat = rustix::fs::fstat(&fd)?;
            let _ = directory.identity.set((stat.st_dev, stat.st_ino));
            match self.budget.take() {
                Some(budget) => {
                    // Another thread that was faster keeps its own.
                    let _ = directory.kept.set(Kept {
                        fd,
                        budget: Some(budget),
                    });
                }
                None => self.remember(directory, fd),
            }
        }
        self.known(directory).ok_or(Errno::BADF)
    }

    fn remember(&mut self, directory: &Arc<Directory>, fd: OwnedFd) {
        if self.last.len() == RECENT {
            self.last.remove(0);
        }
        self.last.push((Arc::clone(directory), fd));
    }

    fn known<'a>(&'a self, directory: &'a Arc<Directory>) -> Option<BorrowedFd<'a>> {
        if let Some(kept) = directory.kept.get() {
            return Some(kept.fd.as_fd());
        }
        let mut last = self.last.iter().rev();
        last.find(|(last, _)| Arc::ptr_eq(last, directory))
            .map(|(_, fd)| fd.as_fd())
    }

    fn reach(&mut self, directory: &Arc<Directory>) -> Result<OwnedFd, Errno> {
        let parent = directory.parent.as_ref().ok_or(Errno::BADF)?;
        if self.known(parent).is_none() {
            let fd = match self.up(parent) {
                Some(fd) => fd,
                None => self.down(parent)?,
            };
            self.remember(parent, fd);
        }
        let parent = self.known(parent).ok_or(Errno::BADF)?;
        rustix::fs::openat(parent, &*directory.name, DIRECTORY, Mode::empty())
    }

    /// Opens a directory from one that lies in it, if what is there is still the same.
    fn up(&self, directory: &Arc<Directory>) -> Option<OwnedFd> {
        let identity = directory.identity.get()?;
        let within = |(inner, _): &&(Arc<Directory>, OwnedFd)| {
            let parent = inner.parent.as_ref();
            parent.is_some_and(|parent| Arc::ptr_eq(parent, directory))
        };
        let (_, inner) = self.last.iter().rev().find(within)?;
        let fd = rustix::fs::openat(inner, c"..", DIRECTORY, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        ((stat.st_dev, stat.st_ino) == *identity).then_some(fd)
    }

    /// Opens a directory from the nearest one further out that is open.
    fn down(&self, directory: &Arc<Directory>) -> Result<OwnedFd, Errno> {
        let mut names = vec![&*directory.name];
        let mut at = directory;
        loop {
            at = at.parent.as_ref().ok_or(Errno::BADF)?;
            if let Some(fd) = self.known(at) {
                names.reverse();
                return descend(fd, &names);
            }
            names.push(&at.name);
        }
    }
}

/// Opens what the names lead to, none of them a link.
fn descend(from: BorrowedFd<'_>, names: &[&CStr]) -> Result<OwnedFd, Errno> {
    if let [name] = names {
        return rustix::fs::openat(from, *name, DIRECTORY, Mode::empty());
    }
    #[cfg(target_os = "linux")]
    match descend_fast(from, names) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
        result => return result,
    }
    let mut fd: Option<OwnedFd> = None;
    for name in names {
        let at = fd.as_ref().map_or(from, AsFd::as_fd);
        fd = Some(rustix::fs::openat(at, *name, DIRECTORY, Mode::empty())?);
    }
    fd.ok_or(Errno::NOENT)
}

/// As many names in one call as it takes.
#[cfg(target_os = "linux")]
fn descend_fast(from: BorrowedFd<'_>, names: &[&CStr]) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let mut fd: Option<OwnedFd> = None;
    let mut path = Vec::new();
    let mut names = names.iter().peekable();
    while let Some(name) = names.next() {
        path.extend_from_slice(name.to_bytes());
        let next = names.peek().map_or(MAX_CALL, |next| next.to_bytes().len());
        if path.len() + 1 + next < MAX_CALL {
            path.push(b'/');
            continue;
        }
        let at = fd.as_ref().map_or(from, AsFd::as_fd);
        let path_here = OsStr::from_bytes(&path);
        fd = Some(rustix::fs::openat2(
            at,
            path_here,
            DIRECTORY,
            Mode::empty(),
            resolve,
        )?);
        path.clear();
    }
    fd.ok_or(Errno::NOENT)
}

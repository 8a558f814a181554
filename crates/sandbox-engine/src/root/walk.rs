//! Resolution by hand: one component at a time, every link decided here.
//!
//! Slower than the kernel's own resolution and used where that says no: a link that is absolute or
//! leaves its root (it may lead into another), a root with another one beneath, a kernel without
//! `openat2`, directories that are to be made on the way.
//!
//! Each component is opened with `O_NOFOLLOW` relative to the one before, so a component that is
//! swapped for a link meanwhile is seen as a link. `..` comes only from the texts of links. It
//! goes up by opening the remaining components from the root again: the kernel's own `..` would
//! lead to wherever the directory has been moved.
//!
//! **Invariant:** between roots, while a text such as `../../other` is followed, no directory is
//! opened at all. The prefixes of roots are real paths, so comparing components decides.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use sandbox_core::SandboxPath;

use super::{Fault, Outcome, Root, Roots, join, open};

/// Links followed before a path is refused; the kernel's own number.
const MAX_LINKS: u32 = 40;
/// How often a walk starts again because a component changed under it.
const RETRIES: u32 = 8;

/// What is done with a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It is followed.
    Follow,
    /// It is meant itself.
    Keep,
}

/// What is done where a directory on the way is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The walk fails.
    Fail,
    /// It is made, with these permission bits if given, and 0755 less the umask otherwise.
    Make(Option<u32>),
}

/// A name in a directory of a root: where something is or could be made.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// The root that holds it.
    pub(crate) root: &'a Root,
    dir: Option<OwnedFd>,
    name: Vec<u8>,
    /// Device and inode of the directory: the same for every path that leads here.
    pub(crate) dir_id: (u64, u64),
    /// Where it is, from `/`, without links.
    pub(crate) real: Vec<u8>,
}

impl Entry<'_> {
    /// The way to it from its root, without links.
    pub(crate) fn below(&self) -> Vec<u8> {
        let below = super::strip_bytes(&self.real, &self.root.prefix);
        below.unwrap_or_default().to_vec()
    }

    /// The directory, opened as a place only.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir
            .as_ref()
            .map_or_else(|| self.root.fd(), AsFd::as_fd)
    }

    /// The name in it.
    pub(crate) fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    /// What has the name now; a link is looked at itself.
    pub(crate) fn stat(&self) -> Outcome<Option<rustix::fs::Stat>> {
        match rustix::fs::statat(self.dir(), self.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A name in a directory.
    Entry(Entry<'a>),
    /// A directory that the path names without a last component: a root, or where a link such as `..` leads.
    Directory {
        root: &'a Root,
        dir: Option<OwnedFd>,
    },
}

impl Roots {
    /// Where a path leads, by the kernel if it can and by hand otherwise.
    pub(crate) fn find(
        &self,
        path: &SandboxPath,
        last: Last,
        missing: Missing,
    ) -> Outcome<Found<'_>> {
        let (index, rest) = self.locate(path)?;
        let root = self.root(index);
        if rest.is_empty() {
            return Ok(Found::Directory { root, dir: None });
        }
        if !root.holds_another {
            let (parent, name) = match rest.iter().rposition(|&byte| byte == b'/') {
                Some(slash) => (&rest[..slash], &rest[slash + 1..]),
                None => (&b""[..], &rest[..]),
            };
            let dir = if parent.is_empty() {
                Ok(None)
            } else {
                open::beneath(root, parent, open::DIRECTORY, open::Cached::No).map(Some)
            };
            match dir {
                Ok(dir) => {
                    let entry = self.entry(root, dir, name.to_vec(), join(&root.prefix, &rest))?;
                    if last == Last::Keep || read_link(&entry)?.is_none() {
                        return Ok(Found::Entry(entry));
                    }
                }
                Err(errno) if open::wants_a_walk(errno) => {}
                Err(Errno::NOENT) if missing != Missing::Fail => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.walk(index, &rest, last, missing)
    }

    /// As [`find`](Self::find), where a directory without a name is not what is meant.
    pub(crate) fn find_entry(
        &self,
        path: &SandboxPath,
        last: Last,
        missing: Missing,
    ) -> Outcome<Entry<'_>> {
        match self.find(path, last, missing)? {
            Found::Entry(entry) => Ok(entry),
            Found::Directory { .. } => Err(Fault::IsRoot),
        }
    }

    /// Resolves by hand from a root.
    pub(crate) fn walk(
        &self,
        index: usize,
        rest: &[u8],
        last: Last,
        missing: Missing,
    ) -> Outcome<Found<'_>> {
        let mut tries = 0;
        loop {
            let walk = Walk {
                roots: self,
                missing,
                root: index,
                names: Vec::new(),
                current: None,
                between: None,
                pending: components(rest).map(<[u8]>::to_vec).collect(),
                links: 0,
                link: None,
            };
            match walk.run(last) {
                // A component that was a directory is a link now, or the other way round.
                Err(Fault::Os(Errno::LOOP)) if tries < RETRIES => tries += 1,
                result => return result,
            }
        }
    }

    fn entry<'a>(
        &self,
        root: &'a Root,
        dir: Option<OwnedFd>,
        name: Vec<u8>,
        real: Vec<u8>,
    ) -> Outcome<Entry<'a>> {
        let mut entry = Entry {
            root,
            dir,
            name,
            dir_id: (0, 0),
            real,
        };
        let stat = rustix::fs::fstat(entry.dir())?;
        open::refuse_kernel_files(entry.dir(), &stat, root)?;
        entry.dir_id = (stat.st_dev, stat.st_ino);
        Ok(entry)
    }
}

struct Walk<'a> {
    roots: &'a Roots,
    missing: Missing,
    root: usize,
    /// Components below the root that `current` is at.
    names: Vec<Vec<u8>>,
    /// The directory reached; `None` for the root itself.
    current: Option<OwnedFd>,
    /// Components from `/` while the walk is between roots.
    between: Option<Vec<Vec<u8>>>,
    pending: VecDeque<Vec<u8>>,
    links: u32,
    /// The text of the link that was followed last.
    link: Option<Vec<u8>>,
}

impl<'a> Walk<'a> {
    fn run(mut self, last: Last) -> Outcome<Found<'a>> {
        while let Some(component) = self.pending.pop_front() {
            if component == b".." {
                self.up()?;
            } else if self.between.is_some() {
                self.down_between(component)?;
            } else if self.enter_nested(&component) {
                // The next component is beneath another root.
            } else if self.pending.is_empty() {
                let real = self.real(&component);
                let root = self.roots.root(self.root);
                let entry = self
                    .roots
                    .entry(root, self.current.take(), component, real)?;
                if last == Last::Keep {
                    return Ok(Found::Entry(entry));
                }
                match read_link(&entry)? {
                    None => return Ok(Found::Entry(entry)),
                    Some(text) => {
                        self.current = entry.dir;
                        self.follow(text)?;
                    }
                }
            } else {
                self.down(component)?;
            }
        }
        if self.between.is_some() {
            return Err(Fault::Outside { link: self.link });
        }
        Ok(Found::Directory {
            root: self.roots.root(self.root),
            dir: self.current,
        })
    }

    fn dir(&self) -> BorrowedFd<'_> {
        self.current
            .as_ref()
            .map_or_else(|| self.roots.root(self.root).fd(), AsFd::as_fd)
    }

    /// Where `component` would be, from `/`.
    fn real(&self, component: &[u8]) -> Vec<u8> {
        let mut real = self.roots.root(self.root).prefix.as_bytes().to_vec();
        for name in self.names.iter().map(Vec::as_slice).chain([component]) {
            if real.last() != Some(&b'/') {
                real.push(b'/');
            }
            real.extend_from_slice(name);
        }
        real
    }

    fn down(&mut self, component: Vec<u8>) -> Outcome<()> {
        let name = OsStr::from_bytes(&component);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(self.dir(), name, flags, Mode::empty()) {
            Err(Errno::NOENT) if self.missing != Missing::Fail => {
                self.make(name)?;
                rustix::fs::openat(self.dir(), name, flags, Mode::empty())?
            }
            result => result?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.current = Some(fd);
                self.names.push(component);
                Ok(())
            }
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(&fd, "", Vec::new())?;
                self.follow(text.into_bytes())
            }
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn make(&self, name: &OsStr) -> Outcome<()> {
        self.roots.root(self.root).writable()?;
        let Missing::Make(mode) = self.missing else {
            return Err(Errno::NOENT.into());
        };
        make_directory(self.dir(), name, mode).map(drop)
    }

    fn follow(&mut self, text: Vec<u8>) -> Outcome<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Fault::TooManyLinks);
        }
        for component in components(&text).rev() {
            self.pending.push_front(component.to_vec());
        }
        let absolute = text.first() == Some(&b'/');
        self.link = Some(text);
        if absolute {
            self.arrive(Vec::new())
        } else {
            Ok(())
        }
    }

    fn up(&mut self) -> Outcome<()> {
        if let Some(mut position) = self.between.take() {
            position.pop();
            return self.arrive(position);
        }
        if self.names.pop().is_some() {
            return self.reopen();
        }
        let mut position: Vec<_> = self
            .roots
            .root(self.root)
            .prefix
            .components()
            .map(<[u8]>::to_vec)
            .collect();
        position.pop();
        self.arrive(position)
    }

    fn down_between(&mut self, component: Vec<u8>) -> Outcome<()> {
        let mut position = self.between.take().unwrap_or_default();
        position.push(component);
        self.arrive(position)
    }

    /// Stands at `position`, given from `/`: in a root if one is there, and otherwise between roots if
    /// one lies further down.
    fn arrive(&mut self, position: Vec<Vec<u8>>) -> Outcome<()> {
        let leads_to = |prefix: &SandboxPath| {
            let mut prefix = prefix.components();
            position
                .iter()
                .all(|name| prefix.next() == Some(name.as_slice()))
                .then(|| prefix.next().is_none())
        };
        let own = self
            .roots
            .table
            .iter()
            .enumerate()
            .map(|(index, root)| (&root.prefix, index));
        let others = self
            .roots
            .aliases
            .iter()
            .map(|(alias, index)| (alias, *index));
        let mut further = false;
        for (prefix, index) in own.chain(others) {
            match leads_to(prefix) {
                Some(true) => {
                    self.root = index;
                    self.names.clear();
                    self.current = None;
                    self.between = None;
                    return Ok(());
                }
                Some(false) => further = true,
                None => {}
            }
        }
        // Further beneath a root that is between this position and `/`, such as the root `/` itself.
        let mut whole = vec![b'/'];
        whole.extend_from_slice(&position.join(&b'/'));
        if let Some((index, rest)) = self.roots.longest(&whole) {
            self.root = index;
            self.names = components(&rest).map(<[u8]>::to_vec).collect();
            self.between = None;
            return self.reopen();
        }
        if further {
            self.between = Some(position);
            return Ok(());
        }
        Err(Fault::Outside {
            link: self.link.take(),
        })
    }

    /// Opens `names` from the root again.
    fn reopen(&mut self) -> Outcome<()> {
        self.current = None;
        for name in &self.names {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next =
                rustix::fs::openat(self.dir(), OsStr::from_bytes(name), flags, Mode::empty());
            self.current = Some(next.map_err(|errno| {
                if errno == Errno::NOTDIR {
                    Errno::LOOP
                } else {
                    errno
                }
            })?);
        }
        Ok(())
    }

    /// Enters another root if `component` is where it begins.
    fn enter_nested(&mut self, component: &[u8]) -> bool {
        if !self.roots.root(self.root).holds_another {
            return false;
        }
        let real = self.real(component);
        match self
            .roots
            .table
            .iter()
            .position(|root| root.prefix.as_bytes() == real)
        {
            Some(index) => {
                self.root = index;
                self.names.clear();
                self.current = None;
                true
            }
            None => false,
        }
    }
}

/// Makes one directory; `false` if something has the name already.
pub(crate) fn make_directory(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    mode: Option<u32>,
) -> Outcome<bool> {
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode.unwrap_or(0o755))) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    if let Some(mode) = mode {
        // The umask took bits away that were asked for by number.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(dir, name, flags, Mode::empty());
        if let Ok(made) = made {
            rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
        }
    }
    Ok(true)
}

/// The text of a link; `None` if something else, or nothing, has the name.
pub(crate) fn read_link(entry: &Entry<'_>) -> Outcome<Option<Vec<u8>>> {
    match rustix::fs::readlinkat(entry.dir(), entry.name(), Vec::new()) {
        Ok(text) => Ok(Some(text.into_bytes())),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
}

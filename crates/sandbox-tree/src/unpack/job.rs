//! One merge under way: what was compared, what is done, and how it is undone.
//!
//! **Invariant:** every step is noted before anything else can fail, so that what was done can be undone in
//! reverse order.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use sandbox_core::file::EntryKind;
use sandbox_core::transfer::{Manifest, ManifestEntry};
use sandbox_core::{Effect, Error, ErrorKind, Result, SandboxPath, Verb};

use super::dirs::{Dirs, Missing, mode_bits, mode_of, open_dir};
use super::place::Delta;
use super::staging::{self, rename_new};
use super::{Unpacked, digest};
use crate::errno::os_error;

/// Entries that an error names before it only counts.
const NAMED: usize = 20;

pub(super) struct Job<'a> {
    verb: Verb,
    place: Dirs,
    base: HashMap<&'a SandboxPath, &'a ManifestEntry>,
    /// What goes, and what has to go before something of another kind can come.
    going: BTreeSet<SandboxPath>,
    /// What was there when it was compared.
    looked: HashMap<SandboxPath, Stat>,
    done: Vec<Done>,
    put_away: u64,
}

/// One step, as it has to be undone.
enum Done {
    Placed(SandboxPath),
    /// The new and the old entry have each other's names.
    Exchanged(SandboxPath),
    /// It lies among the old under this number.
    PutAway(SandboxPath, u64),
    /// An empty directory with these permission bits.
    Unmade(SandboxPath, u32),
}

impl<'a> Job<'a> {
    pub(super) fn new(verb: Verb, place: Dirs, base: &'a Manifest) -> Self {
        Self {
            verb,
            place,
            base: base
                .entries
                .iter()
                .map(|entry| (&entry.path, entry))
                .collect(),
            going: BTreeSet::new(),
            looked: HashMap::new(),
            done: Vec::new(),
            put_away: 0,
        }
    }

    /// The permission bits of what was there before and still is.
    pub(super) fn mode_before(&self, path: &SandboxPath) -> Option<u32> {
        let stayed = !self.going.contains(path);
        self.looked.get(path).filter(|_| stayed).map(mode_of)
    }

    /// What went, or had to go for something of another kind.
    pub(super) fn going(&self) -> &BTreeSet<SandboxPath> {
        &self.going
    }

    fn conflict(&self, path: &SandboxPath, what: &str) -> Error {
        Error::refused(self.verb, ErrorKind::Conflict)
            .on(path)
            .detail(format_args!(
                "{what}; nothing was changed: look at what is there, and begin from that"
            ))
    }

    /// What is at `path`; nothing if something on the way is missing or no directory.
    fn stat(&mut self, path: &SandboxPath) -> Result<Option<Stat>, Errno> {
        let found = match self.place.parent(path, Missing::Fail) {
            Ok((dir, name)) => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
            Err(errno) => Err(errno),
        };
        match found {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Compares the base with what is there, as far as that needs no reading.
    pub(super) fn compare_base(&mut self, base: &Manifest) -> Result<()> {
        for entry in &base.entries {
            if entry.path.is_absolute() || entry.path.is_root() {
                return Err(Error::refused(self.verb, ErrorKind::InvalidArgument)
                    .on(&entry.path)
                    .detail("an entry of the base is named relative to the tree's root"));
            }
            let stat = self
                .stat(&entry.path)
                .map_err(|errno| os_error(self.verb, errno).on(&entry.path))?;
            match stat {
                None => return Err(self.conflict(&entry.path, "the base has it, and it is gone")),
                Some(stat) if !looks_like(&stat, entry) => {
                    return Err(self.conflict(&entry.path, "it is not what the base says"));
                }
                Some(stat) => {
                    self.looked.insert(entry.path.clone(), stat);
                }
            }
        }
        Ok(())
    }

    /// Compares what is touched, and decides what goes.
    pub(super) fn plan(&mut self, delta: &Delta<'_>, unpacked: &Unpacked) -> Result<()> {
        for path in delta.removed {
            if !self.base.contains_key(path) {
                return Err(Error::refused(self.verb, ErrorKind::InvalidArgument)
                    .on(path)
                    .detail("it is to be removed and is not in the base"));
            }
            self.going.insert(path.clone());
        }
        for entry in &unpacked.entries {
            let path = &entry.path;
            let verb = self.verb;
            let there = self
                .stat(path)
                .map_err(|errno| os_error(verb, errno).on(path))?;
            let Some(stat) = there else { continue };
            let comes = entry.kind == EntryKind::Directory;
            let is = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if comes && is {
                self.looked.insert(path.clone(), stat);
            } else if !self.base.contains_key(path) {
                return Err(self.conflict(path, "something is there that the base does not have"));
            } else if comes != is {
                self.going.insert(path.clone());
            }
        }
        let touched: Vec<_> = self
            .going
            .iter()
            .chain(unpacked.entries.iter().map(|entry| &entry.path))
            .filter_map(|path| self.base.get(path).copied())
            .collect();
        for entry in touched {
            let same = self
                .has_content(entry)
                .map_err(|errno| os_error(self.verb, errno).on(&entry.path))?;
            if !same {
                return Err(self.conflict(&entry.path, "its content is not what the base says"));
            }
        }
        self.plan_directories()
    }

    /// A directory goes only with everything in it, all of it named.
    fn plan_directories(&mut self) -> Result<()> {
        for path in self.going.clone() {
            let is_directory = self
                .looked
                .get(&path)
                .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            if !is_directory {
                continue;
            }
            let names = match self.place.parent(&path, Missing::Fail) {
                Ok((dir, name)) => open_dir(dir, name).and_then(|dir| staging::names(dir.as_fd())),
                Err(errno) => Err(errno),
            };
            for (name, _) in names.map_err(|errno| os_error(self.verb, errno).on(&path))? {
                let inside = path.join(&name).map_err(|error| {
                    Error::refused(self.verb, ErrorKind::InvalidArgument)
                        .on(&path)
                        .detail(error)
                })?;
                if !self.going.contains(&inside) {
                    return Err(self.conflict(
                        &inside,
                        "its directory is to go, and it is not named among what goes",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether the content is that of the base, as far as the base says.
    fn has_content(&mut self, entry: &ManifestEntry) -> Result<bool, Errno> {
        let Some(expected) = entry.digest else {
            return Ok(true);
        };
        let (dir, name) = self.place.parent(&entry.path, Missing::Fail)?;
        let found = match entry.kind {
            EntryKind::Link => {
                let text = rustix::fs::readlinkat(dir, name, Vec::new())?;
                digest(blake3::hash(text.as_bytes()))
            }
            EntryKind::File => {
                let flags = OFlags::RDONLY
                    | OFlags::NOFOLLOW
                    | OFlags::NONBLOCK
                    | OFlags::NOCTTY
                    | OFlags::CLOEXEC;
                let file = rustix::fs::openat(dir, name, flags, mode_bits(0))?;
                let stat = rustix::fs::fstat(&file)?;
                if !looks_like(&stat, entry) {
                    return Ok(false);
                }
                // What is compared with later is what was read.
                self.looked.insert(entry.path.clone(), stat);
                let mut hasher = blake3::Hasher::new();
                if hasher.update_reader(std::fs::File::from(file)).is_err() {
                    return Err(Errno::IO);
                }
                digest(hasher.finalize())
            }
            EntryKind::Directory | EntryKind::Special => return Ok(true),
        };
        Ok(found == expected)
    }

    pub(super) fn apply(
        &mut self,
        unpacked: &Unpacked,
        new: &mut Dirs,
        old: BorrowedFd<'_>,
    ) -> Result<()> {
        let going: Vec<_> = self.going.iter().rev().cloned().collect();
        for path in going {
            self.go(&path, old)?;
        }
        let mut whole: Option<&SandboxPath> = None;
        for entry in &unpacked.entries {
            if whole.is_some_and(|top| is_beneath(&entry.path, top)) {
                continue;
            }
            if self.come(entry, new, old)? && entry.kind == EntryKind::Directory {
                whole = Some(&entry.path);
            }
        }
        Ok(())
    }

    /// Removes an entry that was compared.
    fn go(&mut self, path: &SandboxPath, old: BorrowedFd<'_>) -> Result<()> {
        let verb = self.verb;
        let failed = |errno| os_error(verb, errno).on(path);
        let Some(looked) = self.looked.get(path).copied() else {
            return Ok(());
        };
        let (dir, name) = self.place.parent(path, Missing::Fail).map_err(failed)?;
        if FileType::from_raw_mode(looked.st_mode) == FileType::Directory {
            rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR).map_err(|errno| match errno {
                Errno::NOTEMPTY | Errno::EXIST => changed(verb, path),
                errno => failed(errno),
            })?;
            let mode = mode_of(&looked);
            self.done.push(Done::Unmade(path.clone(), mode));
            self.place.forget();
            return Ok(());
        }
        self.put_away += 1;
        let number = self.put_away;
        let place = number.to_string();
        let to = (old, OsStr::new(&place));
        rename_new((dir, name), to, FileType::RegularFile).map_err(failed)?;
        self.done.push(Done::PutAway(path.clone(), number));
        if is_what_was_looked_at(old, OsStr::new(&place), &looked) {
            Ok(())
        } else {
            Err(changed(verb, path))
        }
    }

    /// Puts an entry in place; `false` if it is a directory that was there.
    fn come(&mut self, entry: &ManifestEntry, new: &mut Dirs, old: BorrowedFd<'_>) -> Result<bool> {
        let verb = self.verb;
        let path = &entry.path;
        let failed = |errno| os_error(verb, errno).on(path);
        let gone = self.going.contains(path);
        let looked = self.looked.get(path).filter(|_| !gone).copied();
        let kind = match entry.kind {
            EntryKind::Directory => FileType::Directory,
            _ => FileType::RegularFile,
        };
        let Some(looked) = looked else {
            let from = new.parent(path, Missing::Fail).map_err(failed)?;
            let to = self.place.parent(path, Missing::Fail).map_err(failed)?;
            rename_new(from, to, kind).map_err(|errno| match errno {
                Errno::EXIST | Errno::NOTEMPTY => changed(verb, path),
                errno => failed(errno),
            })?;
            self.done.push(Done::Placed(path.clone()));
            new.forget();
            return Ok(true);
        };
        if kind == FileType::Directory {
            return Ok(false);
        }
        let from = new.parent(path, Missing::Fail).map_err(failed)?;
        let to = self.place.parent(path, Missing::Fail).map_err(failed)?;
        match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::EXCHANGE) {
            Ok(()) => {
                self.done.push(Done::Exchanged(path.clone()));
                if is_what_was_looked_at(from.0, from.1, &looked) {
                    Ok(true)
                } else {
                    Err(changed(verb, path))
                }
            }
            // A file system that cannot exchange: for a moment nothing has the name.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                self.go(path, old)?;
                let to = self.place.parent(path, Missing::Fail).map_err(failed)?;
                let from = new.parent(path, Missing::Fail).map_err(failed)?;
                rename_new(from, to, kind).map_err(failed)?;
                self.done.push(Done::Placed(path.clone()));
                Ok(true)
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Undoes everything, and says in `error` what became of that.
    pub(super) fn undo(&mut self, error: Error, new: &mut Dirs, old: BorrowedFd<'_>) -> Error {
        let steps = std::mem::take(&mut self.done);
        if steps.is_empty() {
            return error.with_effect(Effect::None);
        }
        let count = steps.len();
        let mut left = Vec::new();
        for step in steps.into_iter().rev() {
            self.place.forget();
            new.forget();
            if self.undo_step(&step, new, old).is_err() {
                let (Done::Placed(path)
                | Done::Exchanged(path)
                | Done::PutAway(path, _)
                | Done::Unmade(path, _)) = step;
                left.push(path);
            }
        }
        let detail = error.detail_text().to_owned();
        let error = error.with_effect(Effect::Unknown);
        if left.is_empty() {
            return error.detail(format_args!(
                "{detail}; {count} changes were made before and all of them undone: the tree is what it was"
            ));
        }
        let mut names = String::new();
        for path in left.iter().take(NAMED) {
            let _ = write!(names, " {path}");
        }
        if left.len() > NAMED {
            let _ = write!(names, " and {} more", left.len() - NAMED);
        }
        error.detail(format_args!(
            "{detail}; of {count} changes that were made before, these could not be undone:{names}"
        ))
    }

    fn undo_step(&mut self, step: &Done, new: &mut Dirs, old: BorrowedFd<'_>) -> Result<(), Errno> {
        match step {
            Done::Placed(path) => {
                let from = self.place.parent(path, Missing::Fail)?;
                let to = new.parent(path, Missing::Fail)?;
                rustix::fs::renameat(from.0, from.1, to.0, to.1)
            }
            Done::Exchanged(path) => {
                let one = self.place.parent(path, Missing::Fail)?;
                let other = new.parent(path, Missing::Fail)?;
                rustix::fs::renameat_with(one.0, one.1, other.0, other.1, RenameFlags::EXCHANGE)
            }
            Done::PutAway(path, number) => {
                let to = self.place.parent(path, Missing::Fail)?;
                let place = number.to_string();
                rename_new((old, OsStr::new(&place)), to, FileType::RegularFile)
            }
            Done::Unmade(path, mode) => {
                let (dir, name) = self.place.parent(path, Missing::Fail)?;
                rustix::fs::mkdirat(dir, name, mode_bits(0o700))?;
                rustix::fs::fchmod(&open_dir(dir, name)?, mode_bits(*mode))
            }
        }
    }
}

fn changed(verb: Verb, path: &SandboxPath) -> Error {
    Error::refused(verb, ErrorKind::Conflict)
        .on(path)
        .detail("somebody else changed it meanwhile")
}

fn is_beneath(path: &SandboxPath, top: &SandboxPath) -> bool {
    path.as_bytes()
        .strip_prefix(top.as_bytes())
        .is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Whether an entry is what a manifest says, as far as that needs no reading.
fn looks_like(stat: &Stat, entry: &ManifestEntry) -> bool {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Special,
    };
    let same_mode = mode_of(stat) == entry.mode & 0o777;
    kind == entry.kind
        && match kind {
            EntryKind::Directory => same_mode,
            EntryKind::File => same_mode && u64::try_from(stat.st_size).ok() == Some(entry.size),
            EntryKind::Link => u64::try_from(stat.st_size).ok() == Some(entry.size),
            EntryKind::Special => true,
        }
}

/// Whether what was taken away is what had been compared: a rename changes none of these.
fn is_what_was_looked_at(dir: BorrowedFd<'_>, name: &OsStr, looked: &Stat) -> bool {
    let key = |stat: &Stat| {
        (
            (stat.st_dev, stat.st_ino, stat.st_size),
            (stat.st_mtime, stat.st_mtime_nsec),
        )
    };
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| key(&stat) == key(looked))
}

//! Puts a tree in place: where nothing is with one rename, and into a directory that is there with one
//! for each entry.
//!
//! Where nothing is ([`create`]), the private directory itself gets the name: there is no moment at
//! which half of the tree is there. A directory that is there ([`merge`]) keeps its identity, its
//! permission bits and whatever the archive does not mention; it may be a root of a sandbox, somebody's
//! working directory, or somebody else's property. It must be empty, or a base must say what is believed to
//! be in it.
//!
//! **What a base means.** Every entry of it is compared with what is there, by kind, permission bits and size;
//! those that the archive or the removals touch also by content. What is there and not in the base must not be
//! in the archive's way. All that comes before anything is changed. An entry is replaced by exchanging the two, and what
//! comes out is compared with what was looked at: a change in between is put back and is a conflict too, not lost.
//!
//! **When it fails midway**, everything that was done is undone in reverse. The error says so, or names what
//! could not be undone; its effect is unknown either way, because somebody may have seen the half. A process that is
//! killed there undoes nothing: each entry is the old one or the new one, and what came out of the way is removed by
//! whoever puts a tree there next.
//!
//! Not here: how the tree is made (`super`).

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sandbox_core::file::EntryKind;
use sandbox_core::transfer::{Manifest, ManifestEntry};
use sandbox_core::{Effect, Error, ErrorKind, Result, SandboxPath, Verb};

use super::dirs::{Dirs, mode_bits, open_dir};
use super::job::Job;
use super::staging::{self, Staging};
use super::{
    Attributes, DIRECTORY_MODE, Receiver, Unpacked, Which, again, set_directory, unpack, usual_mode,
};
use crate::errno::os_error;
use crate::reader::Reader;

/// What a sender believes is there, and what of it goes.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a> {
    /// What is believed to be there.
    pub base: &'a Manifest,
    /// Entries of the base that go.
    pub removed: &'a [SandboxPath],
}

/// What became of a tree.
#[derive(Debug)]
pub struct Placed {
    /// What the archive held.
    pub unpacked: Unpacked,
    /// Entries that went.
    pub removed: u64,
    /// The tree now: the archive's entries, and those of the base that stayed.
    pub manifest: Manifest,
}

/// Makes a tree where nothing is.
///
/// - `parent`: the directory that gets it
/// - `names`: its name there; several are directories in one another, all of them new
///
/// # Errors
///
/// On behalf of `verb`, without effect: what [`unpack`] says, and `AlreadyExists` if somebody else took the name.
/// With an unknown effect only if permission bits could not be set after the tree was in place.
pub fn create<R: Read>(
    verb: Verb,
    parent: OwnedFd,
    names: &[&OsStr],
    receiver: Receiver,
    reader: &mut Reader<R>,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Placed> {
    let failed = |errno| os_error(verb, errno);
    let Some((first, inner)) = names.split_first() else {
        return Err(
            Error::refused(verb, ErrorKind::InvalidArgument).detail("a new tree needs a name")
        );
    };
    let staging = Staging::create(parent).map_err(failed)?;
    let usual = usual_mode(staging.dir()).map_err(failed)?;
    let mut root = again(staging.dir()).map_err(failed)?;
    for name in inner {
        rustix::fs::mkdirat(&root, *name, mode_bits(DIRECTORY_MODE)).map_err(failed)?;
        root = open_dir(root.as_fd(), name).map_err(failed)?;
    }
    let top = again(staging.dir()).map_err(failed)?;
    let handle = again(root.as_fd()).map_err(failed)?;
    let unpacked = unpack(verb, reader, root, receiver, go_on)
        .map_err(|error| error.with_effect(Effect::None))?;
    unpacked
        .set_directories(verb, handle.as_fd(), |_, which| which == Which::Workable)
        .map_err(|error| error.with_effect(Effect::None))?;
    go_on().map_err(|error| error.with_effect(Effect::None))?;
    staging.publish(first).map_err(|errno| {
        let error = failed(errno).on(first.display());
        match errno {
            Errno::EXIST => error.detail("somebody else put something there meanwhile"),
            _ => error,
        }
    })?;
    let usual = Attributes {
        mode: usual,
        modified: None,
    };
    let own = match (&unpacked.root, receiver) {
        (Some(sent), Receiver::Sandbox) => sent,
        _ => &usual,
    };
    let finish = || {
        unpacked.set_directories(verb, handle.as_fd(), |_, which| which == Which::Locked)?;
        if !inner.is_empty() {
            set_directory(top.as_fd(), &usual).map_err(failed)?;
        }
        set_directory(handle.as_fd(), own).map_err(failed)
    };
    finish().map_err(|error| {
        let detail = error.detail_text().to_owned();
        error.with_effect(Effect::Unknown).detail(format_args!(
            "the tree is in place, and a directory has other permission bits than were sent: {detail}"
        ))
    })?;
    let manifest = Manifest {
        entries: unpacked.entries.clone(),
    };
    Ok(Placed {
        unpacked,
        removed: 0,
        manifest,
    })
}

/// Puts a tree into a directory that is there.
///
/// # Errors
///
/// On behalf of `verb`. Without effect: what [`unpack`] says; `NotEmpty` if there is no `delta` and something is
/// there; `Conflict`, naming the entry, if the base is not what is there; `InvalidArgument` for a removal that the
/// base does not have. With an unknown effect: what kept an entry from being put in place.
pub fn merge<R: Read>(
    verb: Verb,
    dir: BorrowedFd<'_>,
    delta: Option<Delta<'_>>,
    receiver: Receiver,
    reader: &mut Reader<R>,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Placed> {
    let failed = |errno| os_error(verb, errno);
    if delta.is_none() {
        refuse_entries(verb, dir)?;
    }
    let nothing = Manifest::default();
    let delta = delta.unwrap_or(Delta {
        base: &nothing,
        removed: &[],
    });
    let place = Dirs::new(again(dir).map_err(failed)?);
    let mut job = Job::new(verb, place, delta.base);
    // Early, because an archive may take long to come.
    job.compare_base(delta.base)?;
    let staging = Staging::create(again(dir).map_err(failed)?).map_err(failed)?;
    for name in ["new", "old"] {
        rustix::fs::mkdirat(staging.dir(), name, mode_bits(0o700)).map_err(failed)?;
    }
    let new = open_dir(staging.dir(), "new".as_ref()).map_err(failed)?;
    let old = open_dir(staging.dir(), "old".as_ref()).map_err(failed)?;
    let no_effect = |error: Error| error.with_effect(Effect::None);
    let unpacked = unpack(
        verb,
        reader,
        again(new.as_fd()).map_err(failed)?,
        receiver,
        go_on,
    )
    .map_err(no_effect)?;
    job.plan(&delta, &unpacked)?;
    go_on().map_err(no_effect)?;
    let mut new = Dirs::new(new);
    if let Err(error) = job.apply(&unpacked, &mut new, old.as_fd()) {
        return Err(job.undo(error, &mut new, old.as_fd()));
    }
    let was_there = |path: &SandboxPath| job.mode_before(path);
    unpacked
        .set_directories(verb, dir, |path, _| {
            // One that was there changes only if an entry says so.
            match (was_there(path), unpacked.mode_of_directory(path)) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(was), Some(sent)) => was != sent,
            }
        })
        .map_err(|error| {
            let detail = error.detail_text().to_owned();
            error.with_effect(Effect::Unknown).detail(format_args!(
                "everything is in place, and a directory has other permission bits than were sent: {detail}"
            ))
        })?;
    let mut entries: Vec<_> = delta
        .base
        .entries
        .iter()
        .filter(|entry| !job.going().contains(&entry.path))
        .filter(|entry| find(&unpacked.entries, &entry.path).is_none())
        .chain(&unpacked.entries)
        .cloned()
        .collect();
    for entry in &mut entries {
        if entry.kind == EntryKind::Directory
            && unpacked.mode_of_directory(&entry.path).is_none()
            && let Some(mode) = was_there(&entry.path)
        {
            entry.mode = mode;
        }
    }
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let removed = job
        .going()
        .iter()
        .filter(|path| find(&unpacked.entries, path).is_none())
        .count() as u64;
    Ok(Placed {
        removed,
        manifest: Manifest { entries },
        unpacked,
    })
}

fn find<'a>(entries: &'a [ManifestEntry], path: &SandboxPath) -> Option<&'a ManifestEntry> {
    let at = entries.binary_search_by(|entry| entry.path.cmp(path));
    at.ok().map(|at| &entries[at])
}

fn refuse_entries(verb: Verb, dir: BorrowedFd<'_>) -> Result<()> {
    let names = staging::names(dir).map_err(|errno| os_error(verb, errno))?;
    let there = names
        .iter()
        .filter(|(name, _)| !staging::is_staging(name))
        .count();
    if there == 0 {
        return Ok(());
    }
    Err(
        Error::refused(verb, ErrorKind::NotEmpty).detail(format_args!(
            "{there} {} there already; choose a new directory, or empty this one",
            if there == 1 {
                "entry is"
            } else {
                "entries are"
            }
        )),
    )
}

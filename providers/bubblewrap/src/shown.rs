//! What of this machine a sandbox is shown, and what is hidden of that: whether it can be, and what lies in what.
//!
//! A policy may name very many paths. So nothing here looks at all of them for one, bwrap is told of few (`launch`), and
//! the engine of those only that it has to know.
//!
//! **Invariants.**
//! - What is shown is named by its real path, is not the kernel's, and is no socket.
//! - What lies within something else is put on what is there: nothing is ever made in a directory of somebody's to
//!   mount on, and no link leads it elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sandbox_core::{Mount, MountAccess, Policy, SandboxPath};
use spp_client::place::{MACHINES, is_machines};

use crate::launch::{Access, Kind};
use crate::spec::path_of;
use crate::view::{HOME, Shown, TMP, WORKSPACE};

/// Most mounts that lie within nothing else that is shown. For each of them bwrap looks at the table of mounts.
const MOST_APART: usize = 256;
/// Most directories that are mounted to be written. Each is a root of the engine's.
const MOST_WRITABLE: usize = 256;

/// What is shown and hidden.
#[derive(Debug)]
pub(crate) struct Table {
    shown: Vec<Shown>,
    /// The same by where they are.
    by_place: HashMap<PathBuf, usize>,
    /// Those that are no directories.
    files: BTreeSet<usize>,
    /// None of them lies in another.
    hidden: BTreeMap<PathBuf, Kind>,
}

impl Table {
    /// With the workspace alone.
    pub(crate) fn new(workspace: Shown) -> Self {
        Self {
            by_place: HashMap::from([(workspace.at.clone(), 0)]),
            shown: vec![workspace],
            files: BTreeSet::new(),
            hidden: BTreeMap::new(),
        }
    }

    /// Takes in what a policy shows and hides; what cannot be had of it, each with its reason.
    pub(crate) fn add(&mut self, policy: &Policy) -> Vec<String> {
        let mut mounts: Vec<_> = policy.mounts.iter().collect();
        // What others lie in comes before them.
        mounts.sort_by_key(|mount| mount.sandbox.components().count());
        let mut hidden: Vec<_> = policy.hidden.iter().collect();
        hidden.sort_by_key(|path| path.components().count());
        let mut unmet = Vec::new();
        for mount in mounts {
            if let Err(why) = self.show(mount) {
                let (host, at) = (mount.host.display(), &mount.sandbox);
                unmet.push(format!("{host} cannot be shown as {at}: {why}"));
            }
        }
        for path in hidden {
            if let Err(why) = self.hide(path) {
                unmet.push(format!("{path} cannot be hidden: {why}"));
            }
        }
        unmet.extend(self.too_much());
        unmet
    }

    pub(crate) fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// What is shown, what lies within another after it; and what is hidden.
    pub(crate) fn into_parts(self) -> (Vec<Shown>, Vec<(PathBuf, Kind)>) {
        (self.shown, self.hidden.into_iter().collect())
    }

    /// What the engine has to know as roots: what lies in no other root, or can be written and is not just a file. What
    /// can only be read and lies in another root is kept from being written by its mount.
    pub(crate) fn roots(&self) -> Vec<Mount> {
        let mut roots = BTreeMap::new();
        for (index, shown) in self.shown.iter().enumerate() {
            let is_file = self.files.contains(&index);
            let holder = self.holder(&shown.at);
            let at = match (is_file, holder, shown.access) {
                // A file is reached by way of its directory, of which nothing else is changed by that.
                (true, None, _) => shown.at.parent().unwrap_or(&shown.at),
                (true, Some(_), _) | (false, Some(_), Access::ReadOnly) => continue,
                // The workspace is one anyway; whether it can be written is said here.
                (false, _, Access::ReadWrite) if index == 0 => continue,
                (false, _, _) => &shown.at,
            };
            let access = match shown.access {
                Access::ReadOnly => MountAccess::ReadOnly,
                Access::ReadWrite => MountAccess::ReadWrite,
            };
            let known = roots.entry(at.to_owned()).or_insert(access);
            if access == MountAccess::ReadWrite {
                *known = access;
            }
        }
        let mount = |(at, access): (PathBuf, MountAccess)| {
            let sandbox = SandboxPath::parse(at.as_os_str().as_encoded_bytes()).ok()?;
            Some(Mount {
                host: at,
                sandbox,
                access,
            })
        };
        roots.into_iter().filter_map(mount).collect()
    }

    /// The nearest of what is shown that something lies in.
    fn holder(&self, at: &Path) -> Option<&Shown> {
        let above = at.ancestors().skip(1);
        above
            .filter_map(|above| self.by_place.get(above))
            .find_map(|index| self.shown.get(*index))
    }

    fn show(&mut self, mount: &Mount) -> Result<(), String> {
        let at = path_of(&mount.sandbox);
        let access = match mount.access {
            MountAccess::ReadOnly => Access::ReadOnly,
            MountAccess::ReadWrite => Access::ReadWrite,
        };
        if !mount.host.is_absolute() || !at.is_absolute() {
            return refused("both have to be absolute");
        }
        if at == Path::new("/") || MACHINES.iter().any(|taken| at.starts_with(taken)) {
            return refused("the place has something of its own there");
        }
        let real = real(&mount.host)?;
        if at == Path::new(WORKSPACE)
            && let Some(workspace) = self.shown.first_mut()
            && workspace.source == real
        {
            // The workspace once more, to say that it is only read.
            workspace.access = access;
            return Ok(());
        }
        if [TMP, HOME, WORKSPACE]
            .iter()
            .any(|own| Path::new(own).starts_with(at))
        {
            return refused("it would cover what every sandbox has; name a directory beneath it");
        }
        if self.by_place.contains_key(at) {
            return refused("something else is to be shown there too");
        }
        let is_directory = real.is_dir();
        if let Some(holder) = self.holder(at) {
            let there = kind_in(holder, at)?;
            if is_directory != (there == Kind::Directory) {
                return refused(
                    "a directory can only be shown in place of a directory, and a file of a file",
                );
            }
        } else if !is_directory && at.parent().is_some_and(|above| above.parent().is_none()) {
            return refused("a single file needs a directory; name one, such as /mnt/file");
        }
        let index = self.shown.len();
        self.by_place.insert(at.to_owned(), index);
        if !is_directory {
            self.files.insert(index);
        }
        self.shown.push(Shown {
            source: real,
            at: at.to_owned(),
            access,
        });
        Ok(())
    }

    fn hide(&mut self, path: &SandboxPath) -> Result<(), String> {
        let at = path_of(path);
        if self.by_place.contains_key(at) {
            return refused("it is what is to be shown there; leave one of them out");
        }
        let Some(holder) = self.holder(at) else {
            return refused(
                "neither the workspace nor a mount shows it, so that there is nothing to hide",
            );
        };
        let kind = kind_in(holder, at)?;
        // What holds others comes before them.
        if self.hiding(at).is_none() {
            self.hidden.insert(at.to_owned(), kind);
        }
        Ok(())
    }

    /// The hidden directory that something lies in.
    fn hiding<'a>(&self, at: &'a Path) -> Option<&'a Path> {
        let above = at.ancestors().skip(1);
        above
            .into_iter()
            .find(|above| self.hidden.contains_key(*above))
    }

    /// What cannot be had because there is too much of it, or because it contradicts itself.
    fn too_much(&self) -> Vec<String> {
        let apart = self.shown.iter().skip(1);
        let apart = apart.filter(|shown| self.holder(&shown.at).is_none());
        let writable =
            self.shown.iter().enumerate().skip(1).filter(|(index, it)| {
                it.access == Access::ReadWrite && !self.files.contains(index)
            });
        let mut unmet = Vec::new();
        let mut most = |found: usize, most: usize, what: &str| {
            if found > most {
                unmet.push(format!("{found} {what}, and {most} can be had"));
            }
        };
        most(
            apart.count(),
            MOST_APART,
            "mounts lie neither in the workspace nor in one another: show a directory that holds them",
        );
        most(
            writable.count(),
            MOST_WRITABLE,
            "directories are mounted to be written: show a directory that holds them",
        );
        let lost = self.shown.iter().skip(1);
        let lost = lost.filter_map(|shown| Some((&shown.at, self.hiding(&shown.at)?)));
        unmet.extend(lost.take(1).map(|(at, hidden)| {
            let (at, hidden) = (at.display(), hidden.display());
            format!("{at} cannot be shown, because {hidden} is hidden; hide what lies beside it")
        }));
        unmet
    }
}

fn refused<T>(why: &str) -> Result<T, String> {
    Err(why.to_owned())
}

/// The real path of something to be shown, which is also the one that it is named by.
fn real(host: &Path) -> Result<PathBuf, String> {
    let real = std::fs::canonicalize(host).map_err(|error| error.to_string())?;
    if is_machines(&real) {
        return refused("the root of a machine and what its kernel has are never shown");
    }
    if std::fs::symlink_metadata(&real).is_ok_and(|found| found.file_type().is_socket()) {
        return refused("it is a socket, and whoever listens on it could be asked for anything");
    }
    // Whoever reads the policy is to see what is shown, and a link may be another one tomorrow.
    if real != host {
        return Err(format!(
            "it is really {}; name that if it is meant",
            real.display()
        ));
    }
    Ok(real)
}

/// What has a name in something that is shown, with no link on the way.
fn kind_in(holder: &Shown, at: &Path) -> Result<Kind, String> {
    let rest = at.strip_prefix(&holder.at).unwrap_or(Path::new(""));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let found = rustix::fs::open(&holder.source, flags | OFlags::DIRECTORY, Mode::empty())
        .and_then(|above| rustix::fs::openat2(&above, rest, flags, Mode::empty(), resolve))
        .and_then(|found| rustix::fs::fstat(&found));
    match found {
        Ok(stat) => Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Directory,
            _ => Kind::File,
        }),
        Err(Errno::LOOP) => {
            refused("it is a link, or one is on the way; name what is really meant")
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Err(format!(
            "there is nothing of that name in {}, and nothing is made there",
            holder.at.display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

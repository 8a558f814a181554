//! What is shown to a sandbox, arranged before bwrap sees it, in a mount namespace that nobody else has.
//!
//! Root does so always. The user it goes over to may enter no directory of others, and owns nothing; so each thing
//! is taken as root, and its owner is mapped to the sandbox's user. Anybody else does so where much lies within
//! something else that is shown, of which bwrap is not told (`within`).
//!
//! The place is a small directory over `/tmp`, because bwrap needs that to be there anyway. What was below it is
//! held by a handle, so that it can still be shown.
//!
//! **Invariant:** everything is made in a mount namespace of this process alone, from which nothing comes back to
//! the machine's. It ends with its last process.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use spp_client::place::idmap::{Attributes, Maps, Owner};

use super::{Access, Failure, FailureKind, Item, Told};

/// Where things are put.
pub(super) const STAGE: &str = "/tmp";

/// Who arranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum As {
    /// Root, who lets what its owners have be this user's.
    Root { user: u32 },
    /// Anybody else, in a user namespace of its own.
    User,
}

/// For each of the items which of the ones before it holds it, if any does: the nearest.
pub(super) fn holders(items: &[&Item]) -> Vec<Option<usize>> {
    let mut known: HashMap<&Path, usize> = HashMap::new();
    let mut holders = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let at = item.at().map(Path::new);
        let above = at.into_iter().flat_map(Path::ancestors).skip(1);
        holders.push(
            above
                .into_iter()
                .find_map(|above| known.get(above).copied()),
        );
        known.extend(at.map(|at| (at, index)));
    }
    holders
}

/// The machine's side, once the stage is there.
pub(super) struct Arranged {
    /// What bwrap is told of each item.
    pub(super) told: Vec<Told>,
    /// Where more can be taken from.
    pub(super) machine: Machine,
    pub(super) maps: Option<Maps>,
}

/// Arranges what lies in nothing else that is shown. bwrap is told nothing of the rest.
///
/// - `holders`: which of the items before each holds it
pub(super) fn arrange(
    items: &[&Item],
    holders: &[Option<usize>],
    by: As,
) -> Result<Arranged, Failure> {
    let other = |doing: &'static str| move |error| Failure::doing(doing, error);
    let mut maps = match by {
        As::Root { user } => {
            unshare(UnshareFlags::NEWNS).map_err(other("making a mount namespace"))?;
            Some(Maps::new(user))
        }
        As::User => {
            own_namespaces().map_err(|error| {
                let what = format_args!("making a user namespace: {error}");
                Failure::new(FailureKind::Many, what)
            })?;
            None
        }
    };
    let apart = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", apart).map_err(other("leaving the machine's mounts"))?;
    let machine = Machine::new().map_err(other("opening / and /tmp"))?;
    let mut taken = Vec::new();
    for (item, holder) in items.iter().zip(holders) {
        taken.push(match (item, holder) {
            (Item::Bind { access, source, .. }, None) => {
                Some(machine.take(source, *access, maps.as_mut())?)
            }
            _ => None,
        });
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("spp", STAGE, "tmpfs", flags, c"size=256k,mode=0755")
        .map_err(other("making a place to arrange mounts in"))?;
    let stage = |(index, (item, taken)): (usize, (&&Item, &Option<Taken>))| {
        let (Item::Bind { access, at, .. }, Some(taken)) = (item, taken) else {
            return Ok(Told::new());
        };
        let place = Path::new(STAGE).join(index.to_string());
        put(taken, &place).map_err(other("arranging mounts"))?;
        let option = match access {
            Access::ReadOnly => "--ro-bind",
            Access::ReadWrite => "--bind",
        };
        Ok(vec![option.into(), place.into_os_string(), at.clone()])
    };
    let all = items.iter().zip(&taken).enumerate();
    Ok(Arranged {
        told: all.map(stage).collect::<Result<_, _>>()?,
        machine,
        maps,
    })
}

fn unshare(what: UnshareFlags) -> rustix::io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "unsharing descriptors would be unsound; mounts and users are not"
    )]
    // SAFETY: the flags do not have the one that makes descriptors of another thread disappear.
    unsafe {
        unshare_unsafe(what)
    }
}

/// Has namespaces of users and of mounts in which this process may mount, as the user it is.
fn own_namespaces() -> rustix::io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    let say = |name: &str, text: String| {
        let file = rustix::fs::open(name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes()).map(drop)
    };
    // Who may say nothing about its groups may say which number its own one has.
    say("/proc/self/setgroups", "deny".to_owned())?;
    let own = |id: u32| format!("{id} {id} 1\n");
    say("/proc/self/uid_map", own(user.as_raw()))?;
    say("/proc/self/gid_map", own(group.as_raw()))
}

/// The machine's files, those that the stage covers included.
pub(super) struct Machine {
    root: OwnedFd,
    covered: OwnedFd,
}

impl Machine {
    /// Before the stage is there.
    fn new() -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &str| rustix::fs::open(path, flags, Mode::empty());
        Ok(Self {
            root: open("/")?,
            covered: open(STAGE)?,
        })
    }

    /// Takes a copy of the mount that something is on, with its owner mapped to the sandbox's user where there are maps.
    pub(super) fn take(
        &self,
        source: &Path,
        access: Access,
        maps: Option<&mut Maps>,
    ) -> Result<Taken, Failure> {
        let (from, rest) = match source.strip_prefix(STAGE) {
            Ok(rest) => (&self.covered, rest),
            Err(_) => (&self.root, source.strip_prefix("/").unwrap_or(source)),
        };
        let rest = match rest.as_os_str().is_empty() {
            true => Path::new("."),
            false => rest,
        };
        let place =
            super::open_at(from.as_fd(), rest).map_err(|error| super::not_opened(source, error))?;
        take(&place, source, access, maps)
    }
}

/// Something that was taken out of the machine's tree.
pub(super) struct Taken {
    pub(super) tree: OwnedFd,
    kind: FileType,
}

fn take(
    place: &OwnedFd,
    source: &Path,
    access: Access,
    maps: Option<&mut Maps>,
) -> Result<Taken, Failure> {
    let failed = |error| {
        let kind = match error {
            Errno::PERM => FailureKind::Forbidden,
            _ => FailureKind::Source,
        };
        Failure::of(kind, source.display(), error)
    };
    let stat = rustix::fs::fstat(place).map_err(failed)?;
    let tree = clone(place).map_err(failed)?;
    let attributes = match access {
        Access::ReadOnly => Attributes::READ_ONLY,
        Access::ReadWrite => Attributes::WRITABLE,
    };
    attributes.set(tree.as_fd()).map_err(failed)?;
    if let Some(maps) = maps {
        match (maps.apply(tree.as_fd(), owner(&stat)), access) {
            (Ok(()), _) => {}
            // It can still be read as anybody may read it, and cannot be written at all.
            (Err(_), Access::ReadOnly) => {}
            (Err(error), Access::ReadWrite) => {
                return Err(Failure::of(FailureKind::Idmap, source.display(), error));
            }
        }
    }
    Ok(Taken {
        tree,
        kind: FileType::from_raw_mode(stat.st_mode),
    })
}

pub(super) fn clone(place: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, "", flags)
}

fn owner(stat: &Stat) -> Owner {
    Owner {
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}

/// Puts it at a new place.
fn put(taken: &Taken, place: &Path) -> rustix::io::Result<()> {
    if taken.kind == FileType::Directory {
        rustix::fs::mkdir(
            place,
            Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH,
        )?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(place, flags, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
    }
    move_mount(
        taken.tree.as_fd(),
        "",
        rustix::fs::CWD,
        place,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn shown(at: &str) -> Item {
        Item::Bind {
            access: Access::ReadOnly,
            source: "/srv".into(),
            at: at.into(),
        }
    }

    #[test]
    fn what_lies_within_something_is_held_by_the_nearest_before_it_and_never_by_a_name_that_begins_alike()
     {
        let items = [
            shown("/workspace"),
            shown("/work"),
            shown("/workspace/a"),
            shown("/workspace/ab/c"),
            Item::Hide {
                at: "/workspace/a/b/c".into(),
                kind: Kind::File,
            },
            shown("/other"),
        ];
        let items: Vec<_> = items.iter().collect();
        let expected = [None, None, Some(0), Some(0), Some(2), None];
        assert_eq!(holders(&items), expected);
    }
}

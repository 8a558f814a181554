//! A workspace of root's, shown as the tree of a user that nobody else has.
//!
//! Nothing in a container may be root outside, and a tree of root's must stay root's. So a mount of it is made whose owner is that
//! user: what is made there is root's on the disk, and no set-id bit counts. The daemon takes a copy of the mount into
//! the container; ours is there only while the container is made.
//!
//! It is made by a process of its own, this executable once more: it has one thread, as what makes mappings must.
//!
//! **Invariants.** Nothing beneath a mount is ever removed here, only the empty directories that it was on. A mount that a killed
//! provider has left is taken away by the next.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change, move_mount,
    open_tree, unmount,
};
use spp_client::place::idmap::{Attributes, Maps, Owner};
use spp_client::place::{Lone, Refusal, Spawner};
use tokio::process::Command;

use crate::container::Tree;
use crate::marked;
use crate::options::User;
use crate::plan::Root;

/// The argument that makes this executable the process that mounts.
pub(crate) const ARGUMENT: &str = "--show-mapped";
/// How the directories of mounts are called, before who made them.
const PREFIX: &str = "spp-tree-";
/// The directory in one that the mount is on.
const TREE: &str = "tree";
/// How long making a mount may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The exit status of a mount that came to nothing.
const EXIT_FAILED: u8 = 71;

/// The tree of a user of its own, while a container is made of it.
#[derive(Debug)]
pub(crate) struct Mapped {
    mount: Mount,
    lone: Arc<Lone>,
}

/// The directory that the mount is in. Both go with this: the daemon has a mount of its own by then.
#[derive(Debug)]
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        take_away(&self.0);
    }
}

impl Mapped {
    /// Has the mount made.
    ///
    /// # Errors
    ///
    /// Why there is none, and what to do instead.
    pub(crate) async fn new(spawner: &Spawner, root: &Root) -> Result<Self, Refusal> {
        let lone = Arc::new(Lone::take()?);
        let refused = |why: String| {
            let path = root.path.display();
            Refusal::new(
                format!("{path} is root's, and cannot be shown as another user's: {why}"),
                "use a workspace that is not root's, or name who runs there as `user = \"UID:GID\"` in the options of `docker`",
            )
        };
        let mount = directory().map_err(|error| refused(error.to_string()))?;
        let mapped = Self { mount, lone };
        let made = mapped.make(spawner, root).await;
        made.map_err(refused)?;
        Ok(mapped)
    }

    /// The workspace as it is seen there.
    pub(crate) fn seen(&self) -> Tree {
        let id = self.lone.id;
        Tree {
            path: self.mount.0.join(TREE),
            user: User {
                user: id,
                group: id,
            },
            _lone: Some(Arc::clone(&self.lone)),
        }
    }

    async fn make(&self, spawner: &Spawner, root: &Root) -> Result<(), String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        #[expect(
            clippy::disallowed_methods,
            reason = "started by the one door for places, `Spawner`"
        )]
        let mut command = Command::new(own);
        let (device, inode) = root.identity;
        command
            .arg(ARGUMENT)
            .arg(self.lone.id.to_string())
            .arg(format!("{device}:{inode}"))
            .arg(&root.path)
            .arg(self.mount.0.join(TREE))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = spawner.spawn(command).await;
        let child = child.map_err(|error| error.to_string())?;
        let ended = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
        let output = ended
            .map_err(|_| "the system did not answer in time".to_owned())?
            .map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}

/// Two directories, one in the other, that only root may enter.
fn directory() -> std::io::Result<Mount> {
    let directory = marked::path(PREFIX)?;
    rustix::fs::mkdir(&directory, Mode::RWXU)?;
    let mount = Mount(directory);
    rustix::fs::mkdir(mount.0.join(TREE), Mode::RWXU)?;
    Ok(mount)
}

/// Unmounts what is in a directory of ours, and removes what it was on. What is mounted still is kept.
fn take_away(directory: &Path) {
    let tree = directory.join(TREE);
    let unmounted = unmount(&tree, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    let removed = std::fs::remove_dir(&tree).and_then(|()| std::fs::remove_dir(directory));
    if let Err(error) = removed {
        let directory = directory.display();
        tracing::warn!(%directory, %error, ?unmounted, "a mount was left; unmount and remove it");
    }
}

/// Takes away what providers have left that were killed while a container was made.
pub(crate) fn tidy(beneath: &Path) {
    marked::left(beneath, PREFIX).for_each(|left| take_away(&left));
}

/// Is the process that mounts.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(2).collect();
    let [user, identity, source, target] = &arguments[..] else {
        eprintln!("this is started by the provider itself");
        return ExitCode::from(EXIT_FAILED);
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let identity = identity
        .to_str()
        .and_then(|text| text.split_once(':'))
        .and_then(|(device, inode)| number(device).zip(number(inode)));
    let user = user.to_str().and_then(|text| text.parse().ok());
    let (Some(identity), Some(user)) = (identity, user) else {
        eprintln!("this is started by the provider itself");
        return ExitCode::from(EXIT_FAILED);
    };
    match mount(user, identity, Path::new(source), Path::new(target)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn mount(user: u32, identity: (u64, u64), source: &Path, target: &Path) -> Result<(), String> {
    let doing = |what: &'static str| move |error| format!("{what}: {error}");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::open(source, flags, Mode::empty()).map_err(doing("opening it"))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&place, "", flags).map_err(doing("taking its mount"))?;
    let stat = rustix::fs::fstat(&tree).map_err(doing("looking at it"))?;
    if (stat.st_dev, stat.st_ino) != identity {
        return Err("it was replaced meanwhile".to_owned());
    }
    let owner = Owner {
        uid: stat.st_uid,
        gid: stat.st_gid,
    };
    Attributes::WRITABLE
        .set(tree.as_fd())
        .map_err(doing("having set-id bits mean nothing"))?;
    Maps::new(user)
        .apply(tree.as_fd(), owner)
        .map_err(doing("its file system, or the kernel, does not map owners"))?;
    move_mount(
        tree.as_fd(),
        "",
        CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(doing("mounting it"))?;
    // What is mounted in one of both from now on stays there.
    let apart = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change(target, apart).map_err(doing("keeping it apart"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::owner;

    #[test]
    fn the_mounts_of_the_dead_are_taken_away_and_what_they_show_stays() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scratch = tempfile::tempdir().expect("a directory");
        let own = owner::own().expect("there is a process table");
        let (rest, began) = own.rsplit_once('/').expect("parts");
        let began: u64 = began.parse().expect("a number");
        let source = scratch.path().join("source");
        std::fs::create_dir(&source).expect("a directory");
        std::fs::write(source.join("file"), "stays").expect("a file");
        let made = |by: &str| {
            let name = format!("{PREFIX}{}-0123456789abcdef", by.replace('/', "."));
            let directory = scratch.path().join(name);
            std::fs::create_dir_all(directory.join(TREE)).expect("a directory");
            let found = std::fs::metadata(&source).expect("it is there");
            let identity = (found.dev(), found.ino());
            let target = directory.join(TREE);
            mount(2_010_000_001, identity, &source, &target).expect("it is mounted");
            directory
        };
        let (living, dead) = (made(&own), made(&format!("{rest}/{}", began + 1)));
        let seen = std::fs::metadata(living.join(TREE).join("file")).expect("it is seen");
        assert_eq!(seen.uid(), 2_010_000_001);
        tidy(scratch.path());
        assert!(living.join(TREE).join("file").exists() && !dead.exists());
        take_away(&living);
        assert!(!living.exists());
        assert_eq!(
            std::fs::read(source.join("file")).expect("it is there"),
            b"stays"
        );
    }

    #[test]
    fn a_workspace_that_became_another_is_not_mounted() {
        let scratch = tempfile::tempdir().expect("a directory");
        let refused = mount(1, (0, 0), scratch.path(), scratch.path());
        assert!(refused.is_err());
    }
}

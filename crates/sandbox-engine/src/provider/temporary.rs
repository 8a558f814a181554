//! A temporary directory of one sandbox, where the machine's own is out of reach.
//!
//! It lives exactly as long as its lock, which nobody else ever holds: what a provider that was killed left
//! behind is unlocked, and is removed when the next one is made.
//!
//! **Invariant:** the directory is its user's alone, and its name cannot be known before.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox_tree::clear::clear;
use sandbox_tree::held::hold;

/// What the names of these directories begin with.
const PREFIX: &str = "spp-tmp-";
/// Names that are tried before it is given up.
const TRIES: u32 = 8;

/// A temporary directory. Dropping it removes it, with what is in it.
#[derive(Debug)]
pub(super) struct TemporaryDirectory {
    path: PathBuf,
    /// Open as long as the directory is wanted, and locked.
    handle: File,
}

impl TemporaryDirectory {
    /// Makes one in `parent`, and removes what others left there.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let mut refused = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..TRIES {
            let number = getrandom::u64().map_err(io::Error::other)?;
            let path = parent.join(format!("{PREFIX}{number:016x}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Whoever sweeps at this moment may have taken it for one that was left.
            match hold(&path) {
                Ok(handle) => return Ok(TemporaryDirectory { path, handle }),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn handle(&self) -> &File {
        &self.handle
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            let path = self.path.display();
            tracing::warn!("the temporary directory {path} could not be removed: {error}");
        }
    }
}

/// Removes the directories of this user that nobody locks any more. What cannot be removed is tried again
/// by the next one.
fn sweep(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && found.uid() == own);
        if ours && let Ok(_held) = hold(&entry.path()) {
            let _ = remove(&entry.path());
        }
    }
}

/// Removes a tree, also where what made it took the right to do so away. Nobody is left who could change it
/// meanwhile.
fn remove(path: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    clear(File::open(above)?, name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(parent: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(parent).expect("it is there");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }

    #[test]
    fn it_is_its_users_alone_and_goes_with_what_is_in_it() {
        let parent = tempfile::tempdir().expect("a directory");
        let temporary = TemporaryDirectory::new(parent.path()).expect("made");
        let mode = temporary.path().metadata().expect("it is there").mode();
        assert_eq!(mode & 0o7777, 0o700);
        let closed = temporary.path().join("a/closed");
        std::fs::create_dir_all(&closed).expect("a directory");
        std::fs::write(closed.join("file"), "x").expect("a file");
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).expect("it is ours");
        drop(temporary);
        assert!(names(parent.path()).is_empty());
    }

    #[test]
    fn what_was_left_behind_goes_with_the_next_one_and_what_is_held_stays() {
        let parent = tempfile::tempdir().expect("a directory");
        let left = parent.path().join(format!("{PREFIX}0"));
        let other = parent.path().join("other");
        for path in [&left, &other] {
            std::fs::create_dir(path).expect("a directory");
        }
        let held = TemporaryDirectory::new(parent.path()).expect("made");
        let next = TemporaryDirectory::new(parent.path()).expect("made");
        let mut there = names(parent.path());
        there.sort();
        let mut expected = [held.path().to_owned(), next.path().to_owned(), other];
        expected.sort();
        assert_eq!(there, expected);
    }
}

//! `cargo xtask install`: the executables onto PATH.
//!
//! `cargo install` would need one call and one build directory a package. Here one build serves
//! all, and each file appears under its name by a rename: one that is running keeps its old file,
//! and nobody ever sees half of one.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Failure, Result};
use crate::executables::{self, Executable, Profile};
use crate::workspace::{self, Workspace};

pub(crate) const HELP: &str = "\
Build every executable (release) and copy it to where commands are found.

Usage: cargo xtask install [--root DIR]

  --root DIR   copy to DIR/bin; default: $CARGO_INSTALL_ROOT, $CARGO_HOME, ~/.cargo";

/// Builds and installs under `root`, or where `cargo install` would.
///
/// # Errors
///
/// When the build or a copy fails, or no place is known.
pub(crate) fn run(root: Option<PathBuf>) -> Result<()> {
    let directory = match root {
        Some(root) => root,
        None => default_root(|name| std::env::var_os(name).map(PathBuf::from))?,
    }
    .join("bin");
    let workspace = Workspace::load(workspace::root())?;
    let built = executables::build_shipped(&workspace, Profile::Release)?;
    install(&built, &directory)?;
    for executable in &built {
        eprintln!("installed {}", directory.join(&executable.name).display());
    }
    if !is_searched(&directory, std::env::var_os("PATH").as_deref()) {
        eprintln!(
            "warning: {} is not on PATH, so a shell will not find them; add it",
            directory.display()
        );
    }
    Ok(())
}

/// Where `cargo install` puts things, without its configuration file.
fn default_root(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    variable("CARGO_INSTALL_ROOT")
        .or_else(|| variable("CARGO_HOME"))
        .or_else(|| variable("HOME").map(|home| home.join(".cargo")))
        .ok_or_else(|| {
            Failure::new("failed to choose where to install: HOME is not set; give --root DIR")
        })
}

/// Copies each of `executables` into `directory`, replacing what has its name.
fn install(executables: &[Executable], directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .context(|| format!("create the directory {}", directory.display()))?;
    for executable in executables {
        let to = directory.join(&executable.name);
        let half = directory.join(format!(".{}.{}", executable.name, std::process::id()));
        let copied = fs::copy(&executable.path, &half).and_then(|_| fs::rename(&half, &to));
        if copied.is_err() {
            // Best effort: the error below is what matters.
            drop(fs::remove_file(&half));
        }
        copied.context(|| format!("copy {} to {}", executable.path.display(), to.display()))?;
    }
    Ok(())
}

fn is_searched(directory: &Path, path: Option<&OsStr>) -> bool {
    path.is_some_and(|path| std::env::split_paths(path).any(|it| it == directory))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn executable(directory: &Path, name: &str, content: &str) -> Executable {
        let path = directory.join(name);
        fs::write(&path, content).expect("the directory is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        Executable {
            name: name.into(),
            path,
        }
    }

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory)
            .expect("the directory exists")
            .map(|entry| entry.expect("it can be read").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_second_install_replaces_the_first_and_leaves_nothing_else() {
        let built = tempfile::tempdir().expect("a temporary directory");
        let root = tempfile::tempdir().expect("a temporary directory");
        let bin = root.path().join("bin");

        for content in ["first", "second"] {
            install(&[executable(built.path(), "spp", content)], &bin)
                .expect("nothing is in the way");
        }

        assert_eq!(names(&bin), ["spp"]);
        assert_eq!(
            fs::read_to_string(bin.join("spp")).expect("it is there"),
            "second"
        );
        let mode = fs::metadata(bin.join("spp"))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn an_install_that_fails_names_the_file_and_leaves_no_half_of_it() {
        let built = tempfile::tempdir().expect("a temporary directory");
        let root = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir_all(root.path().join("spp/in-the-way")).expect("it is writable");

        let failure = install(&[executable(built.path(), "spp", "x")], root.path())
            .expect_err("a directory was replaced by a file")
            .to_string();

        assert!(failure.contains("spp"), "{failure}");
        assert_eq!(names(root.path()), ["spp"]);
    }

    #[test]
    fn the_place_is_the_one_that_cargo_install_uses() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let found = default_root(|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| PathBuf::from(value))
            });
            assert_eq!(found.ok(), expected.map(PathBuf::from), "{set:?}");
        };
        check(
            &[
                ("HOME", "/h"),
                ("CARGO_HOME", "/c"),
                ("CARGO_INSTALL_ROOT", "/i"),
            ],
            Some("/i"),
        );
        check(&[("HOME", "/h"), ("CARGO_HOME", "/c")], Some("/c"));
        check(&[("HOME", "/h")], Some("/h/.cargo"));
        check(&[], None);
    }

    #[test]
    fn only_a_whole_entry_of_path_counts_as_searched() {
        let path = OsStr::new("/usr/bin:/home/me/.cargo/bin");
        assert!(is_searched(Path::new("/home/me/.cargo/bin"), Some(path)));
        assert!(!is_searched(Path::new("/home/me/.cargo"), Some(path)));
        assert!(!is_searched(Path::new("/usr/bin"), None));
    }
}

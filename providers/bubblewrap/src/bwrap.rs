//! bubblewrap's program: where it is, which it is, and whether it is one to use.
//!
//! It is asked once for its version and options, and again only when the file became another one.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use spp_client::place::Refusal;

/// Where distributions put it. Only this one is covered by what some of them allow it to do.
const USUAL: &str = "/usr/bin/bwrap";
/// The first version that can forbid further user namespaces, which is most of the kernel's surface.
const OLDEST: Version = Version(0, 8, 0);
/// The first version that can bind what a descriptor names; distributions have added it to older ones.
const BINDS_DESCRIPTORS: &str = "--bind-fd";
/// The user and group that it is asked as where root asks.
const NOBODY: u32 = 65_534;
/// How long it may take to say something about itself.
const ANSWER: Duration = Duration::from_secs(10);

/// A program that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) version: Version,
    /// Whether it can bind what a descriptor names.
    pub(crate) by_descriptor: bool,
}

/// A version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32, u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What tells one file from another that took its name.
type Identity = (PathBuf, u64, u64, i64, i64);

/// Finds the program, and remembers what it said of itself.
#[derive(Debug, Default)]
pub(crate) struct Finder(Mutex<Option<(Identity, Program)>>);

impl Finder {
    /// The program to use.
    ///
    /// # Errors
    ///
    /// Why there is none, and what to do about it.
    pub(crate) async fn find(&self) -> Result<Program, Refusal> {
        let (path, identity) = locate(std::env::var_os("PATH").as_deref())?;
        let known = self.known();
        if let Some((_, program)) = known.filter(|(known, _)| *known == identity) {
            return Ok(program);
        }
        let version = ask(&path, "--version").await?;
        let version = parse_version(&version).ok_or_else(|| {
            Refusal::new(
                format!(
                    "{} does not say which version it is: {version:?}",
                    path.display()
                ),
                "install the bubblewrap package of your distribution",
            )
        })?;
        if version < OLDEST {
            return Err(Refusal::new(
                format!(
                    "bubblewrap {version} is too old: it cannot forbid further user namespaces"
                ),
                format!("install bubblewrap {OLDEST} or newer"),
            ));
        }
        let help = ask(&path, "--help").await?;
        let program = Program {
            path,
            version,
            by_descriptor: help
                .split_whitespace()
                .any(|word| word == BINDS_DESCRIPTORS),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((identity, program.clone()));
        Ok(program)
    }

    fn known(&self) -> Option<(Identity, Program)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Program {
    /// What to know about it; may be empty.
    pub(crate) fn notes(&self) -> Vec<String> {
        if self.by_descriptor {
            return Vec::new();
        }
        vec![format!(
            "bubblewrap {} cannot bind by descriptor (CVE-2024-42472): whoever can rename a directory above a mount \
             while a sandbox is made can have another one shown",
            self.version
        )]
    }
}

/// The file, and what tells it from others.
fn locate(path: Option<&OsStr>) -> Result<(PathBuf, Identity), Refusal> {
    for candidate in std::iter::once(PathBuf::from(USUAL)).chain(in_path(path)) {
        if let Some(identity) = judge(&candidate)? {
            return Ok((candidate, identity));
        }
    }
    Err(Refusal::new(
        "bubblewrap is not installed (no `bwrap` in /usr/bin or PATH)",
        "install it: `apt install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`, `apk add bubblewrap`",
    ))
}

/// Where it may be in a search path. What a relative directory means depends on where somebody happens to stand.
fn in_path(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let directories = path.map(std::env::split_paths).into_iter().flatten();
    directories
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("bwrap"))
}

/// What tells this file from others; `None` if it cannot be executed.
fn judge(candidate: &Path) -> Result<Option<Identity>, Refusal> {
    let Ok(metadata) = std::fs::metadata(candidate) else {
        return Ok(None);
    };
    if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
        return Ok(None);
    }
    if metadata.mode() & 0o6000 != 0 {
        let shown = candidate.display();
        return Err(Refusal::new(
            format!(
                "{shown} has a set-id bit, so that it runs as another user than it was started by"
            ),
            format!(
                "`chmod u-s,g-s {shown}`, and let the kernel give user namespaces to everybody"
            ),
        ));
    }
    Ok(Some((
        candidate.to_owned(),
        metadata.dev(),
        metadata.ino(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    )))
}

/// What the program prints for an option.
async fn ask(path: &Path, option: &str) -> Result<String, Refusal> {
    let failed = |what: String| {
        Refusal::new(
            format!("{} {option}: {what}", path.display()),
            "install the bubblewrap package of your distribution",
        )
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "it says something about itself and ends"
    )]
    let mut command = tokio::process::Command::new(path);
    if rustix::process::geteuid().is_root() {
        // It may be anybody's who has a say in the search path. Further groups are given up with the user.
        command.uid(NOBODY).gid(NOBODY);
    }
    command
        .arg(option)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match tokio::time::timeout(ANSWER, command.output()).await {
        Ok(Ok(output)) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(Ok(output)) => Err(failed(output.status.to_string())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it does not answer".to_owned())),
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.split_whitespace().last()?.split('.');
    let mut next = || numbers.next().unwrap_or("0").parse().ok();
    Some(Version(next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let parse = |text| parse_version(text).expect("a version");
        assert_eq!(parse("bubblewrap 0.8.0\n"), Version(0, 8, 0));
        assert_eq!(parse("bubblewrap 0.11"), Version(0, 11, 0));
        assert!(parse("bubblewrap 0.10.0") > parse("bubblewrap 0.8.0"));
        assert!(parse("bubblewrap 0.4.1") < OLDEST);
        assert_eq!(parse_version("bubblewrap unknown"), None);
    }

    #[test]
    fn a_program_with_a_set_id_bit_is_refused_and_one_that_became_another_is_asked_again() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let file = directory.path().join("bwrap");
        let judged = |content: &str, mode| {
            std::fs::remove_file(&file).ok();
            std::fs::write(&file, content).expect("a scratch file");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("ours");
            judge(&file)
        };
        let refusal = judged("#!/bin/sh\n", 0o4755).expect_err("it runs as its owner");
        assert!(refusal.remedy.contains("chmod u-s"), "{refusal:?}");
        assert_eq!(judged("#!/bin/sh\n", 0o644), Ok(None));
        let first = judged("#!/bin/sh\n", 0o755).expect("it is one");
        assert!(first.is_some());
        assert_ne!(
            first,
            judged("#!/bin/sh\nexit\n", 0o755).expect("it is one")
        );
    }

    #[test]
    fn nothing_in_a_relative_directory_is_looked_at() {
        let found: Vec<_> = in_path(Some(OsStr::new("bin:.::/opt/bin"))).collect();
        assert_eq!(found, [Path::new("/opt/bin/bwrap")]);
    }
}

//! Private copies of workspaces, in a directory of the user's caches.
//!
//! Each is a directory with a name that nobody else has, in which lie `about` (whose it is, as JSON), `tree` (the copy)
//! and, once it was asked to be kept, `kept`. Whoever has it holds a lock of the directory, which ends with its process. So
//! what is not locked and not kept was left by a provider that was killed, and is removed: when a provider starts, and when a copy
//! is made.
//!
//! **Invariants.** A copy that was asked to be kept is only removed when that is asked for. A name is never used twice,
//! so that a lock is never of another copy. The directory is its user's alone.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_core::{AcquireSpec, Ctx, Error, ErrorKind, Progress, Result, SandboxId, Verb};
use sandbox_tree::clear::clear;
use sandbox_tree::copy::{Copied, CopyFault, copy};
use sandbox_tree::errno::os_error;
use sandbox_tree::held::hold;
use serde::{Deserialize, Serialize};

/// Where they are, below the user's caches.
const BELOW: &str = "spp/bubblewrap";
/// How often it is told how far a copy has come.
const TELL: Duration = Duration::from_secs(1);

/// Whose a copy is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) id: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// What it is a copy of, in lossy spelling: to be compared with its like.
    root: String,
}

/// A copy that this process has. It is removed when this is dropped, unless it was asked to be kept.
#[derive(Debug)]
pub(crate) struct PrivateCopy {
    directory: PathBuf,
    is_kept: bool,
    /// What to know about it.
    pub(crate) note: String,
    _lock: File,
}

/// Where the copies of this user are.
#[derive(Clone, Debug)]
pub(crate) struct Copies(Option<PathBuf>);

impl Copies {
    /// In the caches that the variables of this process name.
    pub(crate) fn of_this_user() -> Self {
        let named = |name: &str| {
            let named = std::env::var_os(name).map(PathBuf::from);
            named.filter(|path| path.is_absolute())
        };
        let caches = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
        Self(caches.map(|caches| caches.join(BELOW)))
    }

    /// Removes what was left by providers that were killed.
    pub(crate) fn sweep(&self) {
        for (directory, _) in self.all() {
            if !is_kept(&directory)
                && let Ok(_held) = hold(&directory)
                // Whoever had it may have been about to keep it.
                && !is_kept(&directory)
                && let Err(error) = remove(&directory)
            {
                let directory = directory.display();
                tracing::warn!(
                    "what is left of a sandbox in {directory} cannot be removed: {error}"
                );
            }
        }
    }

    /// Those that are kept and that nobody has.
    pub(crate) fn kept(&self) -> Vec<About> {
        let all = self.all().into_iter();
        all.filter(|(directory, _)| is_kept(directory) && hold(directory).is_ok())
            .filter_map(|(_, about)| about)
            .collect()
    }

    /// Removes the one that is kept under this id; whether there was one.
    ///
    /// # Errors
    ///
    /// `Busy` if a sandbox of another process has it, otherwise what the system says.
    pub(crate) fn forget(&self, id: &SandboxId) -> Result<bool> {
        let Some((directory, _)) = self.kept_as(id) else {
            return Ok(false);
        };
        let _held = hold(&directory).map_err(|error| taken(Verb::Release, id, error))?;
        remove(&directory).map_err(|error| {
            Error::new(Verb::Release, ErrorKind::Io)
                .on(directory.display())
                .detail("what is left of the copy could not be removed; see who can write there")
                .caused_by(error)
        })?;
        Ok(true)
    }

    /// Whether one is kept under this id.
    pub(crate) fn has(&self, id: &SandboxId) -> bool {
        self.kept_as(id).is_some()
    }

    /// The copy of a workspace for a sandbox: the one that is kept under its id, or a new one.
    ///
    /// # Errors
    ///
    /// `Cancelled`, `DeadlineExceeded`; `Conflict` if another workspace's is kept, `Busy` if another process has it;
    /// `ProviderUnavailable` where there is no directory for copies, and what reading and writing fails with. Nothing is
    /// left then.
    pub(crate) fn take(&self, ctx: &Ctx, spec: &AcquireSpec, root: &Path) -> Result<PrivateCopy> {
        let about = About {
            id: spec.id.as_str().to_owned(),
            labels: spec.labels.clone(),
            root: root.to_string_lossy().into_owned(),
        };
        if let Some((directory, known)) = self.kept_as(&spec.id) {
            let held = hold(&directory).map_err(|error| taken(Verb::Acquire, &spec.id, error))?;
            if known.root != about.root {
                return Err(Error::refused(Verb::Acquire, ErrorKind::Conflict)
                    .on(&spec.id)
                    .detail(format_args!(
                        "a copy of {} is kept under this id; release it to be destroyed, or choose another id",
                        known.root
                    )));
            }
            let note = format!(
                "the workspace is the copy of {} that was kept under this id",
                root.display()
            );
            return Ok(PrivateCopy {
                directory,
                is_kept: true,
                note,
                _lock: held,
            });
        }
        self.sweep();
        self.make(ctx, &about, root)
    }

    fn make(&self, ctx: &Ctx, about: &About, root: &Path) -> Result<PrivateCopy> {
        let unavailable = |error: io::Error| {
            Error::refused(Verb::Acquire, ErrorKind::ProviderUnavailable)
                .detail(
                    "there is no directory for copies; set XDG_CACHE_HOME to one that is yours alone",
                )
                .caused_by(error)
        };
        let (directory, held) = self.directory().map_err(unavailable)?;
        if directory.starts_with(root) {
            let _ = remove(&directory);
            return Err(Error::refused(Verb::Acquire, ErrorKind::InvalidArgument)
                .on(root.display())
                .detail(format_args!(
                    "its copy would be in itself, in {}; name a directory further in, or set XDG_CACHE_HOME to one \
                     outside of it",
                    directory.display()
                )));
        }
        let mut made = PrivateCopy {
            directory,
            is_kept: false,
            note: String::new(),
            _lock: held,
        };
        let text = serde_json::to_string(about).map_err(|error| unavailable(error.into()))?;
        std::fs::write(made.directory.join("about"), text).map_err(unavailable)?;
        let tree = made.tree();
        std::fs::create_dir(&tree).map_err(unavailable)?;
        let (from, to) = (
            File::open(root).map_err(unavailable)?,
            File::open(&tree).map_err(unavailable)?,
        );
        let started = Instant::now();
        let mut told = started;
        let go_on = |copied: &Copied| {
            if told.elapsed() >= TELL {
                told = Instant::now();
                ctx.report(Progress {
                    phase: "copy".into(),
                    message: format!("{}, so far", amount(copied)),
                });
            }
            wanted(ctx).is_none()
        };
        let copied = copy(&from, &to, go_on).map_err(|fault| refusal(ctx, root, fault))?;
        let left_out = match copied.left_out {
            0 => String::new(),
            some => format!("; {some} sockets and devices are not in it"),
        };
        made.note = format!(
            "the workspace is a private copy of {}: {}, made in {} ms{left_out}; what is changed in it is not changed there",
            root.display(),
            amount(&copied),
            started.elapsed().as_millis()
        );
        Ok(made)
    }

    /// A new one that is locked.
    fn directory(&self) -> io::Result<(PathBuf, File)> {
        let Some(above) = &self.0 else {
            return Err(io::Error::other("neither XDG_CACHE_HOME nor HOME is set"));
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(above)?;
        let found = std::fs::symlink_metadata(above)?;
        let own = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
            let why = format!("{} is not this user's alone", above.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // What is shown is opened by its real path.
        let above = above.canonicalize()?;
        loop {
            let name = getrandom::u64().map_err(io::Error::other)?;
            let directory = above.join(format!("{name:016x}"));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Whoever sweeps at this moment may have taken it for one that was left.
            if let Ok(held) = hold(&directory) {
                return Ok((directory, held));
            }
        }
    }

    /// All that there are, and whose, as far as they say.
    fn all(&self) -> Vec<(PathBuf, Option<About>)> {
        let entries = self.0.iter().flat_map(std::fs::read_dir).flatten();
        let directories = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            let named = name.to_str().is_some_and(|name| {
                name.len() == 16 && name.bytes().all(|it| it.is_ascii_hexdigit())
            });
            named && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        let about = |directory: PathBuf| {
            let text = std::fs::read_to_string(directory.join("about")).ok();
            let about = text.and_then(|text| serde_json::from_str(&text).ok());
            (directory, about)
        };
        directories.map(|entry| about(entry.path())).collect()
    }

    fn kept_as(&self, id: &SandboxId) -> Option<(PathBuf, About)> {
        let all = self.all().into_iter();
        let mut kept = all.filter_map(|(directory, about)| Some((directory, about?)));
        kept.find(|(directory, about)| about.id == id.as_str() && is_kept(directory))
    }
}

impl PrivateCopy {
    /// The copy itself.
    pub(crate) fn tree(&self) -> PathBuf {
        self.directory.join("tree")
    }

    /// Keeps it beyond this process.
    ///
    /// # Errors
    ///
    /// The system's; it is removed then.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        File::create(self.directory.join("kept"))?;
        self.is_kept = true;
        Ok(())
    }

    /// Removes it, also if it was kept.
    ///
    /// # Errors
    ///
    /// The system's; what is left is removed by the next provider that starts.
    pub(crate) fn destroy(mut self) -> io::Result<()> {
        self.is_kept = true;
        match std::fs::remove_file(self.directory.join("kept")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        remove(&self.directory)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = remove(&self.directory)
        {
            let directory = self.directory.display();
            tracing::warn!("a private copy in {directory} cannot be removed: {error}");
        }
    }
}

fn is_kept(directory: &Path) -> bool {
    directory.join("kept").exists()
}

fn remove(directory: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    clear(File::open(above)?, name)?;
    Ok(())
}

/// Why a call is not wanted any more, if it is not.
fn wanted(ctx: &Ctx) -> Option<ErrorKind> {
    if ctx.cancel().is_cancelled() {
        return Some(ErrorKind::Cancelled);
    }
    let left = ctx.remaining();
    left.is_some_and(|left| left.is_zero())
        .then_some(ErrorKind::DeadlineExceeded)
}

fn amount(copied: &Copied) -> String {
    let shared = match copied.shared {
        0 => String::new(),
        some => format!(", {some} files of it shared until they are changed"),
    };
    let mebibytes = copied.bytes >> 20;
    format!("{} entries and {mebibytes} MiB{shared}", copied.entries)
}

fn refusal(ctx: &Ctx, root: &Path, fault: CopyFault) -> Error {
    let refused = |kind| Error::refused(Verb::Acquire, kind).on(root.display());
    match fault {
        CopyFault::Stopped => refused(wanted(ctx).unwrap_or(ErrorKind::Cancelled))
            .detail("its copy was still being made, and is removed"),
        CopyFault::Os { path, errno } => {
            let error = os_error(Verb::Acquire, errno);
            let advice = error.detail_text().to_owned();
            error.on(root.display()).detail(format_args!(
                "{} cannot be copied: {advice}",
                String::from_utf8_lossy(&path).escape_debug()
            ))
        }
        CopyFault::TooDeep => refused(ErrorKind::TooLarge).detail(format_args!(
            "{fault}; name a directory further in, or have the workspace bound"
        )),
    }
}

fn taken(verb: Verb, id: &SandboxId, error: io::Error) -> Error {
    Error::refused(verb, ErrorKind::Busy)
        .on(id)
        .detail("a sandbox of another provider's process has the copy that is kept under this id")
        .caused_by(error)
}

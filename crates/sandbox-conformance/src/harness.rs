//! How a check gets its sandbox, and what it may see of it from outside.
//!
//! A [`Harness`] opens a fresh sandbox with an empty workspace for each check and ends it after.
//! Where the workspace is a directory of the machine that the tests run on, it also hands out an
//! [`Outside`]: a directory beside the workspace with something in it that no sandbox may touch. A
//! right error over a wrong effect is still an escape, and only somebody outside can see it.
//!
//! **Invariant:** what stands outside is made anew for each sandbox, so a difference is that
//! sandbox's doing.
//!
//! Not here: starting a provider's executable, which is `sandbox_host`'s one door. Whoever has a
//! [`Provider`], however it is reached, has what a harness needs.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use sandbox_core::{AcquireSpec, Ctx, Disposition, Provider, Sandbox, SandboxId, SandboxPath};

use crate::check::Failure;

/// Opens a fresh sandbox for each check.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Opens a sandbox whose workspace is empty.
    ///
    /// # Errors
    ///
    /// It could not be opened; the check fails.
    async fn open(&self) -> Result<Place, Failure>;

    /// Ends the sandbox, which the check may have released already.
    ///
    /// # Errors
    ///
    /// It could not be ended; the check fails.
    async fn close(&self, place: Place) -> Result<(), Failure>;
}

/// A fresh sandbox and what is around it.
pub struct Place {
    /// Where it comes from.
    pub provider: Arc<dyn Provider>,
    /// What it was acquired with.
    pub spec: AcquireSpec,
    /// The sandbox.
    pub sandbox: Arc<dyn Sandbox>,
    /// What lies beside it, if the harness can look there.
    pub outside: Option<Outside>,
}

/// A directory beside a workspace, as seen from the machine that the tests run on.
#[derive(Debug)]
pub struct Outside {
    workspace: PathBuf,
    directory: PathBuf,
    paths: Paths,
}

/// Whether a sandbox calls the directories of this machine by the names that they have here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paths {
    Same,
    /// It has a tree of its own, in which a name from here means something else, or nothing.
    Own,
}

/// The name of the file that stands outside.
pub const CANARY: &str = "canary";
/// The content of the file that stands outside.
pub const CANARY_CONTENT: &str = "what stands outside\n";

impl Outside {
    /// Prepares `directory`, which must be empty and must not lie in `workspace`.
    ///
    /// # Errors
    ///
    /// The canary could not be put there.
    pub fn prepare(workspace: PathBuf, directory: PathBuf) -> std::io::Result<Self> {
        std::fs::write(directory.join(CANARY), CANARY_CONTENT)?;
        Ok(Self {
            workspace,
            directory,
            paths: Paths::Same,
        })
    }

    /// The same, for a sandbox that sees its workspace at `root`.
    fn seen_from(mut self, root: &SandboxPath) -> Self {
        if root.as_bytes() != self.workspace.as_os_str().as_bytes() {
            self.paths = Paths::Own;
        }
        self
    }

    /// The workspace on this machine.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The directory beside it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes a link in the workspace to the directory outside, or to `entry` in it.
    ///
    /// # Errors
    ///
    /// The link could not be made.
    pub fn link_to_outside(&self, name: &str, entry: Option<&str>) -> Result<(), Failure> {
        std::os::unix::fs::symlink(self.link_text(name, entry), self.workspace.join(name))
            .map_err(|error| Failure::new(format_args!("cannot plant the link {name}: {error}")))
    }

    /// The text of a link at `name` in the workspace that leads to the directory outside, or to `entry` in it. From
    /// where names are the same it is absolute; elsewhere it goes up, since an absolute one would mean something of
    /// the sandbox's own.
    #[must_use]
    pub fn link_text(&self, name: &str, entry: Option<&str>) -> PathBuf {
        let directory = match (self.paths, self.directory.file_name()) {
            (Paths::Own, Some(beside)) => {
                let ups = std::iter::repeat_n("..", 1 + name.matches('/').count());
                ups.collect::<PathBuf>().join(beside)
            }
            _ => self.directory.clone(),
        };
        entry.map_or_else(|| directory.clone(), |entry| directory.join(entry))
    }

    /// Everything outside: path, permission bits and content of each entry. Two equal maps mean
    /// that nothing was touched.
    ///
    /// # Errors
    ///
    /// The directory could not be read.
    pub fn entries(&self) -> Result<BTreeMap<PathBuf, (u32, Vec<u8>)>, Failure> {
        let mut entries = BTreeMap::new();
        look(&self.directory, &mut entries)
            .map_err(|error| Failure::new(format_args!("cannot look outside: {error}")))?;
        Ok(entries)
    }
}

fn look(directory: &Path, entries: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let metadata = std::fs::symlink_metadata(&path)?;
        let content = if metadata.is_file() {
            std::fs::read(&path)?
        } else if metadata.is_symlink() {
            std::fs::read_link(&path)?.as_os_str().as_bytes().to_vec()
        } else {
            Vec::new()
        };
        if metadata.is_dir() {
            look(&path, entries)?;
        }
        entries.insert(path, (metadata.permissions().mode(), content));
    }
    Ok(())
}

/// Sandboxes whose workspaces are directories of this machine: each gets a new one under the
/// directory for temporary files, removed when the sandbox is closed.
pub struct OnThisMachine {
    provider: Arc<dyn Provider>,
    options: Option<String>,
    within: Option<PathBuf>,
    owner: Option<u32>,
    keep: std::sync::Mutex<BTreeMap<SandboxId, tempfile::TempDir>>,
}

impl OnThisMachine {
    /// Sandboxes of `provider`, whose specs name a directory as their root.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            options: None,
            within: None,
            owner: None,
            keep: std::sync::Mutex::default(),
        }
    }

    /// The same, with options of the provider's own in each spec, as JSON text.
    #[must_use]
    pub fn with_options(mut self, options: Option<String>) -> Self {
        self.options = options;
        self
    }

    /// The same, with its directories in this one.
    #[must_use]
    pub fn within(mut self, directory: PathBuf) -> Self {
        self.within = Some(directory);
        self
    }

    /// The same, with everything in its directories owned by this user and group, for a provider that runs as
    /// another user. What lies outside is theirs too: what keeps it must not be its owner.
    #[must_use]
    pub fn owned_by(mut self, user: u32) -> Self {
        self.owner = Some(user);
        self
    }

    fn prepare(&self, id: &SandboxId) -> std::io::Result<Outside> {
        let mut base = tempfile::Builder::new();
        base.prefix("conformance-");
        let base = match &self.within {
            Some(directory) => base.tempdir_in(directory)?,
            None => base.tempdir()?,
        };
        // The kernel's spelling: a workspace that is reached through a link has two names.
        let real = base.path().canonicalize()?;
        let (workspace, directory) = (real.join("workspace"), real.join("outside"));
        std::fs::create_dir(&workspace)?;
        std::fs::create_dir(&directory)?;
        let outside = Outside::prepare(workspace, directory)?;
        if self.owner.is_some() {
            let all = [
                &real,
                outside.workspace(),
                outside.directory(),
                &outside.directory().join(CANARY),
            ];
            for path in all {
                std::os::unix::fs::chown(path, self.owner, self.owner)?;
            }
        }
        self.lock().insert(id.clone(), base);
        Ok(outside)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<SandboxId, tempfile::TempDir>> {
        self.keep
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An id that no other sandbox of this run has.
pub(crate) fn fresh_id() -> SandboxId {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SandboxId::new(format!("conformance-{}-{number}", std::process::id()))
        .expect("digits and dashes make an id")
}

#[async_trait]
impl Harness for OnThisMachine {
    async fn open(&self) -> Result<Place, Failure> {
        let id = fresh_id();
        let outside = self
            .prepare(&id)
            .map_err(|error| Failure::new(format_args!("cannot prepare a workspace: {error}")))?;
        let mut spec = AcquireSpec::new(id);
        spec.options.clone_from(&self.options);
        spec.root = Some(
            outside
                .workspace()
                .to_str()
                .ok_or_else(|| Failure::new("the directory for temporary files is not UTF-8"))?
                .to_owned(),
        );
        let sandbox = self.provider.acquire(&Ctx::new(), &spec).await?;
        Ok(Place {
            provider: Arc::clone(&self.provider),
            spec,
            outside: Some(outside.seen_from(&sandbox.descriptor().root)),
            sandbox,
        })
    }

    async fn close(&self, place: Place) -> Result<(), Failure> {
        let id = &place.spec.id;
        let released = place
            .provider
            .release(&Ctx::new(), id, Disposition::Destroy)
            .await;
        let directory = self.lock().remove(id);
        released?;
        if let Some(directory) = directory {
            directory.close().map_err(|error| {
                Failure::new(format_args!("cannot remove the workspace: {error}"))
            })?;
        }
        Ok(())
    }
}

/// Sandboxes whose workspaces the provider makes by itself. What lies beside them cannot be seen.
pub struct Elsewhere {
    provider: Arc<dyn Provider>,
    options: Option<String>,
}

impl Elsewhere {
    /// Sandboxes of `provider`, whose specs name no root and have these options, as JSON text.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, options: Option<String>) -> Self {
        Self { provider, options }
    }
}

#[async_trait]
impl Harness for Elsewhere {
    async fn open(&self) -> Result<Place, Failure> {
        let mut spec = AcquireSpec::new(fresh_id());
        spec.options.clone_from(&self.options);
        let sandbox = self.provider.acquire(&Ctx::new(), &spec).await?;
        Ok(Place {
            provider: Arc::clone(&self.provider),
            spec,
            sandbox,
            outside: None,
        })
    }

    async fn close(&self, place: Place) -> Result<(), Failure> {
        let id = &place.spec.id;
        place
            .provider
            .release(&Ctx::new(), id, Disposition::Destroy)
            .await?;
        Ok(())
    }
}

//! The rows, one module each, and the place they are measured at.
//!
//! Every row uses the request a user gets by default: both streams captured, the tree killed, a
//! timeout set. There is no faster path that only the bench takes.

mod bubblewrap;
mod call;
mod docker;
mod exec;
mod fingerprint;
mod idle;
mod placed;
mod pull_tree;
mod push_tree;
mod read;
mod search;
mod ssh;
mod stall;
mod stat_many;
mod stream;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Policy, Sandbox};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, OpenRequest, SearchPath};

use crate::memory;
use crate::report::Row;

/// Any failure of a row ends the run.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Names a row, or a few that are measured together, and measures it.
pub(crate) struct Measure {
    /// The name on the command line.
    pub(crate) name: &'static str,
    /// What it compares.
    pub(crate) about: &'static str,
    /// Measures it.
    pub(crate) run: fn(&Place) -> LocalBoxFuture<'_, Result<Vec<Row>>>,
}

/// Every row.
pub(crate) const ALL: &[Measure] = &[
    Measure {
        name: "exec",
        about: "exec of /bin/true through host and provider, against tokio::process",
        run: |place| Box::pin(exec::run(place)),
    },
    Measure {
        name: "call",
        about: "a call that does nothing, host to provider and back",
        run: |place| Box::pin(call::run(place)),
    },
    Measure {
        name: "read",
        about: "read of 4 KiB, against std::fs::read",
        run: |place| Box::pin(read::run(place)),
    },
    Measure {
        name: "stream",
        about: "exec that writes 256 MiB to a reader, against a pipe",
        run: |place| Box::pin(stream::run(place)),
    },
    Measure {
        name: "stall",
        about: "other calls while one reader does not read",
        run: |place| Box::pin(stall::run(place)),
    },
    Measure {
        name: "stat_many",
        about: "stat_many of 1,000 paths in one round trip, against as many calls of lstat",
        run: |place| Box::pin(stat_many::run(place)),
    },
    Measure {
        name: "fingerprint",
        about: "fingerprint of 50,000 files, against git status and b3sum",
        run: |place| Box::pin(fingerprint::run(place)),
    },
    Measure {
        name: "push_tree",
        about: "push_tree of 10,000 files, and of 10 that changed, against tar",
        run: |place| Box::pin(push_tree::run(place)),
    },
    Measure {
        name: "pull_tree",
        about: "pull_tree of a file of 256 MiB, against tar",
        run: |place| Box::pin(pull_tree::run(place)),
    },
    Measure {
        name: "search",
        about: "grep and glob of 50,000 files, against rg",
        run: |place| Box::pin(search::run(place)),
    },
    Measure {
        name: "bubblewrap",
        about: "exec at bubblewrap, alone and 32 at once, against a bwrap for each command and against local; and the first command",
        run: |place| Box::pin(bubblewrap::run(place)),
    },
    Measure {
        name: "bubblewrap-paths",
        about: "exec at bubblewrap with 20,000 paths hidden, against none; and its start",
        run: |place| Box::pin(bubblewrap::paths(place)),
    },
    Measure {
        name: "bubblewrap-idle",
        about: "1,000 idle sandboxes at bubblewrap: their memory, and how long it takes to have them (root)",
        run: |place| Box::pin(bubblewrap::idle(place)),
    },
    Measure {
        name: "docker",
        about: "exec, read and acquire at docker, against docker exec and docker run (SPP_TEST_DOCKER names the daemon)",
        run: |place| Box::pin(docker::run(place)),
    },
    Measure {
        name: "docker-many",
        about: "exec at docker, 32 at once, against docker exec",
        run: |place| Box::pin(docker::many(place)),
    },
    Measure {
        name: "docker-trees",
        about: "push_tree and pull_tree at docker, against tar through docker exec",
        run: |place| Box::pin(docker::trees(place)),
    },
    Measure {
        name: "docker-idle",
        about: "memory of an idle sandbox at docker, on this side",
        run: |place| Box::pin(docker::idle(place)),
    },
    Measure {
        name: "ssh",
        about: "exec and acquire at ssh, against ssh with and without an open master (SPP_TEST_SSH names the configuration)",
        run: |place| Box::pin(ssh::run(place)),
    },
    Measure {
        name: "ssh-far",
        about: "small verbs at ssh on a machine 20 ms away, against the round trip alone (the same configuration)",
        run: |place| Box::pin(ssh::far(place)),
    },
    Measure {
        name: "idle",
        about: "memory of a provider with one idle sandbox",
        run: |place| Box::pin(idle::run(place)),
    },
    Measure {
        name: "work",
        about: "cargo test of a published crate, with and without",
        run: |place| Box::pin(work::run(place)),
    },
];

/// A sandbox, behind host and provider as a user has it.
pub(crate) struct Place {
    /// The sandbox.
    pub(crate) sandbox: Arc<dyn Sandbox>,
    /// The provider's process.
    pub(crate) provider: u32,
    /// The workspace.
    pub(crate) root: PathBuf,
    host: Host,
}

impl Place {
    /// A request for a sandbox on its root.
    pub(crate) fn request(&self) -> Result<OpenRequest> {
        let root = self
            .root
            .to_str()
            .ok_or("the scratch directory is not UTF-8")?;
        Ok(OpenRequest {
            root: Some(root.to_owned()),
            ..OpenRequest::default()
        })
    }

    /// Opens one at `local`, in a new directory below `scratch`, which is never cleaned between rows.
    pub(crate) async fn open(scratch: &std::path::Path, name: &str) -> Result<Self> {
        Self::open_at("local", scratch, name).await
    }

    /// The same at another location.
    pub(crate) async fn open_at(
        location: &str,
        scratch: &std::path::Path,
        name: &str,
    ) -> Result<Self> {
        let root = scratch.join(name);
        std::fs::create_dir(&root)?;
        Self::open_with(location, root, Policy::default()).await
    }

    /// Opens one on a directory that is there, under a policy.
    pub(crate) async fn open_with(location: &str, root: PathBuf, policy: Policy) -> Result<Self> {
        Self::open_configured(location, root, policy, UserFile::None).await
    }

    /// The same with a configuration file.
    pub(crate) async fn open_configured(
        location: &str,
        root: PathBuf,
        policy: Policy,
        user_file: UserFile,
    ) -> Result<Self> {
        let before = memory::children();
        let sources = Sources {
            location: Some(location.to_owned()),
            location_variable: None,
            directory: root.clone(),
            user_file,
            search: SearchPath::of_process(),
        };
        let host = Host::new(Config::load(&sources)?, sources.search);
        let request = OpenRequest {
            root: Some(
                root.to_str()
                    .ok_or("the scratch directory is not UTF-8")?
                    .to_owned(),
            ),
            policy: Some(policy),
            ..OpenRequest::default()
        };
        let opened = host.open(&Ctx::new(), None, request).await?;
        let provider = memory::children()
            .into_iter()
            .find(|pid| !before.contains(pid))
            .ok_or("the provider's process was not found among the children")?;
        Ok(Self {
            sandbox: opened.sandbox,
            provider,
            root,
            host,
        })
    }

    /// Ends sandbox and provider.
    pub(crate) async fn close(self) {
        drop(self.sandbox);
        self.host.shutdown().await;
    }
}

/// `argv` as users run it: a timeout is set, everything else is the default.
pub(crate) fn process<A: AsRef<[u8]>>(argv: impl IntoIterator<Item = A>) -> ProcessSpec {
    ProcessSpec::new(argv).timeout(Duration::from_secs(120))
}

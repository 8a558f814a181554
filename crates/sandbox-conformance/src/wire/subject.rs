//! The executable under test: how it is started, and what a sandbox of it is acquired with.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sandbox_core::Capabilities;
use sandbox_host::direct::{Bare, DirectProvider};
use sandbox_host::error::StderrTail;
use serde_json::{Value, json};
use spp_protocol::message::handshake::CapabilityTree;

use super::peer::{Acquired, Peer};
use crate::check::Failure;
use crate::orphans::Orphans;

/// Where workspaces come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workspaces {
    /// Directories of this machine, made for each sandbox and named to the provider as its root.
    Here,
    /// The provider makes its own; no root is named.
    Theirs,
}

/// A provider's executable, and what its sandboxes are acquired with.
pub struct Subject {
    provider: Arc<DirectProvider>,
    workspaces: Workspaces,
    scratch: PathBuf,
    options: Option<Value>,
    orphans: Arc<Orphans>,
    number: AtomicU64,
    last_words: Arc<Mutex<StderrTail>>,
}

impl Subject {
    /// - `scratch`: an empty directory for workspaces; removing it is the caller's.
    /// - `options`: the provider's own, as JSON.
    #[must_use]
    pub fn new(
        provider: Arc<DirectProvider>,
        workspaces: Workspaces,
        scratch: PathBuf,
        options: Option<Value>,
        orphans: Arc<Orphans>,
    ) -> Self {
        Self {
            provider,
            workspaces,
            scratch,
            options,
            orphans,
            number: AtomicU64::new(0),
            last_words: Arc::default(),
        }
    }

    /// The end of what the last process wrote on standard error; empty once it was asked for.
    #[must_use]
    pub fn take_last_words(&self) -> StderrTail {
        std::mem::take(
            &mut *self
                .last_words
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Processes that were left by others and are this process's now.
    pub(super) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    /// A process that was started as said, and not spoken to.
    pub(super) fn start(&self, how: Bare) -> Result<Peer, Failure> {
        let process = self.provider.start(how).map_err(Failure::new)?;
        Ok(Peer::new(process, Arc::clone(&self.last_words)))
    }

    /// A process that a host started and has not spoken to.
    pub(super) fn peer(&self) -> Result<Peer, Failure> {
        self.start(Bare::ByAHost)
    }

    /// A process that was initialized with everything at its default.
    pub(super) async fn ready(&self) -> Result<Peer, Failure> {
        self.ready_with(json!({})).await
    }

    /// A process that was initialized with these limits of the host.
    pub(super) async fn ready_with(&self, limits: Value) -> Result<Peer, Failure> {
        let mut peer = self.peer()?;
        let set = |name: &str, default: u64| limits[name].as_u64().unwrap_or(default);
        peer.streams.window = set("stream_window_bytes", peer.streams.window);
        peer.streams.connection_window =
            set("connection_window_bytes", peer.streams.connection_window);
        let offered = set("max_line_bytes", 1024 * 1024);
        peer.hello = peer.ok("initialize", initialize(&[1], &limits)).await?;
        let theirs = peer.hello["limits"]["max_line_bytes"]
            .as_u64()
            .unwrap_or(1024 * 1024);
        peer.max_line = usize::try_from(offered.min(theirs)).unwrap_or(usize::MAX);
        Ok(peer)
    }

    /// A process that was initialized, with a fresh sandbox.
    pub(super) async fn sandbox(&self) -> Result<Peer, Failure> {
        self.sandbox_with(json!({})).await
    }

    /// As [`sandbox`](Self::sandbox), with these limits of the host.
    pub(super) async fn sandbox_with(&self, limits: Value) -> Result<Peer, Failure> {
        let mut peer = self.ready_with(limits).await?;
        let acquired = self.acquire(&mut peer).await?;
        peer.sandbox = Some(acquired);
        Ok(peer)
    }

    /// A fresh sandbox.
    pub(super) async fn acquire(&self, peer: &mut Peer) -> Result<Acquired, Failure> {
        let (spec, workspace) = self.spec()?;
        self.acquire_by(peer, spec, workspace).await
    }

    /// A sandbox by a spec that [`spec`](Self::spec) gave.
    pub(super) async fn acquire_by(
        &self,
        peer: &mut Peer,
        spec: Value,
        workspace: Option<PathBuf>,
    ) -> Result<Acquired, Failure> {
        let id = peer.ask("acquire", json!({ "spec": spec })).await?;
        // Some places take their time to come up.
        let limit = std::time::Duration::from_secs(50);
        let answer = peer.answer_within(id, "acquire", limit).await?;
        let result = super::peer::result(answer, "acquire")?;
        Ok(Acquired {
            spec,
            descriptor: result["descriptor"].clone(),
            workspace,
        })
    }

    /// A spec that nobody has used, and its workspace if that is here.
    pub(super) fn spec(&self) -> Result<(Value, Option<PathBuf>), Failure> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut spec = json!({ "sandbox": format!("wire-{}-{number}", std::process::id()) });
        if let Some(options) = &self.options {
            spec["options"] = options.clone();
        }
        if self.workspaces == Workspaces::Theirs {
            return Ok((spec, None));
        }
        let directory = self.scratch.join(format!("wire-{number}"));
        std::fs::create_dir(&directory)
            .map_err(|error| Failure::new(format_args!("cannot make a workspace: {error}")))?;
        spec["root"] = text(&directory)?.into();
        Ok((spec, Some(directory)))
    }
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str()
        .ok_or_else(|| Failure::new("the directory for temporary files is not UTF-8"))
}

/// The parameters of `initialize`.
pub(super) fn initialize(majors: &[u32], limits: &Value) -> Value {
    json!({
        "protocol": { "majors": majors },
        "host": { "name": "spp-conformance", "version": env!("CARGO_PKG_VERSION") },
        "limits": limits,
    })
}

/// What the result of `initialize` declares.
pub(super) fn capabilities(hello: &Value) -> Capabilities {
    serde_json::from_value::<CapabilityTree>(hello["capabilities"].clone())
        .map(|tree| tree.decode())
        .unwrap_or_default()
}

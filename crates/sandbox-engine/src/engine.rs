//! The sandbox itself: files and processes behind the port, for one tree.
//!
//! **Invariants.**
//! - An engine that was closed answers every verb with `Lost`, for ever.
//! - Dropping it ends everything it started.
//!
//! Not here: what a verb does (`file`, `fingerprint`, `process`), and where sandboxes come from (`provider`).

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use sandbox_core::file::{
    FileContent, ReadManyRequest, ReadManyResult, ReadRequest, RemoveReceipt, RemoveRequest,
    StatManyRequest, StatManyResult, WriteRequest, WriteResult,
};
use sandbox_core::process::{
    ExecRequest, Execution, ProcChunk, ProcReadRequest, ProcStdinRequest, ProcStopRequest,
    SpawnReceipt, SpawnRequest, StdinReceipt, StopReceipt,
};
use sandbox_core::search::{
    Fingerprint, FingerprintRequest, GlobRequest, GlobResult, GrepRequest, GrepResult,
};
use sandbox_core::transfer::{Pull, PullRequest, PushReceipt, PushRequest};
use sandbox_core::{
    Capabilities, Capability, Closed, Ctx, Descriptor, Error, ErrorKind, Result, Sandbox,
    SandboxPath, SandboxState, Verb,
};
use std::os::fd::OwnedFd;
use tokio::sync::watch;

use crate::file::Files;
use crate::file::call::{self, Interrupt};
use crate::fingerprint::Fingerprints;
use crate::process::Processes;
use crate::root::Roots;
use crate::search::Searches;
use crate::transfer::Trees;

/// What an engine can do.
#[must_use]
pub fn capabilities() -> Capabilities {
    [
        Capability::ReadMany,
        Capability::Edit,
        Capability::MakeDirectory,
        Capability::Rename,
        Capability::SetMode,
        Capability::Link,
        Capability::Precondition,
        Capability::Durable,
        Capability::Glob,
        Capability::Grep,
        Capability::Fingerprint,
        Capability::Stdin,
        Capability::Pty,
        Capability::Track,
        Capability::Spawn,
        Capability::PushTree,
        Capability::PullTree,
    ]
    .into_iter()
    .collect()
}

/// One sandbox: a tree and what runs in it. See the [module](self).
#[derive(Debug)]
pub struct Engine {
    descriptor: Arc<Descriptor>,
    roots: Arc<Roots>,
    files: Files,
    trees: Trees,
    searches: Searches,
    fingerprints: Fingerprints,
    processes: Processes,
    /// The root, once something was started in it: most commands are, and need not open it again.
    start: OnceLock<Arc<OwnedFd>>,
    closed: watch::Sender<Option<Closed>>,
}

impl Engine {
    /// A sandbox over `roots` that is what `descriptor` says.
    #[must_use]
    pub fn new(descriptor: Descriptor, roots: Roots, processes: Processes) -> Self {
        let roots = Arc::new(roots);
        Self {
            descriptor: Arc::new(descriptor),
            files: Files::new(Arc::clone(&roots)),
            trees: Trees::new(Arc::clone(&roots)),
            searches: Searches::new(Arc::clone(&roots)),
            fingerprints: Fingerprints::new(Arc::clone(&roots)),
            roots,
            processes,
            start: OnceLock::new(),
            closed: watch::Sender::new(None),
        }
    }

    /// Ends everything that runs and resolves when nothing of it is left. The first reason stays.
    pub async fn close(&self, reason: Closed) {
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert(reason);
            first
        });
        self.processes.shutdown().await;
    }

    fn open(&self, verb: Verb) -> Result<()> {
        let closed = self.closed.borrow();
        let Some(reason) = &*closed else {
            return Ok(());
        };
        let lost = Error::refused(verb, ErrorKind::Lost).on(&self.descriptor.id);
        Err(match reason {
            Closed::Released => lost.detail("it was released; acquire it again"),
            Closed::Lost { reason } => lost.detail(reason),
        })
    }

    /// Opens the working directory of something that is to run.
    async fn directory(&self, ctx: &Ctx, verb: Verb, path: &SandboxPath) -> Result<Arc<OwnedFd>> {
        if path.is_root() {
            if let Some(root) = self.start.get() {
                return Ok(Arc::clone(root));
            }
            // The handle is there already; no disk is asked.
            let root = Arc::new(self.roots.open_dir(verb, path)?);
            return Ok(Arc::clone(self.start.get_or_init(|| root)));
        }
        let (roots, path) = (Arc::clone(&self.roots), path.clone());
        call::blocking(ctx, verb, Interrupt::Abandon, move |_| {
            roots.open_dir(verb, &path)
        })
        .await
        .map(Arc::new)
    }
}

fn unsupported<T>(verb: Verb, instead: &str) -> Result<T> {
    Err(Error::refused(verb, ErrorKind::Unsupported).detail(instead))
}

#[async_trait]
impl Sandbox for Engine {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    async fn closed(&self) -> Closed {
        let mut closed = self.closed.subscribe();
        let reason = match closed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone(),
            // The sender is a field of `self`, which is borrowed here.
            Err(_) => None,
        };
        reason.unwrap_or(Closed::Released)
    }

    async fn capture_state(&self, _ctx: &Ctx) -> Result<SandboxState> {
        unsupported(
            Verb::CaptureState,
            "this sandbox ends with its connection; acquire it again",
        )
    }

    async fn read(&self, ctx: &Ctx, request: ReadRequest) -> Result<FileContent> {
        self.open(Verb::Read)?;
        self.files.read(ctx, request).await
    }

    async fn read_many(&self, ctx: &Ctx, request: ReadManyRequest) -> Result<ReadManyResult> {
        self.open(Verb::ReadMany)?;
        self.files.read_many(ctx, request).await
    }

    async fn write(&self, ctx: &Ctx, request: WriteRequest) -> Result<WriteResult> {
        self.open(Verb::Write)?;
        self.files.write(ctx, request).await
    }

    async fn remove(&self, ctx: &Ctx, request: RemoveRequest) -> Result<RemoveReceipt> {
        self.open(Verb::Remove)?;
        self.files.remove(ctx, request).await
    }

    async fn stat_many(&self, ctx: &Ctx, request: StatManyRequest) -> Result<StatManyResult> {
        self.open(Verb::StatMany)?;
        self.files.stat_many(ctx, request).await
    }

    async fn glob(&self, ctx: &Ctx, request: GlobRequest) -> Result<GlobResult> {
        self.open(Verb::Glob)?;
        self.searches.glob(ctx, request).await
    }

    async fn grep(&self, ctx: &Ctx, request: GrepRequest) -> Result<GrepResult> {
        self.open(Verb::Grep)?;
        self.searches.grep(ctx, request).await
    }

    async fn fingerprint(&self, ctx: &Ctx, request: FingerprintRequest) -> Result<Fingerprint> {
        self.open(Verb::Fingerprint)?;
        self.fingerprints.fingerprint(ctx, request).await
    }

    async fn exec(&self, ctx: &Ctx, mut request: ExecRequest) -> Result<Execution> {
        self.open(Verb::Exec)?;
        let directory = self
            .directory(ctx, Verb::Exec, &request.process.cwd)
            .await?;
        let Some(scope) = request.track.take() else {
            return self.processes.exec(ctx, request, directory);
        };
        let tracking = self.fingerprints.track(ctx, scope).await?;
        let mut execution = self.processes.exec(ctx, request, directory)?;
        let (ctx, outcome) = (ctx.clone(), execution.outcome);
        execution.outcome = Box::pin(async move {
            let mut outcome = outcome.await?;
            outcome.changes = Some(tracking.changes(&ctx).await);
            Ok(outcome)
        });
        Ok(execution)
    }

    async fn spawn(&self, ctx: &Ctx, request: SpawnRequest) -> Result<SpawnReceipt> {
        self.open(Verb::Spawn)?;
        let directory = self
            .directory(ctx, Verb::Spawn, &request.process.cwd)
            .await?;
        self.processes.spawn(ctx, request, directory).await
    }

    async fn proc_read(&self, ctx: &Ctx, request: ProcReadRequest) -> Result<ProcChunk> {
        self.open(Verb::ProcRead)?;
        self.processes.proc_read(ctx, request).await
    }

    async fn proc_stdin(&self, ctx: &Ctx, request: ProcStdinRequest) -> Result<StdinReceipt> {
        self.open(Verb::ProcStdin)?;
        self.processes.proc_stdin(ctx, request).await
    }

    async fn proc_stop(&self, ctx: &Ctx, request: ProcStopRequest) -> Result<StopReceipt> {
        self.open(Verb::ProcStop)?;
        self.processes.proc_stop(ctx, request).await
    }

    async fn push_tree(&self, ctx: &Ctx, request: PushRequest) -> Result<PushReceipt> {
        self.open(Verb::PushTree)?;
        self.trees.push_tree(ctx, request).await
    }

    async fn pull_tree(&self, ctx: &Ctx, request: PullRequest) -> Result<Pull> {
        self.open(Verb::PullTree)?;
        self.trees.pull_tree(ctx, request)
    }
}

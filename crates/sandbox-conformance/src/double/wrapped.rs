//! The wrapper: an honest provider in which one verb is not its own.
//!
//! **Invariant:** what a double does not replace is handed on as it is. The wrapper notes a few
//! facts on the way, for doubles that lie about what was done before.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::stream;
use sandbox_core::file::{
    FileContent, ReadManyRequest, ReadManyResult, ReadRequest, RemoveReceipt, RemoveRequest, Stat,
    StatManyRequest, StatManyResult, WriteRequest, WriteResult,
};
use sandbox_core::process::{
    ExecRequest, Execution, Outcome, ProcChunk, ProcReadRequest, ProcStdinRequest, ProcStopRequest,
    SpawnReceipt, SpawnRequest, StdinReceipt, StopReceipt,
};
use sandbox_core::search::{
    Fingerprint, FingerprintRequest, GlobRequest, GlobResult, GrepRequest, GrepResult,
};
use sandbox_core::transfer::{Pull, PullRequest, PushReceipt, PushRequest};
use sandbox_core::{
    AcquireSpec, Closed, Ctx, Descriptor, Disposition, EnvChange, Probe, Provider, ProviderInfo,
    ReleaseReceipt, Result, Sandbox, SandboxEntry, SandboxId, SandboxPath, SandboxState,
    TemplateReceipt, TemplateSpec, Update, Verb,
};

use super::{Double, Tamper};

/// The verbs that were called. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<BTreeMap<Verb, u64>>>);

impl Calls {
    /// Whether `verb` was called.
    #[must_use]
    pub fn contains(&self, verb: Verb) -> bool {
        self.count(verb) > 0
    }

    /// How often `verb` was called: its round trips.
    #[must_use]
    pub fn count(&self, verb: Verb) -> u64 {
        lock(&self.0).get(&verb).copied().unwrap_or(0)
    }

    fn note(&self, verb: Verb) {
        *lock(&self.0).entry(verb).or_default() += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a double asks for the truth.
pub(super) struct Honest {
    sandbox: Arc<dyn Sandbox>,
    notes: Mutex<BTreeMap<String, u64>>,
    /// Environments of earlier calls.
    pub(super) left: Mutex<Vec<EnvChange>>,
}

impl Deref for Honest {
    type Target = dyn Sandbox;

    fn deref(&self) -> &Self::Target {
        &*self.sandbox
    }
}

impl Honest {
    /// What was noted under `key`; 0 if nothing was.
    pub(super) fn noted(&self, key: &str) -> u64 {
        lock(&self.notes).get(key).copied().unwrap_or(0)
    }

    /// Notes `value` under `key`, and returns what was noted before.
    pub(super) fn note(&self, key: &str, value: u64) -> u64 {
        lock(&self.notes).insert(key.to_owned(), value).unwrap_or(0)
    }

    /// Adds to what is noted under `key`, and returns the sum.
    pub(super) fn add(&self, key: &str, value: u64) -> u64 {
        let mut notes = lock(&self.notes);
        let noted = notes.entry(key.to_owned()).or_default();
        *noted += value;
        *noted
    }

    /// What an entry is, if it is there and can be looked at.
    pub(super) async fn look(&self, ctx: &Ctx, path: &SandboxPath) -> Option<Stat> {
        let request = StatManyRequest {
            paths: vec![path.clone()],
        };
        let mut answers = self.sandbox.stat_many(ctx, request).await.ok()?;
        answers.pop()?.ok()?
    }

    /// The text of the link at `path`, if that is one.
    pub(super) async fn link(&self, ctx: &Ctx, path: &SandboxPath) -> Option<String> {
        let target = self.look(ctx, path).await?.target?;
        String::from_utf8(target.to_vec()).ok()
    }

    /// The first component of `path`.
    pub(super) fn first(path: &SandboxPath) -> Option<SandboxPath> {
        SandboxPath::parse(path.components().next()?).ok()
    }

    /// Where `path` is on this machine, whatever is on the way.
    pub(super) fn host(&self, path: &SandboxPath) -> std::path::PathBuf {
        let root = self.sandbox.descriptor().root.to_string();
        std::path::Path::new(&root).join(path.to_string())
    }
}

/// Runs it, and changes what comes of it: its outcome, or the failure to start that was told
/// at once.
pub(super) async fn mapped(
    honest: &Honest,
    ctx: &Ctx,
    request: ExecRequest,
    map: impl FnOnce(Result<Outcome>) -> Result<Outcome> + Send + 'static,
) -> Result<Execution> {
    match honest.sandbox.exec(ctx, request).await {
        Ok(mut execution) => {
            let outcome = execution.outcome;
            execution.outcome = Box::pin(async move { map(outcome.await) });
            Ok(execution)
        }
        Err(error) => {
            let outcome = map(Err(error))?;
            Ok(Execution {
                id: outcome.id.clone(),
                stdout: Box::pin(stream::empty()),
                stderr: Box::pin(stream::empty()),
                outcome: Box::pin(std::future::ready(Ok(outcome))),
            })
        }
    }
}

/// What a double of the lifecycle asks for the truth.
pub(super) struct HonestProvider {
    pub(super) provider: Arc<dyn Provider>,
    /// What is open.
    specs: Mutex<BTreeMap<SandboxId, AcquireSpec>>,
}

impl HonestProvider {
    /// The spec of a sandbox that is open.
    pub(super) fn spec(&self, id: &SandboxId) -> Option<AcquireSpec> {
        lock(&self.specs).get(id).cloned()
    }

    /// The specs of what is open.
    pub(super) fn specs(&self) -> Vec<AcquireSpec> {
        lock(&self.specs).values().cloned().collect()
    }
}

/// What a release asks for.
pub(super) type Release = (SandboxId, Disposition);

pub(super) fn wrap(
    provider: Arc<dyn Provider>,
    double: Option<&'static Double>,
    calls: Calls,
) -> Arc<dyn Provider> {
    let honest = HonestProvider {
        provider,
        specs: Mutex::default(),
    };
    Arc::new(WrappedProvider {
        honest: Arc::new(honest),
        tamper: double.map(|double| double.tamper),
        calls,
    })
}

struct WrappedProvider {
    honest: Arc<HonestProvider>,
    tamper: Option<Tamper>,
    calls: Calls,
}

#[async_trait]
impl Provider for WrappedProvider {
    fn info(&self) -> Arc<ProviderInfo> {
        self.honest.provider.info()
    }

    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        self.calls.note(Verb::Probe);
        let probe = self.honest.provider.probe(ctx, spec).await?;
        Ok(match self.tamper {
            Some(Tamper::Probe(tamper)) => tamper(probe),
            _ => probe,
        })
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        self.calls.note(Verb::Acquire);
        let sandbox = match self.tamper {
            Some(Tamper::Acquire(tamper)) => {
                tamper(Arc::clone(&self.honest), ctx.clone(), spec.clone()).await?
            }
            _ => self.honest.provider.acquire(ctx, spec).await?,
        };
        lock(&self.honest.specs).insert(spec.id.clone(), spec.clone());
        Ok(Arc::new(WrappedSandbox {
            honest: Arc::new(Honest {
                sandbox,
                notes: Mutex::default(),
                left: Mutex::default(),
            }),
            tamper: self.tamper,
            calls: self.calls.clone(),
        }))
    }

    async fn attach(&self, ctx: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>> {
        self.calls.note(Verb::Attach);
        self.honest.provider.attach(ctx, state).await
    }

    async fn release(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        self.calls.note(Verb::Release);
        let receipt = match self.tamper {
            Some(Tamper::Release(tamper)) => {
                let request = (id.clone(), disposition);
                tamper(Arc::clone(&self.honest), ctx.clone(), request).await
            }
            _ => self.honest.provider.release(ctx, id, disposition).await,
        };
        lock(&self.honest.specs).remove(id);
        receipt
    }

    async fn list(&self, ctx: &Ctx, options: Option<&str>) -> Result<Vec<SandboxEntry>> {
        self.calls.note(Verb::List);
        let entries = self.honest.provider.list(ctx, options).await?;
        Ok(match self.tamper {
            Some(Tamper::List(tamper)) => tamper(entries),
            _ => entries,
        })
    }

    async fn prepare(&self, ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        self.calls.note(Verb::Prepare);
        match self.tamper {
            Some(Tamper::Prepare(tamper)) => Ok(tamper()),
            _ => self.honest.provider.prepare(ctx, template).await,
        }
    }

    async fn update(&self, ctx: &Ctx, id: &SandboxId, update: &Update) -> Result<()> {
        self.calls.note(Verb::Update);
        self.honest.provider.update(ctx, id, update).await
    }
}

struct WrappedSandbox {
    honest: Arc<Honest>,
    tamper: Option<Tamper>,
    calls: Calls,
}

/// A verb that is handed on unless the double replaces it.
macro_rules! verb {
    ($self:ident, $ctx:ident, $request:ident, $verb:ident, $method:ident) => {{
        $self.calls.note(Verb::$verb);
        match $self.tamper {
            Some(Tamper::$verb(tamper)) => {
                tamper(Arc::clone(&$self.honest), $ctx.clone(), $request).await
            }
            _ => $self.honest.sandbox.$method($ctx, $request).await,
        }
    }};
}

/// A verb that no double replaces.
macro_rules! plain {
    ($self:ident, $ctx:ident, $request:ident, $verb:ident, $method:ident) => {{
        $self.calls.note(Verb::$verb);
        $self.honest.sandbox.$method($ctx, $request).await
    }};
}

#[async_trait]
impl Sandbox for WrappedSandbox {
    fn descriptor(&self) -> Arc<Descriptor> {
        let descriptor = self.honest.sandbox.descriptor();
        match self.tamper {
            Some(Tamper::Descriptor(tamper)) => {
                let mut wrong = Descriptor::clone(&descriptor);
                tamper(&mut wrong);
                Arc::new(wrong)
            }
            _ => descriptor,
        }
    }

    async fn closed(&self) -> Closed {
        let closed = self.honest.sandbox.closed().await;
        match self.tamper {
            Some(Tamper::Closed(tamper)) => tamper(closed),
            _ => closed,
        }
    }

    async fn capture_state(&self, ctx: &Ctx) -> Result<SandboxState> {
        self.calls.note(Verb::CaptureState);
        self.honest.sandbox.capture_state(ctx).await
    }

    async fn read(&self, ctx: &Ctx, request: ReadRequest) -> Result<FileContent> {
        verb!(self, ctx, request, Read, read)
    }

    async fn read_many(&self, ctx: &Ctx, request: ReadManyRequest) -> Result<ReadManyResult> {
        verb!(self, ctx, request, ReadMany, read_many)
    }

    async fn write(&self, ctx: &Ctx, request: WriteRequest) -> Result<WriteResult> {
        let Some(Tamper::Change(tamper)) = self.tamper else {
            return verb!(self, ctx, request, Write, write);
        };
        self.calls.note(Verb::Write);
        let mut receipts = Vec::new();
        // Durability is nothing that these doubles lie about.
        for change in request.changes {
            receipts.push(tamper(Arc::clone(&self.honest), ctx.clone(), change).await);
        }
        Ok(receipts)
    }

    async fn remove(&self, ctx: &Ctx, request: RemoveRequest) -> Result<RemoveReceipt> {
        verb!(self, ctx, request, Remove, remove)
    }

    async fn stat_many(&self, ctx: &Ctx, request: StatManyRequest) -> Result<StatManyResult> {
        verb!(self, ctx, request, StatMany, stat_many)
    }

    async fn glob(&self, ctx: &Ctx, request: GlobRequest) -> Result<GlobResult> {
        verb!(self, ctx, request, Glob, glob)
    }

    async fn grep(&self, ctx: &Ctx, request: GrepRequest) -> Result<GrepResult> {
        verb!(self, ctx, request, Grep, grep)
    }

    async fn fingerprint(&self, ctx: &Ctx, request: FingerprintRequest) -> Result<Fingerprint> {
        verb!(self, ctx, request, Fingerprint, fingerprint)
    }

    async fn exec(&self, ctx: &Ctx, mut request: ExecRequest) -> Result<Execution> {
        if let Some(id) = &request.id {
            self.honest.note(&format!("exec {id}"), 1);
        }
        match self.tamper {
            Some(Tamper::Process(tamper)) => {
                tamper(&mut request.process);
                plain!(self, ctx, request, Exec, exec)
            }
            Some(Tamper::Outcome(tamper)) => {
                let process = request.process.clone();
                self.calls.note(Verb::Exec);
                mapped(&self.honest, ctx, request, move |outcome| {
                    tamper(&process, outcome)
                })
                .await
            }
            _ => verb!(self, ctx, request, Exec, exec),
        }
    }

    async fn spawn(&self, ctx: &Ctx, mut request: SpawnRequest) -> Result<SpawnReceipt> {
        let (id, pty) = (request.id.clone(), request.process.pty.is_some());
        let receipt = if let Some(Tamper::Process(tamper)) = self.tamper {
            tamper(&mut request.process);
            plain!(self, ctx, request, Spawn, spawn)
        } else {
            verb!(self, ctx, request, Spawn, spawn)
        };
        if let Ok(receipt) = &receipt {
            self.honest.note(&format!("pid {id}"), receipt.pid.into());
            self.honest.note(&format!("pty {id}"), pty.into());
        }
        receipt
    }

    async fn proc_read(&self, ctx: &Ctx, request: ProcReadRequest) -> Result<ProcChunk> {
        verb!(self, ctx, request, ProcRead, proc_read)
    }

    async fn proc_stdin(&self, ctx: &Ctx, request: ProcStdinRequest) -> Result<StdinReceipt> {
        self.honest.add("input", request.bytes.len() as u64);
        verb!(self, ctx, request, ProcStdin, proc_stdin)
    }

    async fn proc_stop(&self, ctx: &Ctx, request: ProcStopRequest) -> Result<StopReceipt> {
        verb!(self, ctx, request, ProcStop, proc_stop)
    }

    async fn push_tree(&self, ctx: &Ctx, request: PushRequest) -> Result<PushReceipt> {
        verb!(self, ctx, request, PushTree, push_tree)
    }

    async fn pull_tree(&self, ctx: &Ctx, request: PullRequest) -> Result<Pull> {
        verb!(self, ctx, request, PullTree, pull_tree)
    }
}

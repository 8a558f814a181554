//! How many commands run at once, over all sandboxes of a host.
//!
//! A command takes a slot before anything is sent, so *busy* means that nothing was started. An
//! `exec` holds its slot until its outcome is there; a `spawn` until its end was seen. When all
//! slots are taken and some belong to spawned processes, these are asked whether they still run
//! before anybody is refused: their end may not have been looked at yet.
//!
//! What counts are commands that were asked for, not the processes that they start.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use sandbox_core::file::{
    FileContent, ReadManyRequest, ReadManyResult, ReadRequest, RemoveReceipt, RemoveRequest,
    StatManyRequest, StatManyResult, WriteRequest, WriteResult,
};
use sandbox_core::process::{
    ExecRequest, Execution, OutputStream, ProcChunk, ProcReadRequest, ProcStatus, ProcStdinRequest,
    ProcStopRequest, SpawnReceipt, SpawnRequest, StdinReceipt, StopReceipt,
};
use sandbox_core::search::{
    Fingerprint, FingerprintRequest, GlobRequest, GlobResult, GrepRequest, GrepResult,
};
use sandbox_core::transfer::{Pull, PullRequest, PushReceipt, PushRequest};
use sandbox_core::{
    Closed, Ctx, Descriptor, Effect, Error, ErrorKind, Generation, ProcId, Result, Sandbox,
    SandboxId, SandboxState, Verb,
};

/// The slots of a host.
pub(crate) struct Admission {
    max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    execs: usize,
    spawned: BTreeMap<Key, Arc<dyn Sandbox>>,
}

/// A spawned process, over all sandboxes.
type Key = (SandboxId, Generation, ProcId);

impl Admission {
    pub(crate) fn new(max: u32) -> Arc<Self> {
        Arc::new(Self {
            max: usize::try_from(max).unwrap_or(usize::MAX),
            held: Mutex::default(),
        })
    }

    /// A sandbox whose commands take slots.
    pub(crate) fn guard(self: &Arc<Self>, inner: Arc<dyn Sandbox>) -> Arc<dyn Sandbox> {
        Arc::new(Admitted {
            inner,
            admission: Arc::clone(self),
        })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_exec(self: &Arc<Self>) -> Option<Slot> {
        let mut held = self.held();
        if held.count() >= self.max {
            return None;
        }
        held.execs += 1;
        Some(Slot(Arc::clone(self)))
    }

    /// Takes a slot for `key`, or finds that it has one. A key that has one is a repeated call.
    fn try_spawn(&self, key: &Key, sandbox: &Arc<dyn Sandbox>) -> bool {
        let mut held = self.held();
        if held.spawned.contains_key(key) {
            return true;
        }
        if held.count() >= self.max {
            return false;
        }
        held.spawned.insert(key.clone(), Arc::clone(sandbox));
        true
    }

    fn release(&self, key: &Key) {
        self.held().spawned.remove(key);
    }

    /// Gives back the slots of spawned processes that ended without anybody looking.
    async fn look(&self, ctx: &Ctx) {
        let spawned: Vec<_> = self
            .held()
            .spawned
            .iter()
            .map(|(key, sandbox)| (key.clone(), Arc::clone(sandbox)))
            .collect();
        join_all(spawned.into_iter().map(|(key, sandbox)| async move {
            let answer = sandbox
                .proc_read(
                    ctx,
                    ProcReadRequest {
                        id: key.2.clone(),
                        stream: OutputStream::Stdout,
                        // From the start, so that nothing is given up.
                        from: 0,
                        max: 1,
                        wait: Duration::ZERO,
                    },
                )
                .await;
            let runs = match answer {
                Ok(chunk) => chunk.status == ProcStatus::Running,
                Err(error) => !is_gone(&error),
            };
            if !runs {
                self.release(&key);
            }
        }))
        .await;
    }

    fn busy(&self, verb: Verb) -> Error {
        let max = self.max;
        Error::refused(verb, ErrorKind::Busy).detail(format_args!(
            "{max} commands are running and `max_concurrent` is {max}; wait for one to end, or raise it"
        ))
    }
}

impl Held {
    fn count(&self) -> usize {
        self.execs + self.spawned.len()
    }
}

/// Whether an error says that the process can no longer run.
fn is_gone(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ProcessNotFound
            | ErrorKind::SandboxNotFound
            | ErrorKind::Lost
            | ErrorKind::Disconnected
    )
}

/// The slot of a running `exec`.
struct Slot(Arc<Admission>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.held().execs -= 1;
    }
}

struct Admitted {
    inner: Arc<dyn Sandbox>,
    admission: Arc<Admission>,
}

impl Admitted {
    fn key(&self, id: &ProcId) -> Key {
        let descriptor = self.inner.descriptor();
        (descriptor.id.clone(), descriptor.generation, id.clone())
    }

    fn note(&self, id: &ProcId, status: &ProcStatus) {
        if matches!(status, ProcStatus::Ended(_)) {
            self.admission.release(&self.key(id));
        }
    }
}

#[async_trait]
impl Sandbox for Admitted {
    fn descriptor(&self) -> Arc<Descriptor> {
        self.inner.descriptor()
    }

    async fn closed(&self) -> Closed {
        self.inner.closed().await
    }

    async fn capture_state(&self, ctx: &Ctx) -> Result<SandboxState> {
        self.inner.capture_state(ctx).await
    }

    async fn read(&self, ctx: &Ctx, request: ReadRequest) -> Result<FileContent> {
        self.inner.read(ctx, request).await
    }

    async fn read_many(&self, ctx: &Ctx, request: ReadManyRequest) -> Result<ReadManyResult> {
        self.inner.read_many(ctx, request).await
    }

    async fn write(&self, ctx: &Ctx, request: WriteRequest) -> Result<WriteResult> {
        self.inner.write(ctx, request).await
    }

    async fn remove(&self, ctx: &Ctx, request: RemoveRequest) -> Result<RemoveReceipt> {
        self.inner.remove(ctx, request).await
    }

    async fn stat_many(&self, ctx: &Ctx, request: StatManyRequest) -> Result<StatManyResult> {
        self.inner.stat_many(ctx, request).await
    }

    async fn glob(&self, ctx: &Ctx, request: GlobRequest) -> Result<GlobResult> {
        self.inner.glob(ctx, request).await
    }

    async fn grep(&self, ctx: &Ctx, request: GrepRequest) -> Result<GrepResult> {
        self.inner.grep(ctx, request).await
    }

    async fn fingerprint(&self, ctx: &Ctx, request: FingerprintRequest) -> Result<Fingerprint> {
        self.inner.fingerprint(ctx, request).await
    }

    async fn exec(&self, ctx: &Ctx, request: ExecRequest) -> Result<Execution> {
        let slot = match self.admission.try_exec() {
            Some(slot) => slot,
            None => {
                self.admission.look(ctx).await;
                self.admission
                    .try_exec()
                    .ok_or_else(|| self.admission.busy(Verb::Exec))?
            }
        };
        let mut execution = self.inner.exec(ctx, request).await?;
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let outcome = outcome.await;
            drop(slot);
            outcome
        });
        Ok(execution)
    }

    async fn spawn(&self, ctx: &Ctx, request: SpawnRequest) -> Result<SpawnReceipt> {
        let key = self.key(&request.id);
        if !self.admission.try_spawn(&key, &self.inner) {
            self.admission.look(ctx).await;
            if !self.admission.try_spawn(&key, &self.inner) {
                return Err(self.admission.busy(Verb::Spawn));
            }
        }
        let answer = self.inner.spawn(ctx, request).await;
        // A conflict means that the process of an earlier call runs under this id. After an unknown
        // effect it may run too; the next look tells.
        if let Err(error) = &answer
            && error.effect() == Effect::None
            && error.kind() != ErrorKind::Conflict
        {
            self.admission.release(&key);
        }
        answer
    }

    async fn proc_read(&self, ctx: &Ctx, request: ProcReadRequest) -> Result<ProcChunk> {
        let id = request.id.clone();
        let chunk = self.inner.proc_read(ctx, request).await?;
        self.note(&id, &chunk.status);
        Ok(chunk)
    }

    async fn proc_stdin(&self, ctx: &Ctx, request: ProcStdinRequest) -> Result<StdinReceipt> {
        self.inner.proc_stdin(ctx, request).await
    }

    async fn proc_stop(&self, ctx: &Ctx, request: ProcStopRequest) -> Result<StopReceipt> {
        let id = request.id.clone();
        let receipt = self.inner.proc_stop(ctx, request).await?;
        self.note(&id, &receipt.status);
        Ok(receipt)
    }

    async fn push_tree(&self, ctx: &Ctx, request: PushRequest) -> Result<PushReceipt> {
        self.inner.push_tree(ctx, request).await
    }

    async fn pull_tree(&self, ctx: &Ctx, request: PullRequest) -> Result<Pull> {
        self.inner.pull_tree(ctx, request).await
    }
}

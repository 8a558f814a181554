//! The trait [`Sandbox`]: a tree and a place to run processes.
//!
//! Sixteen verbs, `descriptor` included. Each is one round trip, and none is a loop over others.
//! The verb count is a budget: what can be a field of a request is not a new verb.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::file::{
    FileContent, ReadManyRequest, ReadManyResult, ReadRequest, RemoveReceipt, RemoveRequest,
    StatManyRequest, StatManyResult, WriteRequest, WriteResult,
};
use crate::process::{
    ExecRequest, Execution, ProcChunk, ProcReadRequest, ProcStdinRequest, ProcStopRequest,
    SpawnReceipt, SpawnRequest, StdinReceipt, StopReceipt,
};
use crate::search::{
    Fingerprint, FingerprintRequest, GlobRequest, GlobResult, GrepRequest, GrepResult,
};
use crate::transfer::{Pull, PullRequest, PushReceipt, PushRequest};
use crate::{
    Capabilities, Ctx, Generation, Grade, LimitKind, LimitReport, Network, Restriction, Result,
    SandboxId, SandboxPath, SandboxState,
};

/// A tree and a place to run processes.
///
/// Handles are shared (`Arc<dyn Sandbox>`) and every verb may be called concurrently. Dropping a
/// verb's future cancels it. Common errors of all verbs: `Unsupported` for what the provider does not
/// declare, `Cancelled`, `DeadlineExceeded`, `Lost`, `Disconnected`.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// What this place is. No round trip.
    fn descriptor(&self) -> Arc<Descriptor>;

    /// Resolves when the sandbox is released or lost, with the reason.
    async fn closed(&self) -> Closed;

    /// What is needed to take this sandbox up again later.
    async fn capture_state(&self, ctx: &Ctx) -> Result<SandboxState>;

    /// Reads one regular file, or a part of it.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NotAFile` (directory, FIFO, device), `OutsideRoot`, `PermissionDenied`, `TooLarge` naming
    /// the size, `Io`. Never an effect.
    async fn read(&self, ctx: &Ctx, request: ReadRequest) -> Result<FileContent>;

    /// Reads several files. One that fails fails nobody else.
    ///
    /// # Errors
    ///
    /// Only what concerns all items; each item has its own.
    async fn read_many(&self, ctx: &Ctx, request: ReadManyRequest) -> Result<ReadManyResult>;

    /// Changes files. Each change is atomic and has its own answer.
    ///
    /// # Errors
    ///
    /// Only what concerns all changes. Each change has its own: `Conflict` naming the digest there is,
    /// `AlreadyExists`, `NotFound`, `NotAFile`, `OutsideRoot`, `ReadOnly`, `PermissionDenied`, `NoSpace`,
    /// `TooLarge`, `InvalidArgument`, all without effect; `Io` with an unknown one.
    async fn write(&self, ctx: &Ctx, request: WriteRequest) -> Result<WriteResult>;

    /// Removes an entry. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// `NotEmpty` without recursion, `InvalidArgument` for a root, `OutsideRoot`, `ReadOnly`,
    /// `PermissionDenied`; with recursion the effect may be partial, and is then `Unknown`.
    async fn remove(&self, ctx: &Ctx, request: RemoveRequest) -> Result<RemoveReceipt>;

    /// Looks at several entries. Absence is a value; links are described themselves.
    ///
    /// # Errors
    ///
    /// Only what concerns all items; each item has its own.
    async fn stat_many(&self, ctx: &Ctx, request: StatManyRequest) -> Result<StatManyResult>;

    /// Finds entries by name.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a malformed glob, naming it; `NotFound` for the root.
    async fn glob(&self, ctx: &Ctx, request: GlobRequest) -> Result<GlobResult>;

    /// Finds text in files.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a malformed pattern, pointing at the place; `NotFound` for the root.
    async fn grep(&self, ctx: &Ctx, request: GrepRequest) -> Result<GrepResult>;

    /// Computes what the tree looks like, and what changed since an earlier answer. Files that did not
    /// change are not read again. An answer that the deadline cuts short is given, if there is still
    /// time, and says so.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NotADirectory`, `PermissionDenied`, `OutsideRoot` for the root; `InvalidArgument` for a
    /// malformed glob, naming it. Entries that could not be read make the answer incomplete.
    async fn fingerprint(&self, ctx: &Ctx, request: FingerprintRequest) -> Result<Fingerprint>;

    /// Runs something to completion. Returns as soon as the request is on its way; the outcome, and
    /// failures to start, come from [`Execution::outcome`].
    ///
    /// # Errors
    ///
    /// `InvalidArgument` (empty argv, NUL, a scope to track with a malformed glob). For the program: `NotFound`, `PermissionDenied` (not executable),
    /// `NotAFile` (a directory), `SpawnFailed` (anything else the kernel says). For the working directory:
    /// `NotFound`, `NotADirectory`, `PermissionDenied`, `OutsideRoot`. `TooLarge` for arguments and environment
    /// beyond the kernel's limit, `Busy`. All without effect, here or from the outcome.
    async fn exec(&self, ctx: &Ctx, request: ExecRequest) -> Result<Execution>;

    /// Starts something that runs on. Repeating an equal request with the same id is safe.
    ///
    /// # Errors
    ///
    /// As [`exec`](Self::exec); `Conflict` if the id is in use with another request.
    async fn spawn(&self, ctx: &Ctx, request: SpawnRequest) -> Result<SpawnReceipt>;

    /// Reads a process's output by absolute offset, waiting for some if asked to.
    ///
    /// # Errors
    ///
    /// `ProcessNotFound`. Never an effect, except under `BeyondLog::Block`.
    async fn proc_read(&self, ctx: &Ctx, request: ProcReadRequest) -> Result<ProcChunk>;

    /// Writes to a process's input. Repeating a call writes nothing twice.
    ///
    /// # Errors
    ///
    /// `ProcessNotFound`, `StdinClosed`, `Conflict` naming the expected offset, `TooLarge`.
    async fn proc_stdin(&self, ctx: &Ctx, request: ProcStdinRequest) -> Result<StdinReceipt>;

    /// Signals or ends a process with its tree. Ending one that ended is no error.
    ///
    /// # Errors
    ///
    /// `ProcessNotFound`, `InvalidArgument` for a signal that does not exist.
    async fn proc_stop(&self, ctx: &Ctx, request: ProcStopRequest) -> Result<StopReceipt>;

    /// Puts a tree into the sandbox: all of it, or nothing.
    ///
    /// The destination is missing or empty, or a base says what is there. Permission bits, times and texts
    /// of links are kept; set-id and sticky bits and owners are not. A directory that is there keeps its own.
    ///
    /// # Errors
    ///
    /// | kind | when | effect |
    /// | --- | --- | --- |
    /// | `InvalidArgument` | the archive is cut, or an entry of it is refused, named | none |
    /// | `TooLarge` | the archive has too many entries, levels or bytes | none |
    /// | `NotEmpty` | there is no base, and something is there | none |
    /// | `Conflict` | the base is not what is there | none |
    /// | `NotADirectory`, `OutsideRoot`, `ReadOnly`, `PermissionDenied`, `NoSpace` | of the destination | none |
    /// | `Cancelled`, `DeadlineExceeded` | before the tree was put in place | none |
    /// | any | an entry could not be put in place; those before it were taken back, as far as the text says | unknown |
    ///
    /// Source: `docs/protocol.md`, `push_tree`.
    async fn push_tree(&self, ctx: &Ctx, request: PushRequest) -> Result<PushReceipt>;

    /// Gets trees out of the sandbox, as one archive. Has no effect.
    ///
    /// What could not be packed as it is, is in the receipt, and no error.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NotADirectory` and others for the root of a scope, `InvalidArgument` for a malformed glob or for
    /// roots that have no directory in common; here or, like every later failure, from [`Pull::receipt`].
    async fn pull_tree(&self, ctx: &Ctx, request: PullRequest) -> Result<Pull>;
}

/// What a place is, attested by the side that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Where this is, as the caller named it: `local`, `docker`, `ssh:devbox`.
    pub location: String,
    /// The provider's name.
    pub provider: String,
    /// The sandbox's id.
    pub id: SandboxId,
    /// Its life.
    pub generation: Generation,
    /// Operating system and architecture.
    pub platform: Platform,
    /// The workspace root as processes there see it; absolute.
    pub root: SandboxPath,
    /// `HOME` of processes there.
    pub home: Option<SandboxPath>,
    /// The shell to use for command lines; absolute.
    pub shell: Option<SandboxPath>,
    /// Its network.
    pub network: Network,
    /// How well each restriction holds.
    pub guarantees: BTreeMap<Restriction, Grade>,
    /// What became of each requested limit.
    pub limits: BTreeMap<LimitKind, LimitReport>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What to know about it, each in one sentence.
    pub notes: Vec<String>,
}

/// Operating system and architecture of a place, in Rust's names: `linux`, `x86_64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Operating system.
    pub os: String,
    /// Architecture.
    pub arch: String,
}

/// Why a sandbox ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It was released.
    Released,
    /// It is gone, and why.
    Lost {
        /// The reason, in one sentence.
        reason: String,
    },
}

//! Requests and answers of the verbs that run something: `exec`, `spawn`, `proc_read`,
//! `proc_stdin`, `proc_stop`.
//!
//! A process is its *tree*: the leader and everything it started, daemons that left its session
//! included. A call ends when its leader ends, plus a short drain; then the rest of the tree is
//! killed, or left and named ([`Descendants`]). The answer to a timeout, a cancel or a stop is not
//! given before nothing of the tree is left, or what is left is named.
//!
//! Output is never lost silently. Every stream is drained into a log that `proc_read` reads by
//! absolute offset, during the run and after it; an [`Outcome`] carries the head and the tail and
//! says exactly how much lies between.

mod outcome;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use crate::search::FingerprintScope;
use crate::{ByteStream, EnvChange, ProcId, Result, SandboxPath};

pub use outcome::{ExitReport, Outcome, Output, Status, Survivor, Survivors, Usage};

/// Default of [`ProcessSpec::grace`].
pub const DEFAULT_GRACE: Duration = Duration::from_millis(500);
/// How long the output of a tree whose leader ended is still read.
pub const DRAIN: Duration = Duration::from_millis(300);
/// Default of [`OutputPolicy::head`] and [`OutputPolicy::tail`], in bytes.
pub const DEFAULT_KEEP_BYTES: u64 = 512 * 1024;
/// Default of [`OutputPolicy::log`], in bytes.
pub const DEFAULT_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// Most bytes that one `proc_read` returns.
pub const MAX_PROC_READ_BYTES: u64 = 256 * 1024;
/// Most bytes that one `proc_stdin` accepts.
pub const MAX_PROC_STDIN_BYTES: usize = 256 * 1024;

/// What to run and under what conditions; common to `exec` and `spawn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSpec {
    /// Program and arguments. Never a shell line: a shell is an explicit argv
    /// ([`SandboxExt::shell`](crate::SandboxExt::shell)). A program without `/` is looked up in
    /// the `PATH` the process will have.
    pub argv: Vec<Vec<u8>>,
    /// Where to start; a directory beneath one of the sandbox's roots.
    pub cwd: SandboxPath,
    /// Changes to the sandbox's environment, in order.
    pub env: Vec<EnvChange>,
    /// A terminal of this size in place of three pipes. Its output is one stream, `Stdout`.
    pub pty: Option<PtySize>,
    /// Ends the tree after this long, with [`Status::TimedOut`]. `None`: runs as long as it likes.
    pub timeout: Option<Duration>,
    /// Time between the polite signal and `SIGKILL` when a tree is ended.
    pub grace: Duration,
    /// How much output is kept, and what happens beyond.
    pub output: OutputPolicy,
    /// What happens to the rest of the tree once the leader ended.
    pub descendants: Descendants,
}

impl ProcessSpec {
    /// Runs `argv` in the workspace root with the default limits.
    pub fn new<A: AsRef<[u8]>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv
                .into_iter()
                .map(|argument| argument.as_ref().to_vec())
                .collect(),
            cwd: SandboxPath::root(),
            env: Vec::new(),
            pty: None,
            timeout: None,
            grace: DEFAULT_GRACE,
            output: OutputPolicy::default(),
            descendants: Descendants::Kill,
        }
    }

    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets [`cwd`](Self::cwd).
    #[must_use]
    pub fn cwd(mut self, cwd: SandboxPath) -> Self {
        self.cwd = cwd;
        self
    }

    /// Sets one variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.env.push(EnvChange::set(name, value));
        self
    }
}

/// Runs to completion.
pub struct ExecRequest {
    /// The handle for `proc_read` and `proc_stop` meanwhile and after; drawn if absent.
    pub id: Option<ProcId>,
    /// What to run.
    pub process: ProcessSpec,
    /// Standard input.
    pub stdin: Stdin,
    /// Whether output is delivered while it comes.
    pub delivery: Delivery,
    /// Report what changed in this part of the tree during the run, in the same round trip
    /// ([`Outcome::changes`]). It is looked at before the run and after it, and whatever changed between
    /// counts, whoever changed it. A tree that is not there yet is an empty one. What cannot be told
    /// about changes never fails a run.
    pub track: Option<FingerprintScope>,
}

impl ExecRequest {
    /// Runs `process` with no input, its output delivered at the end.
    #[must_use]
    pub fn new(process: ProcessSpec) -> Self {
        Self {
            id: None,
            process,
            stdin: Stdin::Null,
            delivery: Delivery::AtEnd,
            track: None,
        }
    }

    /// Sets [`stdin`](Self::stdin).
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets [`delivery`](Self::delivery).
    #[must_use]
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Sets [`id`](Self::id).
    #[must_use]
    pub fn id(mut self, id: ProcId) -> Self {
        self.id = Some(id);
        self
    }
}

impl fmt::Debug for ExecRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecRequest")
            .field("id", &self.id)
            .field("process", &self.process)
            .field("stdin", &self.stdin)
            .field("delivery", &self.delivery)
            .field("track", &self.track)
            .finish()
    }
}

/// Standard input of an `exec`.
pub enum Stdin {
    /// `/dev/null`: a reader sees the end at once. Never the caller's own input.
    Null,
    /// These bytes, then the end.
    Bytes(Bytes),
    /// Bytes as they come, then the end. A command that stops reading early is no error.
    Stream(ByteStream),
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// When the output of an `exec` reaches the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// With the outcome: head and tail as [`OutputPolicy`] says. Only these bytes travel.
    AtEnd,
    /// On [`Execution::stdout`] and [`Execution::stderr`] while it comes, every byte. A reader
    /// that does not pull makes the process wait.
    Live,
}

/// What happens to a tree whose leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descendants {
    /// Killed before the answer is given.
    Kill,
    /// Left running until the sandbox ends, and named in [`Survivors::left`].
    Leave,
}

/// Size of a terminal, in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    /// Height.
    pub rows: u16,
    /// Width.
    pub columns: u16,
}

/// How much of each output stream is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputPolicy {
    /// Bytes from the start of each stream that the outcome carries.
    pub head: u64,
    /// Bytes from the end of each stream that the outcome carries.
    pub tail: u64,
    /// Bytes of each stream that `proc_read` can return; at least [`head`](Self::head).
    pub log: u64,
    /// What happens when a stream outgrows its log.
    pub beyond: BeyondLog,
}

impl Default for OutputPolicy {
    fn default() -> Self {
        Self {
            head: DEFAULT_KEEP_BYTES,
            tail: DEFAULT_KEEP_BYTES,
            log: DEFAULT_LOG_BYTES,
            beyond: BeyondLog::Drop,
        }
    }
}

/// What happens when a stream outgrows its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondLog {
    /// The process runs on. Later bytes reach a live reader and the tail, but not the log; how
    /// many is counted.
    Drop,
    /// The process waits until `proc_read` asks from a later offset, which gives up what lies
    /// before it.
    Block,
    /// The tree is ended, with [`Status::OutputLimit`].
    Kill,
}

/// A running `exec`.
///
/// The three parts are independent: reading one stream never waits for the other. Dropping a
/// stream discards the rest of it. Dropping [`outcome`](Self::outcome) cancels the run.
pub struct Execution {
    /// The handle, for `proc_read` and `proc_stop`.
    pub id: ProcId,
    /// Standard output, or the terminal's. Ends at once with [`Delivery::AtEnd`].
    pub stdout: ByteStream,
    /// Standard error.
    pub stderr: ByteStream,
    /// How it ended. With [`Delivery::Live`] it resolves only while the streams are read or
    /// dropped. Failures to start show up here.
    pub outcome: OutcomeFuture,
}

/// The end of an [`Execution`].
pub type OutcomeFuture = Pin<Box<dyn Future<Output = Result<Outcome>> + Send>>;

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Starts something that runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnRequest {
    /// The handle; host-chosen, so that repeating the call is safe.
    pub id: ProcId,
    /// What to run. [`ProcessSpec::timeout`] is its longest life.
    pub process: ProcessSpec,
    /// Whether `proc_stdin` can write to it.
    pub stdin: SpawnStdin,
    /// Whether it may outlive the connection that started it.
    pub detach: Detach,
}

impl SpawnRequest {
    /// Starts `process` with no input, tied to the connection.
    #[must_use]
    pub fn new(id: ProcId, process: ProcessSpec) -> Self {
        Self {
            id,
            process,
            stdin: SpawnStdin::Null,
            detach: Detach::No,
        }
    }
}

/// Standard input of a `spawn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStdin {
    /// `/dev/null`.
    Null,
    /// Written by `proc_stdin`, closed by it. A terminal is always open.
    Open,
}

/// Whether a process may outlive the connection that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// It ends with the connection.
    No,
    /// It runs on while the sandbox lingers.
    Yes,
}

/// A process was started, or was already there under the same id and request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnReceipt {
    /// The handle.
    pub id: ProcId,
    /// The leader's pid inside the place, for people.
    pub pid: u32,
}

/// Which output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output, or the terminal's.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Reads a process's log by absolute offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcReadRequest {
    /// The process.
    pub id: ProcId,
    /// Which stream.
    pub stream: OutputStream,
    /// First byte wanted, counted from the start of the stream. Under [`BeyondLog::Block`] what
    /// lies before it is given up.
    pub from: u64,
    /// Most bytes wanted, at most [`MAX_PROC_READ_BYTES`].
    pub max: u64,
    /// How long to wait if nothing is there yet. Ends early when something is, or when the
    /// stream or the process ends.
    pub wait: Duration,
}

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcChunk {
    /// Where `bytes` start; later than asked if what was asked for is not in the log.
    pub offset: u64,
    /// The bytes; may be empty.
    pub bytes: Bytes,
    /// Bytes written to the stream so far.
    pub total: u64,
    /// Nothing follows: the stream ended and `bytes` reach its end.
    pub end: bool,
    /// Whether the process runs.
    pub status: ProcStatus,
}

/// Whether a process runs, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcStatus {
    /// It runs.
    Running,
    /// It ended, and its tree is dealt with.
    Ended(ExitReport),
}

/// Writes to a process's input, or changes its terminal's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStdinRequest {
    /// The process.
    pub id: ProcId,
    /// Where `bytes` belong, counted from the first byte ever written. What was accepted before
    /// is skipped, so repeating a call writes nothing twice; a gap is a `Conflict` that names the
    /// expected offset.
    pub offset: u64,
    /// Bytes, at most [`MAX_PROC_STDIN_BYTES`].
    pub bytes: Bytes,
    /// Ends the input after `bytes`.
    pub close: bool,
    /// New size of the terminal.
    pub resize: Option<PtySize>,
}

/// Input was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdinReceipt {
    /// The next offset expected.
    pub next: u64,
    /// Whether the input is closed now.
    pub closed: bool,
}

/// Signals or ends a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStopRequest {
    /// The process.
    pub id: ProcId,
    /// How.
    pub stop: Stop,
}

/// How to signal or end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Sends this signal (Linux number, 1 to 64) to every process of the tree, and answers at once.
    Signal(i32),
    /// `SIGTERM` to the tree, then `SIGKILL` once `grace` passed; answers when nothing is left.
    Graceful {
        /// Time between the two.
        grace: Duration,
    },
    /// `SIGKILL` to the tree; answers when nothing is left.
    Kill,
}

/// What a stop achieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopReceipt {
    /// Whether the process still runs: a signal need not end it.
    pub status: ProcStatus,
}

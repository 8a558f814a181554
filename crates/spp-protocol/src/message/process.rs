//! The verbs that run something: `exec`, `spawn`, `proc_read`, `proc_stdin`, `proc_stop`.

use sandbox_core::process as core;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::open::{default, open};
use super::policy::EnvChange;
use super::search::{Changes, FingerprintScope};
use super::value::{ByteField, Octets, StreamId};
use super::verb;

/// What to run and under what conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSpec {
    /// Program and arguments; at least one, none with NUL.
    pub argv: Vec<Octets>,
    /// Where to start. Default `.`.
    #[serde(default = "workspace_root")]
    pub cwd: Octets,
    /// Changes to the sandbox's environment, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvChange>,
    /// A terminal of this size in place of three pipes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<PtySize>,
    /// Ends the tree after this long, in milliseconds; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Time between the polite signal and the hard one, in milliseconds. Default 500.
    #[serde(default = "default_grace")]
    pub grace_ms: u64,
    /// How much output is kept.
    #[serde(default)]
    pub output: OutputPolicy,
    /// What happens to the rest of the tree once the leader ended. Default `kill`.
    #[serde(default)]
    pub descendants: Descendants,
}

fn workspace_root() -> Octets {
    Octets::new(".")
}

fn default_grace() -> u64 {
    u64::try_from(core::DEFAULT_GRACE.as_millis()).unwrap_or(u64::MAX)
}

/// Size of a terminal, in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PtySize {
    /// Height.
    pub rows: u16,
    /// Width.
    pub columns: u16,
}

/// How much of each output stream is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutputPolicy {
    /// Bytes from the start that the result carries. Default 512 KiB.
    pub head: u64,
    /// Bytes from the end that the result carries. Default 512 KiB.
    pub tail: u64,
    /// Bytes that `proc_read` can return. Default 64 MiB.
    pub log: u64,
    /// What happens when a stream outgrows its log. Default `drop`.
    pub beyond: BeyondLog,
}

impl Default for OutputPolicy {
    fn default() -> Self {
        Self {
            head: core::DEFAULT_KEEP_BYTES,
            tail: core::DEFAULT_KEEP_BYTES,
            log: core::DEFAULT_LOG_BYTES,
            beyond: BeyondLog::Drop,
        }
    }
}

open! {
    /// What happens when a stream outgrows its log.
    pub enum BeyondLog {
        /// The process runs on; later bytes do not reach the log, and are counted.
        Drop = "drop",
        /// The process waits until `proc_read` asks from a later offset.
        Block = "block",
        /// The tree is ended, with `output_limit`.
        Kill = "kill",
    }
}

open! {
    /// What happens to a tree whose leader ended.
    pub enum Descendants {
        /// Killed before the answer is given.
        Kill = "kill",
        /// Left running and named.
        Leave = "leave",
    }
}
default!(Descendants::Kill);

verb! {
    /// Runs something to completion.
    pub struct ExecParams("exec") -> ExecResult {
        /// The handle; drawn by the provider if absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub id: Option<String>,
        /// What to run.
        pub process: ProcessSpec,
        /// Standard input; absent for an empty one. A stream here ends with `stream/end`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stdin: Option<ByteField>,
        /// When output travels. Default `at_end`.
        #[serde(default)]
        pub delivery: Delivery,
        /// The stream of standard output.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stdout: Option<StreamId>,
        /// The stream of standard error.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stderr: Option<StreamId>,
        /// Report what changed in these entries during the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub track: Option<FingerprintScope>,
    }
}

open! {
    /// When the output of an `exec` travels.
    pub enum Delivery {
        /// With the result, head and tail only.
        AtEnd = "at_end",
        /// On the streams while it comes, every byte.
        Live = "live",
    }
}
default!(Delivery::AtEnd);

/// Answers `exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecResult {
    /// The handle.
    pub id: String,
    /// How it ended.
    pub exit: ExitReport,
    /// Standard output, or the terminal's.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// What changed, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

/// The end of a process and of its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitReport {
    /// How the leader ended, or why the tree was ended.
    pub status: Status,
    /// From the start of the leader to its end, in microseconds.
    pub duration_us: u64,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// The rest of the tree.
    #[serde(default)]
    pub survivors: Survivors,
}

open! {
    /// How a process ended.
    pub enum Status {
        /// It exited.
        Exited(Exited) = "exited",
        /// A signal ended it that nobody here sent.
        Signalled(Signalled) = "signalled",
        /// Its timeout passed.
        TimedOut = "timed_out",
        /// The caller cancelled or stopped it.
        Cancelled = "cancelled",
        /// Its output outgrew its log.
        OutputLimit = "output_limit",
        /// It used more memory than the limit.
        MemoryLimit = "memory_limit",
        /// How it ended is not known; its tree was killed.
        Lost = "lost",
    }
}

/// It exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exited {
    /// The code, 0 to 255.
    pub code: u8,
}

/// A signal ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signalled {
    /// The signal's number on Linux.
    pub signal: i32,
    /// Whether a core was dumped.
    #[serde(default)]
    pub core: bool,
}

/// What a tree used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Time in user mode, in microseconds.
    pub user_us: u64,
    /// Time in the kernel, in microseconds.
    pub system_us: u64,
    /// Largest resident set of any one process, in bytes.
    pub peak_memory: u64,
}

/// What became of a tree after its leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Survivors {
    /// Processes that outlived the leader and were killed.
    pub killed: u32,
    /// Processes that still run, at most 16 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Survivor>,
    /// How many still run.
    pub left_total: u32,
}

/// A process that still runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Survivor {
    /// Its pid inside the place.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
}

/// One output stream at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The start of the stream; absent with `live`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<ByteField>,
    /// The end of the stream; absent with `live`, and if `head` is all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<ByteField>,
    /// Bytes between head and tail.
    #[serde(default)]
    pub dropped: u64,
    /// Bytes that the process wrote.
    pub total: u64,
    /// Bytes that `proc_read` cannot return either.
    #[serde(default)]
    pub unlogged: u64,
    /// Why, if it is not simply the size of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_failure: Option<String>,
}

verb! {
    /// Starts something that runs on.
    pub struct SpawnParams("spawn") -> SpawnResult {
        /// The handle.
        pub id: String,
        /// What to run.
        pub process: ProcessSpec,
        /// Whether `proc_stdin` can write to it. Default `null`.
        #[serde(default)]
        pub stdin: SpawnStdin,
        /// Whether it may outlive the connection. Default `no`.
        #[serde(default)]
        pub detach: Detach,
    }
}

open! {
    /// Standard input of a `spawn`.
    pub enum SpawnStdin {
        /// Empty.
        Null = "null",
        /// Written and closed by `proc_stdin`.
        Open = "open",
    }
}
default!(SpawnStdin::Null);

open! {
    /// Whether a process may outlive the connection that started it.
    pub enum Detach {
        /// It ends with the connection.
        No = "no",
        /// It runs on while the sandbox lingers.
        Yes = "yes",
    }
}
default!(Detach::No);

/// Answers `spawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnResult {
    /// The handle.
    pub id: String,
    /// The leader's pid inside the place, for people.
    pub pid: u32,
}

verb! {
    /// Reads a process's log by absolute offset, waiting for some if asked to.
    pub struct ProcReadParams("proc_read") -> ProcReadResult {
        /// The process.
        pub id: String,
        /// Which output. Default `stdout`.
        #[serde(default)]
        pub stream: OutputStream,
        /// First byte wanted.
        pub from: u64,
        /// Most bytes wanted. Default and most 256 KiB.
        #[serde(default = "default_proc_read")]
        pub max: u64,
        /// How long to wait if nothing is there, in milliseconds. Default 0.
        #[serde(default)]
        pub wait_ms: u64,
        /// The stream for a content that does not fit the line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub content: Option<StreamId>,
    }
}

fn default_proc_read() -> u64 {
    core::MAX_PROC_READ_BYTES
}

open! {
    /// Which output of a process.
    pub enum OutputStream {
        /// Standard output, or the terminal's.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}
default!(OutputStream::Stdout);

/// Answers `proc_read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcReadResult {
    /// Where `content` starts; later than asked if what was asked for is not in the log.
    pub offset: u64,
    /// The bytes; may be empty.
    pub content: ByteField,
    /// Bytes written to the stream so far.
    pub total: u64,
    /// Nothing follows.
    #[serde(default)]
    pub end: bool,
    /// Whether the process runs.
    pub status: ProcStatus,
}

open! {
    /// Whether a process runs.
    pub enum ProcStatus {
        /// It runs.
        Running = "running",
        /// It ended, and its tree is dealt with.
        Ended(ExitReport) = "ended",
    }
}

verb! {
    /// Writes to a process's input, or changes its terminal's size.
    pub struct ProcStdinParams("proc_stdin") -> ProcStdinResult {
        /// The process.
        pub id: String,
        /// Where `content` belongs, counted from the first byte ever written.
        pub offset: u64,
        /// Bytes, at most 256 KiB; absent for none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub content: Option<ByteField>,
        /// Ends the input after them. Default false.
        #[serde(default)]
        pub close: bool,
        /// New size of the terminal.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub resize: Option<PtySize>,
    }
}

/// Answers `proc_stdin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcStdinResult {
    /// The next offset expected.
    pub next: u64,
    /// Whether the input is closed now.
    pub closed: bool,
}

verb! {
    /// Signals or ends a process.
    pub struct ProcStopParams("proc_stop") -> ProcStopResult {
        /// The process.
        pub id: String,
        /// How.
        pub stop: Stop,
    }
}

open! {
    /// How to signal or end a process.
    pub enum Stop {
        /// This signal to every process of the tree; answered at once.
        Signal(i32) = "signal",
        /// The polite signal, then the hard one; answered when nothing is left.
        Graceful(Graceful) = "graceful",
        /// The hard signal; answered when nothing is left.
        Kill = "kill",
    }
}

/// The polite way to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Graceful {
    /// Time between the polite signal and the hard one, in milliseconds. Default 500.
    #[serde(default = "default_grace")]
    pub grace_ms: u64,
}

/// Answers `proc_stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcStopResult {
    /// Whether the process still runs.
    pub status: ProcStatus,
}

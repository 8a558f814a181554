//! How a run ended: status, usage, what became of the tree, and the output that was kept.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::ProcId;
use crate::search::Changes;

/// How a run ended. A non-zero exit is an outcome, never an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The handle under which the logs can be read for a while.
    pub id: ProcId,
    /// Status, times, and what became of the tree.
    pub exit: ExitReport,
    /// Standard output, or the terminal's.
    pub stdout: Output,
    /// Standard error; empty with a terminal.
    pub stderr: Output,
    /// What changed in the tree, if the request asked to track; whatever the status.
    pub changes: Option<Changes>,
}

/// The end of a process and of its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// How the leader ended, or why the tree was ended.
    pub status: Status,
    /// From the start of the leader to its end.
    pub duration: Duration,
    /// What it used.
    pub usage: Usage,
    /// The rest of the tree.
    pub survivors: Survivors,
}

/// How a process ended; never folded into one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code, 0 to 255.
    Exited(u8),
    /// A signal ended it that nobody here sent.
    Signalled {
        /// The signal's number on Linux.
        signal: i32,
        /// Whether a core was dumped.
        core: bool,
    },
    /// The tree was ended when [`ProcessSpec::timeout`](super::ProcessSpec::timeout) passed.
    TimedOut,
    /// The tree was ended because the caller cancelled or stopped it.
    Cancelled,
    /// The tree was ended because output outgrew its log ([`BeyondLog::Kill`](super::BeyondLog::Kill)).
    OutputLimit,
    /// The tree was ended because it used more memory than the sandbox's limit.
    MemoryLimit,
    /// Its supervisor is gone, so how it ended is not known. The tree was killed.
    Lost,
}

impl Status {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// The one number that shells use: the code, 128 + signal, 124 for a timeout, 130 for a
    /// cancel, 137 for the rest.
    #[must_use]
    pub fn shell_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled { signal, .. } => u8::try_from(128 + signal).unwrap_or(255),
            Self::TimedOut => 124,
            Self::Cancelled => 130,
            Self::OutputLimit | Self::MemoryLimit | Self::Lost => 137,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with {code}"),
            Self::Signalled {
                signal,
                core: false,
            } => write!(f, "ended by signal {signal}"),
            Self::Signalled { signal, core: true } => {
                write!(f, "ended by signal {signal}, core dumped")
            }
            Self::TimedOut => f.write_str("timed out"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::OutputLimit => f.write_str("ended at its output limit"),
            Self::MemoryLimit => f.write_str("ended at its memory limit"),
            Self::Lost => f.write_str("lost with its supervisor"),
        }
    }
}

/// What a tree used: the leader and all descendants that were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
    /// Largest resident set of any one process, in bytes.
    pub peak_memory: u64,
}

/// What became of the tree after its leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survivors {
    /// Processes that outlived the leader and were killed.
    pub killed: u32,
    /// Processes that still run: left on request, or impossible to kill. At most 16 are named.
    pub left: Vec<Survivor>,
    /// How many still run.
    pub left_total: u32,
}

/// A process that still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its pid inside the place.
    pub pid: u32,
    /// The name of its program, as the kernel tells it.
    pub name: String,
}

/// One output stream at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The start of the stream; all of it if nothing was dropped.
    pub head: Bytes,
    /// The end of the stream; empty if nothing was dropped.
    pub tail: Bytes,
    /// Bytes between `head` and `tail` that are not here.
    pub dropped: u64,
    /// Bytes that the process wrote.
    pub total: u64,
    /// Bytes that `proc_read` cannot return either.
    pub unlogged: u64,
    /// Why, if it is not simply the size of the log: a full disk.
    pub log_failure: Option<String>,
}

impl Output {
    /// Head, a line that says how much is missing (if any is), and tail, as text for people and
    /// models. Bytes that are not UTF-8 are replaced; the exact ones are in the fields.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.dropped > 0 {
            let total = self.total;
            let dropped = self.dropped;
            text.push_str(&format!("\n[{dropped} of {total} bytes not shown]\n"));
        }
        text.push_str(&String::from_utf8_lossy(&self.tail));
        text
    }

    /// Whether bytes are missing between head and tail.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.dropped > 0
    }
}

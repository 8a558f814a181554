//! What was tried and what went wrong, as closed sets.

use std::fmt;

/// Whether a failed verb may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing happened. Doing it again is safe.
    None,
    /// It may have happened, in whole or in part. Look before doing it again.
    Unknown,
}

/// The verbs of the port and the lifecycle, as they are named in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the verb of its name")]
pub enum Verb {
    Initialize,
    Shutdown,
    Probe,
    Acquire,
    Attach,
    Release,
    List,
    Prepare,
    Update,
    CaptureState,
    Read,
    ReadMany,
    Write,
    Remove,
    StatMany,
    Glob,
    Grep,
    Fingerprint,
    Exec,
    Spawn,
    ProcRead,
    ProcStdin,
    ProcStop,
    PushTree,
    PullTree,
}

impl Verb {
    /// Every verb, in the order of the documentation.
    pub const ALL: [Self; 25] = [
        Self::Initialize,
        Self::Shutdown,
        Self::Probe,
        Self::Acquire,
        Self::Attach,
        Self::Release,
        Self::List,
        Self::Prepare,
        Self::Update,
        Self::CaptureState,
        Self::Read,
        Self::ReadMany,
        Self::Write,
        Self::Remove,
        Self::StatMany,
        Self::Glob,
        Self::Grep,
        Self::Fingerprint,
        Self::Exec,
        Self::Spawn,
        Self::ProcRead,
        Self::ProcStdin,
        Self::ProcStop,
        Self::PushTree,
        Self::PullTree,
    ];

    /// The name used in messages and on the wire, such as `proc_read`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Shutdown => "shutdown",
            Self::Probe => "probe",
            Self::Acquire => "acquire",
            Self::Attach => "attach",
            Self::Release => "release",
            Self::List => "list",
            Self::Prepare => "prepare",
            Self::Update => "update",
            Self::CaptureState => "capture_state",
            Self::Read => "read",
            Self::ReadMany => "read_many",
            Self::Write => "write",
            Self::Remove => "remove",
            Self::StatMany => "stat_many",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::Fingerprint => "fingerprint",
            Self::Exec => "exec",
            Self::Spawn => "spawn",
            Self::ProcRead => "proc_read",
            Self::ProcStdin => "proc_stdin",
            Self::ProcStop => "proc_stop",
            Self::PushTree => "push_tree",
            Self::PullTree => "pull_tree",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What went wrong. Closed here, open on the wire: a kind this version does not know arrives as
/// [`ErrorKind::Other`] with its name in the detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The request makes no sense whatever the state of the place: empty argv, a NUL in a name.
    InvalidArgument,
    /// The provider does not offer this verb or this part of it.
    Unsupported,
    /// The path, or the program, is not there.
    NotFound,
    /// The entry is there although it must not be.
    AlreadyExists,
    /// A regular file is meant and something else is there.
    NotAFile,
    /// A directory is meant and something else is there.
    NotADirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The place's own permissions say no.
    PermissionDenied,
    /// The path leaves every root of the sandbox.
    OutsideRoot,
    /// The root that holds the path is read-only.
    ReadOnly,
    /// Beyond a stated limit; the detail names the limit and the size.
    TooLarge,
    /// The disk or the quota is full.
    NoSpace,
    /// The state is not the one the request was made for: another digest, offset, or spec.
    Conflict,
    /// The operating system failed in another way; the detail names the error.
    Io,
    /// No process of that id is known.
    ProcessNotFound,
    /// Standard input of the process is closed.
    StdinClosed,
    /// The program is there and could not be started.
    SpawnFailed,
    /// All slots are taken; nothing was started.
    Busy,
    /// The caller cancelled.
    Cancelled,
    /// The call's deadline passed.
    DeadlineExceeded,
    /// The provider knows no sandbox of that id.
    SandboxNotFound,
    /// The sandbox is gone, with what was in it. A new one is another generation.
    Lost,
    /// Another owner holds the sandbox now; this handle is stale.
    Fenced,
    /// The connection ended before an answer.
    Disconnected,
    /// The provider, or the daemon or service behind it, cannot be reached or started.
    ProviderUnavailable,
    /// Credentials are missing or refused.
    AuthFailed,
    /// A quota of the provider is used up.
    QuotaExceeded,
    /// The spec asks for something this provider does not have: an image, a platform, an option.
    UnsupportedSpec,
    /// A required restriction or limit cannot be enforced here.
    PolicyUnmet,
    /// The two sides share no major version of the protocol.
    UnsupportedVersion,
    /// A verb came before `initialize`.
    NotInitialized,
    /// The peer broke the protocol.
    Protocol,
    /// A defect of the answering side.
    Internal,
    /// A kind this version does not know.
    Other,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 34] = [
        Self::InvalidArgument,
        Self::Unsupported,
        Self::NotFound,
        Self::AlreadyExists,
        Self::NotAFile,
        Self::NotADirectory,
        Self::NotEmpty,
        Self::PermissionDenied,
        Self::OutsideRoot,
        Self::ReadOnly,
        Self::TooLarge,
        Self::NoSpace,
        Self::Conflict,
        Self::Io,
        Self::ProcessNotFound,
        Self::StdinClosed,
        Self::SpawnFailed,
        Self::Busy,
        Self::Cancelled,
        Self::DeadlineExceeded,
        Self::SandboxNotFound,
        Self::Lost,
        Self::Fenced,
        Self::Disconnected,
        Self::ProviderUnavailable,
        Self::AuthFailed,
        Self::QuotaExceeded,
        Self::UnsupportedSpec,
        Self::PolicyUnmet,
        Self::UnsupportedVersion,
        Self::NotInitialized,
        Self::Protocol,
        Self::Internal,
        Self::Other,
    ];

    /// See [`Error::is_verdict`](super::Error::is_verdict).
    #[must_use]
    pub fn is_verdict(self) -> bool {
        !matches!(
            self,
            Self::Busy
                | Self::Cancelled
                | Self::DeadlineExceeded
                | Self::SandboxNotFound
                | Self::Lost
                | Self::Fenced
                | Self::Disconnected
                | Self::ProviderUnavailable
                | Self::AuthFailed
                | Self::QuotaExceeded
                | Self::UnsupportedVersion
                | Self::NotInitialized
                | Self::Protocol
                | Self::Internal
                | Self::Other
        )
    }

    /// Whether waiting may help.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Busy
                | Self::Disconnected
                | Self::ProviderUnavailable
                | Self::QuotaExceeded
                | Self::DeadlineExceeded
        )
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidArgument => "invalid argument",
            Self::Unsupported => "not supported by this provider",
            Self::NotFound => "not found",
            Self::AlreadyExists => "already exists",
            Self::NotAFile => "not a regular file",
            Self::NotADirectory => "not a directory",
            Self::NotEmpty => "directory not empty",
            Self::PermissionDenied => "permission denied",
            Self::OutsideRoot => "outside the sandbox's roots",
            Self::ReadOnly => "read-only",
            Self::TooLarge => "too large",
            Self::NoSpace => "no space left",
            Self::Conflict => "conflict",
            Self::Io => "input/output error",
            Self::ProcessNotFound => "no such process",
            Self::StdinClosed => "standard input is closed",
            Self::SpawnFailed => "could not be started",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::DeadlineExceeded => "deadline exceeded",
            Self::SandboxNotFound => "no such sandbox",
            Self::Lost => "sandbox lost",
            Self::Fenced => "sandbox taken over by another owner",
            Self::Disconnected => "disconnected",
            Self::ProviderUnavailable => "provider unavailable",
            Self::AuthFailed => "authentication failed",
            Self::QuotaExceeded => "quota exceeded",
            Self::UnsupportedSpec => "not available at this provider",
            Self::PolicyUnmet => "policy cannot be enforced here",
            Self::UnsupportedVersion => "no common protocol version",
            Self::NotInitialized => "not initialized",
            Self::Protocol => "protocol violation",
            Self::Internal => "internal error",
            Self::Other => "unrecognised error",
        })
    }
}

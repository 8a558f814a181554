//! One error type for every verb: what was tried, on what, what went wrong, and whether anything
//! happened.
//!
//! The text of an [`Error`] says verb, subject, kind and detail, each once; the cause stays in
//! [`source`](std::error::Error::source), so that a report printing the chain repeats nothing.
//!
//! **Invariant:** [`Effect::None`] is a promise. It is set only where the failure was seen before
//! anything could change; everything else is [`Effect::Unknown`]. A caller may retry what had no
//! effect, and nothing else.

use std::fmt;

/// Shorthand for results of the port.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A failed verb. See the [module](self) for what its parts promise.
#[derive(Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    verb: Verb,
    subject: String,
    kind: ErrorKind,
    effect: Effect,
    detail: String,
    expected: Option<String>,
    retry_after_ms: Option<u64>,
    source: Option<Source>,
}

impl Error {
    /// An error of `kind` while doing `verb`, with no known effect yet: [`Effect::Unknown`].
    #[must_use]
    pub fn new(verb: Verb, kind: ErrorKind) -> Self {
        Self {
            inner: Box::new(Inner {
                verb,
                subject: String::new(),
                kind,
                effect: Effect::Unknown,
                detail: String::new(),
                expected: None,
                retry_after_ms: None,
                source: None,
            }),
        }
    }

    /// An error that is known to have changed nothing: [`Effect::None`].
    #[must_use]
    pub fn refused(verb: Verb, kind: ErrorKind) -> Self {
        Self::new(verb, kind).with_effect(Effect::None)
    }

    /// Names what the verb was applied to: a path, a program, an id.
    #[must_use]
    pub fn on(mut self, subject: impl fmt::Display) -> Self {
        self.inner.subject = subject.to_string();
        self
    }

    /// Says what is the matter and what to do about it, in one sentence without a final stop.
    #[must_use]
    pub fn detail(mut self, detail: impl fmt::Display) -> Self {
        self.inner.detail = detail.to_string();
        self
    }

    /// Attaches the value that would have been right: a digest, an offset.
    #[must_use]
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.inner.expected = Some(expected.to_string());
        self
    }

    /// Says when a retry makes sense, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.inner.retry_after_ms = Some(ms);
        self
    }

    /// Keeps the lower-level cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Source>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Replaces the effect.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.inner.effect = effect;
        self
    }

    /// Replaces the verb, for helpers that fail on behalf of several.
    #[must_use]
    pub fn with_verb(mut self, verb: Verb) -> Self {
        self.inner.verb = verb;
        self
    }

    /// What was being done.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.inner.verb
    }

    /// What it was being done to; empty where there is no subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.inner.subject
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Whether something may have happened.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.inner.effect
    }

    /// The sentence that says what to do; may be empty.
    #[must_use]
    pub fn detail_text(&self) -> &str {
        &self.inner.detail
    }

    /// The value that would have been right, where there is one: the current digest of a file
    /// whose precondition failed, the offset that stdin stands at.
    #[must_use]
    pub fn expected_value(&self) -> Option<&str> {
        self.inner.expected.as_deref()
    }

    /// When a retry makes sense, in milliseconds, where the failing side knows.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.inner.retry_after_ms
    }

    /// Whether the verb reached the place and was answered there.
    ///
    /// `false` for failures of the way to it (a lost connection, a deadline, a busy provider):
    /// they say nothing about the tree, so a check that asks the place a question must abstain
    /// rather than fail.
    #[must_use]
    pub fn is_verdict(&self) -> bool {
        self.inner.kind.is_verdict()
    }

    /// Whether doing the same again is safe: nothing happened, and the kind may pass by itself.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.inner.effect == Effect::None && self.inner.kind.is_transient()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            verb,
            subject,
            kind,
            detail,
            ..
        } = &*self.inner;
        write!(f, "failed to {verb}")?;
        if !subject.is_empty() {
            write!(f, " {subject}")?;
        }
        write!(f, ": {kind}")?;
        if !detail.is_empty() {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}

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

    /// See [`Error::is_verdict`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_verb_subject_kind_and_detail_once_and_leaves_the_cause_to_the_chain() {
        let error = Error::refused(Verb::Read, ErrorKind::NotFound)
            .on("src/lib.rs")
            .detail("list the directory with `glob`")
            .caused_by(std::io::Error::other("ENOENT"));
        assert_eq!(
            error.to_string(),
            "failed to read src/lib.rs: not found: list the directory with `glob`"
        );
        let cause = std::error::Error::source(&error).expect("a cause was attached");
        assert_eq!(cause.to_string(), "ENOENT");
    }

    #[test]
    fn an_error_has_an_unknown_effect_until_somebody_promises_otherwise() {
        assert_eq!(
            Error::new(Verb::Exec, ErrorKind::Io).effect(),
            Effect::Unknown
        );
        assert!(!Error::new(Verb::Exec, ErrorKind::Disconnected).is_retryable());
        assert!(Error::refused(Verb::Exec, ErrorKind::Busy).is_retryable());
    }

    #[test]
    fn failures_of_the_way_are_no_verdicts() {
        assert!(!ErrorKind::Disconnected.is_verdict());
        assert!(!ErrorKind::Lost.is_verdict());
        assert!(ErrorKind::NotFound.is_verdict());
        assert!(ErrorKind::Conflict.is_verdict());
    }
}

//! One error type for every verb: what was tried, on what, what went wrong, and whether anything
//! happened.
//!
//! The text of an [`Error`] says verb, subject, kind and detail, each once; the cause stays in
//! [`source`](std::error::Error::source), so that a report printing the chain repeats nothing.
//!
//! **Invariant:** [`Effect::None`] is a promise. It is set only where the failure was seen before
//! anything could change; everything else is [`Effect::Unknown`]. A caller may retry what had no
//! effect, and nothing else.

mod kind;

use std::fmt;

pub use kind::{Effect, ErrorKind, Verb};

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

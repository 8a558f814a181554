//! The one error of the tasks: a sentence for the person at the terminal.
//!
//! Nothing here is matched on by code, so it is text and no enum. A [`Failure`] says what failed,
//! with what, and what to do about it; `main` prints it once and exits with status 1.

use std::fmt::{self, Display};

/// Why a task did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// What a task returns.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure that `sentence` describes.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says what was being done when something below failed.
pub(crate) trait Context<T> {
    /// Puts `doing` before the cause: "failed to `doing`: cause".
    fn context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Failure(format!("failed to {}: {cause}", doing())))
    }
}

//! Why a guard cannot be had.

use std::error::Error;
use std::io;

use crate::domain::MOST_RULES;

/// Why a guard cannot be had. Nothing was restricted.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// There are filters for some processors only.
    #[error("there is no list of system calls for the processor {0}")]
    Processor(&'static str),
    /// A filter could not be made.
    #[error("a filter of system calls could not be made")]
    Filter(#[source] Box<dyn Error + Send + Sync>),
    /// Each directory costs every process that is started.
    #[error("{0} writable directories are asked for, and at most {MOST_RULES} can be had")]
    TooManyRules(usize),
    /// The kernel would not take the domain, or a directory into it.
    #[error("a Landlock domain could not be made")]
    Domain(#[source] Box<dyn Error + Send + Sync>),
    /// No process could be made, or waited for, that tries the guard.
    #[error("the guard could not be tried out")]
    Trial(#[source] io::Error),
    /// The process that should try the guard could not put it on.
    #[error("the kernel does not accept the guard: {step}")]
    Refused {
        /// What it did not accept.
        step: &'static str,
    },
}

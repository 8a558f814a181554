//! The verb `write`: a list of changes, done in order, each with its own answer.
//!
//! A change is interrupted before anything is changed or not at all, so that its answer always says
//! what happened.

use rustix::io::Errno;
use sandbox_core::file::{Change, Durability, WriteReceipt, WriteRequest, WriteResult, validate};
use sandbox_core::{Ctx, Effect, ErrorKind, Result, Verb};

use super::Files;
use super::call::{self, Interrupt};
use super::content::{New, Put};
use crate::root::Fault;

/// Why a change was not made, and whether that is certain.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) effect: Effect,
    /// The digest that would have been right.
    pub(super) expected: Option<sandbox_core::Digest>,
}

impl<F: Into<Fault>> From<F> for Failure {
    fn from(fault: F) -> Self {
        Self {
            fault: fault.into(),
            effect: Effect::None,
            expected: None,
        }
    }
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Fault::Other(kind, detail.into()).into()
    }

    /// A failure of the step that makes a change visible. Most numbers of the operating system mean
    /// that it did not happen; a failing disk may have done it all the same.
    pub(super) fn publishing(errno: Errno) -> Self {
        let effect = if errno == Errno::IO {
            Effect::Unknown
        } else {
            Effect::None
        };
        Self {
            fault: errno.into(),
            effect,
            expected: None,
        }
    }

    /// A failure after the change was made: it is there, and may not outlast a power failure.
    pub(super) fn after(errno: Errno) -> Self {
        Self {
            fault: errno.into(),
            effect: Effect::Unknown,
            expected: None,
        }
    }
}

impl Files {
    /// See [`Sandbox::write`](sandbox_core::Sandbox::write).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write(&self, ctx: &Ctx, request: WriteRequest) -> Result<WriteResult> {
        let files = self.clone();
        call::blocking(ctx, Verb::Write, Interrupt::Await, move |ctx| {
            let answers = request.changes.iter().map(|change| {
                call::check(&ctx, Verb::Write).map_err(|error| error.on(change.path()))?;
                files.change(&ctx, change, request.durability)
            });
            Ok(answers.collect())
        })
        .await
    }

    fn change(&self, ctx: &Ctx, change: &Change, durability: Durability) -> Result<WriteReceipt> {
        validate(change)?;
        let done = match change {
            Change::Put {
                path,
                content,
                mode,
                precondition,
            } => {
                let new = New::Content {
                    content,
                    mode: *mode,
                };
                self.give(&Put {
                    path,
                    new,
                    precondition: *precondition,
                    durability,
                    ctx,
                })
            }
            Change::Edit {
                path,
                replacements,
                precondition,
            } => {
                let new = New::Edit(replacements);
                self.give(&Put {
                    path,
                    new,
                    precondition: *precondition,
                    durability,
                    ctx,
                })
            }
            Change::MakeDirectory { path, mode } => self.make_directory(path, *mode, durability),
            Change::Rename { from, to, existing } => self.rename(from, to, *existing, durability),
            Change::SetMode { path, mode } => self.set_mode(path, *mode, durability),
            Change::Link { path, target } => self.link(path, target, durability),
        };
        done.map_err(
            |Failure {
                 fault,
                 effect,
                 expected,
             }| {
                let error = fault.on(Verb::Write, change.path()).with_effect(effect);
                match expected {
                    Some(digest) => error.expected(digest),
                    None => error,
                }
            },
        )
    }
}

//! The verbs that look at many entries: `glob` and `grep`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `glob` | entries by name, sorted and bounded |
//! | `grep` | text in files: the threads and what they share |
//! | `file` | one file: opened, read, searched |
//! | `lines` | what is kept of a match |
//! | `pattern` | from a request to a matcher |
//! | `answer` | how much fits one answer |
//!
//! **Invariants.**
//! - The work is done on threads that may wait, and stops soon after nobody waits for it.
//! - What is opened is opened relative to the directory that the walk holds, without following a link.
//! - An answer that is cut short says so, and why.
//!
//! Not here: which entries there are (`sandbox_tree::walk`), containment (`root`).

mod answer;
mod file;
mod glob;
mod grep;
mod lines;
mod pattern;

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::search::{Completeness, GlobRequest, GlobResult, GrepRequest, GrepResult, Scope};
use sandbox_core::{Cancel, Ctx, Error, ErrorKind, Result, SandboxPath, Verb};
use sandbox_tree::walk::{End, Summary, Walk};

use crate::file::call::{self, Interrupt};
use crate::root::Roots;

/// The part of the time left that is kept for the answer itself, and most of it.
const ANSWER_SHARE: u32 = 8;
const ANSWER_TIME: Duration = Duration::from_millis(200);

/// The search verbs over a table of roots.
#[derive(Clone, Debug)]
pub(crate) struct Searches {
    roots: Arc<Roots>,
}

impl Searches {
    pub(crate) fn new(roots: Arc<Roots>) -> Self {
        Self { roots }
    }

    /// See [`Sandbox::glob`](sandbox_core::Sandbox::glob).
    pub(crate) async fn glob(&self, ctx: &Ctx, request: GlobRequest) -> Result<GlobResult> {
        let walk = walk(Verb::Glob, &request.scope)?;
        let roots = Arc::clone(&self.roots);
        run(ctx, Verb::Glob, move |ctx| {
            glob::glob(&roots, ctx, &walk, &request)
        })
        .await
    }

    /// See [`Sandbox::grep`](sandbox_core::Sandbox::grep).
    pub(crate) async fn grep(&self, ctx: &Ctx, request: GrepRequest) -> Result<GrepResult> {
        let walk = walk(Verb::Grep, &request.scope)?;
        let roots = Arc::clone(&self.roots);
        run(ctx, Verb::Grep, move |ctx| {
            // A pattern may take a while to compile.
            let matcher = pattern::matcher(&request.pattern)?;
            grep::grep(&roots, ctx, &walk, &matcher, &request)
        })
        .await
    }
}

fn walk(verb: Verb, scope: &Scope) -> Result<Walk> {
    Walk::new(scope).map_err(|error| {
        Error::refused(verb, ErrorKind::InvalidArgument)
            .on(&scope.root)
            .detail(error)
    })
}

/// Does the work of a search with a signal of its own, which is also raised when the call is dropped, and
/// a deadline that leaves time to answer with what was found.
async fn run<T: Send + 'static>(
    ctx: &Ctx,
    verb: Verb,
    work: impl FnOnce(&Ctx) -> Result<T> + Send + 'static,
) -> Result<T> {
    struct Raise(Cancel);
    impl Drop for Raise {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let raise = Raise(Cancel::new());
    let mut own = Ctx::new().with_cancel(raise.0.clone());
    if let Some(left) = ctx.remaining() {
        own = own.with_timeout(left.saturating_sub((left / ANSWER_SHARE).min(ANSWER_TIME)));
    }
    let result = call::blocking(ctx, verb, Interrupt::Abandon, move |_| work(&own)).await;
    drop(raise);
    result
}

/// A path below the root of a scope; `None` if it is longer than any that can be named.
fn join(root: &SandboxPath, below: &[u8]) -> Option<SandboxPath> {
    if below.is_empty() {
        return Some(root.clone());
    }
    root.join(below).ok()
}

/// Refuses to answer a call that was cancelled; nobody reads it.
fn refuse_cancelled(verb: Verb, summary: &Summary) -> Result<()> {
    match summary.end {
        End::Cancelled => Err(Error::refused(verb, ErrorKind::Cancelled)),
        End::Complete | End::Stopped | End::Late => Ok(()),
    }
}

/// `first`, unless nothing is missing by it.
fn or(first: Completeness, second: impl FnOnce() -> Completeness) -> Completeness {
    match first {
        Completeness::Complete => second(),
        incomplete => incomplete,
    }
}

//! The verbs `push_tree` and `pull_tree`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `push` | an archive that comes, and where its tree goes |
//! | `pull` | scopes that are packed, and how their entries are named |
//! | `bridge` | streams of the port as readers and writers that may wait |
//!
//! **Invariants.**
//! - The work is done on a thread that may wait, and ends soon after nobody waits for it any more.
//! - Memory is bounded whatever the size of a file: pieces wait for whoever takes them.
//!
//! Not here: what is taken of an archive, and how a tree is put in place (`sandbox_tree`); where paths lead
//! (`root`).

mod bridge;
mod pull;
mod push;

use std::sync::Arc;

use sandbox_core::{Cancel, Ctx, Result, Verb};

use crate::file::call;
use crate::root::Roots;

/// The verbs that move trees, over a table of roots. Clones share it.
#[derive(Clone, Debug)]
pub struct Trees {
    roots: Arc<Roots>,
}

impl Trees {
    /// The verbs over `roots`. They run on the calling runtime and its pool of threads that may wait.
    #[must_use]
    pub fn new(roots: Arc<Roots>) -> Self {
        Self { roots }
    }
}

/// Whether work is still wanted: by its call, and by whoever waits for it.
#[derive(Clone, Debug)]
struct Wanted {
    verb: Verb,
    ctx: Ctx,
    dropped: Cancel,
}

impl Wanted {
    fn new(verb: Verb, ctx: &Ctx) -> (Self, Waiting) {
        let dropped = Cancel::new();
        let wanted = Self {
            verb,
            ctx: ctx.clone(),
            dropped: dropped.clone(),
        };
        (wanted, Waiting(dropped))
    }

    fn check(&self) -> Result<()> {
        if self.dropped.is_cancelled() {
            return Err(nobody_waits(self.verb));
        }
        call::check(&self.ctx, self.verb)
    }

    /// Resolves when the work is not wanted any more.
    async fn ended(&self) -> sandbox_core::Error {
        let deadline = async {
            match self.ctx.remaining() {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.ctx.cancel().cancelled() => {}
            () = self.dropped.cancelled() => {}
            () = deadline => {}
        }
        self.check()
            .err()
            .unwrap_or_else(|| nobody_waits(self.verb))
    }
}

fn nobody_waits(verb: Verb) -> sandbox_core::Error {
    sandbox_core::Error::refused(verb, sandbox_core::ErrorKind::Cancelled)
        .detail("nobody waits for it any more")
}

/// Somebody waits for the work; dropped when nobody does.
#[derive(Debug)]
struct Waiting(Cancel);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

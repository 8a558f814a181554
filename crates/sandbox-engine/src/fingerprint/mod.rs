//! What a tree looks like, and what changed in it: the verb `fingerprint`, and `exec` with `track`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `survey` | one look at a tree: the walk, and what has to be read |
//! | `notes`, `content` | what the walk notes of entries, what files hold |
//! | `manifest`, `coverage` | the record of a look, and what it could not see |
//! | `moment` | times, and when one can be relied on |
//! | `digest` | one digest for a record |
//! | `compare` | what is different between two records |
//! | `kept` | which records are kept |
//! | `track` | a look before a run and one after it |
//!
//! **Invariants.**
//! - A change is missed only where this says so: what was undone before the second look, what is written
//!   through a mapping that was there before the first, and what happens while somebody sets the clock
//!   back. A second change within one tick of the clock, with size and time as they were, is not
//!   missed: see `moment`.
//! - What was not seen is neither new nor gone, and the answer says that it was not seen.
//! - Nothing here writes to the tree, follows a link, or waits for anything but a disk.
//!
//! Not here: which entries count (`sandbox_tree::walk`), containment (`root`).

mod compare;
mod content;
mod coverage;
mod digest;
mod kept;
mod manifest;
mod moment;
mod notes;
mod survey;
mod track;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox_core::search::{Changes, Fingerprint, FingerprintRequest, FingerprintScope};
use sandbox_core::{Cancel, Ctx, Error, ErrorKind, Result, Verb};
use sandbox_tree::walk::{Place, Walk};
use tokio::sync::Semaphore;

use self::compare::Comparison;
use self::content::Opener;
use self::kept::{Kept, Key};
use self::manifest::Manifest;
use self::survey::{Purpose, Survey};
use crate::file::call::{self, Interrupt};
use crate::root::{Roots, os_error};

/// Looks that are under way at a time. Each uses all processors while it reads.
const AT_ONCE: usize = 2;
/// Part of a call's time that is kept for giving the answer.
const RESERVE: u32 = 16;
/// Longest time that is kept for it.
const MAX_RESERVE: Duration = Duration::from_millis(100);

/// The fingerprints of one sandbox's trees. Clones share it.
#[derive(Clone, Debug)]
pub struct Fingerprints {
    roots: Arc<Roots>,
    kept: Arc<Mutex<Kept>>,
    turns: Arc<Semaphore>,
    /// Bytes of records that runs hold.
    held: Arc<AtomicUsize>,
}

/// One look that is to be made.
struct Look {
    key: Key,
    limit: u64,
    walk: Walk,
    purpose: Purpose,
    against: Option<Arc<Manifest>>,
}

/// What a look found.
struct Looked {
    manifest: Arc<Manifest>,
    /// What is different from what it was to be compared with.
    changes: Option<Changes>,
}

impl Fingerprints {
    /// Nothing is known yet of what lies beneath `roots`.
    #[must_use]
    pub fn new(roots: Arc<Roots>) -> Self {
        Self {
            roots,
            kept: Arc::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            held: Arc::default(),
        }
    }

    /// See [`Sandbox::fingerprint`](sandbox_core::Sandbox::fingerprint).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn fingerprint(&self, ctx: &Ctx, request: FingerprintRequest) -> Result<Fingerprint> {
        let verb = Verb::Fingerprint;
        let mut look = Look::new(verb, request.scope, Purpose::Base)?;
        let base = request.base.map(|base| self.kept().base(base, &look.key));
        let uncompared = match base {
            None => None,
            Some(Ok(base)) => {
                look.against = Some(base);
                None
            }
            Some(Err(why)) => Some(why),
        };
        let (key, depth) = (look.key.clone(), look.key.depth);
        let looked = self.look(ctx, verb, look).await?;
        let manifest = looked.manifest;
        // A second's work for a million entries, but not this thread's.
        let hashed = Arc::clone(&manifest);
        let digest = call::blocking(ctx, verb, Interrupt::Abandon, move |_| {
            Ok(digest::digest(&hashed, depth))
        })
        .await?;
        let fingerprint = Fingerprint {
            digest,
            entries: manifest.entries(),
            complete: manifest.coverage().completeness(),
            changes: looked.changes,
            uncompared,
        };
        self.kept().keep(digest, key, manifest);
        Ok(fingerprint)
    }

    /// Looks, on threads that may wait.
    async fn look(&self, ctx: &Ctx, verb: Verb, look: Look) -> Result<Looked> {
        call::check(ctx, verb)?;
        let turn = tokio::select! {
            turn = Arc::clone(&self.turns).acquire_owned() => turn.map_err(|closed| {
                Error::refused(verb, ErrorKind::Internal).caused_by(closed)
            })?,
            () = ctx.cancel().cancelled() => return Err(Error::refused(verb, ErrorKind::Cancelled)),
            () = deadline(ctx) => {
                return Err(Error::refused(verb, ErrorKind::DeadlineExceeded)
                    .detail("others looked at trees meanwhile; allow more time"));
            }
        };
        // Whoever stops waiting for the answer stops the work.
        let abandon = CancelOnDrop(Cancel::new());
        let mut inner = Ctx::new().with_cancel(abandon.0.clone());
        if let Some(left) = ctx.remaining() {
            inner = inner.with_timeout(left.saturating_sub((left / RESERVE).min(MAX_RESERVE)));
        }
        let known = self.kept().contents(&look.key);
        let roots = Arc::clone(&self.roots);
        call::blocking(ctx, verb, Interrupt::Abandon, move |_| {
            let _turn = turn;
            look.work(&inner, verb, &roots, known)
        })
        .await
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    fn new(verb: Verb, scope: FingerprintScope, purpose: Purpose) -> Result<Self> {
        let walk = Walk::new(&scope.scope).map_err(|error| {
            Error::refused(verb, ErrorKind::InvalidArgument)
                .on(&scope.scope.root)
                .detail(error)
        })?;
        Ok(Self {
            key: Key {
                scope: scope.scope,
                depth: scope.depth,
            },
            limit: scope.limit,
            walk,
            purpose,
            against: None,
        })
    }

    fn work(
        self,
        ctx: &Ctx,
        verb: Verb,
        roots: &Roots,
        known: Option<Arc<Manifest>>,
    ) -> Result<Looked> {
        let root = &self.key.scope.root;
        let tree = roots.origin(root).map_err(|fault| fault.on(verb, root))?;
        let failed = |errno| os_error(verb, errno).on(root);
        let survey = Survey {
            walk: &self.walk,
            root: &tree.dir,
            place: Place::new(&tree.root).below(&tree.below),
            depth: self.key.depth,
            limit: self.limit,
            purpose: self.purpose,
            known,
            against: self.against.clone(),
        };
        let manifest = survey.run(ctx).map_err(failed)?;
        let changes = match &self.against {
            None => None,
            Some(before) => {
                let mut opener = Opener::of(&tree.dir).map_err(failed)?;
                let comparison = Comparison {
                    before,
                    after: &manifest,
                    depth: self.key.depth,
                    root,
                };
                Some(comparison.changes(|path| opener.is_there(path)))
            }
        };
        Ok(Looked {
            manifest: Arc::new(manifest),
            changes,
        })
    }
}

struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn deadline(ctx: &Ctx) {
    match ctx.remaining() {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

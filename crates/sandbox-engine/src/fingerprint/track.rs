//! What a run changed: a look at the tree before it, and one after it.
//!
//! A run is never failed by this. What cannot be told about its changes is told as such beside its
//! outcome.
//!
//! Whatever changes between the two looks counts, whoever did it: other runs and other programs
//! included.

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::search::{Changes, Completeness, FingerprintScope, IncompleteCause};
use sandbox_core::{Ctx, Error, ErrorKind, Result, Verb};

use super::kept::Held;
use super::manifest::Manifest;
use super::survey::Purpose;
use super::{Fingerprints, Look};
use crate::file::call::interrupted;

/// How long the look after a run may take that was cancelled, or whose call is late already: less than
/// anybody waits for the end of what was cancelled.
const AFTER_CANCEL: Duration = Duration::from_secs(1);

/// A run whose changes are wanted.
#[derive(Debug)]
pub(crate) struct Tracking {
    fingerprints: Fingerprints,
    scope: FingerprintScope,
    before: std::result::Result<Before, Error>,
}

#[derive(Debug)]
struct Before {
    manifest: Arc<Manifest>,
    _held: Held,
}

impl Fingerprints {
    /// Looks at the tree before a run.
    ///
    /// # Errors
    ///
    /// Without effect: a scope that makes no sense (`InvalidArgument`, `OutsideRoot`, `NotADirectory`),
    /// `Cancelled`, `DeadlineExceeded`. What else fails is told with the changes.
    pub(crate) async fn track(&self, ctx: &Ctx, scope: FingerprintScope) -> Result<Tracking> {
        let look = Look::new(Verb::Exec, scope.clone(), Purpose::Base)?;
        let key = look.key.clone();
        let before = match self.look(ctx, Verb::Exec, look).await {
            Ok(looked) => {
                // The look after the run need not read again what this one read.
                self.kept().remember(key, Arc::clone(&looked.manifest));
                self.hold(looked.manifest)
            }
            // A tree that is not there yet is an empty one.
            Err(error) if error.kind() == ErrorKind::NotFound => self.hold(Arc::default()),
            Err(error) => match error.kind() {
                ErrorKind::InvalidArgument
                | ErrorKind::OutsideRoot
                | ErrorKind::NotADirectory
                | ErrorKind::Cancelled
                | ErrorKind::DeadlineExceeded => return Err(error),
                _ => Err(error),
            },
        };
        Ok(Tracking {
            fingerprints: self.clone(),
            scope,
            before,
        })
    }

    fn hold(&self, manifest: Arc<Manifest>) -> std::result::Result<Before, Error> {
        let held = Held::take(&self.held, manifest.bytes()).ok_or_else(|| {
            Error::refused(Verb::Exec, ErrorKind::TooLarge)
                .on("the record of the tree")
                .detail("other runs hold as many as fit into memory; narrow the scope, or run fewer at once")
        })?;
        Ok(Before {
            manifest,
            _held: held,
        })
    }
}

impl Tracking {
    /// Looks at the tree after the run, and says what changed. A cancel or a deadline of the run's call
    /// leaves it a moment.
    pub(crate) async fn changes(self, ctx: &Ctx) -> Changes {
        let before = match self.before {
            Ok(before) => before,
            Err(error) => return untold("before the run", &error),
        };
        let own = match interrupted(ctx) {
            Some(_) => Ctx::new().with_timeout(AFTER_CANCEL),
            None => ctx.clone(),
        };
        let looked = self
            .fingerprints
            .compare(&own, self.scope, &before.manifest);
        match looked.await {
            Ok(changes) => changes,
            Err(error) => untold("after the run", &error),
        }
    }
}

impl Fingerprints {
    async fn compare(
        &self,
        ctx: &Ctx,
        scope: FingerprintScope,
        before: &Arc<Manifest>,
    ) -> Result<Changes> {
        let verb = Verb::Exec;
        let mut look = Look::new(verb, scope, Purpose::Comparison)?;
        look.against = Some(Arc::clone(before));
        let key = look.key.clone();
        let root = key.scope.root.clone();
        let depth = key.depth;
        match self.look(ctx, verb, look).await {
            Ok(looked) => {
                self.kept().remember(key, looked.manifest);
                Ok(looked.changes.unwrap_or_else(nothing))
            }
            // The run removed the tree itself.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let comparison = super::Comparison {
                    before,
                    after: &Manifest::default(),
                    depth,
                    root: &root,
                };
                Ok(comparison.changes(|_| false))
            }
            Err(error) => Err(error),
        }
    }
}

fn nothing() -> Changes {
    Changes {
        created: Vec::new(),
        modified: Vec::new(),
        removed: Vec::new(),
        complete: Completeness::Complete,
    }
}

/// No changes, and why they are not known.
fn untold(when: &str, error: &Error) -> Changes {
    let cause = match error.kind() {
        ErrorKind::TooLarge | ErrorKind::Busy => IncompleteCause::Limit,
        ErrorKind::Cancelled | ErrorKind::DeadlineExceeded => IncompleteCause::Deadline,
        _ => IncompleteCause::Permission,
    };
    Changes {
        complete: Completeness::Incomplete {
            reason: format!("the tree could not be looked at {when}: {error}"),
            cause,
        },
        ..nothing()
    }
}

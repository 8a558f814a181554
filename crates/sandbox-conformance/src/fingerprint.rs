//! Checks of `fingerprint`, and of `exec` that tracks changes.
//!
//! What a tree looks like is changed by commands of the place, and each check looks at one list, one
//! digest or one reason, so that what fails says what is wrong.

pub(crate) mod changes;
pub(crate) mod digest;
pub(crate) mod scope;
pub(crate) mod track;

use sandbox_core::search::{
    Changes, Completeness, Fingerprint, FingerprintDepth, FingerprintRequest, FingerprintScope,
    IncompleteCause, Scope,
};
use sandbox_core::{Digest, SandboxPath};

use crate::check::Failure;
use crate::harness::Place;
use crate::support::path;

/// More entries than any check makes.
const PLENTY: u64 = 100_000;

fn at(root: &str, depth: FingerprintDepth) -> FingerprintScope {
    FingerprintScope {
        scope: Scope::new(path(root)),
        depth,
        limit: PLENTY,
    }
}

fn metadata() -> FingerprintScope {
    at(".", FingerprintDepth::Metadata)
}

fn content() -> FingerprintScope {
    at(".", FingerprintDepth::Content)
}

/// What something looks like now.
async fn look(place: &Place, scope: FingerprintScope) -> Result<Fingerprint, Failure> {
    let request = FingerprintRequest { scope, base: None };
    Ok(place.sandbox.fingerprint(&place.ctx(), request).await?)
}

/// What changed since an earlier look.
async fn since(place: &Place, scope: FingerprintScope, base: Digest) -> Result<Changes, Failure> {
    let request = FingerprintRequest {
        scope,
        base: Some(base),
    };
    let answer = place.sandbox.fingerprint(&place.ctx(), request).await?;
    let why = answer.uncompared;
    answer.changes.ok_or_else(|| {
        Failure::new(format_args!(
            "what was just answered is not known as a base: {why:?}"
        ))
    })
}

/// What a command line changed, by `fingerprint` before and after.
async fn changed_by(
    place: &Place,
    scope: FingerprintScope,
    line: &str,
) -> Result<Changes, Failure> {
    let base = look(place, scope.clone()).await?;
    place.script(line).await?;
    since(place, scope, base.digest).await
}

/// Paths as they are written in checks, in order.
fn names(paths: &[SandboxPath]) -> Vec<String> {
    let mut names: Vec<_> = paths.iter().map(ToString::to_string).collect();
    names.sort();
    names
}

fn cause(complete: &Completeness) -> Option<IncompleteCause> {
    match complete {
        Completeness::Complete => None,
        Completeness::Incomplete { cause, .. } => Some(*cause),
    }
}

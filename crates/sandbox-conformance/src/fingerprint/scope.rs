//! Which entries a fingerprint covers.

use sandbox_core::ErrorKind;
use sandbox_core::search::{FingerprintRequest, Hidden};

use super::{changed_by, content, metadata, names};
use crate::check::Verdict;
use crate::harness::Place;
use crate::support::refused;

pub(crate) async fn what_is_ignored_does_not_count(place: &Place) -> Verdict {
    place
        .script("echo target >.gitignore; mkdir target; echo one >target/file")
        .await?;
    let changes = changed_by(place, content(), "echo two >target/file").await?;
    ensure_eq!(
        names(&changes.modified),
        [""; 0],
        "what was modified where everything is ignored"
    );
    Ok(())
}

pub(crate) async fn what_is_only_ignored_by_now_is_not_gone(place: &Place) -> Verdict {
    place.script("echo x >log").await?;
    let changes = changed_by(place, metadata(), "echo log >.gitignore").await?;
    ensure_eq!(
        names(&changes.removed),
        [""; 0],
        "what was removed when it was ignored"
    );
    Ok(())
}

pub(crate) async fn hidden_names_count_only_when_wanted(place: &Place) -> Verdict {
    place.script("echo one >.hidden").await?;
    let mut scope = content();
    scope.scope.hidden = Hidden::Exclude;
    let changes = changed_by(place, scope, "echo two >.hidden").await?;
    ensure_eq!(
        names(&changes.modified),
        [""; 0],
        "what was modified that is not hidden"
    );
    Ok(())
}

pub(crate) async fn what_lies_too_deep_does_not_count(place: &Place) -> Verdict {
    place.script("mkdir d; echo one >d/file").await?;
    let mut scope = content();
    scope.scope.max_depth = Some(1);
    let changes = changed_by(place, scope, "echo two >d/file").await?;
    ensure_eq!(
        names(&changes.modified),
        [""; 0],
        "what was modified at the first level"
    );
    Ok(())
}

pub(crate) async fn what_is_excluded_does_not_count(place: &Place) -> Verdict {
    place.script("echo one >a.log; echo one >a.txt").await?;
    let mut scope = content();
    scope.scope.exclude = vec!["*.log".to_owned()];
    let changes = changed_by(place, scope, "echo two >a.log; echo two >a.txt").await?;
    ensure_eq!(
        names(&changes.modified),
        ["a.txt"],
        "what was modified that is not excluded"
    );
    Ok(())
}

pub(crate) async fn a_fingerprint_of_a_malformed_glob_is_refused(place: &Place) -> Verdict {
    let mut scope = metadata();
    scope.scope.include = vec!["a[".to_owned()];
    let request = FingerprintRequest { scope, base: None };
    let error = refused(
        place.sandbox.fingerprint(&place.ctx(), request).await,
        ErrorKind::InvalidArgument,
        "a glob that is none",
    )?;
    ensure!(
        error.to_string().contains("a["),
        "the refusal does not name the glob: {error}"
    );
    Ok(())
}

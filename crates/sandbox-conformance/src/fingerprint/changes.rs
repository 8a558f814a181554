//! What changed since a base.

use sandbox_core::Digest;
use sandbox_core::search::{Completeness, FingerprintRequest, IncompleteCause, Uncompared};

use super::{at, cause, changed_by, content, look, metadata, names};
use crate::check::Verdict;
use crate::harness::Place;

pub(crate) async fn a_new_entry_is_told_as_created(place: &Place) -> Verdict {
    let changes = changed_by(place, metadata(), "mkdir d; ln -s d link; echo x >file").await?;
    ensure_eq!(
        names(&changes.created),
        ["d", "file", "link"],
        "what was created"
    );
    Ok(())
}

pub(crate) async fn a_file_that_became_empty_is_told_as_modified(place: &Place) -> Verdict {
    place.script("echo x >file; echo x >other").await?;
    let changes = changed_by(place, metadata(), ": >file").await?;
    ensure_eq!(names(&changes.modified), ["file"], "what was modified");
    Ok(())
}

pub(crate) async fn a_removed_entry_is_told(place: &Place) -> Verdict {
    place
        .script("mkdir d; echo x >d/file; echo x >kept")
        .await?;
    let changes = changed_by(place, metadata(), "rm -r d").await?;
    ensure_eq!(names(&changes.removed), ["d", "d/file"], "what was removed");
    Ok(())
}

/// The size and the time are as they were, which is all that many tools compare.
pub(crate) async fn a_rewrite_that_restores_the_time_is_told(place: &Place) -> Verdict {
    place
        .script("printf one >file; touch -t 200102030405.06 file")
        .await?;
    let line = "printf two >file; touch -t 200102030405.06 file";
    let changes = changed_by(place, metadata(), line).await?;
    ensure_eq!(names(&changes.modified), ["file"], "what was modified");
    Ok(())
}

pub(crate) async fn a_link_that_leads_elsewhere_is_told(place: &Place) -> Verdict {
    place.script("ln -s one link").await?;
    let changes = changed_by(place, content(), "rm link; ln -s two link").await?;
    ensure_eq!(names(&changes.modified), ["link"], "what was modified");
    Ok(())
}

pub(crate) async fn a_mode_that_changed_is_told(place: &Place) -> Verdict {
    place.script("echo x >file; chmod 644 file").await?;
    let changes = changed_by(place, content(), "chmod 755 file").await?;
    ensure_eq!(names(&changes.modified), ["file"], "what was modified");
    Ok(())
}

pub(crate) async fn a_directory_is_not_modified_by_what_is_in_it(place: &Place) -> Verdict {
    place.script("mkdir d").await?;
    let changes = changed_by(place, metadata(), "echo x >d/file").await?;
    ensure_eq!(names(&changes.modified), [""; 0], "what was modified");
    Ok(())
}

pub(crate) async fn a_touch_is_not_told_by_content(place: &Place) -> Verdict {
    place.script("echo x >file").await?;
    let changes = changed_by(place, content(), "touch -t 200102030405.06 file").await?;
    ensure_eq!(
        names(&changes.modified),
        [""; 0],
        "what was modified, by content"
    );
    Ok(())
}

pub(crate) async fn paths_of_changes_lead_to_them(place: &Place) -> Verdict {
    place.script("mkdir -p a/b; echo one >a/b/file").await?;
    let scope = at("a/b", sandbox_core::search::FingerprintDepth::Content);
    let changes = changed_by(place, scope, "echo two >a/b/file").await?;
    ensure_eq!(
        names(&changes.modified),
        ["a/b/file"],
        "where what was modified is"
    );
    Ok(())
}

pub(crate) async fn a_base_that_is_not_known_is_said_to_be_that(place: &Place) -> Verdict {
    let request = FingerprintRequest {
        scope: metadata(),
        base: Some(Digest::from_bytes([0x5a; 32])),
    };
    let answer = place.sandbox.fingerprint(&place.ctx(), request).await?;
    ensure_eq!(
        (answer.changes, answer.uncompared),
        (None, Some(Uncompared::NotKnown)),
        "changes since a base that nobody answered"
    );
    Ok(())
}

pub(crate) async fn a_base_of_another_scope_is_said_to_be_that(place: &Place) -> Verdict {
    place
        .script("mkdir d; echo x >d/file; echo x >file")
        .await?;
    let base = look(place, metadata()).await?.digest;
    let request = FingerprintRequest {
        scope: at("d", sandbox_core::search::FingerprintDepth::Metadata),
        base: Some(base),
    };
    let answer = place.sandbox.fingerprint(&place.ctx(), request).await?;
    ensure_eq!(
        (answer.changes, answer.uncompared),
        (None, Some(Uncompared::OtherScope)),
        "changes since a base of another scope"
    );
    Ok(())
}

pub(crate) async fn nothing_beyond_a_limit_is_called_new_or_gone(place: &Place) -> Verdict {
    place.script("seq 1 20 | xargs touch").await?;
    let mut scope = metadata();
    scope.limit = 5;
    let changes = changed_by(place, scope, "true").await?;
    ensure_eq!(
        (names(&changes.created), names(&changes.removed)),
        (Vec::new(), Vec::new()),
        "what was created and removed while nothing happened"
    );
    ensure!(
        changes.complete != Completeness::Complete,
        "5 of 20 entries were compared, and that is said to be all"
    );
    Ok(())
}

pub(crate) async fn many_changes_are_told_in_part_and_said_to_be(place: &Place) -> Verdict {
    // Long names, and not many files: a disk may take milliseconds for each.
    let line = "mkdir d; cd d; for i in $(seq 1000); do printf '%0200d\\n' $i; done | xargs touch";
    let changes = changed_by(place, metadata(), line).await?;
    ensure!(
        changes.created.len() == 1001 || cause(&changes.complete) == Some(IncompleteCause::Limit),
        "{} of 1001 new entries are told, and of the others {:?}",
        changes.created.len(),
        changes.complete
    );
    Ok(())
}

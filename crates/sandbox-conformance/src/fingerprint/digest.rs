//! The digest of a tree: what it covers, and what it does not.

use sandbox_core::ErrorKind;
use sandbox_core::search::{FingerprintDepth, FingerprintRequest, IncompleteCause};

use super::{at, cause, content, look, metadata};
use crate::check::Verdict;
use crate::harness::{CANARY, Place};
use crate::support::{refused, soon};

pub(crate) async fn an_unchanged_tree_has_one_fingerprint(place: &Place) -> Verdict {
    place
        .script("mkdir d; echo x >d/file; ln -s d link")
        .await?;
    let (first, second) = (
        look(place, metadata()).await?,
        look(place, metadata()).await?,
    );
    ensure_eq!(
        second.digest,
        first.digest,
        "digest of a tree that nobody changed"
    );
    Ok(())
}

pub(crate) async fn a_changed_file_is_another_tree(place: &Place) -> Verdict {
    place.put("file", "one").await?;
    let before = look(place, content()).await?.digest;
    place.put("file", "two").await?;
    ensure!(
        look(place, content()).await?.digest != before,
        "a file has another content, and the tree has the same digest"
    );
    Ok(())
}

pub(crate) async fn a_new_entry_is_another_tree(place: &Place) -> Verdict {
    place.put("file", "one").await?;
    let before = look(place, content()).await?.digest;
    place.script("mkdir empty").await?;
    ensure!(
        look(place, content()).await?.digest != before,
        "there is a directory more, and the tree has the same digest"
    );
    Ok(())
}

pub(crate) async fn two_copies_have_one_content_fingerprint(place: &Place) -> Verdict {
    place
        .script(
            "mkdir -p one/sub; echo x >one/sub/file; ln -s sub/file one/link; mkdir one/empty; \
             cp -R one two; touch -t 200102030405.06 two/sub/file",
        )
        .await?;
    let one = look(place, at("one", FingerprintDepth::Content)).await?;
    let two = look(place, at("two", FingerprintDepth::Content)).await?;
    ensure_eq!(two.digest, one.digest, "digest of a copy, by content");
    Ok(())
}

pub(crate) async fn a_touch_is_no_change_of_content(place: &Place) -> Verdict {
    place.put("file", "x").await?;
    let before = look(place, content()).await?.digest;
    place.script("touch -t 200102030405.06 file").await?;
    ensure_eq!(
        look(place, content()).await?.digest,
        before,
        "digest by content after the time of a file was set"
    );
    Ok(())
}

pub(crate) async fn entries_are_counted(place: &Place) -> Verdict {
    place
        .script("mkdir -p a/b; echo x >a/file; echo x >a/b/file; ln -s a link; ln -s gone dangling")
        .await?;
    ensure_eq!(
        look(place, content()).await?.entries,
        6,
        "two directories, two files and two links make"
    );
    Ok(())
}

pub(crate) async fn a_link_out_is_only_its_text(place: &Place) -> Verdict {
    let outside = place.outside()?;
    outside.link_to_outside("door", Some(CANARY))?;
    let before = look(place, content()).await?.digest;
    std::fs::write(outside.directory().join(CANARY), "changed meanwhile")
        .map_err(crate::Failure::new)?;
    ensure_eq!(
        look(place, content()).await?.digest,
        before,
        "digest after what a link out leads to has changed"
    );
    Ok(())
}

pub(crate) async fn a_fifo_blocks_no_fingerprint(place: &Place) -> Verdict {
    place.script("mkfifo fifo").await?;
    for scope in [metadata(), content()] {
        soon("a fingerprint", look(place, scope)).await??;
    }
    Ok(())
}

pub(crate) async fn a_tree_beyond_its_limit_is_incomplete(place: &Place) -> Verdict {
    place.script("seq 1 20 | xargs touch").await?;
    let mut scope = metadata();
    scope.limit = 5;
    let fingerprint = look(place, scope).await?;
    ensure_eq!(
        cause(&fingerprint.complete),
        Some(IncompleteCause::Limit),
        "why a fingerprint of at most 5 of 20 entries is incomplete"
    );
    Ok(())
}

pub(crate) async fn a_fingerprint_of_nothing_is_not_found(place: &Place) -> Verdict {
    let request = FingerprintRequest {
        scope: at("missing", FingerprintDepth::Metadata),
        base: None,
    };
    refused(
        place.sandbox.fingerprint(&place.ctx(), request).await,
        ErrorKind::NotFound,
        "the fingerprint of a directory that is not there",
    )?;
    Ok(())
}

pub(crate) async fn a_fingerprint_never_leaves_the_roots(place: &Place) -> Verdict {
    place.outside()?.link_to_outside("door", None)?;
    let request = FingerprintRequest {
        scope: at("door", FingerprintDepth::Content),
        base: None,
    };
    refused(
        place.sandbox.fingerprint(&place.ctx(), request).await,
        ErrorKind::OutsideRoot,
        "the fingerprint of a directory outside",
    )?;
    Ok(())
}

//! Checks of `push_tree` with a base.

use sandbox_core::ErrorKind;
use sandbox_core::transfer::Manifest;

use super::archive::Archive;
use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::refused;

/// A tree to begin with, and its manifest.
async fn base(place: &Place, at: &str) -> Result<Manifest, Failure> {
    let archive = Archive::default()
        .file("a", "old a")
        .file("b", "old b")
        .directory("d")
        .file("d/c", "old c")
        .end();
    Ok(place.push(at, &archive, None, &[]).await?.manifest)
}

pub(crate) async fn a_delta_changes_what_it_has_and_nothing_else(place: &Place) -> Verdict {
    let manifest = base(place, "some").await?;
    let archive = Archive::default()
        .file("a", "new a")
        .file("e/f", "new")
        .end();
    place.push("some", &archive, Some(manifest), &[]).await?;
    for (name, content) in [
        ("a", "new a"),
        ("b", "old b"),
        ("d/c", "old c"),
        ("e/f", "new"),
    ] {
        ensure_eq!(
            place.content(format!("some/{name}")).await?,
            content,
            "content of {name}"
        );
    }
    Ok(())
}

pub(crate) async fn a_delta_removes_what_it_is_told(place: &Place) -> Verdict {
    let manifest = base(place, "less").await?;
    let archive = Archive::default().end();
    let receipt = place
        .push("less", &archive, Some(manifest), &["d", "d/c"])
        .await?;
    ensure_eq!(receipt.removed, 2, "removals that are told");
    ensure_eq!(place.script("ls -A less").await?, "a\nb\n", "what is left");
    Ok(())
}

pub(crate) async fn the_manifest_of_a_delta_is_the_next_base(place: &Place) -> Verdict {
    let manifest = base(place, "next").await?;
    let archive = Archive::default().file("a", "second").end();
    let receipt = place.push("next", &archive, Some(manifest), &["b"]).await?;
    let names: Vec<_> = receipt
        .manifest
        .entries
        .iter()
        .map(|entry| entry.path.to_string())
        .collect();
    ensure_eq!(names, ["a", "d", "d/c"], "what the manifest lists");
    let archive = Archive::default().file("a", "third").end();
    place
        .push("next", &archive, Some(receipt.manifest), &[])
        .await?;
    ensure_eq!(
        place.content("next/a").await?,
        "third",
        "content after a second delta"
    );
    Ok(())
}

pub(crate) async fn a_base_that_is_not_there_is_a_conflict(place: &Place) -> Verdict {
    let manifest = base(place, "stale").await?;
    place.put("stale/a", "OLD A").await?;
    let archive = Archive::default().file("b", "new").file("a", "new").end();
    let pushed = place.push("stale", &archive, Some(manifest), &[]).await;
    refused(pushed, ErrorKind::Conflict, "a delta onto another content")?;
    ensure_eq!(
        place.content("stale/a").await?,
        "OLD A",
        "what somebody changed"
    );
    ensure_eq!(
        place.content("stale/b").await?,
        "old b",
        "what came before it in the archive"
    );
    Ok(())
}

pub(crate) async fn what_the_base_does_not_have_is_not_replaced(place: &Place) -> Verdict {
    let manifest = base(place, "extra").await?;
    place.put("extra/mine", "kept").await?;
    let archive = Archive::default().file("mine", "new").end();
    let pushed = place.push("extra", &archive, Some(manifest), &[]).await;
    refused(
        pushed,
        ErrorKind::Conflict,
        "a delta onto what its base does not have",
    )?;
    ensure_eq!(place.content("extra/mine").await?, "kept", "what was there");
    Ok(())
}

pub(crate) async fn a_directory_goes_only_with_all_that_is_in_it(place: &Place) -> Verdict {
    let manifest = base(place, "full").await?;
    place.put("full/d/mine", "kept").await?;
    let archive = Archive::default().end();
    let pushed = place
        .push("full", &archive, Some(manifest), &["d", "d/c"])
        .await;
    refused(
        pushed,
        ErrorKind::Conflict,
        "a removal of a directory that has more in it",
    )?;
    ensure_eq!(
        place.content("full/d/mine").await?,
        "kept",
        "what was there"
    );
    ensure_eq!(
        place.content("full/d/c").await?,
        "old c",
        "what was to be removed"
    );
    Ok(())
}

pub(crate) async fn a_removal_that_the_base_does_not_have_is_refused(place: &Place) -> Verdict {
    let manifest = base(place, "wild").await?;
    place.put("wild/mine", "kept").await?;
    let archive = Archive::default().end();
    let pushed = place
        .push("wild", &archive, Some(manifest), &["mine"])
        .await;
    refused(
        pushed,
        ErrorKind::InvalidArgument,
        "a removal of what the base does not have",
    )?;
    ensure_eq!(place.content("wild/mine").await?, "kept", "what was there");
    Ok(())
}

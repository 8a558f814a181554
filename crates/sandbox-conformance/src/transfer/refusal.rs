//! Checks of `push_tree` with archives that are to be refused: whole, and without a trace.

use sandbox_core::ErrorKind;

use super::archive::Archive;
use crate::check::Verdict;
use crate::harness::Place;
use crate::support::refused;

/// Pushes what must be refused, and looks for what it left.
async fn nothing_comes_of(place: &Place, archive: &[u8], what: &str) -> Verdict {
    let pushed = place.push("refused", archive, None, &[]).await;
    refused(pushed, ErrorKind::InvalidArgument, what)?;
    let left = place.script("ls -A").await?;
    ensure_eq!(left, "", "what {what} left");
    Ok(())
}

pub(crate) async fn a_name_that_leaves_the_tree_is_refused(place: &Place) -> Verdict {
    let archive = Archive::default().file("d/../../escaped", "x").end();
    nothing_comes_of(place, &archive, "a name with `..`").await
}

pub(crate) async fn an_absolute_name_is_refused(place: &Place) -> Verdict {
    let archive = Archive::default().file("/tmp/spp-escaped", "x").end();
    nothing_comes_of(place, &archive, "an absolute name").await
}

pub(crate) async fn an_entry_beneath_a_link_is_refused(place: &Place) -> Verdict {
    let outside = place.outside()?;
    let before = outside.entries()?;
    let text = outside.directory().as_os_str().as_encoded_bytes();
    let archive = Archive::default()
        .link("l", text)
        .file("l/escaped", "x")
        .end();
    nothing_comes_of(place, &archive, "an entry beneath a link").await?;
    ensure_eq!(outside.entries()?, before, "what is outside");
    Ok(())
}

pub(crate) async fn a_second_entry_of_a_name_is_refused(place: &Place) -> Verdict {
    let archive = Archive::default().file("a", "1").file("./a", "2").end();
    nothing_comes_of(place, &archive, "a second entry of one name").await
}

pub(crate) async fn a_hard_link_is_refused(place: &Place) -> Verdict {
    let archive = Archive::default()
        .file("a", "1")
        .entry(b'1', "b", 0o644, "a", "")
        .end();
    nothing_comes_of(place, &archive, "a hard link").await
}

pub(crate) async fn a_device_or_a_fifo_is_refused(place: &Place) -> Verdict {
    for (kind, what) in [(b'3', "a device"), (b'4', "a device"), (b'6', "a FIFO")] {
        let archive = Archive::default()
            .entry(kind, "special", 0o644, "", "")
            .end();
        nothing_comes_of(place, &archive, what).await?;
    }
    Ok(())
}

pub(crate) async fn an_unknown_type_is_refused(place: &Place) -> Verdict {
    let archive = Archive::default().entry(b'Z', "z", 0o644, "", "").end();
    nothing_comes_of(place, &archive, "an entry of an unknown type").await
}

pub(crate) async fn an_extension_that_changes_a_size_is_refused(place: &Place) -> Verdict {
    let archive = Archive::default()
        .entry(b'x', "x", 0, "", "13 size=1024\n")
        .file("a", "")
        .file("hidden", "")
        .end();
    nothing_comes_of(place, &archive, "an extension that changes a size").await
}

pub(crate) async fn a_record_for_all_entries_is_refused(place: &Place) -> Verdict {
    let archive = Archive::default()
        .entry(b'g', "g", 0, "", "10 path=x\n")
        .file("a", "x")
        .end();
    nothing_comes_of(place, &archive, "a record for all entries").await
}

pub(crate) async fn a_cut_archive_is_refused(place: &Place) -> Verdict {
    let whole = Archive::default().file("a", "x").file("b", "x");
    let without_end = whole.clone().cut();
    nothing_comes_of(place, &without_end, "an archive without its end").await?;
    let within = without_end.get(..600).unwrap_or_default();
    nothing_comes_of(place, within, "an archive cut in a content").await
}

pub(crate) async fn a_damaged_header_is_refused(place: &Place) -> Verdict {
    let mut archive = Archive::default().file("a", "x").end();
    if let Some(byte) = archive.first_mut() {
        *byte = b'b';
    }
    nothing_comes_of(place, &archive, "a header with a wrong checksum").await
}

pub(crate) async fn what_follows_the_end_is_refused(place: &Place) -> Verdict {
    let mut archive = Archive::default().file("a", "x").end();
    archive.extend_from_slice(&Archive::default().file("b", "x").end());
    nothing_comes_of(place, &archive, "a second archive after the first").await
}

pub(crate) async fn a_tree_is_never_pushed_outside_the_roots(place: &Place) -> Verdict {
    let outside = place.outside()?;
    outside.link_to_outside("door", None)?;
    let before = outside.entries()?;
    let archive = Archive::default().file("escaped", "x").end();
    for destination in ["door", "door/new"] {
        let pushed = place.push(destination, &archive, None, &[]).await;
        refused(pushed, ErrorKind::OutsideRoot, "a tree through a link out")?;
        ensure_eq!(outside.entries()?, before, "what is outside");
    }
    Ok(())
}

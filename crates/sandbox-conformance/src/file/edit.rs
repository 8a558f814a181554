//! Checks of `write` that edits: replacing parts of a file in one round trip.
//!
//! Reports B094, B095 and B097: an edit rewrote lines that it did not touch, wrote LF into files of
//! CR LF, and missed the first line of files with a byte order mark.

use bytes::Bytes;
use futures_util::future::join_all;
use sandbox_core::file::{Change, Occurrences, Precondition, Replacement, WriteReceipt};
use sandbox_core::{Error, ErrorKind, SandboxExt};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{digest_of, path, refused};

fn replacement(find: &str, replace: &str, occurrences: Occurrences) -> Replacement {
    Replacement {
        find: Bytes::copy_from_slice(find.as_bytes()),
        replace: Bytes::copy_from_slice(replace.as_bytes()),
        occurrences,
    }
}

/// Edits the file `text`; each pair must occur once.
async fn edit(place: &Place, pairs: &[(&str, &str)]) -> Result<WriteReceipt, Error> {
    let change = Change::Edit {
        path: path("text"),
        replacements: pairs
            .iter()
            .map(|(find, replace)| replacement(find, replace, Occurrences::One))
            .collect(),
        precondition: Precondition::None,
    };
    place.sandbox.change(&place.ctx(), change).await
}

async fn becomes(
    place: &Place,
    before: &'static str,
    pairs: &[(&str, &str)],
    after: &str,
) -> Verdict {
    place.put("text", before).await?;
    edit(place, pairs).await?;
    ensure_eq!(
        place.content("text").await?,
        after,
        "{before:?} after {pairs:?}"
    );
    Ok(())
}

pub(crate) async fn an_edit_replaces_a_text_that_occurs_once(place: &Place) -> Verdict {
    place.put("text", "fn one() {}\nfn two() {}\n").await?;
    let receipt = edit(place, &[("fn two() {}", "fn two() {\n}\n\nfn three() {}")]).await?;
    let after = "fn one() {}\nfn two() {\n}\n\nfn three() {}\n";
    ensure_eq!(place.content("text").await?, after, "content");
    ensure_eq!(
        (
            receipt.existed,
            receipt.bytes,
            receipt.line_delta,
            receipt.replaced
        ),
        (true, 40, 3, 1),
        "existed, bytes, line delta, replaced"
    );
    ensure_eq!(receipt.digest, Some(digest_of(after.as_bytes())), "digest");
    Ok(())
}

pub(crate) async fn an_edit_can_remove_text(place: &Place) -> Verdict {
    becomes(
        place,
        "keep this and that\n",
        &[(" and that", "")],
        "keep this\n",
    )
    .await
}

pub(crate) async fn a_text_that_occurs_twice_is_a_conflict_that_counts(place: &Place) -> Verdict {
    place.put("text", "same\nsame\nother\nsame\n").await?;
    let error = refused(
        edit(place, &[("same", "changed")]).await,
        ErrorKind::Conflict,
        "an edit of a text that occurs three times",
    )?;
    ensure!(
        error.detail_text().contains('3') || error.detail_text().contains("three"),
        "the error does not say how often the text occurs: {error}"
    );
    ensure_eq!(
        place.content("text").await?,
        "same\nsame\nother\nsame\n",
        "content"
    );
    Ok(())
}

pub(crate) async fn a_text_that_does_not_occur_is_not_found(place: &Place) -> Verdict {
    place.put("text", "content\n").await?;
    refused(
        edit(place, &[("Content", "changed")]).await,
        ErrorKind::NotFound,
        "an edit of a text that does not occur",
    )?;
    ensure_eq!(place.content("text").await?, "content\n", "content");
    Ok(())
}

pub(crate) async fn an_edit_of_a_missing_file_is_not_found(place: &Place) -> Verdict {
    refused(
        edit(place, &[("anything", "else")]).await,
        ErrorKind::NotFound,
        "an edit of a missing file",
    )?;
    ensure!(!place.exists("text").await?, "the edit made the file");
    Ok(())
}

pub(crate) async fn all_occurrences_are_replaced_when_asked(place: &Place) -> Verdict {
    place.put("text", "a.a.b.a").await?;
    let change = Change::Edit {
        path: path("text"),
        replacements: vec![replacement("a", "aa", Occurrences::All)],
        precondition: Precondition::None,
    };
    let receipt = place.sandbox.change(&place.ctx(), change).await?;
    ensure_eq!(place.content("text").await?, "aa.aa.b.aa", "content");
    ensure_eq!(receipt.replaced, 3, "replacements made");
    Ok(())
}

pub(crate) async fn each_replacement_works_on_the_result_of_the_one_before(
    place: &Place,
) -> Verdict {
    becomes(
        place,
        "one\n",
        &[("one", "two"), ("two", "three four"), ("four", "five")],
        "three five\n",
    )
    .await
}

pub(crate) async fn an_edit_that_fails_half_way_changes_nothing(place: &Place) -> Verdict {
    place.put("text", "first\nsecond\n").await?;
    refused(
        edit(place, &[("first", "changed"), ("third", "changed")]).await,
        ErrorKind::NotFound,
        "an edit whose second text does not occur",
    )?;
    ensure_eq!(place.content("text").await?, "first\nsecond\n", "content");
    Ok(())
}

/// Report B095. The text to find is written with LF, as models write it.
pub(crate) async fn an_edit_keeps_the_line_ends_of_a_crlf_file(place: &Place) -> Verdict {
    becomes(
        place,
        "one\r\ntwo\r\nthree\r\nfour",
        &[("two\nthree\n", "2\nand\n3\n")],
        "one\r\n2\r\nand\r\n3\r\nfour",
    )
    .await
}

/// Report B094: a carriage return is also just data.
pub(crate) async fn an_edit_leaves_every_other_byte_alone(place: &Place) -> Verdict {
    place
        .put(
            "text",
            &b"10%\r20%\r\nlf\ncrlf\r\n\xff\xfe\0tail word\n\n\n  "[..],
        )
        .await?;
    edit(place, &[("word", "text")]).await?;
    let after = &b"10%\r20%\r\nlf\ncrlf\r\n\xff\xfe\0tail text\n\n\n  "[..];
    ensure_eq!(place.content("text").await?, after, "content");
    Ok(())
}

/// Report B097.
pub(crate) async fn an_edit_keeps_the_byte_order_mark(place: &Place) -> Verdict {
    becomes(
        place,
        "\u{feff}first\nsecond\n",
        &[("first\n", "1st\n")],
        "\u{feff}1st\nsecond\n",
    )
    .await
}

pub(crate) async fn an_edit_keeps_the_mode(place: &Place) -> Verdict {
    place.script("echo echo old >text; chmod 755 text").await?;
    edit(place, &[("old", "new")]).await?;
    ensure_eq!(place.mode("text").await?, 0o755, "mode after the edit");
    Ok(())
}

/// Requirement H5: of two editors at once none loses what it was told is done.
pub(crate) async fn edits_at_once_lose_nothing(place: &Place) -> Verdict {
    let before: String = (0..8).map(|line| format!("line {line} old\n")).collect();
    place.put("text", before).await?;
    let edits = (0..8).map(|line| async move {
        let (find, replace) = (format!("line {line} old"), format!("line {line} new"));
        (line, edit(place, &[(&find, &replace)]).await)
    });
    let results = join_all(edits).await;
    let after = place.content("text").await?;
    let after = String::from_utf8_lossy(&after);
    for (line, result) in results {
        let state = match result {
            Ok(_) => "new",
            conflict => {
                refused(conflict, ErrorKind::Conflict, "an edit among others")?;
                "old"
            }
        };
        ensure!(
            after.contains(&format!("line {line} {state}\n")),
            "line {line} was said to be {state}, and the file is {after:?}"
        );
    }
    Ok(())
}

pub(crate) async fn an_edit_for_another_digest_is_a_conflict(place: &Place) -> Verdict {
    place.put("text", "content now\n").await?;
    let change = Change::Edit {
        path: path("text"),
        replacements: vec![replacement("now", "then", Occurrences::One)],
        precondition: Precondition::Digest(digest_of(b"content before\n")),
    };
    let error = refused(
        place.sandbox.change(&place.ctx(), change).await,
        ErrorKind::Conflict,
        "an edit for another digest",
    )?;
    let now = digest_of(b"content now\n").to_string();
    ensure_eq!(
        error.expected_value(),
        Some(now.as_str()),
        "the digest named"
    );
    ensure_eq!(place.content("text").await?, "content now\n", "content");
    Ok(())
}

pub(crate) async fn an_edit_that_finds_nothing_to_look_for_is_refused(place: &Place) -> Verdict {
    place.put("text", "content\n").await?;
    for pairs in [&[("", "x")][..], &[]] {
        refused(
            edit(place, pairs).await,
            ErrorKind::InvalidArgument,
            "an edit without a text to find",
        )?;
    }
    ensure_eq!(place.content("text").await?, "content\n", "content");
    Ok(())
}

pub(crate) async fn an_edit_of_a_directory_is_refused(place: &Place) -> Verdict {
    place.script("mkdir text").await?;
    refused(
        edit(place, &[("a", "b")]).await,
        ErrorKind::NotAFile,
        "an edit of a directory",
    )?;
    Ok(())
}

/// Many matches over a large file: the receipt's counts come from the side that made the change.
pub(crate) async fn a_large_edit_is_counted_exactly(place: &Place) -> Verdict {
    place.put("text", "needle in hay\n".repeat(20_000)).await?;
    let change = Change::Edit {
        path: path("text"),
        replacements: vec![replacement("needle", "pin", Occurrences::All)],
        precondition: Precondition::None,
    };
    let receipt = place.sandbox.change(&place.ctx(), change).await?;
    ensure_eq!(
        (receipt.replaced, receipt.bytes, receipt.line_delta),
        (20_000, 220_000, 0),
        "replaced, bytes, line delta"
    );
    let after = place.read("text").await?;
    if after.bytes != "pin in hay\n".repeat(20_000) {
        return Err(Failure::new("the content is not what the receipt says"));
    }
    Ok(())
}

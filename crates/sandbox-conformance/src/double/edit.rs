//! Doubles that are wrong about edits.

use std::time::Duration;

use bytes::Bytes;
use sandbox_core::file::{Change, Occurrences, Precondition, Replacement, WriteReceipt};
use sandbox_core::{Ctx, Error, ErrorKind, Result, SandboxExt, SandboxPath, Verb};

use super::doubles;
use super::wrapped::Honest;

fn refused(kind: ErrorKind) -> Error {
    Error::refused(Verb::Write, kind)
}

fn replacements(change: &Change) -> &[Replacement] {
    match change {
        Change::Edit { replacements, .. } => replacements,
        _ => &[],
    }
}

/// The only replacement of an edit without a condition, of a text that must occur once.
fn single(change: &Change) -> Option<&Replacement> {
    match change {
        Change::Edit {
            replacements,
            precondition: Precondition::None,
            ..
        } => match &replacements[..] {
            [one] if one.occurrences == Occurrences::One => Some(one),
            _ => None,
        },
        _ => None,
    }
}

fn replaced(text: &[u8], find: &[u8], replace: &[u8], count: usize) -> Bytes {
    let (mut text, mut done) = (text, Vec::new());
    for _ in 0..count {
        let Some(at) = text.windows(find.len()).position(|window| window == find) else {
            break;
        };
        done.extend_from_slice(&text[..at]);
        done.extend_from_slice(replace);
        text = &text[at + find.len()..];
    }
    done.extend_from_slice(text);
    done.into()
}

/// Makes the edit, and after it spoils the file.
async fn spoiled(
    honest: &Honest,
    ctx: &Ctx,
    change: Change,
    spoil: impl Fn(&[u8]) -> Bytes + Send,
) -> Result<WriteReceipt> {
    let (path, edit) = (change.path().clone(), !replacements(&change).is_empty());
    let receipt = honest.change(ctx, change).await?;
    if edit {
        let read = honest.read_file(ctx, path.clone()).await?.bytes;
        let wrong = spoil(&read);
        if wrong != read {
            honest.put(ctx, path, wrong).await?;
        }
    }
    Ok(receipt)
}

async fn bytes(honest: &Honest, ctx: &Ctx, path: &SandboxPath) -> Result<Bytes> {
    Ok(honest.read_file(ctx, path.clone()).await?.bytes)
}

doubles! {
    an_edit_replaces_a_text_that_occurs_once: "the one replacement is not counted"
    change(honest, ctx, change) {
        let one = single(&change).is_some();
        let mut receipt = honest.change(&ctx, change).await?;
        if one {
            receipt.replaced = 0;
        }
        Ok(receipt)
    }

    an_edit_can_remove_text: "text must be replaced by other text"
    change(honest, ctx, change) {
        if replacements(&change).iter().any(|one| one.replace.is_empty()) {
            return Err(refused(ErrorKind::InvalidArgument).on(change.path()));
        }
        honest.change(&ctx, change).await
    }

    a_text_that_occurs_twice_is_a_conflict_that_counts: "the first of many occurrences is replaced"
    change(honest, ctx, change) {
        let (path, one) = (change.path().clone(), single(&change).cloned());
        match (honest.change(&ctx, change).await, one) {
            (Err(error), Some(one)) if error.kind() == ErrorKind::Conflict => {
                let read = bytes(&honest, &ctx, &path).await?;
                honest.put(&ctx, path, replaced(&read, &one.find, &one.replace, 1)).await
            }
            (result, _) => result,
        }
    }

    a_text_that_does_not_occur_is_not_found: "a text that is not there counts as replaced"
    change(honest, ctx, change) {
        let (path, one) = (change.path().clone(), single(&change).is_some());
        match honest.change(&ctx, change).await {
            Err(error) if one && error.kind() == ErrorKind::NotFound
                && honest.look(&ctx, &path).await.is_some() =>
            {
                Ok(WriteReceipt {
                    existed: true, bytes: 0, line_delta: 0, digest: None, replaced: 0,
                })
            }
            result => result,
        }
    }

    an_edit_of_a_missing_file_is_not_found: "an edit makes a file that is missing"
    change(honest, ctx, change) {
        match single(&change).cloned() {
            Some(one) if honest.look(&ctx, change.path()).await.is_none()
                && change.path().components().count() == 1 =>
            {
                honest.put(&ctx, change.path().clone(), one.replace).await
            }
            _ => honest.change(&ctx, change).await,
        }
    }

    all_occurrences_are_replaced_when_asked: "a few replacements count as one"
    change(honest, ctx, change) {
        let all = replacements(&change).iter().any(|one| one.occurrences == Occurrences::All);
        let mut receipt = honest.change(&ctx, change).await?;
        if all && receipt.replaced < 10 {
            receipt.replaced = 1;
        }
        Ok(receipt)
    }

    each_replacement_works_on_the_result_of_the_one_before: "three replacements go backwards"
    change(honest, ctx, mut change) {
        if let Change::Edit { replacements, .. } = &mut change && replacements.len() == 3 {
            replacements.reverse();
        }
        honest.change(&ctx, change).await
    }

    an_edit_that_fails_half_way_changes_nothing: "each replacement is a change by itself"
    change(honest, ctx, change) {
        let Change::Edit { path, replacements, precondition: Precondition::None } = &change else {
            return honest.change(&ctx, change).await;
        };
        let mut last = None;
        for one in replacements {
            let edit = Change::Edit {
                path: path.clone(),
                replacements: vec![one.clone()],
                precondition: Precondition::None,
            };
            last = Some(honest.change(&ctx, edit).await?);
        }
        last.ok_or_else(|| refused(ErrorKind::InvalidArgument))
    }

    an_edit_keeps_the_line_ends_of_a_crlf_file: "every line end becomes LF"
    change(honest, ctx, change) {
        spoiled(&honest, &ctx, change, |text| {
            let ends = text.iter().filter(|byte| **byte == b'\n').count();
            let both = text.windows(2).filter(|two| *two == b"\r\n").count();
            if ends == both { replaced(text, b"\r\n", b"\n", both) } else { text.to_vec().into() }
        }).await
    }

    an_edit_leaves_every_other_byte_alone: "a carriage return without a line end is dropped"
    change(honest, ctx, change) {
        spoiled(&honest, &ctx, change, |text| {
            let lone = |at: usize| text[at] == b'\r' && text.get(at + 1) != Some(&b'\n');
            (0..text.len()).filter(|at| !lone(*at)).map(|at| text[at]).collect()
        }).await
    }

    an_edit_keeps_the_byte_order_mark: "the byte order mark is dropped"
    change(honest, ctx, change) {
        spoiled(&honest, &ctx, change, |text| {
            text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).to_vec().into()
        }).await
    }

    an_edit_keeps_the_mode: "a file that is edited is no longer executable"
    change(honest, ctx, change) {
        let (path, edit) = (change.path().clone(), !replacements(&change).is_empty());
        let receipt = honest.change(&ctx, change).await?;
        if edit {
            honest.change(&ctx, Change::SetMode { path, mode: 0o644 }).await?;
        }
        Ok(receipt)
    }

    edits_at_once_lose_nothing: "an edit writes what it read a moment ago"
    change(honest, ctx, change) {
        let path = change.path().clone();
        let before = bytes(&honest, &ctx, &path).await;
        let mine = match (single(&change), before) {
            (Some(one), Ok(before)) if !before.contains(&b'\r') && !one.find.is_empty() => {
                Some(replaced(&before, &one.find, &one.replace, 1))
            }
            _ => None,
        };
        let receipt = honest.change(&ctx, change).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        match mine {
            Some(mine) if bytes(&honest, &ctx, &path).await? != mine => {
                honest.put(&ctx, path, mine).await?;
                Ok(receipt)
            }
            _ => Ok(receipt),
        }
    }

    an_edit_for_another_digest_is_a_conflict: "the condition of an edit is ignored"
    change(honest, ctx, mut change) {
        if let Change::Edit { precondition, .. } = &mut change {
            *precondition = Precondition::None;
        }
        honest.change(&ctx, change).await
    }

    an_edit_that_finds_nothing_to_look_for_is_refused: "an empty text is not found"
    change(honest, ctx, change) {
        if replacements(&change).iter().any(|one| one.find.is_empty()) {
            return Err(refused(ErrorKind::NotFound).on(change.path()));
        }
        honest.change(&ctx, change).await
    }

    an_edit_of_a_directory_is_refused: "editing a directory is an input/output error"
    change(honest, ctx, change) {
        let edit = !replacements(&change).is_empty();
        honest.change(&ctx, change).await.map_err(|error| match error.kind() {
            ErrorKind::NotAFile if edit => refused(ErrorKind::Io),
            _ => error,
        })
    }

    a_large_edit_is_counted_exactly: "replacements are counted up to a thousand"
    change(honest, ctx, change) {
        let mut receipt = honest.change(&ctx, change).await?;
        receipt.replaced = receipt.replaced.min(1000);
        Ok(receipt)
    }
}

//! Doubles that are wrong about giving files their content.

use std::time::Duration;

use bytes::Bytes;
use sandbox_core::file::{
    Change, Durability, EntryKind, Precondition, Recursion, RemoveRequest, WriteReceipt,
    WriteRequest,
};
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Error, ErrorKind, Result, SandboxExt, SandboxPath, Verb};

use super::doubles;
use super::wrapped::Honest;

fn refused(kind: ErrorKind) -> Error {
    Error::refused(Verb::Write, kind)
}

/// A put is made after a moment and without its condition.
async fn later(
    honest: &Honest,
    ctx: &Ctx,
    path: SandboxPath,
    content: Bytes,
) -> Result<WriteReceipt> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    honest.put(ctx, path, content).await
}

async fn remove(honest: &Honest, ctx: &Ctx, path: &SandboxPath) -> Result<()> {
    let request = RemoveRequest {
        path: path.clone(),
        recursion: Recursion::No,
    };
    honest.remove(ctx, request).await.map(drop)
}

doubles! {
    a_put_makes_missing_parents: "only one missing parent is made"
    change(honest, ctx, change) {
        let put = matches!(change, Change::Put { .. });
        let above = change.path().parent().and_then(|parent| parent.parent());
        match above {
            Some(above) if put && !above.is_root() && honest.look(&ctx, &above).await.is_none() => {
                Err(refused(ErrorKind::NotFound).on(above))
            }
            _ => honest.change(&ctx, change).await,
        }
    }

    a_put_receipt_says_what_was_there_and_what_is: "lines of what was replaced are not counted"
    change(honest, ctx, change) {
        let put = matches!(change, Change::Put { .. });
        let mut receipt = honest.change(&ctx, change).await?;
        if put && receipt.existed {
            receipt.line_delta = 0;
        }
        Ok(receipt)
    }

    a_put_replaces_all_of_a_longer_file: "the end of a much longer file is kept"
    change(honest, ctx, change) {
        let path = change.path().clone();
        let old = honest.read_file(&ctx, path.clone()).await.map(|read| read.bytes);
        let receipt = honest.change(&ctx, change).await?;
        let new = usize::try_from(receipt.bytes).unwrap_or(usize::MAX);
        if let Ok(old) = old && old.len() / 100 > new {
            let read = honest.read_file(&ctx, path.clone()).await?.bytes;
            honest.put(&ctx, path, [&read[..], &old[new..]].concat().into()).await?;
        }
        Ok(receipt)
    }

    an_empty_file_can_be_put: "a new file must have content"
    change(honest, ctx, change) {
        if let Change::Put { content, path, .. } = &change
            && content.is_empty()
            && honest.look(&ctx, path).await.is_none()
        {
            return Err(refused(ErrorKind::InvalidArgument).on(path));
        }
        honest.change(&ctx, change).await
    }

    a_large_file_arrives_intact: "a bit far into a large file changes on the way"
    change(honest, ctx, mut change) {
        if let Change::Put { path, content, .. } = &mut change
            && path.as_bytes() == b"large"
            && content.len() > 1 << 20
        {
            let mut wrong = content.to_vec();
            wrong[1 << 20] ^= 1;
            *content = wrong.into();
        }
        honest.change(&ctx, change).await
    }

    a_put_keeps_the_mode_of_an_existing_file: "a file that is replaced has the mode of a new one"
    change(honest, ctx, mut change) {
        if let Change::Put { path, mode, precondition: Precondition::None, .. } = &mut change
            && mode.is_none()
            && honest.look(&ctx, path).await.is_some()
        {
            *mode = Some(0o644);
        }
        honest.change(&ctx, change).await
    }

    a_put_sets_the_mode_it_is_given: "the mode of a put is ignored"
    change(honest, ctx, mut change) {
        if let Change::Put { mode, .. } = &mut change && mode.is_some_and(|mode| mode <= 0o777) {
            *mode = None;
        }
        honest.change(&ctx, change).await
    }

    set_id_bits_are_refused: "set-id bits of a put are dropped in silence"
    change(honest, ctx, mut change) {
        if let Change::Put { mode: Some(mode), .. } = &mut change {
            *mode &= 0o777;
        }
        honest.change(&ctx, change).await
    }

    a_put_follows_a_link_inside_the_workspace: "a put replaces the link"
    change(honest, ctx, change) {
        if let Change::Put { path, precondition: Precondition::None, .. } = &change
            && honest.link(&ctx, path).await.is_some_and(|text| !text.starts_with('/'))
        {
            remove(&honest, &ctx, path).await?;
        }
        honest.change(&ctx, change).await
    }

    a_put_onto_a_directory_is_refused: "a directory is said to be there already"
    change(honest, ctx, change) {
        let put = matches!(change, Change::Put { .. });
        honest.change(&ctx, change).await.map_err(|error| match error.kind() {
            ErrorKind::NotAFile if put => refused(ErrorKind::AlreadyExists),
            _ => error,
        })
    }

    readers_see_the_old_content_or_the_new: "a file is written in two steps"
    change(honest, ctx, change) {
        if let Change::Put { path, content, precondition: Precondition::None, .. } = &change
            && (40_000..1 << 20).contains(&content.len())
            && honest.look(&ctx, path).await.is_some()
        {
            honest.put(&ctx, path.clone(), content.slice(..content.len() / 2)).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        honest.change(&ctx, change).await
    }

    a_change_that_fails_stops_no_later_one: "the first change that fails stops the rest"
    write(honest, ctx, request) {
        let mut answers = Vec::new();
        for change in request.changes {
            if answers.iter().any(Result::is_err) {
                answers.push(Err(refused(ErrorKind::Cancelled)));
                continue;
            }
            let one = WriteRequest { changes: vec![change], durability: request.durability };
            answers.extend(honest.write(&ctx, one).await?);
        }
        Ok(answers)
    }

    changes_are_made_in_order: "changes are made from the last to the first"
    write(honest, ctx, mut request) {
        request.changes.reverse();
        let mut answers = honest.write(&ctx, request).await?;
        answers.reverse();
        Ok(answers)
    }

    odd_names_are_only_names: "space around a name is not part of it"
    change(honest, ctx, mut change) {
        if let Change::Put { path, .. } = &mut change
            && let Ok(trimmed) = SandboxPath::parse(path.as_bytes().trim_ascii())
        {
            *path = trimmed;
        }
        honest.change(&ctx, change).await
    }

    of_many_puts_that_must_be_first_one_succeeds:
        "absence is looked at before and not at the moment"
    change(honest, ctx, change) {
        match change {
            Change::Put { path, content, precondition: Precondition::Absent, .. }
                if honest.look(&ctx, &path).await.is_none() =>
            {
                let receipt = later(&honest, &ctx, path, content).await?;
                Ok(WriteReceipt { existed: false, ..receipt })
            }
            change => honest.change(&ctx, change).await,
        }
    }

    a_put_that_must_be_first_finds_every_kind_of_entry: "a link to nothing counts as absent"
    change(honest, ctx, change) {
        if let Change::Put { path, precondition: Precondition::Absent, .. } = &change
            && honest.link(&ctx, path).await.is_some()
        {
            remove(&honest, &ctx, path).await?;
        }
        honest.change(&ctx, change).await
    }

    a_put_for_another_digest_is_a_conflict_that_names_it: "a conflict does not name the digest"
    change(honest, ctx, change) {
        let put = matches!(change, Change::Put { .. });
        honest.change(&ctx, change).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict if put => refused(ErrorKind::Conflict),
            _ => error,
        })
    }

    a_put_for_the_right_digest_replaces: "a file that is replaced on a condition was not there"
    change(honest, ctx, change) {
        let conditional = matches!(
            change,
            Change::Put { precondition: Precondition::Digest(_), .. }
        );
        let mut receipt = honest.change(&ctx, change).await?;
        receipt.existed &= !conditional;
        Ok(receipt)
    }

    of_many_puts_for_one_digest_one_succeeds: "a digest is compared before and not at the moment"
    change(honest, ctx, change) {
        match change {
            Change::Put { path, content, precondition: Precondition::Digest(digest), .. }
                if honest.read_file(&ctx, path.clone()).await
                    .is_ok_and(|read| read.digest == Some(digest)) =>
            {
                later(&honest, &ctx, path, content).await
            }
            change => honest.change(&ctx, change).await,
        }
    }

    a_durable_put_is_a_put: "a durable put is not supported although it is declared"
    write(honest, ctx, request) {
        match request.durability {
            Durability::Durable => Err(refused(ErrorKind::Unsupported)),
            Durability::Cached => honest.write(&ctx, request).await,
        }
    }

    a_put_changes_the_time_of_a_file: "a file from another century keeps its time"
    change(honest, ctx, change) {
        let path = change.path().clone();
        let old = honest.look(&ctx, &path).await.is_some_and(|stat| {
            let age = stat.modified.and_then(|time| time.elapsed().ok());
            stat.kind == EntryKind::File && age.is_some_and(|age| age.as_secs() > 20 * 365 * 86_400)
        });
        let receipt = honest.change(&ctx, change).await?;
        if old {
            let name = path.to_string();
            honest.run(&ctx, ProcessSpec::new(["touch", "-t", "200001010000", &name])).await?;
        }
        Ok(receipt)
    }
}

//! Doubles that are wrong about directories, names, modes and links, and about looking at them.

use sandbox_core::file::{
    Change, EntryKind, Existing, Recursion, RemoveReceipt, RemoveRequest, WriteReceipt,
};
use sandbox_core::{Error, ErrorKind, SandboxExt, SandboxPath, Verb};

use super::doubles;
use super::wrapped::Honest;

fn refused(kind: ErrorKind) -> Error {
    Error::refused(Verb::Write, kind)
}

const NOTHING: WriteReceipt = WriteReceipt {
    existed: false,
    bytes: 0,
    line_delta: 0,
    digest: None,
    replaced: 0,
};

doubles! {
    a_directory_is_made_with_its_parents: "a directory that is made was there before"
    change(honest, ctx, change) {
        let make = matches!(change, Change::MakeDirectory { .. });
        let mut receipt = honest.change(&ctx, change).await?;
        receipt.existed |= make;
        Ok(receipt)
    }

    a_directory_that_is_there_is_no_error: "a directory that is there is an error"
    change(honest, ctx, change) {
        let make = matches!(change, Change::MakeDirectory { .. });
        let receipt = honest.change(&ctx, change).await?;
        if make && receipt.existed {
            return Err(refused(ErrorKind::AlreadyExists));
        }
        Ok(receipt)
    }

    a_rename_moves_an_entry: "a rename leaves a copy behind"
    change(honest, ctx, change) {
        let from = change.path().clone();
        let copy = match change {
            Change::Rename { existing: Existing::Keep, .. } => {
                honest.read_file(&ctx, from.clone()).await.ok()
            }
            _ => None,
        };
        let link = honest.link(&ctx, &from).await.is_some();
        let receipt = honest.change(&ctx, change).await?;
        if let Some(copy) = copy && !link {
            honest.put(&ctx, from, copy.bytes).await?;
        }
        Ok(receipt)
    }

    a_rename_moves_a_link_and_not_its_target: "a rename moves what a link names"
    change(honest, ctx, mut change) {
        if let Change::Rename { from, .. } = &mut change
            && let Some(text) = honest.link(&ctx, from).await
            && let Ok(target) = SandboxPath::parse(text)
        {
            *from = target;
        }
        honest.change(&ctx, change).await
    }

    a_rename_keeps_what_is_there: "a rename replaces what is to be kept"
    change(honest, ctx, mut change) {
        if let Change::Rename { existing, .. } = &mut change {
            *existing = Existing::Replace;
        }
        honest.change(&ctx, change).await
    }

    a_rename_replaces_when_told: "a rename keeps what is to be replaced"
    change(honest, ctx, mut change) {
        if let Change::Rename { existing, .. } = &mut change {
            *existing = Existing::Keep;
        }
        honest.change(&ctx, change).await
    }

    a_rename_of_nothing_is_not_found: "a rename of nothing succeeds"
    change(honest, ctx, change) {
        let rename = matches!(change, Change::Rename { .. });
        match honest.change(&ctx, change).await {
            Err(error) if rename && error.kind() == ErrorKind::NotFound => Ok(NOTHING),
            result => result,
        }
    }

    a_mode_is_set: "a mode is set for a moment"
    change(honest, ctx, change) {
        let Change::SetMode { path, .. } = &change else {
            return honest.change(&ctx, change).await;
        };
        let (path, before) = (path.clone(), honest.read_file(&ctx, path.clone()).await);
        let receipt = honest.change(&ctx, change).await?;
        honest.change(&ctx, Change::SetMode { path, mode: before?.mode }).await?;
        Ok(receipt)
    }

    a_set_id_mode_is_refused: "set-id bits are dropped in silence"
    change(honest, ctx, mut change) {
        if let Change::SetMode { mode, .. } = &mut change {
            *mode &= 0o777;
        }
        honest.change(&ctx, change).await
    }

    a_link_has_the_text_it_was_given: "the text of a link is tidied"
    change(honest, ctx, mut change) {
        if let Change::Link { target, .. } = &mut change && target.starts_with(b"./") {
            *target = target.slice(2..);
        }
        honest.change(&ctx, change).await
    }

    a_link_onto_an_entry_is_refused: "a link replaces what is there"
    change(honest, ctx, change) {
        if let Change::Link { path, .. } = &change && honest.look(&ctx, path).await.is_some() {
            let request = RemoveRequest { path: path.clone(), recursion: Recursion::No };
            honest.remove(&ctx, request).await?;
        }
        honest.change(&ctx, change).await
    }

    a_removed_file_is_gone: "a file is said to be removed and stays"
    remove(honest, ctx, request) {
        let file = |kind| kind == EntryKind::File;
        if request.recursion == Recursion::No
            && honest.look(&ctx, &request.path).await.is_some_and(|stat| file(stat.kind))
        {
            return Ok(RemoveReceipt { existed: true, entries: 1 });
        }
        honest.remove(&ctx, request).await
    }

    a_removed_tree_is_gone_and_counted: "the top of a tree is not counted"
    remove(honest, ctx, request) {
        let mut receipt = honest.remove(&ctx, request).await?;
        if receipt.entries > 1 {
            receipt.entries -= 1;
        }
        Ok(receipt)
    }

    removing_nothing_is_no_error: "removing nothing is an error"
    remove(honest, ctx, request) {
        let receipt = honest.remove(&ctx, request).await?;
        if !receipt.existed {
            return Err(Error::refused(Verb::Remove, ErrorKind::NotFound));
        }
        Ok(receipt)
    }

    an_empty_directory_is_removed_without_recursion: "no directory is removed without recursion"
    remove(honest, ctx, request) {
        let directory = |kind| kind == EntryKind::Directory;
        if request.recursion == Recursion::No
            && honest.look(&ctx, &request.path).await.is_some_and(|stat| directory(stat.kind))
        {
            return Err(Error::refused(Verb::Remove, ErrorKind::NotEmpty));
        }
        honest.remove(&ctx, request).await
    }

    a_directory_with_entries_stays_without_recursion: "a directory always goes with its entries"
    remove(honest, ctx, mut request) {
        request.recursion = Recursion::Yes;
        honest.remove(&ctx, request).await
    }

    a_removed_link_leaves_its_target: "what a link names goes with the link"
    remove(honest, ctx, request) {
        if let Some(text) = honest.link(&ctx, &request.path).await
            && let Ok(path) = SandboxPath::parse(text)
        {
            honest.remove(&ctx, RemoveRequest { path, recursion: Recursion::Yes }).await?;
        }
        honest.remove(&ctx, request).await
    }

    a_root_is_never_removed: "removing the root is not permitted, rather than senseless"
    remove(honest, ctx, request) {
        honest.remove(&ctx, request).await.map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => Error::refused(Verb::Remove, ErrorKind::PermissionDenied),
            _ => error,
        })
    }

    absence_is_a_value: "one missing entry of many is an error"
    stat_many(honest, ctx, request) {
        let many = request.paths.len() > 1;
        let answers = honest.stat_many(&ctx, request).await?;
        let missing = || Error::refused(Verb::StatMany, ErrorKind::NotFound);
        let told = answers.into_iter().map(|answer| match answer {
            Ok(None) if many => Err(missing()),
            answer => answer,
        });
        Ok(told.collect())
    }

    many_entries_are_described_in_the_order_asked: "many entries come back in another order"
    stat_many(honest, ctx, request) {
        let mut answers = honest.stat_many(&ctx, request).await?;
        if answers.iter().all(|answer| matches!(answer, Ok(Some(_)))) {
            answers.reverse();
        }
        Ok(answers)
    }

    an_entry_is_described_with_kind_size_and_mode: "a FIFO is said to be a file"
    stat_many(honest, ctx, request) {
        let mut answers = honest.stat_many(&ctx, request).await?;
        for stat in answers.iter_mut().flatten().flatten() {
            if stat.kind == EntryKind::Special {
                stat.kind = EntryKind::File;
            }
        }
        Ok(answers)
    }

    an_entry_is_described_with_its_times: "the time of the content is that of the metadata"
    stat_many(honest, ctx, request) {
        // Not of what was pushed, whose times are another promise.
        let is_meant = matches!(&request.paths[..], [path] if path.as_bytes() == b"old");
        let mut answers = honest.stat_many(&ctx, request).await?;
        for stat in answers.iter_mut().flatten().flatten().filter(|_| is_meant) {
            stat.modified = stat.changed;
        }
        Ok(answers)
    }

    a_link_is_described_itself: "a link has the size of a path, not of its text"
    stat_many(honest, ctx, request) {
        let mut answers = honest.stat_many(&ctx, request).await?;
        for stat in answers.iter_mut().flatten().flatten() {
            if stat.kind == EntryKind::Link {
                stat.size = 4096;
            }
        }
        Ok(answers)
    }

    an_entry_is_found_through_a_link_to_its_directory: "nothing is found through a link"
    stat_many(honest, ctx, request) {
        let paths = request.paths.clone();
        let mut answers = honest.stat_many(&ctx, request).await?;
        for (path, answer) in paths.iter().zip(&mut answers) {
            if let Some(first) = Honest::first(path)
                && first != *path
                && honest.link(&ctx, &first).await.is_some()
                && answer.is_ok()
            {
                *answer = Ok(None);
            }
        }
        Ok(answers)
    }

    a_stat_through_a_link_never_leaves_the_roots: "names outside can be guessed through a link"
    stat_many(honest, ctx, request) {
        let paths = request.paths.clone();
        let mut answers = honest.stat_many(&ctx, request).await?;
        for (path, answer) in paths.iter().zip(&mut answers) {
            if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutsideRoot)
                && std::fs::symlink_metadata(honest.host(path)).is_err()
            {
                *answer = Ok(None);
            }
        }
        Ok(answers)
    }
}

//! Checks of `write` that makes directories and renames, and of `remove`.

use sandbox_core::file::{Change, EntryKind, Existing, Recursion, RemoveReceipt, RemoveRequest};
use sandbox_core::{Error, ErrorKind, SandboxExt, SandboxPath};

use crate::check::Verdict;
use crate::harness::Place;
use crate::support::{path, refused};

fn rename(from: &str, to: &str, existing: Existing) -> Change {
    Change::Rename {
        from: path(from),
        to: path(to),
        existing,
    }
}

async fn remove(
    place: &Place,
    path: SandboxPath,
    recursion: Recursion,
) -> Result<RemoveReceipt, Error> {
    place
        .sandbox
        .remove(&place.ctx(), RemoveRequest { path, recursion })
        .await
}

pub(crate) async fn a_directory_is_made_with_its_parents(place: &Place) -> Verdict {
    let change = Change::MakeDirectory {
        path: path("new/deep/directory"),
        mode: None,
    };
    let receipt = place.sandbox.change(&place.ctx(), change).await?;
    ensure!(!receipt.existed, "a new directory was there before");
    let stat = place.stat("new/deep/directory").await?;
    ensure!(
        stat.is_some_and(|stat| stat.kind == EntryKind::Directory),
        "there is no directory"
    );
    Ok(())
}

pub(crate) async fn a_directory_that_is_there_is_no_error(place: &Place) -> Verdict {
    place
        .script("mkdir directory; echo kept >directory/file")
        .await?;
    let change = Change::MakeDirectory {
        path: path("directory"),
        mode: None,
    };
    let receipt = place.sandbox.change(&place.ctx(), change).await?;
    ensure!(receipt.existed, "the receipt does not know the directory");
    ensure_eq!(
        place.content("directory/file").await?,
        "kept\n",
        "what is in it"
    );
    Ok(())
}

pub(crate) async fn a_rename_moves_an_entry(place: &Place) -> Verdict {
    place
        .script("mkdir from to; echo content >from/file")
        .await?;
    place
        .sandbox
        .change(&place.ctx(), rename("from/file", "to/name", Existing::Keep))
        .await?;
    ensure!(
        !place.exists("from/file").await?,
        "the old name is still there"
    );
    ensure_eq!(place.content("to/name").await?, "content\n", "content");
    Ok(())
}

pub(crate) async fn a_rename_moves_a_link_and_not_its_target(place: &Place) -> Verdict {
    place.script("echo content >file; ln -s file link").await?;
    place
        .sandbox
        .change(&place.ctx(), rename("link", "renamed", Existing::Keep))
        .await?;
    let kinds = [place.stat("renamed").await?, place.stat("file").await?]
        .map(|stat| stat.map(|stat| stat.kind));
    ensure_eq!(
        kinds,
        [Some(EntryKind::Link), Some(EntryKind::File)],
        "what is at the new name, and at the target"
    );
    Ok(())
}

pub(crate) async fn a_rename_keeps_what_is_there(place: &Place) -> Verdict {
    place.script("echo new >new; echo old >old").await?;
    refused(
        place
            .sandbox
            .change(&place.ctx(), rename("new", "old", Existing::Keep))
            .await,
        ErrorKind::AlreadyExists,
        "a rename onto a file that is to be kept",
    )?;
    ensure_eq!(
        (place.content("new").await?, place.content("old").await?),
        ("new\n".into(), "old\n".into()),
        "content of both"
    );
    Ok(())
}

pub(crate) async fn a_rename_replaces_when_told(place: &Place) -> Verdict {
    place.script("echo new >new; echo old >old").await?;
    let receipt = place
        .sandbox
        .change(&place.ctx(), rename("new", "old", Existing::Replace))
        .await?;
    ensure!(
        receipt.existed,
        "the receipt does not know what was replaced"
    );
    ensure_eq!(place.content("old").await?, "new\n", "content");
    Ok(())
}

pub(crate) async fn a_rename_of_nothing_is_not_found(place: &Place) -> Verdict {
    refused(
        place
            .sandbox
            .change(&place.ctx(), rename("missing", "name", Existing::Keep))
            .await,
        ErrorKind::NotFound,
        "a rename of nothing",
    )?;
    Ok(())
}

pub(crate) async fn a_removed_file_is_gone(place: &Place) -> Verdict {
    place.script("echo a >file; echo b >other").await?;
    let receipt = remove(place, path("file"), Recursion::No).await?;
    ensure_eq!(
        (receipt.existed, receipt.entries),
        (true, 1),
        "existed, entries"
    );
    ensure!(!place.exists("file").await?, "the file is still there");
    ensure!(place.exists("other").await?, "another file went with it");
    Ok(())
}

pub(crate) async fn a_removed_tree_is_gone_and_counted(place: &Place) -> Verdict {
    place
        .script(
            "mkdir -p tree/a/b tree/empty; echo x | tee tree/1 tree/a/2 >tree/a/b/.3; \
             chmod 500 tree/empty",
        )
        .await?;
    let receipt = remove(place, path("tree"), Recursion::Yes).await?;
    ensure_eq!(
        (receipt.existed, receipt.entries),
        (true, 7),
        "existed, entries removed"
    );
    ensure!(!place.exists("tree").await?, "the tree is still there");
    Ok(())
}

pub(crate) async fn removing_nothing_is_no_error(place: &Place) -> Verdict {
    for name in ["missing", "missing/below"] {
        let receipt = remove(place, path(name), Recursion::Yes).await?;
        ensure_eq!(
            (receipt.existed, receipt.entries),
            (false, 0),
            "existed, entries"
        );
    }
    Ok(())
}

pub(crate) async fn an_empty_directory_is_removed_without_recursion(place: &Place) -> Verdict {
    place.script("mkdir empty").await?;
    let receipt = remove(place, path("empty"), Recursion::No).await?;
    ensure!(receipt.existed, "the receipt does not know the directory");
    ensure!(
        !place.exists("empty").await?,
        "the directory is still there"
    );
    Ok(())
}

pub(crate) async fn a_directory_with_entries_stays_without_recursion(place: &Place) -> Verdict {
    place.script("mkdir full; echo kept >full/file").await?;
    refused(
        remove(place, path("full"), Recursion::No).await,
        ErrorKind::NotEmpty,
        "removing a directory with entries",
    )?;
    ensure_eq!(place.content("full/file").await?, "kept\n", "what is in it");
    Ok(())
}

pub(crate) async fn a_removed_link_leaves_its_target(place: &Place) -> Verdict {
    place
        .script("mkdir real tree; echo kept >real/file; ln -s real link; ln -s ../real tree/link")
        .await?;
    for name in ["link", "tree"] {
        remove(place, path(name), Recursion::Yes).await?;
        ensure!(!place.exists(name).await?, "{name} is still there");
    }
    ensure_eq!(
        place.content("real/file").await?,
        "kept\n",
        "what the links named"
    );
    Ok(())
}

pub(crate) async fn a_root_is_never_removed(place: &Place) -> Verdict {
    place.put("file", "kept").await?;
    let absolute = place.sandbox.descriptor().root.clone();
    for root in [SandboxPath::root(), absolute] {
        refused(
            remove(place, root.clone(), Recursion::Yes).await,
            ErrorKind::InvalidArgument,
            &format!("removing the root as {root}"),
        )?;
    }
    ensure_eq!(
        place.content("file").await?,
        "kept",
        "what is in the workspace"
    );
    Ok(())
}

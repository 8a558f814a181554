//! Checks that nothing outside the sandbox's roots is reached.
//!
//! A link planted in the tree is the oldest way out of it (CWE-59). Each check plants one, asks a
//! verb to go through it, and then looks outside: a right error over a wrong effect is still an
//! escape. The two checks at the end keep containment from being bought by refusing what is inside.
//!
//! Not here: what hostile *processes* can do. That depends on the location, and its own suite
//! says what each one promises.

use std::time::Duration;

use sandbox_core::file::{
    Change, EntryKind, Existing, ReadRequest, Recursion, RemoveRequest, StatManyRequest,
};
use sandbox_core::{Error, ErrorKind, SandboxExt, SandboxPath};

use crate::check::{Failure, Verdict};
use crate::harness::{CANARY, CANARY_CONTENT, Place};
use crate::support::{path, refused};

/// Plants `door`, a link to the directory outside, and `hole`, a link to the file in it; then asks
/// for each change, of which none may be made, and looks outside.
async fn nothing_happens(place: &Place, changes: impl IntoIterator<Item = Change>) -> Verdict {
    let outside = place.outside()?;
    outside.link_to_outside("door", None)?;
    outside.link_to_outside("hole", Some(CANARY))?;
    place.put("inside", "inside\n").await?;
    let before = outside.entries()?;
    for change in changes {
        let what = format!("{change:?}");
        let result = place.sandbox.change(&place.ctx(), change).await;
        // Looked at first: the effect matters more than the error.
        ensure_eq!(
            outside.entries()?,
            before,
            "{what} reached outside; entries there"
        );
        refused(result, ErrorKind::OutsideRoot, &what)?;
    }
    ensure_eq!(place.content("inside").await?, "inside\n", "a file inside");
    Ok(())
}

async fn read(place: &Place, path: SandboxPath) -> Result<bytes::Bytes, Error> {
    let request = ReadRequest::new(path);
    Ok(place.sandbox.read(&place.ctx(), request).await?.bytes)
}

pub(crate) async fn a_read_through_a_link_never_leaves_the_roots(place: &Place) -> Verdict {
    place.outside()?.link_to_outside("door", None)?;
    place.outside()?.link_to_outside("hole", Some(CANARY))?;
    place.script("ln -s door/canary second").await?;
    for name in ["door/canary", "hole", "second"] {
        refused(
            read(place, path(name)).await,
            ErrorKind::OutsideRoot,
            &format!("a read of {name}"),
        )?;
    }
    Ok(())
}

pub(crate) async fn a_put_through_a_link_never_leaves_the_roots(place: &Place) -> Verdict {
    let puts = ["door/escaped", "door/new/escaped", "door/canary", "hole"]
        .map(|name| Change::put(path(name), "escaped"));
    nothing_happens(place, puts).await
}

pub(crate) async fn an_edit_through_a_link_never_leaves_the_roots(place: &Place) -> Verdict {
    let edits = ["door/canary", "hole"].map(|name| Change::edit(path(name), "stands", "fell"));
    nothing_happens(place, edits).await
}

pub(crate) async fn a_directory_is_never_made_outside_the_roots(place: &Place) -> Verdict {
    let change = Change::MakeDirectory {
        path: path("door/new/directory"),
        mode: None,
    };
    nothing_happens(place, [change]).await
}

pub(crate) async fn a_mode_is_never_set_outside_the_roots(place: &Place) -> Verdict {
    let changes = ["door/canary", "hole", "door"].map(|name| Change::SetMode {
        path: path(name),
        mode: 0o777,
    });
    nothing_happens(place, changes).await
}

pub(crate) async fn a_link_is_never_made_outside_the_roots(place: &Place) -> Verdict {
    let change = Change::Link {
        path: path("door/escaped"),
        target: "canary".into(),
    };
    nothing_happens(place, [change]).await
}

pub(crate) async fn a_rename_never_crosses_the_roots(place: &Place) -> Verdict {
    let rename = |from, to| Change::Rename {
        from: path(from),
        to: path(to),
        existing: Existing::Replace,
    };
    nothing_happens(
        place,
        [
            rename("inside", "door/escaped"),
            rename("inside", "door/canary"),
            rename("door/canary", "stolen"),
        ],
    )
    .await
}

pub(crate) async fn a_remove_through_a_link_never_leaves_the_roots(place: &Place) -> Verdict {
    let outside = place.outside()?;
    outside.link_to_outside("door", None)?;
    let before = outside.entries()?;
    let request = RemoveRequest {
        path: path("door/canary"),
        recursion: Recursion::Yes,
    };
    let result = place.sandbox.remove(&place.ctx(), request).await;
    ensure_eq!(outside.entries()?, before, "entries outside");
    refused(result, ErrorKind::OutsideRoot, "a remove through a link")?;
    Ok(())
}

pub(crate) async fn a_removed_tree_takes_links_out_and_not_what_they_name(
    place: &Place,
) -> Verdict {
    let outside = place.outside()?;
    place.script("mkdir tree; echo x >tree/file").await?;
    outside.link_to_outside("tree/door", None)?;
    let before = outside.entries()?;
    let request = RemoveRequest {
        path: path("tree"),
        recursion: Recursion::Yes,
    };
    place.sandbox.remove(&place.ctx(), request).await?;
    ensure_eq!(outside.entries()?, before, "entries outside");
    ensure!(!place.exists("tree").await?, "the tree is still there");
    Ok(())
}

pub(crate) async fn a_stat_through_a_link_never_leaves_the_roots(place: &Place) -> Verdict {
    let outside = place.outside()?;
    outside.link_to_outside("door", None)?;
    let stat = place
        .stat("door")
        .await?
        .ok_or_else(|| Failure::new("the link is not there"))?;
    let text = outside
        .link_text("door", None)
        .to_str()
        .map(|text| bytes::Bytes::from(text.to_owned()));
    ensure_eq!(
        (stat.kind, stat.target),
        (EntryKind::Link, text),
        "kind and text of the link out"
    );
    // A guess that hits and one that misses get one answer, or names outside could be guessed.
    let request = StatManyRequest {
        paths: ["door/canary", "door/missing"].map(path).into(),
    };
    for answer in place.sandbox.stat_many(&place.ctx(), request).await? {
        refused(
            answer,
            ErrorKind::OutsideRoot,
            "a look through the link out",
        )?;
    }
    Ok(())
}

pub(crate) async fn an_absolute_path_outside_is_not_read(place: &Place) -> Verdict {
    let canary = place.outside()?.directory().join(CANARY);
    let canary = canary
        .to_str()
        .ok_or_else(|| Failure::new("the directory outside is not UTF-8"))?;
    let Err(error) = read(place, path(canary)).await else {
        return Err(Failure::new("a file outside was read by its absolute path"));
    };
    // Where the place has a root of its own, the file simply is not there.
    ensure!(
        matches!(error.kind(), ErrorKind::OutsideRoot | ErrorKind::NotFound),
        "the path was refused in the wrong way: {error}"
    );
    Ok(())
}

/// A link that is inside when it is looked at and outside when it is opened.
pub(crate) async fn a_link_that_changes_meanwhile_leads_nowhere_else(place: &Place) -> Verdict {
    let outside = place.outside()?;
    place
        .script("mkdir real; echo inside >real/canary; ln -s real door")
        .await?;
    let (workspace, directory) = (outside.workspace(), outside.directory());
    let turning = async {
        let next = workspace.join("next");
        loop {
            for target in [directory, &workspace.join("real")] {
                std::os::unix::fs::symlink(target, &next)
                    .and_then(|()| std::fs::rename(&next, workspace.join("door")))
                    .map_err(|error| Failure::new(format_args!("cannot turn the link: {error}")))?;
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
    };
    let reading = async {
        for _ in 0..200 {
            match read(place, path("door/canary")).await {
                Ok(bytes) => ensure!(
                    bytes != CANARY_CONTENT,
                    "what stands outside was read through a link that changed"
                ),
                Err(error) => ensure!(
                    matches!(
                        error.kind(),
                        ErrorKind::OutsideRoot | ErrorKind::NotFound | ErrorKind::Io
                    ),
                    "a read through a changing link failed in another way: {error}"
                ),
            }
        }
        Ok(())
    };
    tokio::select! {
        turned = turning => turned,
        read = reading => read,
    }
}

pub(crate) async fn an_absolute_path_into_the_workspace_is_followed(place: &Place) -> Verdict {
    place.put("directory/file", "content").await?;
    let absolute = place
        .sandbox
        .descriptor()
        .root
        .join("directory/file")
        .map_err(Failure::new)?;
    ensure!(
        absolute.is_absolute(),
        "the root is not absolute: {absolute}"
    );
    ensure_eq!(read(place, absolute).await?, "content", "content");
    Ok(())
}

pub(crate) async fn a_link_with_an_absolute_text_inside_is_followed(place: &Place) -> Verdict {
    place.put("file", "content").await?;
    place.script("ln -s \"$PWD/file\" link").await?;
    ensure_eq!(read(place, path("link")).await?, "content", "content");
    Ok(())
}

//! Doubles that reach outside.
//!
//! Each gives the right answer, over a wrong effect: only a look from outside can tell.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use sandbox_core::ErrorKind;
use sandbox_core::file::Change;
use sandbox_core::{Error, Result, SandboxExt};

use super::doubles;
use super::wrapped::{Honest, mapped};

fn is_outside<T>(result: &Result<T, Error>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::OutsideRoot)
}

/// Removes what the links in a directory of this machine name.
fn empty_links(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Ok(target) = std::fs::read_link(&path)
            && target.is_absolute()
        {
            for entry in std::fs::read_dir(target).into_iter().flatten().flatten() {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

doubles! {
    a_put_through_a_link_never_leaves_the_roots: "a put through a link is refused when it is done"
    change(honest, ctx, change) {
        let wrong = match &change {
            Change::Put { path, content, .. } => Some((honest.host(path), content.clone())),
            _ => None,
        };
        let result = honest.change(&ctx, change).await;
        if let Some((path, content)) = wrong && is_outside(&result) {
            let _ = std::fs::write(path, content);
        }
        result
    }

    an_edit_through_a_link_never_leaves_the_roots:
        "an edit through a link is refused when it is done"
    change(honest, ctx, change) {
        let wrong = matches!(change, Change::Edit { .. }).then(|| honest.host(change.path()));
        let result = honest.change(&ctx, change).await;
        if let Some(path) = wrong && is_outside(&result) {
            let _ = std::fs::write(path, "edited");
        }
        result
    }

    a_directory_is_never_made_outside_the_roots: "a directory is made outside, and refused"
    change(honest, ctx, change) {
        let make = matches!(change, Change::MakeDirectory { .. });
        let path = honest.host(change.path());
        let result = honest.change(&ctx, change).await;
        if make && is_outside(&result) {
            let _ = std::fs::create_dir_all(path);
        }
        result
    }

    a_mode_is_never_set_outside_the_roots: "a mode is set outside, and refused"
    change(honest, ctx, change) {
        let set = matches!(change, Change::SetMode { .. });
        let path = honest.host(change.path());
        let result = honest.change(&ctx, change).await;
        if set && is_outside(&result) {
            let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777));
        }
        result
    }

    a_link_is_never_made_outside_the_roots: "a link is made outside, and refused"
    change(honest, ctx, change) {
        let link = matches!(change, Change::Link { .. });
        let path = honest.host(change.path());
        let result = honest.change(&ctx, change).await;
        if link && is_outside(&result) {
            let _ = symlink("canary", path);
        }
        result
    }

    a_rename_never_crosses_the_roots: "a rename out leaves a copy there, and is refused"
    change(honest, ctx, change) {
        let paths = match &change {
            Change::Rename { from, to, .. } => Some((honest.host(from), honest.host(to))),
            _ => None,
        };
        let result = honest.change(&ctx, change).await;
        if let Some((from, to)) = paths && is_outside(&result) {
            let _ = std::fs::copy(from, to);
        }
        result
    }

    a_remove_through_a_link_never_leaves_the_roots:
        "a remove through a link is refused when it is done"
    remove(honest, ctx, request) {
        let path = honest.host(&request.path);
        let result = honest.remove(&ctx, request).await;
        if is_outside(&result) {
            let _ = std::fs::remove_file(path);
        }
        result
    }

    a_removed_tree_takes_links_out_and_not_what_they_name: "what links in a tree name goes with it"
    remove(honest, ctx, request) {
        if Honest::first(&request.path).as_ref() == Some(&request.path) {
            empty_links(&honest.host(&request.path));
        }
        honest.remove(&ctx, request).await
    }

    a_process_does_not_start_outside: "a start outside is refused when it is done"
    exec(honest, ctx, request) {
        let cwd = honest.host(&request.process.cwd);
        mapped(&honest, &ctx, request, move |result| {
            if is_outside(&result) {
                let _ = std::fs::write(cwd.join("escaped"), "escaped");
            }
            result
        }).await
    }
}

//! What an ordinary user may and may not do. The tests are one, also where root runs them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use sandbox_core::file::{Change, Recursion};
use sandbox_core::{Effect, ErrorKind, Verb};

use super::file::{Name, Tree, as_ordinary_user, refused};

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
}

#[test]
fn what_permissions_forbid_is_refused_and_said_to_be_that() {
    as_ordinary_user(|| async {
        let tree = Tree::new();
        tree.plant("unreadable", "x");
        tree.plant("unwritable", "x");
        tree.plant("closed/file", "x");
        tree.plant("fixed/file", "x");
        set_mode(&tree.inside.join("unreadable"), 0o200);
        set_mode(&tree.inside.join("unwritable"), 0o444);
        set_mode(&tree.inside.join("closed"), 0o000);
        set_mode(&tree.inside.join("fixed"), 0o555);
        let denied = ErrorKind::PermissionDenied;
        refused(tree.read("unreadable").await, denied);
        refused(tree.read("closed/file").await, denied);
        refused(tree.stat("closed/file").await, denied);
        refused(tree.put("unwritable", "y").await, denied);
        refused(
            tree.change(Change::edit("unwritable".path(), "x", "y"))
                .await,
            denied,
        );
        refused(tree.put("fixed/file", "y").await, denied);
        refused(tree.put("fixed/new", "y").await, denied);
        refused(tree.put("fixed/new/deep", "y").await, denied);
        refused(
            tree.change(Change::MakeDirectory {
                path: "fixed/new".path(),
                mode: None,
            })
            .await,
            denied,
        );
        refused(
            tree.change(Change::Link {
                path: "fixed/new".path(),
                target: "x".into(),
            })
            .await,
            denied,
        );
        refused(tree.remove("fixed/file", Recursion::No).await, denied);
        refused(
            tree.roots.open_dir(Verb::Exec, &"closed".path()).map(drop),
            denied,
        );
        assert_eq!(
            (tree.bytes("unwritable"), tree.bytes("fixed/file")),
            (b"x".to_vec(), b"x".to_vec())
        );
        for name in ["closed", "fixed"] {
            set_mode(&tree.inside.join(name), 0o755);
        }
    });
}

#[test]
fn a_removal_that_stops_half_way_says_that_something_is_gone() {
    as_ordinary_user(|| async {
        let tree = Tree::new();
        tree.plant("top/file", "x");
        tree.plant("top/fixed/file", "x");
        set_mode(&tree.inside.join("top/fixed"), 0o555);
        let error = tree
            .remove("top", Recursion::Yes)
            .await
            .expect_err("part of it cannot go");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::PermissionDenied, Effect::Unknown)
        );
        assert!(error.to_string().contains("1 entries"), "{error}");
        set_mode(&tree.inside.join("top/fixed"), 0o755);
    });
}

#[test]
fn an_ordinary_user_changes_what_is_its_own() {
    as_ordinary_user(|| async {
        let tree = Tree::new();
        tree.put("d/file", "old").await.expect("made");
        tree.put("d/file", "new").await.expect("replaced");
        set_mode(&tree.inside.join("d/file"), 0o000);
        tree.change(Change::SetMode {
            path: "d/file".path(),
            mode: 0o600,
        })
        .await
        .expect("its own, though unreadable");
        tree.change(Change::edit("d/file".path(), "new", "edited"))
            .await
            .expect("edited");
        assert_eq!(tree.bytes("d/file"), b"edited");
        assert_eq!(
            std::fs::metadata(tree.inside.join("d/file"))
                .expect("there")
                .mode()
                & 0o7777,
            0o600
        );
        assert_eq!(
            std::fs::read_dir(tree.inside.join("d"))
                .expect("there")
                .count(),
            1
        );
        refused(tree.read("/etc/shadow").await, ErrorKind::OutsideRoot);
    });
}

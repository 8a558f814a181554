//! Entries by name, for whoever packs them.

use std::fs::{self, File};
use std::time::Duration;

use sandbox_core::search::Scope;
use sandbox_core::{Cancel, Ctx, Effect, ErrorKind, SandboxPath, Verb};
use sandbox_tree::listing::list;
use sandbox_tree::walk::Place;

fn scope() -> Scope {
    Scope::new(SandboxPath::root())
}

#[test]
fn entries_come_in_path_order_without_trees_under_way() {
    let tree = tempfile::tempdir().expect("a scratch directory");
    for name in ["b", "a", "a.txt"] {
        fs::create_dir(tree.path().join(name)).expect("made");
    }
    fs::write(tree.path().join("a/x"), "").expect("written");
    fs::create_dir(tree.path().join(".spp-tree-0123456789abcdef")).expect("made");
    let directory = File::open(tree.path()).expect("opened");
    let listed = list(
        Verb::PushTree,
        &Ctx::new(),
        &scope(),
        &Place::new(&directory),
    );
    let paths: Vec<_> = listed.expect("listed").paths;
    let mut sorted = paths.clone();
    sorted.sort();
    assert_eq!(paths, sorted);
    let names: Vec<_> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a", "a.txt", "a/x", "b"]);
}

/// A part of a tree that passes for all of it would be pushed as all of it.
#[test]
fn a_walk_that_ended_early_is_no_listing() {
    let tree = tempfile::tempdir().expect("a scratch directory");
    fs::write(tree.path().join("file"), "").expect("written");
    let directory = File::open(tree.path()).expect("opened");
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = Ctx::new().with_cancel(cancel);
    let late = Ctx::new().with_timeout(Duration::ZERO);
    for (ctx, kind) in [
        (cancelled, ErrorKind::Cancelled),
        (late, ErrorKind::DeadlineExceeded),
    ] {
        let error = list(Verb::PushTree, &ctx, &scope(), &Place::new(&directory))
            .expect_err("a walk that nobody waits for");
        assert_eq!((error.kind(), error.effect()), (kind, Effect::None));
    }
}

/// The port cannot say such a name, and leaving it out would lose a file without a word.
#[test]
fn a_path_that_is_too_long_to_say_is_refused() {
    let tree = tempfile::tempdir().expect("a scratch directory");
    let mut at = File::open(tree.path()).expect("opened");
    for _ in 0..40 {
        let name = "d".repeat(200);
        rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).expect("made");
        let flags = rustix::fs::OFlags::DIRECTORY;
        let next = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty());
        at = next.expect("opened").into();
    }
    let directory = File::open(tree.path()).expect("opened");
    let error = list(
        Verb::PushTree,
        &Ctx::new(),
        &scope(),
        &Place::new(&directory),
    )
    .expect_err("a path of 8,000 bytes was listed");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::InvalidArgument, Effect::None)
    );
    assert!(error.detail_text().contains("too long"), "{error}");
}

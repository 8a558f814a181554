//! Directories of this machine, at a sandbox and back.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use sandbox_core::provider::AcquireSpec;
use sandbox_core::{Ctx, Effect, ErrorKind, Provider, Sandbox, SandboxId, SandboxPath};
use sandbox_engine::{EngineProvider, Place, ProviderOptions};
use sandbox_host::tree::{self, Destination, Onto, Tally};

async fn sandbox(root: &Path) -> Arc<dyn Sandbox> {
    let provider = EngineProvider::new(ProviderOptions {
        name: "engine".to_owned(),
        version: String::new(),
        place: Place::open("engine"),
    });
    let mut spec = AcquireSpec::new(SandboxId::new("tree").expect("a plain name"));
    spec.root = Some(root.to_str().expect("a name in UTF-8").to_owned());
    provider
        .acquire(&Ctx::new(), &spec)
        .await
        .expect("acquired")
}

fn open(directory: &Path) -> File {
    File::open(directory).expect("opened")
}

#[tokio::test]
async fn a_second_push_sends_what_differs_and_removes_what_is_gone() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let (from, root) = (scratch.path().join("from"), scratch.path().join("root"));
    fs::create_dir_all(from.join("kept")).expect("made");
    fs::create_dir(&root).expect("made");
    fs::write(from.join("kept/same"), "same").expect("written");
    fs::write(from.join("changed"), "old").expect("written");
    fs::write(from.join("gone"), "gone").expect("written");
    let sandbox = sandbox(&root).await;
    let to = SandboxPath::parse("there").expect("a path");
    let (ctx, tally) = (Ctx::new(), Tally::new());
    let (first, _) = tree::push(
        &ctx,
        &*sandbox,
        open(&from),
        to.clone(),
        Onto::Nothing,
        &tally,
    )
    .await
    .expect("pushed");

    fs::write(from.join("changed"), "newer").expect("written");
    fs::remove_file(from.join("gone")).expect("removed");
    let base = Onto::Known(first.manifest);
    let (second, packed) = tree::push(&ctx, &*sandbox, open(&from), to, base, &tally)
        .await
        .expect("pushed again");
    assert_eq!((packed.entries, packed.bytes), (1, 5), "what travelled");
    assert_eq!(second.removed, 1);
    let there = |name: &str| fs::read_to_string(root.join("there").join(name)).ok();
    assert_eq!(there("changed").as_deref(), Some("newer"));
    assert_eq!(there("kept/same").as_deref(), Some("same"));
    assert_eq!(there("gone"), None);
}

#[tokio::test]
async fn a_pull_makes_the_directory_or_leaves_nothing() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let root = scratch.path().join("root");
    fs::create_dir_all(root.join("tree")).expect("made");
    fs::write(root.join("tree/file"), "content").expect("written");
    let sandbox = sandbox(&root).await;
    let back = scratch.path().join("back");
    let tally = Tally::new();
    let pull = async |path: &str| {
        let to = Destination::open(&back).expect("its parent is there");
        let path = SandboxPath::parse(path).expect("a path");
        tree::pull(&Ctx::new(), &*sandbox, path, to, &tally).await
    };
    pull("missing").await.expect_err("there is no such tree");
    assert!(!back.exists());
    pull("tree").await.expect("pulled");
    assert_eq!(fs::read(back.join("file")).expect("read"), b"content");
    let entries = fs::read_dir(scratch.path()).expect("read").count();
    assert_eq!(entries, 2, "something was left beside it");
    assert_eq!(tally.entries(), 1);
    assert!(tally.bytes() > 0, "what came was not counted");
}

#[tokio::test]
async fn a_pull_that_cannot_be_put_anywhere_says_why_and_not_that_nobody_reads() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let root = scratch.path().join("root");
    fs::create_dir_all(root.join("tree")).expect("made");
    // More than all that is under way at once.
    let long = File::create(root.join("tree/long")).expect("made");
    long.set_len(16 << 20).expect("a sparse file");
    let sandbox = sandbox(&root).await;
    let back = scratch.path().join("back");
    fs::create_dir(&back).expect("made");
    fs::write(back.join("theirs"), "theirs").expect("written");
    let to = Destination::open(&back).expect("it is there");
    let path = SandboxPath::parse("tree").expect("a path");
    let error = tree::pull(&Ctx::new(), &*sandbox, path, to, &Tally::new())
        .await
        .expect_err("something is there");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::NotEmpty, Effect::None)
    );
    let left: Vec<_> = fs::read_dir(&back).expect("read").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

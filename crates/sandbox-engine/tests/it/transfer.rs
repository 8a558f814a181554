//! Trees that come and go, where it takes a look at the disk at the right moment.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::search::Scope;
use sandbox_core::transfer::{
    Compression, Flaw, FlawCause, Manifest, PullReceipt, PullRequest, PushReceipt, PushRequest,
};
use sandbox_core::{Cancel, Ctx, Effect, Error, ErrorKind, Result, SandboxPath};
use sandbox_engine::transfer::Trees;

use super::file::Tree;

fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect("valid")
}

fn pull_request(roots: &[&str]) -> PullRequest {
    PullRequest {
        scopes: roots.iter().map(|root| Scope::new(path(root))).collect(),
        compression: Compression::None,
        base: None,
    }
}

async fn pull(tree: &Tree, request: PullRequest) -> Result<(Vec<u8>, PullReceipt)> {
    let pull = Trees::new(Arc::clone(&tree.roots)).pull_tree(&Ctx::new(), request)?;
    let (mut archive, mut bytes) = (pull.archive, Vec::new());
    let read = async {
        while let Some(Ok(piece)) = archive.next().await {
            bytes.extend_from_slice(&piece);
        }
    };
    let ((), receipt) = futures_util::join!(read, pull.receipt);
    Ok((bytes, receipt?))
}

async fn push(
    tree: &Tree,
    destination: &str,
    archive: Vec<u8>,
    base: Option<Manifest>,
) -> Result<PushReceipt> {
    let request = PushRequest {
        destination: path(destination),
        archive: Box::pin(futures_util::stream::iter([Ok(Bytes::from(archive))])),
        compression: Compression::None,
        base,
        removed: Vec::new(),
    };
    Trees::new(Arc::clone(&tree.roots))
        .push_tree(&Ctx::new(), request)
        .await
}

/// What the `tar` crate finds in an archive: it is not ours to judge by ourselves.
fn names(archive: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().expect("an archive");
    entries
        .map(|entry| {
            let entry = entry.expect("an entry");
            String::from_utf8_lossy(&entry.path_bytes()).into_owned()
        })
        .collect()
}

fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .expect("listed")
        .map(|entry| {
            entry
                .expect("listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_is_cut_or_filled_up_and_said() {
    let tree = Tree::new();
    let size = 4 << 20;
    for name in ["grows", "shrinks"] {
        fs::write(tree.inside.join(name), vec![b'x'; size]).expect("written");
    }
    let pull = Trees::new(Arc::clone(&tree.roots))
        .pull_tree(&Ctx::new(), pull_request(&["."]))
        .expect("begun");
    let (mut stream, mut archive) = (pull.archive, Vec::new());
    let first = stream.next().await.expect("a piece").expect("good");
    archive.extend_from_slice(&first);
    // Pieces wait to be taken, so neither file is at its end yet.
    let mut grows = File::options()
        .append(true)
        .open(tree.inside.join("grows"))
        .expect("open");
    grows.write_all(b"more").expect("written");
    while let Some(piece) = stream.next().await {
        archive.extend_from_slice(&piece.expect("good"));
        if archive.len() > size + (1 << 20) {
            let shrinks = File::options()
                .write(true)
                .open(tree.inside.join("shrinks"));
            shrinks.expect("open").set_len(1000).expect("cut");
        }
    }
    let receipt = pull.receipt.await.expect("pulled");
    let changed = |name: &str| Flaw {
        path: path(name),
        cause: FlawCause::Changed,
    };
    assert_eq!(receipt.flaws, [changed("grows"), changed("shrinks")]);
    assert_eq!(names(&archive), ["grows", "shrinks"]);
    assert_eq!(archive.len(), 2 * (512 + size) + 1024);
}

#[tokio::test]
async fn what_is_special_is_left_out_and_said_and_what_is_under_way_is_not_there() {
    let tree = Tree::new();
    fs::write(tree.inside.join("file"), "x").expect("written");
    fs::create_dir(tree.inside.join(".spp-tree-0123456789abcdef")).expect("made");
    let fifo = rustix::fs::mknodat(
        File::open(&tree.inside).expect("open"),
        "queue",
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    );
    fifo.expect("made");
    let (archive, receipt) = pull(&tree, pull_request(&["."])).await.expect("pulled");
    assert_eq!(names(&archive), ["file"]);
    assert_eq!(
        receipt.flaws,
        [Flaw {
            path: path("queue"),
            cause: FlawCause::Special
        }]
    );
}

#[tokio::test]
async fn several_scopes_are_named_from_the_directory_they_share() {
    let tree = Tree::new();
    for name in ["a/b/x", "a/c/y", "d/z"] {
        let file = tree.inside.join(name);
        fs::create_dir_all(file.parent().expect("a parent")).expect("made");
        fs::write(file, "x").expect("written");
    }
    let pulled = async |roots: &[&str]| {
        let (archive, _) = pull(&tree, pull_request(roots)).await.expect("pulled");
        names(&archive)
    };
    assert_eq!(pulled(&["a/b"]).await, ["x"]);
    assert_eq!(pulled(&["a/b", "a/c"]).await, ["b/x", "c/y"]);
    assert_eq!(pulled(&["a", "a/c"]).await, ["b", "b/x", "c", "c/y"]);
    assert_eq!(pulled(&["a/b", "d"]).await, ["a/b/x", "d/z"]);
    let refused = pull(&tree, pull_request(&["a", "/"]))
        .await
        .expect_err("no way to name them");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn missing_parents_come_with_the_tree_and_go_with_its_failure() {
    let tree = Tree::new();
    fs::write(tree.inside.join("file"), "x").expect("written");
    let (archive, _) = pull(&tree, pull_request(&["."])).await.expect("pulled");
    let cut = archive[..600].to_vec();
    let error = push(&tree, "new/deep/tree", cut, None)
        .await
        .expect_err("it is cut");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::InvalidArgument, Effect::None)
    );
    assert_eq!(entries(&tree.inside), ["file"]);
    push(&tree, "new/deep/tree", archive, None)
        .await
        .expect("pushed");
    assert_eq!(entries(&tree.inside), ["file", "new"]);
    assert_eq!(entries(&tree.inside.join("new/deep/tree")), ["file"]);
}

#[tokio::test]
async fn a_destination_behind_a_link_that_leaves_is_refused() {
    let tree = Tree::new();
    std::os::unix::fs::symlink(&tree.outside, tree.inside.join("door")).expect("made");
    let before = entries(&tree.outside);
    for destination in ["door", "door/new", "door/new/deep"] {
        let error = push(&tree, destination, vec![0; 1024], None)
            .await
            .expect_err("it leaves");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::OutsideRoot, Effect::None)
        );
    }
    let error = pull(&tree, pull_request(&["door"]))
        .await
        .expect_err("it leaves");
    assert_eq!(error.kind(), ErrorKind::OutsideRoot);
    assert_eq!(entries(&tree.outside), before);
}

/// An archive that never ends: its first entry, and then nothing more.
fn stalled() -> PushRequest {
    let mut header = tar::Header::new_ustar();
    header.set_path("file").expect("short");
    header.set_size(1 << 20);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_cksum();
    let first = Bytes::copy_from_slice(header.as_bytes());
    PushRequest {
        destination: path("dst"),
        archive: Box::pin(
            futures_util::stream::iter([Ok(first)]).chain(futures_util::stream::pending()),
        ),
        compression: Compression::None,
        base: None,
        removed: Vec::new(),
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited for {what}");
}

#[tokio::test]
async fn a_push_that_is_cancelled_or_dropped_leaves_nothing() {
    let tree = Tree::new();
    let trees = Trees::new(Arc::clone(&tree.roots));
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let pushing = tokio::spawn({
        let trees = trees.clone();
        async move { trees.push_tree(&ctx, stalled()).await }
    });
    until("the tree under way", || !entries(&tree.inside).is_empty()).await;
    cancel.cancel();
    let error: Error = pushing
        .await
        .expect("no panic")
        .expect_err("it was cancelled");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Cancelled, Effect::None)
    );
    assert_eq!(entries(&tree.inside), [""; 0]);

    let pushing = tokio::spawn(async move { trees.push_tree(&Ctx::new(), stalled()).await });
    until("the tree under way", || !entries(&tree.inside).is_empty()).await;
    pushing.abort();
    until("the end of the tree under way", || {
        entries(&tree.inside).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_fails_says_why_and_leaves_nothing() {
    let tree = Tree::new();
    let request = PushRequest {
        archive: Box::pin(futures_util::stream::iter([Err(Error::new(
            sandbox_core::Verb::PushTree,
            ErrorKind::Disconnected,
        ))])),
        ..stalled()
    };
    let trees = Trees::new(Arc::clone(&tree.roots));
    let error = trees
        .push_tree(&Ctx::new(), request)
        .await
        .expect_err("it failed");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Disconnected, Effect::None)
    );
    assert_eq!(entries(&tree.inside), [""; 0]);
}

#[tokio::test]
async fn a_pull_whose_receipt_nobody_waits_for_ends() {
    let tree = Tree::new();
    fs::write(tree.inside.join("big"), vec![0; 8 << 20]).expect("written");
    let trees = Trees::new(Arc::clone(&tree.roots));
    let pull = trees
        .pull_tree(&Ctx::new(), pull_request(&["."]))
        .expect("begun");
    let mut archive = pull.archive;
    archive.next().await.expect("a piece").expect("good");
    drop(pull.receipt);
    let mut last = Ok(Bytes::new());
    while let Some(piece) = archive.next().await {
        last = piece;
    }
    assert_eq!(
        last.expect_err("the rest is not wanted").kind(),
        ErrorKind::Cancelled
    );
}

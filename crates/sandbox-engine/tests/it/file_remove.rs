//! Removing entries and trees.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use sandbox_core::ErrorKind;
use sandbox_core::file::Recursion;

use super::file::{Tree, refused};

#[tokio::test]
async fn a_tree_goes_with_everything_in_it_and_is_counted() {
    let tree = Tree::new();
    for directory in 0..20 {
        for file in 0..20 {
            tree.plant(format!("top/{directory}/{file}"), "x");
        }
    }
    tree.plant_link("top/link", "../../out");
    tree.plant_link("top/dangling", "nowhere");
    let before = tree.look_outside();
    refused(tree.remove("top", Recursion::No).await, ErrorKind::NotEmpty);
    let receipt = tree.remove("top", Recursion::Yes).await.expect("removed");
    assert_eq!((receipt.existed, receipt.entries), (true, 1 + 20 + 400 + 2));
    assert!(!tree.inside.join("top").exists());
    assert_eq!(tree.look_outside(), before);
}

#[tokio::test]
async fn what_is_not_there_is_no_error_and_a_root_stays() {
    let tree = Tree::new();
    tree.plant("file", "x");
    for name in ["missing", "missing/below"] {
        let receipt = tree.remove(name, Recursion::Yes).await.expect("no error");
        assert_eq!((receipt.existed, receipt.entries), (false, 0));
    }
    refused(
        tree.remove("file/below", Recursion::Yes).await,
        ErrorKind::NotADirectory,
    );
    refused(
        tree.remove(".", Recursion::Yes).await,
        ErrorKind::InvalidArgument,
    );
    refused(
        tree.remove(tree.inside.clone(), Recursion::Yes).await,
        ErrorKind::InvalidArgument,
    );
    assert_eq!(tree.bytes("file"), b"x");
}

#[tokio::test]
async fn a_link_goes_and_not_what_it_leads_to() {
    let tree = Tree::new();
    tree.plant("d/file", "x");
    tree.plant_link("link", "d");
    let receipt = tree.remove("link", Recursion::Yes).await.expect("removed");
    assert_eq!(receipt.entries, 1);
    assert_eq!(tree.bytes("d/file"), b"x");
}

#[tokio::test]
async fn a_tree_deeper_than_open_files_and_stacks_allow_goes() {
    const DEPTH: u64 = 10_000;
    let tree = Tree::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut at: OwnedFd = rustix::fs::open(&tree.inside, flags, Mode::empty()).expect("there");
    let name = CString::new("deep").expect("no NUL");
    for level in 0..DEPTH {
        rustix::fs::mkdirat(&at, &name, Mode::RWXU).expect("made");
        if level % 100 == 99 {
            rustix::fs::mkdirat(&at, "beside", Mode::RWXU).expect("made");
        }
        at = rustix::fs::openat(&at, &name, flags, Mode::empty()).expect("there");
    }
    drop(at);
    let receipt = tree.remove("deep", Recursion::Yes).await.expect("removed");
    assert_eq!(receipt.entries, DEPTH + DEPTH / 100);
    assert!(!tree.inside.join("deep").exists());
}

#[tokio::test]
async fn entries_that_others_make_and_remove_meanwhile_do_not_stop_it() {
    let tree = Tree::new();
    let other = tree.inside.join("busy");
    std::fs::create_dir(&other).expect("a directory");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let busy = {
        let stop = std::sync::Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::create_dir_all(other.join("a/b"));
                let _ = std::fs::write(other.join("a/b/c"), "x");
                let _ = std::fs::remove_file(other.join("a/b/c"));
                let _ = std::fs::remove_dir(other.join("a/b"));
            }
        })
    };
    for _ in 0..200 {
        // Who is busier is not decided here; a removal may give up, but only with what it says.
        if let Err(error) = tree.remove("busy", Recursion::Yes).await {
            assert_eq!(error.kind(), ErrorKind::NotEmpty, "{error}");
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    busy.join().expect("it ends");
    tree.remove("busy", Recursion::Yes)
        .await
        .expect("now it goes");
    assert!(!tree.inside.join("busy").exists());
}

//! Trees that are made to be hard to walk.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags};
use sandbox_core::search::{Completeness, IgnoreRules, IncompleteCause};

use crate::walk_tree::Tree;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Makes a chain of directories, deeper than any path that can be named, with a file and a sibling at each level.
fn dig(tree: &Tree, depth: usize, name: &str) {
    let mut at: OwnedFd =
        rustix::fs::open(tree.path(), DIRECTORY, Mode::empty()).expect("the root");
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, name, Mode::RWXU).expect("a directory");
        rustix::fs::mkdirat(&at, "s", Mode::RWXU).expect("a directory");
        at = rustix::fs::openat(&at, name, DIRECTORY, Mode::empty()).expect("the directory");
    }
}

/// Takes such a chain away from its end: a recursive removal by paths could not.
fn fill(tree: &Tree, depth: usize, name: &str) {
    let open = |at: &OwnedFd, name: &str| {
        rustix::fs::openat(at, name, DIRECTORY, Mode::empty()).expect("a directory")
    };
    let mut at: OwnedFd =
        rustix::fs::open(tree.path(), DIRECTORY, Mode::empty()).expect("the root");
    for _ in 0..depth {
        at = open(&at, name);
    }
    for _ in 0..depth {
        at = open(&at, "..");
        for name in [name, "s"] {
            rustix::fs::unlinkat(&at, name, rustix::fs::AtFlags::REMOVEDIR).expect("empty");
        }
    }
}

#[test]
fn a_depth_of_ten_thousand_is_walked_with_few_descriptors() {
    let tree = Tree::new();
    dig(&tree, 10_000, "d");
    let before = fs::read_dir("/proc/self/fd").expect("procfs").count();
    for threads in [1, 2] {
        let (found, summary) = tree.walk_below("", threads, |_| {});
        assert_eq!(found.len(), 20_000);
        assert_eq!(summary.completeness(), Completeness::Complete);
    }
    let after = fs::read_dir("/proc/self/fd").expect("procfs").count();
    assert!(
        after <= before + 16,
        "descriptors stay: {before} before, {after} after"
    );
    fill(&tree, 10_000, "d");
}

#[test]
fn a_directory_that_cannot_be_read_is_said_and_the_rest_is_found() {
    let tree = Tree::new();
    tree.files(&["a/x", "closed/x", "z"]);
    let closed = tree.path().join("closed");
    if rustix::process::geteuid().is_root() {
        return as_an_ordinary_user(&tree);
    }
    rustix::fs::chmod(&closed, Mode::empty()).expect("own directory");
    let (found, summary) = tree.walk(|_| {});
    rustix::fs::chmod(&closed, Mode::RWXU).expect("own directory");
    assert_eq!(found, ["a", "a/x", "closed", "z"]);
    check_permission(&summary.completeness());
}

fn check_permission(complete: &Completeness) {
    match complete {
        Completeness::Incomplete { cause, reason } => {
            assert_eq!(*cause, IncompleteCause::Permission);
            assert!(reason.contains("closed"), "{reason}");
        }
        Completeness::Complete => panic!("an unreadable directory was passed over in silence"),
    }
}

/// Walks in a thread that is nobody in particular: credentials belong to threads on Linux.
fn as_an_ordinary_user(tree: &Tree) {
    rustix::fs::chmod(tree.path(), Mode::from_raw_mode(0o755)).expect("own directory");
    rustix::fs::chmod(tree.path().join("closed"), Mode::empty()).expect("own directory");
    let (found, summary) = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
                tree.walk_below("", 2, |_| {})
            })
            .join()
            .expect("the walk ends")
    });
    assert_eq!(found, ["a", "a/x", "closed", "z"]);
    check_permission(&summary.completeness());
}

#[test]
fn a_tree_that_changes_under_the_walk_never_leads_out_of_it() {
    let tree = Tree::new();
    let outside = Tree::new();
    outside.files(&["secret/deep/x"]);
    for index in 0..50 {
        tree.files(&[&format!("d{index}/inner/x")]);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for index in 0..50 {
                    let path = tree.path().join(format!("d{index}/inner"));
                    let aside = tree.path().join(format!("d{index}/aside"));
                    let _ = fs::rename(&path, &aside);
                    let _ = symlink(outside.path().join("secret"), &path);
                    let _ = fs::remove_file(&path);
                    let _ = fs::rename(&aside, &path);
                }
            }
        });
        for _ in 0..200 {
            let (found, _) = tree.walk(|_| {});
            assert!(
                !found.iter().any(|path| path.contains("deep")),
                "a link was followed: {found:?}"
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn procfs_is_not_entered() {
    // The root itself is the caller's choice; what is mounted beneath is not.
    let base = fs::File::open("/").expect("the root");
    let mut scope = sandbox_core::search::Scope::new(sandbox_core::SandboxPath::root());
    scope.include = vec!["proc/*".to_owned()];
    scope.ignore = IgnoreRules::Off;
    let walk = sandbox_tree::walk::Walk::new(&scope).expect("a glob");
    let place = sandbox_tree::walk::Place::new(&base);
    let (visitors, _) = walk
        .run(&sandbox_core::Ctx::new(), &place, || {
            crate::walk_tree::Collect(Vec::new())
        })
        .expect("a directory");
    assert!(visitors.iter().all(|visitor| visitor.0.is_empty()));
}

#[test]
fn patterns_behind_a_link_or_in_a_fifo_are_none_and_do_not_block() {
    let tree = Tree::new();
    tree.files(&["x", "a/x", "b/x"]).file("patterns", "x\n");
    symlink("../patterns", tree.path().join("a/.gitignore")).expect("a link");
    rustix::fs::mknodat(
        CWD,
        tree.path().join("b/.gitignore"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .expect("a FIFO");
    let found = tree.found(|scope| scope.include = vec!["**/x".to_owned()]);
    assert_eq!(found, ["a/x", "b/x", "x"]);
}

#[test]
fn a_wide_directory_is_split_among_threads_and_nothing_is_lost_or_doubled() {
    let tree = Tree::new();
    for index in 0..4_000 {
        fs::write(tree.path().join(format!("f{index}")), "").expect("a file");
    }
    for index in 0..500 {
        fs::create_dir(tree.path().join(format!("d{index}"))).expect("a directory");
    }
    let (mut found, _) = tree.walk_below("", 8, |_| {});
    assert_eq!(found.len(), 4_500);
    found.dedup();
    assert_eq!(found.len(), 4_500);
}

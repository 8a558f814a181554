//! What a walk visits: scope, globs, ignore rules.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;

use sandbox_core::file::EntryKind;
use sandbox_core::search::{Completeness, Hidden, IgnoreRules, Scope};
use sandbox_core::{Ctx, SandboxPath};
use sandbox_tree::walk::{End, Entry, Place, Visitor, Walk};

use crate::walk_tree::Tree;

#[test]
fn everything_with_a_name_is_an_entry_and_a_link_is_not_followed() {
    let tree = Tree::new();
    tree.files(&["a/b/c", "d"]);
    symlink("a", tree.path().join("to-a")).expect("a link");
    symlink("/", tree.path().join("a/out")).expect("a link");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a FIFO");
    let (found, summary) = tree.walk(|_| {});
    assert_eq!(found, ["a", "a/b", "a/b/c", "a/out", "d", "fifo", "to-a"]);
    assert_eq!(summary.completeness(), Completeness::Complete);
}

#[test]
fn kinds_directories_and_names_are_there_for_calls_relative_to_them() {
    struct Check;
    impl Visitor for Check {
        fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
            let kind = match entry.name().to_bytes() {
                b"link" => EntryKind::Link,
                b"file" => EntryKind::File,
                _ => EntryKind::Directory,
            };
            assert_eq!(entry.kind(), kind);
            let stat = entry.stat().expect("it is there");
            let path = entry.path().to_vec();
            if entry.kind() == EntryKind::File {
                assert_eq!((stat.st_size, &*path), (3, &b"a/b/file"[..]));
            }
            ControlFlow::Continue(())
        }
    }
    let tree = Tree::new();
    tree.file("a/b/file", "abc");
    symlink("file", tree.path().join("a/b/link")).expect("a link");
    let base = fs::File::open(tree.path()).expect("a directory");
    let walk = Walk::new(&Scope::new(SandboxPath::root())).expect("no globs");
    let (_, summary) = walk
        .run(&Ctx::new(), &Place::new(&base), || Check)
        .expect("a directory");
    assert_eq!(summary.end, End::Complete);
}

#[test]
fn a_broad_glob_does_not_bring_back_what_is_ignored_in_and_out_of_a_repository() {
    let tree = Tree::new();
    tree.file(".gitignore", "*.log\n/target/\n").files(&[
        "a.log",
        "a.rs",
        "d/b.log",
        "d/b.rs",
        "target/x.rs",
    ]);
    for _ in 0..2 {
        for glob in ["**", "**/*", "**/*.log", "{*,*/*}"] {
            let found = tree.found(|scope| scope.include = vec![glob.to_owned()]);
            assert!(
                !found
                    .iter()
                    .any(|path| path.contains("log") || path.contains("target")),
                "{glob}: {found:?}"
            );
        }
        fs::create_dir_all(tree.path().join(".git")).expect("a repository");
    }
}

#[test]
fn a_nearer_file_of_patterns_overrides_one_further_out() {
    let tree = Tree::new();
    tree.file(".gitignore", "*.log\n!top.log\n")
        .file("a/.gitignore", "!keep.log\ntop.log\n")
        .files(&[
            "top.log",
            "x.log",
            "a/keep.log",
            "a/top.log",
            "a/x.log",
            "b/keep.log",
        ]);
    let found = tree.found(|scope| scope.include = vec!["**/*.log".to_owned()]);
    assert_eq!(found, ["a/keep.log", "top.log"]);
}

#[test]
fn what_lies_in_an_ignored_directory_cannot_be_brought_back() {
    let tree = Tree::new();
    tree.file(".gitignore", "out\n!out/keep\n")
        .files(&["out/keep", "in"]);
    assert_eq!(tree.found(|_| {}), [".gitignore", "in"]);
}

#[test]
fn rules_between_the_handle_and_the_root_of_the_scope_hold_and_the_root_was_asked_for() {
    let tree = Tree::new();
    tree.file(".gitignore", "/a/b/x\n*.o\nout/\n")
        .file("a/.gitignore", "y\n")
        .files(&["a/b/x", "a/b/y", "a/b/z", "a/b/z.o", "out/f", "out/f.o"]);
    assert_eq!(tree.walk_below("a/b", 2, |_| {}).0, ["z"]);
    assert_eq!(tree.walk_below("out", 2, |_| {}).0, ["f"]);
}

#[test]
fn a_repository_within_another_has_rules_of_its_own() {
    let tree = Tree::new();
    tree.file(".gitignore", "*.log\n").files(&[
        "a.log",
        "in/.git/HEAD",
        "in/a.log",
        "in/deep/b.log",
    ]);
    assert_eq!(
        tree.found(|_| {}),
        [".gitignore", "in", "in/a.log", "in/deep", "in/deep/b.log"]
    );
}

#[test]
fn the_directory_of_git_is_never_seen_unless_rules_are_off() {
    let tree = Tree::new();
    tree.files(&[".git/HEAD", "a/.git", ".x"]);
    assert_eq!(tree.found(|_| {}), [".x", "a"]);
    assert_eq!(
        tree.found(|scope| scope.ignore = IgnoreRules::Off),
        [".git", ".git/HEAD", ".x", "a", "a/.git"]
    );
    assert_eq!(tree.found(|scope| scope.hidden = Hidden::Exclude), ["a"]);
}

#[test]
fn depth_is_counted_from_the_root_of_the_scope() {
    let tree = Tree::new();
    tree.files(&["a/b/c/d"]);
    for (depth, expected) in [(0, 0), (1, 1), (2, 2), (9, 4)] {
        let found = tree.found(|scope| scope.max_depth = Some(depth));
        assert_eq!(found.len(), expected, "{found:?}");
    }
    let (found, _) = tree.walk_below("a/b", 1, |scope| scope.max_depth = Some(1));
    assert_eq!(found, ["c"]);
}

#[test]
fn globs_take_bytes_quotes_and_newlines_as_they_are() {
    let tree = Tree::new();
    tree.file(b"caf\xe9.rs", "")
        .files(&["a\nb.rs", "a'b\".rs", "\u{fc} dir/x.rs", "-e.rs"]);
    let found = tree.found(|scope| scope.include = vec!["**/*.rs".to_owned()]);
    assert_eq!(found.len(), 5, "{found:?}");
    let found = tree.found(|scope| scope.include = vec!["caf?.rs".to_owned()]);
    assert_eq!(found.len(), 1);
}

#[test]
fn an_excluded_directory_is_not_entered() {
    let tree = Tree::new();
    tree.files(&["a/x", "b/x", "b/c/x"]);
    let found = tree.found(|scope| scope.exclude = vec!["b".to_owned()]);
    assert_eq!(found, ["a", "a/x"]);
}

#[test]
fn a_visitor_can_stop_the_walk_and_a_cancel_ends_it() {
    struct First;
    impl Visitor for First {
        fn visit(&mut self, _: &Entry<'_>) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let tree = Tree::new();
    tree.files(&["a", "b"]);
    let base = fs::File::open(tree.path()).expect("a directory");
    let walk = Walk::new(&Scope::new(SandboxPath::root())).expect("no globs");
    let run = |ctx: &Ctx| {
        walk.run(ctx, &Place::new(&base), || First)
            .expect("a directory")
            .1
            .end
    };
    let ctx = Ctx::new();
    assert_eq!(run(&ctx), End::Stopped);
    ctx.cancel().cancel();
    assert_eq!(run(&ctx), End::Cancelled);
    assert_eq!(
        run(&Ctx::new().with_timeout(std::time::Duration::ZERO)),
        End::Late
    );
}

//! Ignore decisions against git itself, on generated trees.
//!
//! The oracle lists what is neither tracked nor ignored in a repository where nothing is tracked: the
//! walk follows the rules and knows no index.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proptest::prelude::*;
use sandbox_core::search::IgnoreRules;

use crate::walk_tree::Tree;

fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    #[expect(clippy::disallowed_methods, reason = "a test asks the oracle")]
    let output = std::process::Command::new("git")
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
        ])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("GIT_DIR")
        .output()
        .expect("git is needed by this test");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Files that git would add.
fn git_sees(directory: &Path) -> Vec<String> {
    let listed = git(
        directory,
        &["ls-files", "-z", "--others", "--exclude-standard"],
    );
    let mut files: Vec<_> = listed
        .split(|&byte| byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect();
    files.sort();
    files
}

fn walk_sees(tree: &Tree) -> Vec<String> {
    let (mut found, _) = tree.walk(|scope| scope.ignore = IgnoreRules::Git);
    found.retain(|path| {
        let path = tree.path().join(OsStr::from_bytes(path.as_bytes()));
        !fs::symlink_metadata(path).expect("found").is_dir()
    });
    found
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "ab", "a.log", "keep", "x y", "a]", "-", "[", "A", "#a", "!a", "a\\b", "{a,b}", "\u{e9}"]).prop_map(str::to_owned),
        1 => "[ab.*?]{1,3}".prop_filter("not a name", |name| !name.chars().all(|c| c == '.')),
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"))
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => name(),
        4 => prop::sample::select(vec!["*", "**", "?", "a*", "*b", "*.log", "[ab]", "[!a]", "[a-c]b", "[]a]", "[^b]*", "\\a", "\\*", "[[:alpha:]]", "[[:x:]]", "[", "a[", "***", "a**", "**b", "\\", "[a\\]]", "{a,b}", "x\\ y", "[a-", "[--a]", "[!-a]"]).prop_map(str::to_owned),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec!["", "", "", "!", "!", "/", "!/", "\\", "#", " "]),
        prop::collection::vec(part(), 1..4),
        prop::sample::select(vec!["", "", "", "/", " ", "  ", "\\ ", "\r", "/ ", "\t"]),
    )
        .prop_map(|(front, parts, back)| format!("{front}{}{back}", parts.join("/")))
}

fn patterns() -> impl Strategy<Value = String> {
    prop::collection::vec(pattern(), 0..5).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_git_ignores_is_ignored_and_nothing_else(
        paths in prop::collection::vec(path(), 1..12),
        ignores in prop::collection::vec((prop::collection::vec(name(), 0..3), patterns()), 1..4),
        exclude in patterns(),
    ) {
        let tree = Tree::new();
        git(tree.path(), &["init", "-q"]);
        for path in &paths {
            plant(&tree, path, "");
        }
        for (directory, patterns) in &ignores {
            plant(&tree, &[directory.join("/"), ".gitignore".to_owned()].join("/"), patterns);
        }
        fs::create_dir_all(tree.path().join(".git/info")).expect("a directory");
        fs::write(tree.path().join(".git/info/exclude"), &exclude).expect("a file");
        prop_assert_eq!(walk_sees(&tree), git_sees(tree.path()), "{:?} {:?}", ignores, exclude);
    }
}

/// Puts a file there, unless something else has one of its names.
fn plant(tree: &Tree, path: &str, content: &str) {
    let path = tree.path().join(path.trim_start_matches('/'));
    if fs::create_dir_all(path.parent().expect("beneath the root")).is_ok() {
        let _ = fs::write(path, content);
    }
}

#[test]
fn excludes_of_the_repository_hold_in_a_linked_worktree() {
    let tree = Tree::new();
    let main = tree.path().join("main");
    fs::create_dir(&main).expect("a directory");
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
    fs::create_dir_all(main.join(".git/info")).expect("a directory");
    fs::write(main.join(".git/info/exclude"), "noise\n").expect("a file");
    let linked = Tree::new();
    let path = linked.path().join("wt");
    git(
        &main,
        &["worktree", "add", "-q", path.to_str().expect("UTF-8")],
    );
    assert!(path.join(".git").is_file());
    linked.files(&["wt/noise", "wt/deep/noise", "wt/deep/kept"]);
    assert_eq!(git_sees(&path), ["deep/kept"]);
    assert_eq!(linked.walk_below("wt", 2, |_| {}).0, ["deep", "deep/kept"]);
}

#[test]
fn a_dot_git_file_that_leads_nowhere_or_waits_is_not_an_error() {
    let tree = Tree::new();
    tree.file("a/.git", "gitdir: /nonexistent\n")
        .file("b/.git", "nonsense")
        .files(&["a/x", "b/x"]);
    let (found, summary) = tree.walk(|_| {});
    assert_eq!(found, ["a", "a/x", "b", "b/x"]);
    assert_eq!(summary.unreadable.count, 0);
}

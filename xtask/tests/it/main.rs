//! The tasks as a person calls them: arguments, messages and exit statuses of the real executable.

mod real_work;

use std::fs;
use std::path::Path;
use std::process::Output;

#[expect(
    clippy::disallowed_methods,
    reason = "the executable under test is started, and no sandbox is involved"
)]
fn xtask(args: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(args)
        .output()
        .expect("the executable was built for this test")
}

/// Expects exit status `status`, and each of `parts` somewhere in what was printed.
#[track_caller]
fn check(args: &[&str], status: i32, parts: &[&str]) {
    let output = xtask(args);
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(status), "{args:?}: {printed}");
    for part in parts {
        assert!(
            printed.contains(part),
            "{args:?}: {part:?} is not in {printed}"
        );
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("it is writable");
    fs::write(path, text).expect("it is writable");
}

#[test]
fn help_names_every_task_and_each_task_explains_itself() {
    let tasks = ["test", "tidy", "spp", "install", "dist"];
    check(&["--help"], 0, &tasks);
    for task in ["test", "tidy", "install", "dist"] {
        check(
            &[task, "--help"],
            0,
            &[&format!("Usage: cargo xtask {task}")],
        );
    }
}

#[test]
fn a_task_that_does_not_exist_is_refused_and_the_others_are_listed() {
    check(&["tydi"], 1, &["no task `tydi`", "tidy"]);
    check(&[], 1, &["no task was given", "tidy"]);
}

#[test]
fn an_argument_that_a_task_does_not_take_is_refused_before_anything_is_done() {
    check(
        &["dist", "--into", "x"],
        1,
        &["`--into`", "cargo xtask dist --help"],
    );
    check(
        &["test", "-p", "xtask"],
        1,
        &["`-p`", "cargo xtask test --help"],
    );
}

#[test]
fn an_untidy_workspace_fails_with_every_problem_on_a_line_of_its_own() {
    let workspace = tempfile::tempdir().expect("a temporary directory");
    let root = workspace.path();
    write(
        root,
        "Cargo.toml",
        "[workspace]\nmembers = [\"core\"]\nresolver = \"3\"\n[workspace.dependencies]\nkube = \"1\"\n",
    );
    write(
        root,
        "core/Cargo.toml",
        "[package]\nname = \"sandbox-core\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    write(root, "core/src/lib.rs", "fn f() {}\n");

    let root = root
        .to_str()
        .expect("temporary directories have plain names");
    check(
        &["tidy", "--root", root],
        1,
        &[
            "\nCargo.toml: `kube` names a vendor (`kube`); leave it to a provider",
            "\ncore/src/lib.rs:1: ",
            "\nCHANGELOG.md: ",
            "\nARCHITECTURE.md: ",
            "(4 found)",
        ],
    );
}

//! `spp-conformance` as people run it: on an honest provider, on ones that are wrong in one way, and on
//! what is no provider at all.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_conformance::catalogue::Item;
use sandbox_conformance::wire::WIRE_CHECKS;
use serde_json::Value;
use tempfile::TempDir;

/// Runs at once; most of them wait most of the time.
const AT_ONCE: usize = 4;

/// Where the executables of the workspace are.
fn executables() -> PathBuf {
    match std::env::var_os("SPP_TEST_BIN_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_BIN_EXE_spp-conformance"))
            .parent()
            .expect("an executable is in a directory")
            .to_owned(),
    }
}

/// `spp-conformance` with a directory of its own for temporary files.
fn command(scratch: &TempDir, arguments: &[&str]) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program as its users do"
    )]
    let mut command = Command::new(env!("CARGO_BIN_EXE_spp-conformance"));
    command
        .args(arguments)
        .env("TMPDIR", scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn scratch() -> TempDir {
    tempfile::tempdir().expect("a scratch directory")
}

fn run(arguments: &[&str]) -> Output {
    let scratch = scratch();
    let output = command(&scratch, arguments).output().expect("it starts");
    let left: Vec<_> = std::fs::read_dir(scratch.path())
        .expect("the scratch directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(
        left.is_empty(),
        "left in the directory for temporary files: {left:?}"
    );
    output
}

fn text(output: &Output) -> String {
    format!(
        "{}{}status {:?}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code()
    )
}

fn local() -> String {
    let provider = executables().join("spp-provider-local");
    assert!(
        provider.is_file(),
        "{} is missing: build it with `cargo build -p spp-provider-local`",
        provider.display()
    );
    provider.to_str().expect("a path in UTF-8").to_owned()
}

/// The provider that lies; cargo builds it with the tests.
fn wrong() -> String {
    let directory = Path::new(env!("CARGO_BIN_EXE_spp-conformance"))
        .parent()
        .expect("an executable is in a directory");
    let provider = directory.join("examples/wrong_provider");
    assert!(
        provider.is_file(),
        "{} is missing: build it with `cargo build -p sandbox-conformance --examples`",
        provider.display()
    );
    provider.to_str().expect("a path in UTF-8").to_owned()
}

/// A directory with a program of this text in it.
fn program(script: &str) -> (TempDir, String) {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = scratch();
    let path = directory.path().join("provider");
    std::fs::write(&path, script).expect("a scratch file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    (directory, path)
}

#[test]
fn the_provider_local_passes_every_check() {
    let output = run(&["--json", "-", &local()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(
        (&report["passed"], &report["complete"]),
        (&true.into(), &true.into())
    );
    let checks = report["checks"].as_array().expect("the checks");
    assert_eq!(checks.len(), Item::all().count());
    for check in checks {
        // What is skipped is exactly what is not declared.
        let declared = report["provider"]["capabilities"]
            .as_array()
            .expect("a list");
        match check["outcome"].as_str() {
            Some("passed") => {}
            Some("not_declared") => {
                assert!(!declared.contains(&check["capability"]), "{check}");
            }
            _ => panic!("{check}"),
        }
    }
}

#[test]
fn each_check_of_the_wire_catches_a_provider_that_is_wrong_about_it() {
    let wrong = wrong();
    let missed = std::sync::Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(check) =
                    WIRE_CHECKS.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let id = format!("{}/{}", check.group, check.name);
                    let output = run(&["--only", &id, &wrong, &id]);
                    let said = text(&output);
                    if output.status.code() != Some(1) || !said.contains("1 FAILED") {
                        missed
                            .lock()
                            .expect("no panic")
                            .push(format!("{id}: {said}"));
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("no panic");
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
fn a_part_of_the_checks_says_that_it_is_one() {
    let output = run(&["--only", "handshake", &local()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(
        text(&output).contains("this says nothing of the others"),
        "{}",
        text(&output)
    );
}

#[test]
fn an_expected_failure_passes_and_a_stale_one_fails() {
    let id = "handshake/each_start_is_another_instance";
    let list = scratch();
    let file = list.path().join("known.txt");
    std::fs::write(&file, format!("{id} it has no randomness\n")).expect("a scratch file");
    let file = file.to_str().expect("a path in UTF-8");
    let run = |provider: &[&str]| {
        run(&[&["--expected-failures", file, "--only", id][..], provider].concat())
    };
    let output = run(&[&wrong(), id]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(
        text(&output).contains("it has no randomness"),
        "{}",
        text(&output)
    );
    let output = run(&[&local()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("take it off the list"),
        "{}",
        text(&output)
    );
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_started() {
    let list = scratch();
    let file = list.path().join("known.txt");
    std::fs::write(&file, "framing/no_such_check because\n").expect("a scratch file");
    let file = file.to_str().expect("a path in UTF-8");
    for (arguments, word) in [
        (&["--only", "nonsense", "false"][..], "nonsense"),
        (&["--options", "[1]", "false"], "JSON object"),
        (&["--options", "{", "false"], "JSON"),
        (&["--env", "NOT_SET_ANYWHERE", "false"], "NOT_SET_ANYWHERE"),
        (
            &["--expected-failures", "/nonexistent/file", "false"],
            "/nonexistent/file",
        ),
        (&["--expected-failures", file, "false"], "no_such_check"),
        (
            &["--json", "/nonexistent/file", "false"],
            "/nonexistent/file",
        ),
        (&["--limit", "0", "false"], "--limit"),
        (&[], "COMMAND"),
    ] {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&output)
        );
        assert!(
            text(&output).contains(word),
            "{arguments:?}: {}",
            text(&output)
        );
    }
}

#[test]
fn what_is_no_provider_is_not_started_and_it_is_said_why() {
    let (_one, silent) = program("#!/bin/sh\necho no licence >&2\nexit 9\n");
    let (_two, babbling) = program("#!/bin/sh\nexec yes hello\n");
    for (command, word) in [
        ("/nonexistent/provider", "/nonexistent/provider"),
        ("no-such-provider-anywhere", "no-such-provider-anywhere"),
        (silent.as_str(), "no licence"),
        (babbling.as_str(), "hello"),
    ] {
        let output = run(&["--only", "framing", command]);
        assert_eq!(
            output.status.code(),
            Some(3),
            "{command}: {}",
            text(&output)
        );
        assert!(text(&output).contains(word), "{command}: {}", text(&output));
    }
}

#[test]
fn a_check_that_hangs_ends_at_its_limit_and_the_next_one_runs() {
    let id = "deadlines/a_deadline_ends_the_run_and_is_said";
    let output = run(&["--limit", "2", "--only", "deadlines", &wrong(), id]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("did not end within 2 s"), "{said}");
    assert!(said.contains("1 passed, 1 FAILED"), "{said}");
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let scratch = scratch();
    let mut child = command(&scratch, &["--only", "life", &local()])
        .spawn()
        .expect("it starts");
    let pid = child.id();
    let deadline = Instant::now() + Duration::from_secs(30);
    // Once it has made a workspace, a provider runs.
    let has_begun = || {
        let entries = std::fs::read_dir(scratch.path()).expect("the scratch directory");
        entries.flatten().any(|entry| {
            std::fs::read_dir(entry.path()).is_ok_and(|mut inner| inner.next().is_some())
        })
    };
    while !has_begun() {
        assert!(Instant::now() < deadline, "it did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mine = |pid: u32| -> Vec<String> {
        let children = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        children.split_whitespace().map(str::to_owned).collect()
    };
    let started = mine(pid);
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not zero");
    kill_process(pid, Signal::INT).expect("it is there");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    for process in started {
        assert!(
            !Path::new(&format!("/proc/{process}")).exists(),
            "{process} is left"
        );
    }
    let left = std::fs::read_dir(scratch.path())
        .expect("the scratch directory")
        .count();
    assert_eq!(left, 0, "left in the directory for temporary files");
}

//! What happens to commands when the engine itself is killed, stopped, or not allowed to kill.
//!
//! The engine is this test executable once more, told by a variable to be one.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use sandbox_core::process::{ExecRequest, SpawnRequest, Status};

use crate::process::{Place, eventually, id, marker, running, sh};

/// Tells a copy of this executable that it is an engine, and what to run.
const SCRIPT: &str = "ENGINE_UNDER_TEST";

/// An engine that runs a script, with two seconds for it, and says when it has started.
fn engine(script: &str, user: Option<u32>) -> (Child, BufReader<std::process::ChildStdout>) {
    let own = std::env::current_exe().expect("this executable");
    let name = "process_engine::an_engine_in_a_process_of_its_own";
    #[expect(
        clippy::disallowed_methods,
        reason = "the engine has to be another process"
    )]
    let mut command = match user {
        None => std::process::Command::new(&own),
        Some(user) => {
            let mut command = std::process::Command::new("setpriv");
            command
                .args(["--reuid", &user.to_string(), "--clear-groups"])
                .arg(&own);
            command
        }
    };
    let mut child = command
        .args(["--ignored", "--exact", name, "--nocapture"])
        .env(SCRIPT, script)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    wait_for(&mut said, "started");
    (child, said)
}

fn wait_for(said: &mut impl BufRead, word: &str) -> String {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(
            said.read_line(&mut line).expect("text") > 0,
            "it never said {word:?}"
        );
    }
    line
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it is ours");
}

#[tokio::test]
#[ignore = "it is the engine of the other tests here, and does nothing alone"]
#[expect(
    clippy::print_stdout,
    reason = "that is how the other tests hear of it"
)]
async fn an_engine_in_a_process_of_its_own() {
    let Ok(script) = std::env::var(SCRIPT) else {
        return;
    };
    let place = Place::new();
    let spec = sh(&script).timeout(Duration::from_secs(2));
    place
        .spawn(SpawnRequest::new(id("run"), spec))
        .await
        .expect("started");
    println!("started");
    let report = place.report(&id("run")).await;
    println!(
        "ended {:?} left {}",
        report.status, report.survivors.left_total
    );
}

/// Kills an engine that runs a script with two processes of this mark, and waits until both are gone.
async fn killed_with_two(mark: &str, script: &str) {
    let (mut engine, _said) = engine(script, None);
    eventually("both run", || {
        running(&format!("sleep\u{0}{mark}")).len() == 2
    })
    .await;
    engine.kill().expect("it is ours");
    engine.wait().expect("it ended");
    eventually("both are gone", || running(mark).is_empty()).await;
}

#[tokio::test]
async fn an_engine_that_is_killed_takes_everything_along() {
    let mark = marker();
    let script = format!("trap '' TERM HUP; setsid sleep {mark} & sleep {mark}");
    killed_with_two(&mark, &script).await;
}

/// A command of the same user can stop its supervisor, which then sees nothing of the engine's end by itself.
#[tokio::test]
async fn an_engine_that_is_killed_takes_everything_along_though_the_supervisor_was_stopped() {
    let mark = marker();
    let script = format!("setsid sleep {mark} & kill -STOP $PPID; sleep {mark}");
    killed_with_two(&mark, &script).await;
}

/// The time is kept where a stopped engine does not matter.
#[tokio::test]
async fn a_timeout_holds_although_the_engine_is_stopped() {
    let mark = marker();
    let (mut engine, mut said) = engine(&format!("setsid sleep {mark} & sleep {mark}"), None);
    eventually("both run", || {
        running(&format!("sleep\u{0}{mark}")).len() == 2
    })
    .await;
    signal(&engine, rustix::process::Signal::STOP);
    eventually("both are gone", || {
        running(&format!("sleep\u{0}{mark}")).is_empty()
    })
    .await;
    signal(&engine, rustix::process::Signal::CONT);
    assert_eq!(wait_for(&mut said, "ended").trim(), "ended TimedOut left 0");
    engine.wait().expect("it ended");
}

/// A terminal's Ctrl-C goes to the whole foreground group, and a polite kill to the engine's. What
/// has to end things must not be ended by them.
#[tokio::test]
async fn a_supervisor_is_not_reached_by_signals_to_the_engines_group() {
    let place = Place::new();
    let script =
        "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; kill -USR1 $PPID; sleep 0.05; exit 8";
    let outcome = place.exec(ExecRequest::new(sh(script))).await.expect("ran");
    assert_eq!(outcome.exit.status, Status::Exited(8));
}

#[tokio::test]
async fn what_cannot_be_killed_is_named_after_a_while() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a program that others cannot kill");
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    let program = directory.path().join("unkillable");
    // A set-id program alone can be killed by its user; one that has become another user cannot.
    std::fs::copy("/usr/bin/setpriv", &program).expect("there is a setpriv");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).expect("ours");
    let mark = marker();
    let become_root = format!(
        "{} --reuid 0 --clear-groups sleep {mark}",
        program.display()
    );
    let (mut engine, mut said) = engine(&format!("setsid {become_root} & sleep 0.2"), Some(65_534));
    assert_eq!(
        wait_for(&mut said, "ended").trim(),
        "ended Exited(0) left 1"
    );
    for pid in running(&mark) {
        let pid = i32::try_from(pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a number"), rustix::process::Signal::KILL)
            .expect("root may");
    }
    engine.wait().expect("it ended");
}

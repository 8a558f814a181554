//! Trees on the run: processes of which each makes the next and ends, several at once, as an ordinary
//! user that may have 150. However such a tree is ended, nothing of it is left.
//!
//! The program is C, because a process that does nothing but start another one has to be small.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::tests::{Place, marked, pool};
use super::*;

/// How many rings, and how many successors each of their processes tries to have.
const SHAPES: [(&str, &str); 3] = [("1", "1"), ("8", "1"), ("4", "2")];
/// Processes beside it: the more there are, the longer it takes to look at all of them.
const IDLE: &str = "1500";
/// How long a tree may take to be gone. It takes some milliseconds to some tenths of a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a tree is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Timeout,
    Stop,
    Sweep,
    /// The leader ends by itself, and the rest is swept.
    SweepAfterwards,
    /// The engine is gone.
    End,
    /// The supervisor is killed, and the engine sweeps.
    Loss,
}

fn compiled(directory: &Path) -> String {
    let source = directory.join("rings.c");
    let program = directory.join("rings");
    std::fs::write(&source, include_str!("rings.c")).expect("a scratch file");
    #[expect(clippy::disallowed_methods, reason = "a compiler, which is waited for")]
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(["-O2", "-static", "-o"]);
    let status = compiler.arg(&program).arg(&source).status();
    assert!(status.expect("whoever links Rust has `cc`").success());
    // It is executed as another user where root tests.
    for path in [directory, &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("ours");
    }
    program.to_str().expect("a plain name").to_owned()
}

async fn ended_by(by: By, user: u32) {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let program = compiled(directory.path());
    // By another name, by which they are told apart.
    let idle = directory.path().join("idle");
    std::fs::copy(&program, &idle).expect("a scratch file");
    let idle = idle.to_str().expect("a plain name");
    let place = Place::new();
    let beside = pool();
    let _idle = beside
        .run(&place.launch(&[idle, IDLE]))
        .await
        .expect("it starts");
    for (rings, successors) in SHAPES {
        let pool = pool();
        let first = match by {
            By::SweepAfterwards => "leaves",
            _ => "stays",
        };
        let mut launch = place.launch(&[&program, rings, successors, &user.to_string(), first]);
        if by == By::Timeout {
            launch.timeout = Some(Duration::from_millis(300));
        }
        let mut running = pool.run(&launch).await.expect("it starts");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) || marked(&program).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(begun.elapsed() < PATIENCE, "{by:?}: it does not run");
        }
        match by {
            By::Timeout => {}
            By::Stop => running.stop(Duration::from_millis(100)),
            By::Sweep | By::SweepAfterwards => running.sweep(),
            By::End => {
                drop(running);
                drop(pool);
                gone(&program, by).await;
                continue;
            }
            By::Loss => {
                let supervisor = super::tests::supervisor_of(running.pid());
                sys::kill(supervisor, libc::SIGKILL);
            }
        }
        let ending = Instant::now();
        let survivors = loop {
            let event = tokio::time::timeout(PATIENCE, running.event(None)).await;
            match event.expect("the supervisor says something") {
                Some(Event::Exited { .. }) => {}
                Some(Event::Swept { survivors, .. } | Event::Lost { survivors, .. }) => {
                    break survivors;
                }
                other => panic!("{by:?}: {other:?}"),
            }
        };
        let took = ending.elapsed();
        assert_eq!(
            survivors.count, 0,
            "{by:?} of {rings} {successors} in {took:?}"
        );
        assert_eq!(marked(&program), Vec::<i32>::new(), "{by:?}");
    }
}

/// Waits until nothing runs that was started from this file, for good.
async fn gone(program: &str, by: By) {
    let begun = Instant::now();
    let mut looks = 0;
    while looks < 20 {
        assert!(begun.elapsed() < PATIENCE, "{by:?}: it outlived it");
        tokio::time::sleep(Duration::from_millis(5)).await;
        looks = match marked(program).is_empty() {
            true => looks + 1,
            false => 0,
        };
    }
}

#[tokio::test]
async fn a_ring_ends_at_its_timeout() {
    ended_by(By::Timeout, 1_879_048_001).await;
}

#[tokio::test]
async fn a_ring_that_is_stopped_or_cancelled_ends() {
    ended_by(By::Stop, 1_879_048_002).await;
}

#[tokio::test]
async fn a_ring_is_swept() {
    ended_by(By::Sweep, 1_879_048_003).await;
}

#[tokio::test]
async fn a_ring_that_was_left_behind_is_swept() {
    ended_by(By::SweepAfterwards, 1_879_048_004).await;
}

#[tokio::test]
async fn a_ring_ends_with_whoever_started_it() {
    ended_by(By::End, 1_879_048_005).await;
}

#[tokio::test]
async fn a_ring_whose_supervisor_is_killed_ends() {
    ended_by(By::Loss, 1_879_048_006).await;
}

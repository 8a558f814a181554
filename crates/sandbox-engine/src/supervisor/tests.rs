//! Supervisors with real processes, below pipes and output.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::*;

fn text(text: &str) -> Cow<'static, CStr> {
    Cow::Owned(CString::new(text).expect("no NUL"))
}

pub(super) struct Place {
    directory: File,
    null: File,
}

impl Place {
    pub(super) fn new() -> Self {
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .expect("/dev/null");
        Place {
            directory: File::open("/tmp").expect("/tmp"),
            null,
        }
    }

    pub(super) fn launch(&self, argv: &[&str]) -> Launch<'_> {
        Launch {
            candidates: vec![text(argv[0])],
            argv: argv.iter().map(|argument| text(argument)).collect(),
            env: vec![text("PATH=/usr/bin:/bin")],
            limits: Vec::new(),
            terminal: Terminal::None,
            privileges: Privileges::Inherited,
            directory: self.directory.as_fd(),
            streams: [self.null.as_fd(), self.null.as_fd(), self.null.as_fd()],
            timeout: None,
            grace: Duration::from_millis(200),
            announce: Announce::Now,
        }
    }
}

pub(super) fn pool() -> Pool {
    Pool::new(PoolOptions::default()).expect("a pool")
}

async fn run(pool: &Pool, argv: &[&str]) -> Running {
    pool.run(&Place::new().launch(argv))
        .await
        .expect("the program starts")
}

async fn next(running: &mut Running) -> Event {
    tokio::time::timeout(Duration::from_secs(20), running.event(None))
        .await
        .expect("the supervisor says something")
        .expect("there is another event")
}

/// Whether a process of this number runs. One that has ended and was not reaped does not.
fn runs(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    !stat
        .rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('Z'))
}

/// Processes whose command line contains this marker.
pub(super) fn marked(marker: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(marker) && runs(*pid)
        })
        .collect()
}

pub(super) fn supervisor_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let rest = stat.rsplit(") ").next().expect("fields");
    rest.split(' ')
        .nth(1)
        .expect("a parent")
        .parse()
        .expect("a number")
}

#[tokio::test]
async fn a_command_that_leaves_nothing_is_one_event() {
    let pool = pool();
    let mut running = run(&pool, &["/bin/sh", "-c", "exit 7"]).await;
    let Event::Exited {
        status,
        timed_out,
        alone,
        ..
    } = next(&mut running).await
    else {
        panic!("it did not exit")
    };
    assert_eq!(
        (libc::WEXITSTATUS(status), timed_out, alone),
        (7, false, true)
    );
    assert!(running.event(None).await.is_none());
}

#[tokio::test]
async fn a_supervisor_that_is_clean_serves_again() {
    let pool = pool();
    let mut supervisors = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let mut running = run(&pool, &["/bin/sleep", "0.2"]).await;
        supervisors.insert(supervisor_of(running.pid()));
        next(&mut running).await;
    }
    assert!(
        supervisors.len() <= 2,
        "{supervisors:?} served ten commands in a row"
    );
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_is_the_kernels_reason() {
    let pool = pool();
    for (program, errno) in [
        ("/nowhere/at/all", libc::ENOENT),
        ("/etc/passwd/x", libc::ENOENT),
        ("/etc/passwd", libc::EACCES),
        ("/tmp", libc::EACCES),
    ] {
        let place = Place::new();
        let Err(LaunchError::Start { stage, error }) = pool.run(&place.launch(&[program])).await
        else {
            panic!("{program} was started")
        };
        assert_eq!(
            (stage, error.raw_os_error()),
            (Stage::Exec, Some(errno)),
            "{program}"
        );
    }
}

/// A program must find the signals as a shell would have left them, whatever this process ignores.
#[tokio::test]
async fn a_program_starts_with_no_signal_blocked_or_ignored() {
    let pool = pool();
    let script =
        "grep -E 'Sig(Blk|Ign)' /proc/self/status | grep -v '0000000000000000' && exit 1; exit 0";
    let mut running = run(&pool, &["/bin/sh", "-c", script]).await;
    let Event::Exited { status, .. } = next(&mut running).await else {
        panic!("no exit")
    };
    assert_eq!(status, 0);
}

#[tokio::test]
async fn a_program_gets_three_descriptors_and_no_more() {
    let pool = pool();
    let script = "test \"$(ls /proc/self/fd | tr '\\n' ' ')\" = '0 1 2 3 '";
    let mut running = run(&pool, &["/bin/sh", "-c", script]).await;
    let Event::Exited { status, .. } = next(&mut running).await else {
        panic!("no exit")
    };
    assert_eq!(status, 0, "3 is the directory that ls itself reads");
}

/// The report class: a daemon leaves session and group, its parents end, and it runs for days.
#[tokio::test]
async fn a_daemon_that_left_its_session_is_swept() {
    let pool = pool();
    let script = "setsid sh -c 'setsid sleep 7471 & exec sleep 7472' & sleep 0.2";
    let mut running = run(&pool, &["/bin/sh", "-c", script]).await;
    let Event::Exited { alone, .. } = next(&mut running).await else {
        panic!("no exit")
    };
    assert!(!alone);
    assert_eq!(marked("sleep\u{0}747").len(), 2);
    running.sweep();
    let Event::Swept {
        killed, survivors, ..
    } = next(&mut running).await
    else {
        panic!("no sweep")
    };
    assert_eq!((killed, survivors.count), (2, 0));
    assert_eq!(marked("sleep\u{0}747"), Vec::<i32>::new());
}

#[tokio::test]
async fn a_timeout_is_kept_by_the_supervisor_and_ends_what_ignores_it() {
    let pool = pool();
    let place = Place::new();
    let mut launch = place.launch(&[
        "/bin/sh",
        "-c",
        "trap '' TERM; sleep 7480 & while :; do sleep 7481; done",
    ]);
    launch.timeout = Some(Duration::from_millis(150));
    let mut running = pool.run(&launch).await.expect("starts");
    let begun = Instant::now();
    let Event::Exited {
        status, timed_out, ..
    } = next(&mut running).await
    else {
        panic!("no exit")
    };
    assert_eq!((libc::WTERMSIG(status), timed_out), (libc::SIGKILL, true));
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "no grace was given"
    );
    let Event::Swept { survivors, .. } = next(&mut running).await else {
        panic!("no sweep")
    };
    assert_eq!(survivors.count, 0);
    assert_eq!(marked("sleep\u{0}748"), Vec::<i32>::new());
}

#[tokio::test]
async fn what_is_left_is_named_and_swept_later() {
    let pool = pool();
    let mut running = run(&pool, &["/bin/sh", "-c", "sleep 7490 & exit 0"]).await;
    next(&mut running).await;
    while marked("sleep\u{0}7490").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.leave();
    let Event::Swept {
        killed, survivors, ..
    } = next(&mut running).await
    else {
        panic!("no answer")
    };
    assert_eq!((killed, survivors.count), (0, 1));
    assert_eq!(
        survivors.pids().collect::<Vec<_>>(),
        marked("sleep\u{0}7490")
    );
    running.sweep();
    let Event::Swept {
        killed, survivors, ..
    } = next(&mut running).await
    else {
        panic!("no answer")
    };
    assert_eq!((killed, survivors.count), (1, 0));
}

#[tokio::test]
async fn dropping_a_run_kills_its_tree() {
    let pool = pool();
    let running = run(&pool, &["/bin/sh", "-c", "setsid sleep 7500 & sleep 7501"]).await;
    while marked("sleep\u{0}750").len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(running);
    let begun = Instant::now();
    while !marked("sleep\u{0}750").is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "the tree outlived its handle"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A command of the same user may kill its supervisor. It must not get free that way.
#[tokio::test]
async fn a_supervisor_killed_by_its_guest_takes_the_tree_along() {
    let pool = pool();
    let script = "setsid sleep 7510 & sleep 0.1; kill -9 $PPID; sleep 7511";
    let mut running = run(&pool, &["/bin/sh", "-c", script]).await;
    let Event::Lost { killed, survivors } = next(&mut running).await else {
        panic!("not lost")
    };
    assert!(killed >= 1);
    assert_eq!(survivors.count, 0);
    assert_eq!(marked("sleep\u{0}751"), Vec::<i32>::new());
    let mut again = run(&pool, &["/bin/true"]).await;
    assert!(matches!(
        next(&mut again).await,
        Event::Exited {
            status: 0,
            alone: true,
            ..
        }
    ));
}

#[tokio::test]
async fn a_stopped_supervisor_is_woken_when_something_must_end() {
    let pool = pool();
    let mut running = run(&pool, &["/bin/sh", "-c", "kill -STOP $PPID; sleep 7520"]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.stop(Duration::ZERO);
    let event = running.event(Some(tokio::time::Instant::now())).await;
    assert!(matches!(event, Some(Event::Exited { .. })), "{event:?}");
    let event = running.event(Some(tokio::time::Instant::now())).await;
    assert!(matches!(event, Some(Event::Swept { .. })), "{event:?}");
    assert_eq!(marked("sleep\u{0}7520"), Vec::<i32>::new());
}

#[tokio::test]
async fn an_idle_supervisor_that_was_killed_is_replaced_unnoticed() {
    let pool = pool();
    let mut running = run(&pool, &["/bin/sleep", "0.05"]).await;
    let supervisor = supervisor_of(running.pid());
    next(&mut running).await;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(supervisor).expect("a number"),
        rustix::process::Signal::KILL,
    )
    .expect("it is ours");
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..4 {
        let mut running = run(&pool, &["/bin/true"]).await;
        assert!(matches!(
            next(&mut running).await,
            Event::Exited { status: 0, .. }
        ));
    }
}

#[tokio::test]
async fn a_tree_that_forks_all_the_time_is_swept() {
    let pool = pool();
    // Each link starts the next one and ends: at any moment the chain is somewhere else.
    let script = "f() { sh -c 'marker=7530; i=0; while [ $i -lt 3000 ]; do (sleep 0.001 &) ; i=$((i+1)); done' & }; f; f; f; exit 0";
    let mut running = run(&pool, &["/bin/sh", "-c", script]).await;
    next(&mut running).await;
    running.sweep();
    let Event::Swept { survivors, .. } = next(&mut running).await else {
        panic!("no sweep")
    };
    assert_eq!(survivors.count, 0);
    assert_eq!(marked("marker=7530"), Vec::<i32>::new());
}

#[tokio::test]
async fn limits_and_the_bar_on_privileges_reach_the_program() {
    let pool = pool();
    let place = Place::new();
    let mut launch = place.launch(&[
        "/bin/sh",
        "-c",
        "test $(ulimit -n) = 99 && grep -q 'NoNewPrivs:.*1' /proc/self/status",
    ]);
    launch.limits = vec![RlimitSpec {
        resource: 7,
        soft: 99,
        hard: 99,
    }];
    launch.privileges = Privileges::NoNew;
    let mut running = pool.run(&launch).await.expect("starts");
    assert!(matches!(
        next(&mut running).await,
        Event::Exited { status: 0, .. }
    ));
}

/// The leader that waits for the next run of this supervisor.
async fn waiting_leader(supervisor: i32) -> i32 {
    let begun = Instant::now();
    loop {
        let mut leader = None;
        tree::Table::open().each(|stat| {
            if stat.parent == supervisor && !stat.zombie {
                leader = Some(stat.pid);
            }
        });
        if let Some(leader) = leader {
            return leader;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "none is made");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A pool whose one supervisor has served and is ready again, its number, and its leader's.
async fn served() -> (Pool, i32, i32) {
    let pool = pool();
    let mut running = run(&pool, &["/bin/sleep", "0.3"]).await;
    let supervisor = supervisor_of(running.pid());
    next(&mut running).await;
    (pool, supervisor, waiting_leader(supervisor).await)
}

async fn ends_well(pool: &Pool, argv: &[&str]) {
    let mut running = run(pool, argv).await;
    let event = next(&mut running).await;
    assert!(
        matches!(
            event,
            Event::Exited {
                status: 0,
                alone: true,
                ..
            }
        ),
        "{event:?}"
    );
}

/// Whoever signals "everything of mine" signals the process that waits to be the next program, too.
#[tokio::test]
async fn a_leader_that_was_killed_or_stopped_while_it_waited_is_not_noticed() {
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        let (pool, supervisor, leader) = served().await;
        sys::kill(leader, signal);
        for _ in 0..4 {
            let mut running = run(&pool, &["/bin/sleep", "0.1"]).await;
            assert_eq!(supervisor_of(running.pid()), supervisor);
            let event = next(&mut running).await;
            assert!(
                matches!(event, Event::Exited { status: 0, .. }),
                "{event:?}"
            );
        }
    }
}

/// A run that is gone with its leader was not executed, and nobody waits for ever to hear of it.
#[tokio::test]
async fn a_leader_that_is_killed_with_its_run_in_hand_is_told_at_once() {
    let (pool, _, leader) = served().await;
    let (ready, traced) = std::sync::mpsc::channel();
    let killer = std::thread::spawn(move || ptrace::kill_behind_receiving(leader, &ready));
    if traced.recv().is_err() {
        // Only the superuser may look into a process that is not dumpable.
        assert!(!rustix::process::geteuid().is_root(), "it cannot be traced");
        return;
    }
    let begun = Instant::now();
    let Err(LaunchError::Start { stage, error }) =
        pool.run(&Place::new().launch(&["/bin/true"])).await
    else {
        panic!("it was started, or lost")
    };
    assert_eq!(
        (stage, error.raw_os_error()),
        (Stage::Accept, Some(libc::EINTR))
    );
    assert!(
        begun.elapsed() < Duration::from_millis(900),
        "{:?}",
        begun.elapsed()
    );
    killer.join().expect("it does not panic");
    for _ in 0..3 {
        ends_well(&pool, &["/bin/true"]).await;
    }
}

#[tokio::test]
async fn a_signal_that_came_before_a_program_does_not_end_it() {
    let (pool, _, leader) = served().await;
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, 40] {
        sys::kill(leader, signal);
    }
    ends_well(&pool, &["/bin/true"]).await;
}

#[tokio::test]
async fn what_is_asked_before_a_run_has_begun_is_done_once_it_has() {
    let pool = pool();
    let place = Place::new();
    let mut launch = place.launch(&["/bin/sleep", "7540"]);
    launch.announce = Announce::Later;
    for _ in 0..20 {
        let mut running = pool.run(&launch).await.expect("asked for");
        running.stop(Duration::from_secs(60));
        let event = next(&mut running).await;
        let Event::Exited { status, .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!(libc::WTERMSIG(status), libc::SIGTERM);
        next(&mut running).await;
    }
    assert_eq!(marked("sleep\u{0}7540"), Vec::<i32>::new());
}

#[tokio::test]
async fn what_was_asked_about_a_run_is_not_done_to_the_next() {
    let pool = pool();
    for _ in 0..10 {
        let mut running = run(&pool, &["/bin/sleep", "0.05"]).await;
        // Let it end unseen, so that the requests come too late.
        tokio::time::sleep(Duration::from_millis(100)).await;
        running.stop(Duration::ZERO);
        running.sweep();
        next(&mut running).await;
        ends_well(&pool, &["/bin/sleep", "0.1"]).await;
    }
}

#[tokio::test]
async fn a_long_image_is_executed_and_leaves_nothing_in_the_supervisor() {
    let pool = pool();
    let place = Place::new();
    let long = "x".repeat(100_000);
    let script = "test ${#LONG} = 100000 && exec sleep 0.1";
    let mut supervisor = 0;
    for _ in 0..4 {
        let mut launch = place.launch(&["/bin/sh", "-c", script]);
        launch.env.push(text(&format!("LONG={long}")));
        let mut running = pool.run(&launch).await.expect("starts");
        supervisor = supervisor_of(running.pid());
        let event = next(&mut running).await;
        assert!(
            matches!(event, Event::Exited { status: 0, .. }),
            "{event:?}"
        );
    }
    waiting_leader(supervisor).await;
    // Only the superuser may look into a process that is not dumpable.
    if let Ok(maps) = std::fs::read_to_string(format!("/proc/{supervisor}/maps")) {
        assert!(!maps.contains("memfd:run"), "{maps}");
    }
}

#[tokio::test]
async fn a_leader_that_waits_ends_with_its_pool_and_with_its_supervisor() {
    let (pool, _, leader) = served().await;
    drop(pool);
    gone(leader).await;
    let (_pool, supervisor, leader) = served().await;
    sys::kill(supervisor, libc::SIGKILL);
    gone(leader).await;
}

async fn gone(pid: i32) {
    let begun = Instant::now();
    while runs(pid) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{pid} still runs"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

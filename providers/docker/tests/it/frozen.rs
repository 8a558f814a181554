//! What stays open when nobody is left: a container that is paused, a provider or a daemon that was stopped or killed. Either
//! side notices by itself, and nothing is left.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Disposition, ErrorKind, Sandbox, SandboxExt as _, SandboxId};
use sandbox_host::{Host, OpenRequest, Opened};

use super::daemon::Daemon;
use super::support::{IMAGE, Scratch, containers, docker, is_root, sh, told, until};

/// How long nothing may be heard.
const LEASE: Duration = Duration::from_secs(3);
/// How long after that everything may take, on a busy machine.
const SOON: Duration = Duration::from_secs(15);

async fn leased(scratch: &Scratch, host: &Host, id: &SandboxId) -> Opened {
    let request = OpenRequest {
        id: Some(id.clone()),
        lease: Some(LEASE),
        ..scratch.request()
    };
    let opened = host.open(&Ctx::new(), None, request).await;
    opened.unwrap_or_else(|error| panic!("{}", told(&error)))
}

fn id(name: &str) -> SandboxId {
    SandboxId::new(format!("{name}-{}", std::process::id())).expect("valid")
}

/// What becomes of a command that would run for ever while something is done.
async fn runs_while(sandbox: &dyn Sandbox, act: impl FnOnce()) -> (ErrorKind, String, Duration) {
    let ctx = Ctx::new();
    let sleeping = sandbox.run(&ctx, ProcessSpec::new(["sleep", "1000"]));
    let acting = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        act();
        Instant::now()
    };
    let (outcome, acted) = tokio::join!(sleeping, acting);
    let error = outcome.expect_err("nobody is left to answer");
    (error.kind(), error.to_string(), acted.elapsed())
}

/// The options that name this daemon and how its engines are reached.
fn options(daemon: &Daemon, channel: &str) -> String {
    let address = daemon.address();
    format!("image = '{IMAGE}'\nhost = '{address}'\nchannel = '{channel}'\n")
}

fn is_there(pid: u32) -> bool {
    Path::new("/proc")
        .join(pid.to_string())
        .join("root")
        .exists()
}

/// The process that made a container.
fn maker(container: &str) -> Pid {
    let owner = docker(&[
        "inspect",
        "--format={{index .Config.Labels \"spp.owner\"}}",
        container,
    ]);
    let mut parts = owner.rsplit('/');
    let pid = parts.nth(1).and_then(|pid| pid.parse().ok());
    pid.and_then(Pid::from_raw).expect("its label names it")
}

#[tokio::test]
async fn a_container_that_is_paused_is_lost_within_its_lease_and_removed() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let id = id("paused");
    let opened = leased(&scratch, &host, &id).await;
    let [container] = &*containers(&id) else {
        panic!("one container")
    };
    let pause = || drop(docker(&["pause", container]));
    let (kind, error, after) = runs_while(&*opened.sandbox, pause).await;
    assert_eq!(kind, ErrorKind::Lost, "{error}");
    assert!(error.contains("no sign of life"), "{error}");
    assert!(after < LEASE + SOON, "{after:?}");
    // Nobody has to ask for that.
    until("the end of the container", || containers(&id).is_empty()).await;
    let again = leased(&scratch, &host, &id).await;
    assert_eq!(sh(&*again.sandbox, "echo up").await, "up\n");
    again
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    assert!(containers(&id).is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn one_that_is_paused_for_less_goes_on_and_an_idle_one_lives() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let id = id("napping");
    let opened = leased(&scratch, &host, &id).await;
    let [container] = &*containers(&id) else {
        panic!("one container")
    };
    docker(&["pause", container]);
    tokio::time::sleep(LEASE / 3).await;
    docker(&["unpause", container]);
    // Nothing is asked of it for longer than its lease.
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(sh(&*opened.sandbox, "echo up").await, "up\n");
    opened
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    host.shutdown().await;
}

#[tokio::test]
async fn a_provider_that_is_stopped_is_told_to_the_host_and_its_container_ends_by_itself() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let id = id("stopped-provider");
    let opened = leased(&scratch, &host, &id).await;
    sh(&*opened.sandbox, "(setsid sleep 1000 &)").await;
    let [container] = &*containers(&id) else {
        panic!("one container")
    };
    let provider = maker(container);
    let stop = || kill_process(provider, Signal::STOP).expect("it is there");
    let (kind, error, after) = runs_while(&*opened.sandbox, stop).await;
    assert!(
        matches!(kind, ErrorKind::Disconnected | ErrorKind::Lost),
        "{error}"
    );
    assert!(after < LEASE + SOON, "{after:?}");
    until("the end of the container", || containers(&id).is_empty()).await;
    host.kill().await;
    // Whoever supervises it may have been quicker.
    let _ = kill_process(provider, Signal::KILL);
}

#[tokio::test]
async fn a_daemon_that_is_killed_loses_what_is_attached_to_it_and_that_ends_without_it() {
    if !is_root() {
        // Nobody else may start a daemon.
        return;
    }
    let scratch = Scratch::new();
    let mut daemon = Daemon::start("killed");
    let host = scratch.host(&options(&daemon, "attached"));
    let id = id("dead-daemon");
    let opened = leased(&scratch, &host, &id).await;
    let first = daemon.first();
    let (kind, error, after) = runs_while(&*opened.sandbox, || daemon.end(Signal::KILL)).await;
    assert_eq!(kind, ErrorKind::Lost, "{error}");
    assert!(after < LEASE + SOON, "{after:?}");
    until("the end of what was in it", || !is_there(first)).await;
    // It cannot be asked, which is said at once.
    let asked = Instant::now();
    let request = scratch.request();
    let refused = host
        .open(&Ctx::new(), None, request)
        .await
        .err()
        .expect("there is no daemon");
    assert!(
        told(&refused).contains("start the daemon"),
        "{}",
        told(&refused)
    );
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    daemon.again();
    until("the end of the container", || {
        daemon.containers().is_empty()
    })
    .await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_is_not_missed_until_it_is_to_be_asked() {
    if !is_root() {
        // Nobody else may start a daemon.
        return;
    }
    let scratch = Scratch::new();
    let mut daemon = Daemon::start("missed");
    let host = scratch.host(&options(&daemon, "socket"));
    let opened = leased(&scratch, &host, &id("missed-daemon")).await;
    let first = daemon.first();
    daemon.end(Signal::KILL);
    // Nothing that is said passes it.
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(sh(&*opened.sandbox, "echo up").await, "up\n");
    let released = opened.release(&Ctx::new(), Disposition::Destroy).await;
    let error = released.expect_err("nobody answers");
    assert!(error.to_string().contains("may be left"), "{error}");
    assert!(
        !is_there(first),
        "a release ends what runs, whoever answers"
    );
    daemon.again();
    until("the end of the container", || {
        daemon.containers().is_empty()
    })
    .await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_daemon_that_is_stopped_is_waited_for_no_longer_than_a_lease() {
    if !is_root() {
        // Nobody else may start a daemon.
        return;
    }
    let scratch = Scratch::new();
    let daemon = Daemon::start("stopped");
    let host = scratch.host(&options(&daemon, "attached"));
    let id = id("stopped-daemon");
    let opened = leased(&scratch, &host, &id).await;
    let first = daemon.first();
    let (kind, error, after) = runs_while(&*opened.sandbox, || daemon.signal(Signal::STOP)).await;
    assert_eq!(kind, ErrorKind::Lost, "{error}");
    assert!(after < LEASE + SOON, "{after:?}");
    until("the end of what was in it", || !is_there(first)).await;
    // What cannot be done is said, and in bounded time.
    let asked = Instant::now();
    let released = opened.release(&Ctx::new(), Disposition::Destroy).await;
    let error = released.expect_err("nobody answers");
    assert!(error.to_string().contains("may be left"), "{error}");
    assert!(
        asked.elapsed() < Duration::from_secs(45),
        "{:?}",
        asked.elapsed()
    );
    daemon.signal(Signal::CONT);
    until("the end of the container", || {
        daemon.containers().is_empty()
    })
    .await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_daemon_that_is_restarted_loses_its_sandboxes_and_takes_new_ones() {
    if !is_root() {
        // Nobody else may start a daemon.
        return;
    }
    let scratch = Scratch::new();
    let mut daemon = Daemon::start("restarted");
    let host = scratch.host(&options(&daemon, "auto"));
    let id = id("restarted-daemon");
    let opened = leased(&scratch, &host, &id).await;
    let (kind, error, after) = runs_while(&*opened.sandbox, || daemon.end(Signal::TERM)).await;
    assert_eq!(kind, ErrorKind::Lost, "{error}");
    assert!(after < LEASE + SOON, "{after:?}");
    daemon.again();
    until("the end of the container", || {
        daemon.containers().is_empty()
    })
    .await;
    let again = leased(&scratch, &host, &id).await;
    // What it was made of can be removed under it.
    let _ = daemon.ask(&["image", "rm", "--force", IMAGE]);
    assert_eq!(sh(&*again.sandbox, "echo up").await, "up\n");
    again
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    assert!(daemon.containers().is_empty());
    host.shutdown().await;
}

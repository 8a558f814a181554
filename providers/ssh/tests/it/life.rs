//! How a sandbox ends: nothing of it is left over there, whoever ended it, and it is told at once.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Disposition, ErrorKind, SandboxExt as _, SandboxId};
use sandbox_host::{Host, OpenRequest, Opened};

use super::support::{Scratch, config, processes, sh, until};

/// How long an engine goes on without a sign of life.
const LEASE: Duration = Duration::from_secs(20);

/// A sandbox whose processes on either side can be told from all others.
struct Life {
    scratch: Scratch,
    name: String,
    host: Host,
}

impl Life {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(scratch.path(), everybody).expect("it is ours");
        let included = scratch.path().join("ssh_config");
        std::fs::write(&included, format!("Include {}\n", config())).expect("a file");
        let options = format!(
            "host = 'spp-user'\nroot = '~'\nconfig = '{}'\ncache = '{}'\n",
            included.display(),
            scratch.path().join("engines").display()
        );
        let host = scratch.host_by(&super::support::provider(), &options);
        Self {
            scratch,
            name: format!("{name}-{}", std::process::id()),
            host,
        }
    }

    async fn open(&self) -> Opened {
        let request = OpenRequest {
            id: Some(SandboxId::new(self.name.clone()).expect("valid")),
            ..OpenRequest::default()
        };
        self.host
            .open(&Ctx::new(), None, request)
            .await
            .expect("it opens")
    }

    fn at(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    /// The program that holds the connection.
    fn client(&self) -> i32 {
        let found = processes(&self.at("ssh_config"));
        *found.first().expect("a client")
    }

    /// What of it is over there: the engine and the processes that it makes.
    fn engines(&self) -> Vec<i32> {
        processes(&self.at("engines"))
    }

    /// The engine itself.
    fn engine(&self) -> i32 {
        let all = self.engines();
        let is_first = |pid: &&i32| !all.contains(&parent(**pid));
        *all.iter().find(is_first).expect("an engine")
    }

    /// Something that does what it can to stay.
    fn stays(&self) -> String {
        format!(
            "(setsid sh -c 'trap \"\" HUP TERM; : {}; sleep 1000; :' &)",
            self.name
        )
    }

    async fn nothing_is_left(&self, way: &str) -> Duration {
        until(&format!("{way}: the end of everything"), || {
            self.engines().is_empty()
                && processes(&self.name).is_empty()
                && processes(&self.at("ssh_config")).is_empty()
        })
        .await
    }
}

fn parent(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent
        .and_then(|parent| parent.trim().parse().ok())
        .unwrap_or(0)
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a process"), signal).expect("it is there");
}

#[tokio::test]
async fn a_release_is_not_answered_before_what_was_started_is_gone() {
    let life = Life::new("released");
    let opened = life.open().await;
    sh(&*opened.sandbox, &life.stays()).await;
    assert_eq!(life.engine(), *life.engines().first().expect("it runs"));
    let receipt = opened
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    assert!(receipt.existed);
    assert!(processes(&life.name).is_empty(), "what was started is gone");
    // Those that were there to start more see that nobody will ask them to.
    life.nothing_is_left("released").await;
    life.host.shutdown().await;
}

#[tokio::test]
async fn a_provider_that_is_killed_leaves_nothing() {
    let life = Life::new("orphan");
    let opened = life.open().await;
    let spec = ProcessSpec::new(["sh", "-c", &format!("{}; sleep 1000", life.stays())]);
    let sandbox = opened.sandbox.clone();
    let running = tokio::spawn(async move { sandbox.run(&Ctx::new(), spec).await });
    until("the command", || processes(&life.name).len() > 1).await;
    life.host.kill().await;
    life.nothing_is_left("killed").await;
    assert!(running.await.expect("it ends").is_err());
}

#[tokio::test]
async fn whatever_ends_a_connection_it_is_lost_at_once_and_its_id_can_be_had_again() {
    let life = Life::new("lost");
    for way in ["client", "engine", "server"] {
        let opened = life.open().await;
        let first = opened.sandbox.descriptor().generation;
        let spec = ProcessSpec::new(["sh", "-c", &format!("{}; sleep 1000", life.stays())]);
        let ctx = Ctx::new();
        let sleeping = opened.sandbox.run(&ctx, spec);
        let end = async {
            until("the command", || processes(&life.name).len() > 1).await;
            signal(
                match way {
                    "client" => life.client(),
                    "engine" => life.engine(),
                    _ => parent(life.engine()),
                },
                Signal::KILL,
            );
            Instant::now()
        };
        let (outcome, ended) = tokio::join!(sleeping, end);
        let error = outcome.expect_err("nobody is left to answer");
        assert_eq!(error.kind(), ErrorKind::Lost, "{way}: {error}");
        assert!(
            ended.elapsed() < Duration::from_secs(10),
            "{way}: {:?}",
            ended.elapsed()
        );
        life.nothing_is_left(way).await;
        let again = life.open().await;
        assert_ne!(
            again.sandbox.descriptor().generation,
            first,
            "{way}: another life"
        );
        assert_eq!(sh(&*again.sandbox, "echo up").await, "up\n");
        again
            .release(&Ctx::new(), Disposition::Destroy)
            .await
            .expect("it ends");
    }
    life.host.shutdown().await;
}

#[tokio::test]
async fn a_connection_that_drops_everything_is_lost_within_20_s_and_leaves_nothing_over_there() {
    let life = Life::new("frozen");
    let opened = life.open().await;
    let session = parent(life.engine());
    let ctx = Ctx::new();
    let spec = ProcessSpec::new(["sh", "-c", &format!("{}; sleep 1000", life.stays())]);
    let sleeping = opened.sandbox.run(&ctx, spec);
    let freeze = async {
        until("the command", || processes(&life.name).len() > 1).await;
        signal(session, Signal::STOP);
        Instant::now()
    };
    let (outcome, frozen) = tokio::join!(sleeping, freeze);
    let error = outcome.expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains("not responding"), "{error}");
    assert!(
        frozen.elapsed() < Duration::from_secs(20),
        "{:?}",
        frozen.elapsed()
    );
    // Over there nobody has heard anything since, and nobody says that the connection ended.
    let left = until("the end of what runs over there", || {
        life.engines().is_empty() && processes(&life.name).is_empty()
    });
    left.await;
    let since = frozen.elapsed();
    assert!(since < LEASE + Duration::from_secs(5), "{since:?}");
    signal(session, Signal::CONT);
    life.nothing_is_left("frozen").await;
    life.host.shutdown().await;
}

#[tokio::test]
async fn a_command_over_there_does_not_wait_for_what_it_left_in_the_background() {
    let life = Life::new("background");
    let opened = life.open().await;
    let started = Instant::now();
    assert_eq!(
        sh(&*opened.sandbox, "setsid sleep 300 & echo ok").await,
        "ok\n"
    );
    assert!(started.elapsed() < Duration::from_secs(10));
    opened
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("it ends");
    life.host.shutdown().await;
}

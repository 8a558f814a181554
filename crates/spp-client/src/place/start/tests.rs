//! Who comes through a door, and who does not.

use std::os::unix::net::UnixStream as StdUnixStream;

use async_trait::async_trait;

use super::*;

/// Whoever is said to have started a place, and would let anybody in.
struct Starter;

#[async_trait]
impl Outside for Starter {
    async fn is_first(&self, _pid: u32) -> bool {
        true
    }

    async fn is_running(&self) -> bool {
        true
    }

    async fn kill(&self) {}
}

/// What comes of a start by this script, with somebody who connects as soon as there is a door.
async fn started(script: &str, name: &str, connects: bool) -> DialFault {
    let directory = std::env::temp_dir().join(format!("spp-dialled-{name}-{}", std::process::id()));
    let door = Door::open(directory.clone()).expect("a door");
    let _stranger = connects.then(|| StdUnixStream::connect(door.socket()).expect("it listens"));
    #[expect(
        clippy::disallowed_methods,
        reason = "started by the one door for places, `Spawner`"
    )]
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    let options = PlaceOptions {
        provider: "test".into(),
        version: "1".into(),
        capabilities: Capabilities::mandatory(),
        start_timeout: Duration::from_secs(30),
        ahead: Vec::new(),
        why: None,
    };
    let spawner = Spawner::new().expect("a thread");
    let ctx = Ctx::new();
    let placed = Placed::dialled(&ctx, &spawner, command, door, Arc::new(Starter), options);
    let fault = placed.await.expect_err("there is no engine");
    assert!(!directory.exists(), "the door was left");
    fault
}

#[tokio::test]
async fn a_stranger_is_refused_by_number_and_given_nothing() {
    let fault = started("sleep 100", "stranger", true).await;
    let DialFault::Start(StartFault::Handshake { error, .. }) = fault else {
        panic!("{fault:?}");
    };
    assert_eq!(error.kind(), ErrorKind::ProviderUnavailable);
    let own = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&own), "{error}");
}

#[tokio::test]
async fn a_start_that_fails_says_what_was_said() {
    let fault = started("echo no such thing >&2; exit 3", "ended", false).await;
    let DialFault::Start(StartFault::Ended { status, words }) = fault else {
        panic!("{fault:?}");
    };
    assert_eq!((status.code(), &*words), (Some(3), "no such thing"));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_runs_and_does_not_connect_is_not_waited_for_long() {
    let fault = started("sleep 100", "silent", false).await;
    let DialFault::NotReached(why) = fault else {
        panic!("{fault:?}");
    };
    assert!(why.contains("within 5 s"), "{why}");
}

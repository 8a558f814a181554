//! The life of a provider after the handshake: how it ends, who is told, and what comes next.

use std::time::Duration;

use sandbox_core::file::ReadRequest;
use sandbox_core::{Ctx, Disposition, Error, ErrorKind, SandboxPath};
use sandbox_host::Opened;
use tokio::time::timeout;

use crate::fixture::{Fixture, LIMIT, eventually, open, runs};

/// Sends a request that a fixture gives to its function `other`.
async fn call(opened: &Opened) -> Result<(), Error> {
    let path = SandboxPath::parse("file").expect("a good path");
    timeout(
        LIMIT,
        opened.sandbox.read(&Ctx::new(), ReadRequest::new(path)),
    )
    .await
    .expect("the call was never answered")
    .map(|_| ())
}

#[tokio::test]
async fn a_provider_that_dies_in_a_call_fails_it_with_its_status_and_last_words() {
    let fixture = Fixture::new("other() { echo 'out of luck' >&2; exit 7; }\nserve");
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    let error = call(&opened).await.expect_err("nobody answered");
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("exited with 7") && text.contains("out of luck"),
        "{text}"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn a_dead_provider_fails_calls_even_while_a_grandchild_holds_its_output() {
    // Out of its group, or the end of the group would end it too.
    let fixture = Fixture::new(
        "other() {
            setsid sh -c 'echo $$ > \"$0\"; exec sleep 1000' \"$DIR/grandchild\" &
            until [ -s \"$DIR/grandchild\" ]; do sleep 0.01; done
            exit 7
        }
        serve",
    );
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    let error = call(&opened).await.expect_err("nobody answered");
    let grandchild = fixture.pids("grandchild")[0];
    let survived = runs(grandchild);
    // Killed before anything can fail, so that it is not left behind.
    let _ = rustix::process::kill_process(grandchild, rustix::process::Signal::KILL);
    assert!(survived, "the fixture lost its grandchild");
    assert!(error.to_string().contains("exited with 7"), "{error}");
    host.shutdown().await;
}

#[tokio::test]
async fn what_a_dead_provider_leaves_in_its_group_is_killed() {
    let fixture =
        Fixture::new("other() { sleep 1000 & echo $! > \"$DIR/grandchild\"; exit 7; }\nserve");
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    call(&opened).await.expect_err("nobody answered");
    host.shutdown().await;
    let grandchild = fixture.pids("grandchild")[0];
    eventually("the grandchild is gone", || !runs(grandchild)).await;
}

#[tokio::test]
async fn a_provider_that_closes_its_output_and_lives_on_is_ended() {
    let fixture = Fixture::new("other() { exec >&-; sleep 1000; }\nserve");
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    let error = call(&opened).await.expect_err("nobody can answer");
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
    host.shutdown().await;
    assert!(!runs(fixture.pids("pids")[0]));
}

#[tokio::test]
async fn a_provider_that_closed_its_output_is_not_used_again() {
    let fixture = Fixture::new("other() { exec >&-; sleep 1000; }\nserve");
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    call(&opened).await.expect_err("nobody can answer");
    let again = open(&host).await;
    assert!(again.is_ok(), "the provider that is ending was used");
    host.shutdown().await;
    assert!(fixture.pids("pids").into_iter().all(|pid| !runs(pid)));
}

#[tokio::test]
async fn a_provider_that_ignores_the_end_of_its_input_and_the_polite_signal_is_killed() {
    let fixture = Fixture::new("trap '' TERM\nserve\nwhile :; do sleep 1; done");
    let host = fixture.host();
    let _opened = open(&host).await.expect("it starts");
    timeout(LIMIT, host.shutdown())
        .await
        .expect("the shutdown hung");
    let pid = fixture.pids("pids")[0];
    assert!(!runs(pid), "the provider outlived the shutdown");
}

#[tokio::test]
async fn a_shutdown_that_takes_too_long_can_be_hurried() {
    // Deaf to the end of its input; and, the second, to a request to shut down before that.
    for body in [
        "trap '' TERM\nserve\nsleep 1000 & echo $! >> \"$DIR/more\"; wait",
        "trap '' TERM\nread -r line; id=${line#*'\"id\":'}; id=${id%%[,\\}]*}\n\
         answer '{\"protocol\":{\"major\":1},\"provider\":{\"name\":\"f\",\"version\":\"1\"},\"instance\":\"1\"}'\n\
         sleep 1000",
    ] {
        let fixture = Fixture::new(body);
        let host = fixture.patient_host();
        let _provider = host
            .provider(&Ctx::new(), "fixture")
            .await
            .expect("it starts");
        let waited = timeout(Duration::from_millis(300), host.shutdown()).await;
        assert!(waited.is_err(), "it ended in order");
        timeout(LIMIT, host.kill())
            .await
            .expect("it was not hurried");
        for pid in [fixture.pids("pids"), fixture.pids("more")].concat() {
            eventually("it is gone", || !runs(pid)).await;
        }
    }
}

#[tokio::test]
async fn a_provider_that_ends_in_order_is_not_signalled() {
    let fixture = Fixture::new(
        "trap 'echo term >> \"$DIR/signalled\"' TERM\nserve\nsleep 0.1\necho orderly > \"$DIR/end\"",
    );
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    opened
        .release(&Ctx::new(), Disposition::Destroy)
        .await
        .expect("a release");
    host.shutdown().await;
    assert_eq!(fixture.left("end"), "orderly\n");
    assert_eq!(fixture.left("signalled"), "");
}

#[tokio::test]
async fn a_host_that_is_dropped_ends_its_providers_by_the_end_of_their_input() {
    let fixture = Fixture::new("serve\necho orderly > \"$DIR/end\"");
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    drop((opened, host));
    eventually("the provider ended in order", || {
        fixture.left("end") == "orderly\n"
    })
    .await;
}

// B208: after the end of a provider, opening again works.
#[tokio::test]
async fn after_a_crash_the_next_open_starts_a_new_process() {
    let fixture = Fixture::new("other() { exit 7; }\nserve");
    let host = fixture.host();
    let opened = open(&host).await.expect("it starts");
    call(&opened).await.expect_err("nobody answered");
    let again = open(&host).await.expect("it starts again");
    assert_eq!(fixture.pids("pids").len(), 2);
    // The handle of the first life stays dead.
    assert!(call(&opened).await.is_err());
    drop(again);
    host.shutdown().await;
}

#[tokio::test]
async fn a_call_whose_time_is_shorter_than_the_wait_for_a_restart_is_told_so() {
    let fixture = Fixture::new("exit 1");
    let host = fixture.host();
    let first = open(&host).await;
    assert!(first.is_err());
    let ctx = Ctx::new().with_timeout(Duration::from_millis(100));
    let error = match host
        .open(&ctx, None, sandbox_host::OpenRequest::default())
        .await
    {
        Ok(_) => panic!("it was opened"),
        Err(error) => Error::from(error),
    };
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
    assert!(error.retry_after().is_some());
    assert_eq!(fixture.pids("pids").len(), 1);
}

#[tokio::test]
async fn sandboxes_share_a_process_unless_each_is_to_have_its_own() {
    for (settings, processes) in [("", 1), ("pool = 'per-session'", 2)] {
        let fixture = Fixture::new("serve").settings(settings);
        let host = fixture.host();
        let one = open(&host).await.expect("the first");
        let two = open(&host).await.expect("the second");
        assert_eq!(fixture.pids("pids").len(), processes, "{settings}");
        one.release(&Ctx::new(), Disposition::Keep)
            .await
            .expect("a release");
        let first = fixture.pids("pids")[0];
        assert_eq!(runs(first), processes == 1, "{settings}");
        drop(two);
        host.shutdown().await;
        assert!(fixture.pids("pids").into_iter().all(|pid| !runs(pid)));
    }
}

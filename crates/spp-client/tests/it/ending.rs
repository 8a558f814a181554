//! Every end is noticed by everybody, and nothing is guessed about what was under way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use sandbox_core::file::{ReadRequest, StatManyRequest};
use sandbox_core::process::*;
use sandbox_core::*;
use spp_client::ConnectOptions;

use crate::memory::{Counts, Memory};
use crate::peer::Peer;
use crate::{connect, path, sandbox, soon, spec, until};

#[tokio::test]
async fn an_abort_fails_everything_that_is_under_way_at_once() {
    let provider = Memory::whole();
    let (sandbox, connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let reading = {
        let sandbox = Arc::clone(&sandbox);
        tokio::spawn(async move {
            sandbox
                .read(&Ctx::new(), ReadRequest::new(path("wait")))
                .await
        })
    };
    let sleeping = sandbox
        .exec(&ctx, ExecRequest::new(ProcessSpec::new(["sleep"])))
        .await;
    let live = ExecRequest::new(ProcessSpec::new(["produce", "10000000"])).delivery(Delivery::Live);
    let mut live = sandbox.exec(&ctx, live).await.expect("started");
    until(|| Counts::get(&provider.counts.started) == 2).await;
    until(|| Counts::get(&provider.counts.produced) > 400_000).await;

    let aborted = Instant::now();
    connection.abort("the provider ended: exit status 3; it said: out of cheese");
    let read = soon(reading)
        .await
        .expect("the task lives")
        .expect_err("aborted");
    let slept = soon(sleeping.expect("started").outcome)
        .await
        .expect_err("aborted");
    assert!(aborted.elapsed() < Duration::from_secs(2));
    // A read changes nothing; whether the command ran is not known.
    assert_eq!(
        (read.kind(), read.effect()),
        (ErrorKind::Disconnected, Effect::None)
    );
    assert_eq!(
        (slept.kind(), slept.effect()),
        (ErrorKind::Disconnected, Effect::Unknown)
    );
    assert!(slept.detail_text().contains("out of cheese"));
    let mut last = live.stdout.next().await;
    while let Some(Ok(_)) = last {
        last = live.stdout.next().await;
    }
    assert_eq!(
        last.expect("an error is last")
            .expect_err("an error")
            .kind(),
        ErrorKind::Disconnected
    );
    assert!(matches!(soon(sandbox.closed()).await, Closed::Lost { .. }));
    assert!(
        soon(connection.closed())
            .await
            .reason
            .contains("out of cheese")
    );

    let later = sandbox
        .put(&ctx, path("x"), Bytes::new())
        .await
        .expect_err("it is over");
    assert_eq!(later.effect(), Effect::None);
    let later = connection
        .acquire(&ctx, &spec("b"))
        .await
        .err()
        .expect("it is over");
    assert_eq!(
        (later.kind(), later.effect()),
        (ErrorKind::Disconnected, Effect::None)
    );
}

#[tokio::test]
async fn when_the_host_is_gone_the_server_ends_with_everything_it_started() {
    let provider = Memory::whole();
    let (connection, served) = connect(Arc::clone(&provider)).await;
    let ctx = Ctx::new();
    let sandbox = connection.acquire(&ctx, &spec("a")).await.expect("room");
    let mut lingering = spec("b");
    lingering.linger = Some(Duration::from_secs(60));
    connection.acquire(&ctx, &lingering).await.expect("room");
    // One run waits for its cancellation, one for credit that never comes.
    let sleeping = sandbox
        .exec(&ctx, ExecRequest::new(ProcessSpec::new(["sleep"])))
        .await;
    let live = ExecRequest::new(ProcessSpec::new(["produce", "10000000"])).delivery(Delivery::Live);
    let stalled = sandbox.exec(&ctx, live).await.expect("started");
    until(|| Counts::get(&provider.counts.produced) > 400_000).await;
    until(|| Counts::get(&provider.counts.started) == 1).await;

    let gone = Instant::now();
    connection.abort("the test ends it");
    let ended = soon(served)
        .await
        .expect("the server does not panic")
        .expect("it ends well");
    assert!(
        gone.elapsed() < Duration::from_secs(5),
        "it took {:?}",
        gone.elapsed()
    );
    assert_eq!(ended, spp_server::Ended::HostGone);
    assert_eq!(Counts::get(&provider.counts.cancelled), 1);
    // What was acquired to outlive the connection does; the other does not.
    assert_eq!(Counts::get(&provider.counts.released), 1);
    let left: Vec<String> = provider
        .sandboxes
        .lock()
        .expect("not poisoned")
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(left, ["b"]);
    drop((sleeping, stalled));
}

#[tokio::test]
async fn a_shutdown_ends_work_and_takes_no_more() {
    let provider = Memory::whole();
    let (sandbox, connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let sleeping = sandbox
        .exec(&ctx, ExecRequest::new(ProcessSpec::new(["sleep"])))
        .await;
    until(|| Counts::get(&provider.counts.started) == 1).await;
    soon(connection.shutdown(Disposition::Destroy))
        .await
        .expect("it shuts down");
    let outcome = soon(sleeping.expect("started").outcome)
        .await
        .expect("answered");
    assert_eq!(outcome.exit.status, Status::Cancelled);
    assert_eq!(Counts::get(&provider.counts.released), 1);
    let error = connection.list(&ctx, None).await.expect_err("no new work");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::ProviderUnavailable, Effect::None)
    );
}

#[tokio::test]
async fn a_connection_that_is_dropped_ends_and_one_that_a_sandbox_holds_does_not() {
    let provider = Memory::whole();
    let (connection, served) = connect(Arc::clone(&provider)).await;
    let sandbox = connection
        .acquire(&Ctx::new(), &spec("a"))
        .await
        .expect("room");
    drop(connection);
    sandbox
        .run(&Ctx::new(), ProcessSpec::new(["echo"]))
        .await
        .expect("it lives");
    drop(sandbox);
    soon(served)
        .await
        .expect("the server does not panic")
        .expect("it ends well");
}

#[tokio::test]
async fn a_peer_that_closes_its_output_ends_the_connection() {
    let (connection, peer) = Peer::connect(ConnectOptions::default()).await;
    drop(peer.output);
    let end = soon(connection.closed()).await;
    assert_eq!(end.kind, ErrorKind::Disconnected);
    assert!(end.reason.contains("closed its output"), "{end}");
}

#[tokio::test]
async fn a_call_that_was_never_written_had_no_effect() {
    let (connection, mut peer) = Peer::connect(ConnectOptions::default()).await;
    let acquiring = {
        let connection = Arc::clone(&connection);
        tokio::spawn(async move { connection.acquire(&Ctx::new(), &spec("s")).await })
    };
    peer.give_out().await;
    let sandbox = acquiring.await.expect("the task lives").expect("acquired");
    // The peer reads nothing; the pipe fills up, and what comes after stays in the queue.
    let calls: Vec<_> = (0..30)
        .map(|_| {
            let sandbox = Arc::clone(&sandbox);
            let big = Bytes::from(vec![b'x'; 30_000]);
            let changes = (0..4)
                .map(move |number| file::Change::put(path(&format!("f{number}")), big.clone()));
            let request = file::WriteRequest::new(changes);
            tokio::spawn(async move { sandbox.write(&Ctx::new(), request).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    connection.abort("the provider ended");
    let mut effects = Vec::new();
    for call in calls {
        let error = soon(call)
            .await
            .expect("the task lives")
            .expect_err("aborted");
        effects.push(error.effect());
    }
    // 1 MiB of pipe holds some of them; the last cannot have been seen.
    assert_eq!(effects.first(), Some(&Effect::Unknown));
    assert_eq!(effects.last(), Some(&Effect::None));
}

#[tokio::test]
async fn more_calls_than_the_peer_takes_at_once_wait_their_turn() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let runs = (0..1000).map(|_| async {
        let outcome = sandbox
            .run(&Ctx::new(), ProcessSpec::new(["exit", "7"]))
            .await;
        outcome.expect("it ran").exit.status
    });
    let statuses = soon(futures_util::future::join_all(runs)).await;
    assert!(statuses.iter().all(|status| *status == Status::Exited(7)));
}

#[tokio::test]
async fn a_defect_in_one_verb_is_that_verbs_failure() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let error = sandbox
        .read_file(&ctx, path("panic"))
        .await
        .expect_err("it panics");
    assert_eq!(error.kind(), ErrorKind::Internal);
    sandbox
        .run(&ctx, ProcessSpec::new(["echo"]))
        .await
        .expect("the others live");
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_at_once_in_great_numbers_leave_nothing_behind() {
    let provider = Memory::whole();
    let (sandbox, connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let missing = SandboxId::new("missing").expect("a valid id");
    for _ in 0..1000 {
        // Polled once, so that the request may be on its way, and dropped.
        let release = connection.release(&ctx, &missing, Disposition::Keep);
        let _ = release.now_or_never();
        let stat = sandbox.stat_many(
            &ctx,
            StatManyRequest {
                paths: vec![path("x")],
            },
        );
        let _ = stat.now_or_never();
    }
    // Longer than the provider may owe an answer to a cancelled call.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(connection.closed().now_or_never(), None);
    let content = soon(sandbox.stat_many(
        &ctx,
        StatManyRequest {
            paths: vec![path("x")],
        },
    ))
    .await;
    content.expect("it is answered");
}

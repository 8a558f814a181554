//! Cancellation and deadlines: always answered, never lost, never overtaking their request.

use std::time::Duration;

use sandbox_core::file::ReadRequest;
use sandbox_core::process::*;
use sandbox_core::*;

use crate::memory::{Counts, Memory};
use crate::{connect, path, sandbox, soon, spec, until};

fn sleep() -> ExecRequest {
    ExecRequest::new(ProcessSpec::new(["sleep"]))
}

#[tokio::test]
async fn a_cancelled_run_answers_with_what_it_had() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let execution = sandbox.exec(&ctx, sleep()).await.expect("started");
    until(|| Counts::get(&provider.counts.started) == 1).await;
    cancel.cancel();
    let outcome = soon(execution.outcome).await.expect("an outcome");
    assert_eq!(outcome.exit.status, Status::Cancelled);
    assert_eq!(&outcome.stdout.head[..], b"so far");
}

#[tokio::test]
async fn a_cancel_right_behind_its_request_is_not_lost() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    for _ in 0..50 {
        let cancel = Cancel::new();
        let ctx = Ctx::new().with_cancel(cancel.clone());
        let execution = sandbox.exec(&ctx, sleep()).await.expect("on its way");
        cancel.cancel();
        match soon(execution.outcome).await {
            Ok(outcome) => assert_eq!(outcome.exit.status, Status::Cancelled),
            Err(error) => assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Cancelled, Effect::None)
            ),
        }
    }
    let counts = &provider.counts;
    assert_eq!(Counts::get(&counts.started), Counts::get(&counts.cancelled));
}

#[tokio::test]
async fn a_cancel_that_comes_late_changes_nothing() {
    let provider = Memory::whole();
    let (sandbox, connection) = sandbox(&provider).await;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let outcome = sandbox.run(&ctx, ProcessSpec::new(["exit", "3"])).await;
    assert_eq!(outcome.expect("an outcome").exit.status, Status::Exited(3));
    cancel.cancel();
    let error = sandbox.run(&ctx, ProcessSpec::new(["exit", "3"])).await;
    let error = error.expect_err("the context is cancelled");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Cancelled, Effect::None)
    );
    assert_eq!(connection.stats(), spp_client::Stats::default());
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_provider() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let counts = &provider.counts;
    for round in 1..=10 {
        let read = sandbox.read(&ctx, ReadRequest::new(path("wait")));
        tokio::select! {
            _ = read => panic!("nobody cancelled it"),
            () = until(|| Counts::get(&counts.started) == round) => {}
        }
    }
    until(|| Counts::get(&counts.cancelled) == 10).await;

    let execution = sandbox.exec(&ctx, sleep()).await.expect("started");
    until(|| Counts::get(&counts.started) == 11).await;
    drop(execution.outcome);
    until(|| Counts::get(&counts.cancelled) == 11).await;
}

#[tokio::test]
async fn at_its_deadline_a_call_ends_and_says_what_is_known() {
    let provider = Memory::whole();
    let (sandbox, connection) = sandbox(&provider).await;
    let ctx = Ctx::new().with_timeout(Duration::from_millis(50));
    let error = soon(sandbox.read(&ctx, ReadRequest::new(path("wait")))).await;
    let error = error.expect_err("it waits for ever");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::DeadlineExceeded, Effect::None)
    );
    let ctx = Ctx::new().with_timeout(Duration::from_millis(50));
    let execution = sandbox.exec(&ctx, sleep()).await.expect("started");
    let error = soon(execution.outcome)
        .await
        .expect_err("its deadline passed");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::DeadlineExceeded, Effect::Unknown)
    );
    // A deadline that has passed is not even sent.
    let before = Counts::get(&provider.counts.verbs);
    let ctx = Ctx::new().with_timeout(Duration::ZERO);
    let error = sandbox
        .read_file(&ctx, path("x"))
        .await
        .expect_err("too late");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::DeadlineExceeded, Effect::None)
    );
    assert_eq!(Counts::get(&provider.counts.verbs), before);
    assert!(connection.info().capabilities.has(Capability::Spawn));
}

#[tokio::test(start_paused = true)]
async fn a_verb_that_ignores_its_cancellation_is_answered_for() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let canceller = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        cancel.cancel();
    };
    let request = ReadRequest::new(path("stuck"));
    let (error, ()) = futures_util::join!(sandbox.read(&ctx, request), canceller);
    let error = error.expect_err("it never ends by itself");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.detail_text().contains("did not end"), "{error}");
    // The connection lives.
    sandbox
        .run(&Ctx::new(), ProcessSpec::new(["echo"]))
        .await
        .expect("it ran");
}

#[tokio::test]
async fn a_cancelled_reader_that_reads_nothing_gets_its_answer_all_the_same() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let request = ExecRequest::new(ProcessSpec::new(["produce", "10000000"]));
    let execution = sandbox
        .exec(&ctx, request.delivery(Delivery::Live))
        .await
        .expect("started");
    until(|| Counts::get(&provider.counts.produced) > 400_000).await;
    cancel.cancel();
    // Neither stream is read nor dropped.
    soon(execution.outcome).await.expect("an outcome");
    let error = collect(Verb::Exec, execution.stdout, u64::MAX).await;
    let error = error.expect_err("the rest of the stream was given up");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[tokio::test]
async fn an_acquire_that_is_cancelled_is_answered() {
    let (connection, _) = connect(Memory::whole()).await;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let mut spec = spec("a");
    spec.template = Some("never".into());
    let canceller = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    };
    let (acquired, ()) = futures_util::join!(soon(connection.acquire(&ctx, &spec)), canceller);
    let error = acquired.err().expect("it was cancelled");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Cancelled, Effect::None)
    );
}

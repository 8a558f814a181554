//! Streams in both directions: intact, independent, and bounded however slowly they are read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, join};
use sandbox_core::process::*;
use sandbox_core::search::Scope;
use sandbox_core::transfer::*;
use sandbox_core::*;

use crate::memory::{Counts, Memory};
use crate::programs::{Sum, pattern, pattern_stream};
use crate::{path, sandbox, soon, until};

fn produce(length: u64) -> ExecRequest {
    ExecRequest::new(ProcessSpec::new(["produce".to_owned(), length.to_string()]))
        .delivery(Delivery::Live)
}

async fn sum(mut stream: ByteStream) -> String {
    let mut sum = Sum::default();
    while let Some(chunk) = stream.next().await {
        sum.add(&chunk.expect("the stream does not fail"));
    }
    sum.text()
}

const LARGE: u64 = 64 << 20;

#[tokio::test]
async fn sixty_four_mebibytes_arrive_intact_in_both_directions_at_once() {
    let provider = Memory::whole();
    let (sandbox, connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let up = async {
        let counts = Arc::new(Counts::default());
        let request = PushRequest {
            destination: SandboxPath::root(),
            archive: pattern_stream(LARGE, 50_000, counts),
            compression: Compression::None,
            base: None,
            removed: vec![],
        };
        let receipt = sandbox.push_tree(&ctx, request).await.expect("pushed");
        receipt.manifest.entries[0].path.to_string()
    };
    let down = async {
        let mut scope = Scope::new(SandboxPath::root());
        scope.max_depth = Some(u32::try_from(LARGE).expect("it fits"));
        let request = PullRequest {
            scopes: vec![scope],
            compression: Compression::None,
            base: None,
        };
        let Pull { archive, receipt } = sandbox.pull_tree(&ctx, request).await.expect("begun");
        let (sum, receipt) = join!(sum(archive), receipt);
        assert_eq!(receipt.expect("pulled").manifest.entries.len(), 2000);
        sum
    };
    let (up, down) = join!(up, down);
    let expected = Sum::of_pattern(LARGE);
    assert_eq!(up, expected);
    assert_eq!(down, expected);
    assert_eq!(connection.stats(), spp_client::Stats::default());
}

#[tokio::test]
async fn standard_input_arrives_whole() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let length = 3 << 20;
    for stdin in [
        Stdin::Bytes(pattern(0, length)),
        Stdin::Stream(pattern_stream(length as u64, 777, Arc::default())),
    ] {
        let request = ExecRequest::new(ProcessSpec::new(["digest"])).stdin(stdin);
        let execution = sandbox.exec(&ctx, request).await.expect("started");
        let outcome = execution.outcome.await.expect("an outcome");
        assert_eq!(outcome.stdout.to_text(), Sum::of_pattern(length as u64));
    }
}

#[tokio::test]
async fn input_that_nobody_takes_stops_flowing_and_is_no_error() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let counts = Arc::new(Counts::default());
    let request = ExecRequest::new(ProcessSpec::new(["take", "1000"])).stdin(Stdin::Stream(
        pattern_stream(LARGE, 4096, Arc::clone(&counts)),
    ));
    let execution = sandbox.exec(&Ctx::new(), request).await.expect("started");
    let outcome = soon(execution.outcome).await.expect("an outcome");
    assert!(outcome.exit.status.is_success());
    let sent = counts.produced.load(Ordering::SeqCst);
    assert!(sent < 1 << 20, "{sent} bytes were sent to a reader of 1000");
}

#[tokio::test]
async fn a_failing_input_fails_the_run() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let broken = futures_util::stream::iter([
        Ok(Bytes::from_static(b"some")),
        // Nothing happened to the tape; to the run it did.
        Err(Error::refused(Verb::Read, ErrorKind::Io).detail("the tape tore")),
    ]);
    let request =
        ExecRequest::new(ProcessSpec::new(["digest"])).stdin(Stdin::Stream(Box::pin(broken)));
    let execution = sandbox.exec(&Ctx::new(), request).await.expect("started");
    let error = soon(execution.outcome).await.expect_err("the input failed");
    assert_eq!(
        (error.verb(), error.kind(), error.effect()),
        (Verb::Exec, ErrorKind::Io, Effect::Unknown)
    );
    assert!(error.detail_text().ends_with(": the tape tore"), "{error}");
}

#[tokio::test]
async fn a_stalled_reader_holds_one_window_and_loses_nothing() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let execution = sandbox
        .exec(&Ctx::new(), produce(LARGE))
        .await
        .expect("started");
    let counts = &provider.counts;
    // Both streams stall. Nothing more is produced than two windows and what is on its way.
    until(|| Counts::get(&counts.produced) > 400_000).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let produced = Counts::get(&counts.produced);
    assert!(
        produced < 2 * (256 + 64) * 1024,
        "{produced} bytes were produced for nobody"
    );
    // Meanwhile everybody else is served.
    for _ in 0..50 {
        let outcome = soon(sandbox.run(&Ctx::new(), ProcessSpec::new(["echo", "x"]))).await;
        assert!(outcome.expect("it ran").exit.status.is_success());
    }
    let Execution {
        stdout,
        stderr,
        outcome,
        ..
    } = execution;
    let (stdout, stderr, outcome) = join!(sum(stdout), sum(stderr), outcome);
    assert_eq!(stdout, Sum::of_pattern(LARGE));
    assert_eq!(stderr, stdout);
    assert_eq!(outcome.expect("an outcome").stdout.total, LARGE);
}

#[tokio::test]
async fn two_outputs_do_not_wait_for_each_other() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let execution = sandbox
        .exec(&Ctx::new(), produce(1 << 20))
        .await
        .expect("started");
    // Standard error is read to its end while nobody reads standard output, and then the other way.
    let length = 1 << 20;
    assert_eq!(soon(sum(execution.stderr)).await, Sum::of_pattern(length));
    assert_eq!(soon(sum(execution.stdout)).await, Sum::of_pattern(length));
    soon(execution.outcome).await.expect("an outcome");
}

#[tokio::test]
async fn many_streams_share_the_connection_without_starving() {
    let provider = Memory::whole();
    let (sandbox, connection) = sandbox(&provider).await;
    // 100 runs of two outputs: far more credit than the connection has, if none came back.
    let runs = (0..100).map(|_| async {
        let execution = sandbox
            .exec(&Ctx::new(), produce(300_000))
            .await
            .expect("started");
        let (stdout, stderr, outcome) = join!(
            sum(execution.stdout),
            sum(execution.stderr),
            execution.outcome
        );
        assert_eq!(stdout, stderr);
        outcome.expect("an outcome").stdout.total
    });
    let totals = soon(futures_util::future::join_all(runs)).await;
    assert!(totals.iter().all(|total| *total == 300_000));
    assert_eq!(connection.stats(), spp_client::Stats::default());
}

#[tokio::test]
async fn a_dropped_stream_lets_the_run_go_on() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let length = 4 << 20;
    let mut execution = sandbox
        .exec(&Ctx::new(), produce(length))
        .await
        .expect("started");
    let first = execution.stdout.next().await.expect("data").expect("data");
    drop(execution.stdout);
    let (stderr, outcome) = join!(sum(execution.stderr), execution.outcome);
    assert_eq!(stderr, Sum::of_pattern(length));
    let outcome = outcome.expect("an outcome");
    assert_eq!(outcome.stdout.total, length);
    // What came before is kept as the head; the rest is counted.
    let head = &outcome.stdout.head;
    assert!(head.len() >= first.len());
    assert_eq!(*head, pattern(0, head.len()));
    assert_eq!(outcome.stdout.dropped, length - head.len() as u64);
    assert!(outcome.stdout.tail.is_empty());
}

#[tokio::test]
async fn an_answer_that_fits_no_line_fails_its_own_call() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let request = search::GlobRequest {
        scope: Scope::new(SandboxPath::root()),
        sort: search::Sort::None,
        limit: 60_000,
        stat: search::WithStat::No,
    };
    let error = sandbox
        .glob(&ctx, request)
        .await
        .expect_err("12 MB fit no line");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let outcome = sandbox.run(&ctx, ProcessSpec::new(["echo", "on"])).await;
    assert_eq!(
        &outcome.expect("the connection lives").stdout.head[..],
        b"on\n"
    );
}

#[tokio::test]
async fn a_request_that_fits_no_line_is_not_sent() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let request = file::StatManyRequest {
        paths: vec![path(&"long/".repeat(800)); 3000],
    };
    let error = sandbox
        .stat_many(&Ctx::new(), request)
        .await
        .expect_err("12 MB fit no line");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::TooLarge, Effect::None)
    );
    assert_eq!(Counts::get(&provider.counts.verbs), 0);
}

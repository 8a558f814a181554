//! What was lost on the way is never taken for whole.

use std::sync::Arc;

use sandbox_core::file::StatManyRequest;
use sandbox_core::*;
use serde_json::{Value, json};
use spp_client::ConnectOptions;
use tokio::io::AsyncWriteExt;

use crate::faults::{data, live, with_sandbox};
use crate::{path, soon};

/// The result of a run that wrote `total` bytes on standard output.
fn ended(request: &Value, total: u64) -> Value {
    json!({ "id": request["params"]["id"],
        "exit": { "status": { "exited": { "code": 0 } }, "duration_us": 1 },
        "stdout": { "total": total }, "stderr": { "total": 0 } })
}

#[tokio::test]
async fn a_live_output_that_is_shorter_than_it_was_is_no_outcome() {
    // Less than it wrote came, or more; and nobody but the total says so.
    for total in [4, 6, 1_000_000] {
        let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
        let (execution, request) = live(&sandbox, &mut peer).await;
        peer.line(data(&request["params"]["stdout"], 0, 0, 5)).await;
        peer.answer(&request["id"], ended(&request, total)).await;
        let read = soon(collect(Verb::Exec, execution.stdout, u64::MAX)).await;
        assert_eq!(read.expect("it ended in order").len(), 5);
        let error = soon(execution.outcome)
            .await
            .expect_err("bytes are missing");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Protocol, Effect::Unknown),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_output_that_nobody_reads_to_its_end_has_an_outcome_all_the_same() {
    let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let (execution, request) = live(&sandbox, &mut peer).await;
    drop(execution.stdout);
    assert_eq!(peer.request().await["method"], "stream/stop");
    peer.answer(&request["id"], ended(&request, 1_000)).await;
    let outcome = soon(execution.outcome).await.expect("an outcome");
    assert_eq!(
        (outcome.stdout.total, outcome.stdout.dropped),
        (1_000, 1_000)
    );
}

#[tokio::test]
async fn a_piece_that_cannot_be_read_fails_the_stream_it_is_of() {
    let malformed: [fn(&Value) -> Value; 5] = [
        |stream| json!({ "stream": stream, "seq": 1, "offset": 5 }),
        |stream| json!({ "stream": stream, "seq": 1, "offset": 5, "text": "a", "b64": "YQ==" }),
        |stream| json!({ "stream": stream, "seq": -1, "offset": 5, "text": "a" }),
        |stream| json!({ "stream": stream, "seq": 1, "offset": 5, "b64": "not base64" }),
        |stream| json!({ "stream": stream, "seq": 1, "offset": 5, "text": "x".repeat(300_000) }),
    ];
    for params in malformed {
        let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
        let (execution, request) = live(&sandbox, &mut peer).await;
        let stdout = &request["params"]["stdout"];
        peer.line(data(stdout, 0, 0, 5)).await;
        let piece = json!({ "jsonrpc": "2.0", "method": "stream/data", "params": params(stdout) });
        peer.line(piece.to_string()).await;
        // Its sender is told, at once rather than at the end of the run.
        let stop = peer.request().await;
        assert_eq!(stop["method"], "stream/stop", "{piece}");
        peer.answer(&request["id"], ended(&request, 6)).await;
        let error = soon(collect(Verb::Exec, execution.stdout, u64::MAX)).await;
        assert_eq!(
            error.expect_err("a piece is lost").kind(),
            ErrorKind::Protocol
        );
        assert_eq!(connection.stats().refused_data, 1);
        soon(execution.outcome)
            .await
            .expect("the run itself is known");
    }
}

#[tokio::test]
async fn an_end_that_cannot_be_read_fails_its_stream_instead_of_leaving_it_open() {
    let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let (execution, request) = live(&sandbox, &mut peer).await;
    let stdout = &request["params"]["stdout"];
    let end = json!({ "jsonrpc": "2.0", "method": "stream/end",
        "params": { "stream": stdout, "bytes": "five" } });
    peer.line(end.to_string()).await;
    let error = soon(collect(Verb::Exec, execution.stdout, u64::MAX)).await;
    assert_eq!(error.expect_err("no end").kind(), ErrorKind::Protocol);
}

// B185: what came before a line that is too long, and before the end, counts.
#[tokio::test]
async fn an_answer_counts_if_its_line_came_whole_and_not_if_the_end_cut_it_off() {
    let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let ask = |sandbox: &Arc<dyn Sandbox>| {
        let sandbox = Arc::clone(sandbox);
        let request = StatManyRequest {
            paths: vec![path("x")],
        };
        tokio::spawn(async move { sandbox.stat_many(&Ctx::new(), request).await })
    };
    let (whole, cut) = (ask(&sandbox), ask(&sandbox));
    let (first, second) = (peer.request().await, peer.request().await);
    let answer = |request: &Value| {
        let result = json!({ "items": [{ "ok": null }] });
        json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string()
    };
    // In one write, and with the line ends of another system.
    let long = "x".repeat(9 << 20);
    let text = format!("{}\r\n{long}\r\n{}", answer(&first), answer(&second));
    let mut output = peer.output;
    let writing = tokio::spawn(async move { output.write_all(text.as_bytes()).await });
    soon(writing).await.expect("no panic").expect("it is read");
    let outcomes = [soon(whole).await, soon(cut).await].map(|outcome| outcome.expect("no panic"));
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let [Ok(_), Err(error)] = outcomes else {
        panic!("the wrong one counts: {outcomes:?}");
    };
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert_eq!(connection.stats().bad_lines, 1);
}

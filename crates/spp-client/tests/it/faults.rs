//! What a provider may print without harm to anybody but itself.

use sandbox_core::file::{ReadRequest, StatManyRequest};
use sandbox_core::process::*;
use sandbox_core::*;
use serde_json::json;
use spp_client::{ConnectOptions, Connection, Strictness};
use std::sync::Arc;
use std::time::Duration;

use crate::peer::Peer;
use crate::{path, soon, spec};

pub(crate) async fn with_sandbox(
    options: ConnectOptions,
) -> (Arc<dyn Sandbox>, Arc<Connection>, Peer) {
    let (connection, mut peer) = Peer::connect(options).await;
    let acquiring = {
        let connection = Arc::clone(&connection);
        tokio::spawn(async move { connection.acquire(&Ctx::new(), &spec("s")).await })
    };
    peer.give_out().await;
    let sandbox = acquiring.await.expect("the task lives").expect("acquired");
    (sandbox, connection, peer)
}

fn read(sandbox: &Arc<dyn Sandbox>) -> tokio::task::JoinHandle<Result<file::FileContent>> {
    let sandbox = Arc::clone(sandbox);
    tokio::spawn(async move { sandbox.read(&Ctx::new(), ReadRequest::new(path("x"))).await })
}

fn content(text: &str) -> serde_json::Value {
    json!({
        "content": { "text": text }, "offset": 0, "total_bytes": text.len(), "mode": 420,
        "text": { "encoding": "utf8", "newline": "none", "later": 1 }, "later": [1, 2],
    })
}

/// The lines of the fault table. None of them is the answer to a call under way.
fn stray_lines() -> Vec<Vec<u8>> {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","method":"x","params":{}{}}}"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    let text: [&[u8]; 18] = [
        b"Starting provider v1.2...",
        b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{",
        b"42",
        b"\xff\xfe{}",
        b"{\"method\":\"x\",\"params\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":987654321,\"result\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":987654321,\"error\":{\"code\":1,\"message\":\"m\",\"later\":1}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":987654321,\"error\":{\"code\":99999999999,\"message\":\"m\"}}",
        b"[]",
        b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
        b"",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"text\":\"\\ud800\"}}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"later/news\",\"params\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"stream/credit\"}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"stream/data\",\"params\":{\"stream\":1,\"seq\":0,\"offset\":0,\"text\":\"x\"}}",
        b"[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]",
        b"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"host/please\",\"params\":{}}",
    ];
    let mut lines: Vec<Vec<u8>> = text.map(<[u8]>::to_vec).into();
    lines.push(deep.into_bytes());
    lines.push(br#"{"jsonrpc":"2.0","method":"x","id":null,"extra":{}}"#.to_vec());
    lines.push(vec![b'x'; 9 << 20]);
    lines
}

// B187, B188: prints among the messages cost nobody anything.
#[tokio::test]
async fn no_stray_line_harms_a_call_that_is_under_way() {
    let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    for line in stray_lines() {
        let reading = read(&sandbox);
        let request = peer.request().await;
        peer.line(&line).await;
        if line.windows(5).any(|window| window == b"id\":7") && line.len() < 200 {
            // A provider sends no requests; it is told so.
            if String::from_utf8_lossy(&line).contains("host/please") {
                let refusal = peer.request().await;
                assert_eq!(refusal["error"]["code"], -32601);
                assert_eq!(refusal["id"], 77);
            }
        }
        peer.answer(&request["id"], content("fine")).await;
        let read = soon(reading).await.expect("the task lives");
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let read = read.unwrap_or_else(|error| panic!("after {shown}: {error}"));
        assert_eq!(&read.bytes[..], b"fine", "after {shown}");
    }
    let stats = connection.stats();
    assert_eq!(stats.unasked_answers, 3);
    assert_eq!(stats.refused_requests, 1);
    assert_eq!(stats.refused_data, 1);
    assert!(stats.bad_lines >= 8, "{stats:?}");
}

#[tokio::test]
async fn a_malformed_answer_fails_its_own_call() {
    let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    for (answer, kind) in [
        (
            r#","result":{"content":{"text":"x"}}}"#,
            ErrorKind::Protocol,
        ),
        (r#","result":null}"#, ErrorKind::Protocol),
        (r#"}"#, ErrorKind::Protocol),
        (r#","result":{"content":"#, ErrorKind::Protocol),
        (
            r#","error":{"code":1201,"message":"m","later":1}}"#,
            ErrorKind::NotFound,
        ),
        (
            r#","error":{"code":99999999999,"message":"m"}}"#,
            ErrorKind::Internal,
        ),
        (r#","error":"no object"}"#, ErrorKind::Protocol),
    ] {
        let reading = read(&sandbox);
        let other = read(&sandbox);
        let first = peer.request().await;
        let second = peer.request().await;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{}{answer}"#, first["id"]);
        peer.line(line).await;
        peer.answer(&second["id"], content("fine")).await;
        let results = [
            soon(reading).await.expect("the task lives"),
            soon(other).await.expect("the task lives"),
        ];
        let failed: Vec<&Error> = results.iter().filter_map(|it| it.as_ref().err()).collect();
        assert_eq!(failed.len(), 1, "{answer}");
        assert_eq!(failed[0].kind(), kind, "{answer}");
    }
}

// B185.
#[tokio::test]
async fn an_over_long_answer_fails_its_own_call() {
    let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let reading = read(&sandbox);
    let request = peer.request().await;
    let long = "x".repeat(9 << 20);
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":"{long}"}}"#,
        request["id"]
    );
    peer.line(line).await;
    let error = soon(reading)
        .await
        .expect("the task lives")
        .expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let reading = read(&sandbox);
    let request = peer.request().await;
    peer.answer(&request["id"], content("fine")).await;
    soon(reading)
        .await
        .expect("the task lives")
        .expect("the connection lives");
}

/// Nobody can tell whose it is, so nobody is left waiting.
#[tokio::test]
async fn an_answer_that_cannot_be_told_from_others_ends_the_connection_for_every_caller() {
    let long = format!(
        r#"{{"jsonrpc":"2.0","result":"{}","id":"#,
        "x".repeat(17 << 20)
    );
    for (answer, says) in [
        (Some(long), "id of its call"),
        // One that is cut off before its id.
        (None, "whose it is"),
    ] {
        let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
        let (reading, other) = (read(&sandbox), read(&sandbox));
        let request = peer.request().await;
        peer.request().await;
        let line = match answer {
            Some(beginning) => format!("{beginning}{}}}", request["id"]),
            None => r#"{"jsonrpc":"2.0","result":{"a":"#.to_owned(),
        };
        peer.last_line(line).await;
        for waiting in [reading, other] {
            let result = soon(waiting).await.expect("the task lives");
            let error = result.expect_err("nobody knows");
            assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}

#[tokio::test]
async fn an_answer_counts_once_and_only_for_what_was_asked() {
    let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    // Guesses, before anything is asked.
    for id in 0..50 {
        peer.answer(&json!(id), content("guess")).await;
    }
    let reading = read(&sandbox);
    let request = peer.request().await;
    assert!(
        request["id"].as_u64().expect("a number") >= 50,
        "ids cannot be guessed"
    );
    peer.answer(&request["id"], content("first")).await;
    peer.answer(&request["id"], content("second")).await;
    let read = soon(reading)
        .await
        .expect("the task lives")
        .expect("answered");
    assert_eq!(&read.bytes[..], b"first");
    crate::until(|| connection.stats().unasked_answers == 51).await;
}

// B188: within bounds.
#[tokio::test]
async fn babble_without_end_ends_the_connection() {
    let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let reading = read(&sandbox);
    peer.request().await;
    for number in 0..101 {
        peer.line(format!("progress {number}%")).await;
    }
    let end = soon(connection.closed()).await;
    assert!(end.reason.contains("standard output"), "{end}");
    let error = soon(reading)
        .await
        .expect("the task lives")
        .expect_err("it ended");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Disconnected, Effect::None)
    );
}

#[tokio::test]
async fn one_bad_line_of_an_engine_is_the_end_of_it() {
    for bad in [
        &b"oops"[..],
        b"\xff",
        b"{\"jsonrpc\":\"2.0\",\"method\":",
        &[b'x'; 9 << 20],
    ] {
        let options = ConnectOptions {
            strictness: Strictness::Engine,
            ..ConnectOptions::default()
        };
        let (sandbox, connection, mut peer) = with_sandbox(options).await;
        let reading = read(&sandbox);
        peer.request().await;
        // The client may hang up before it has read all of a long line.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut peer.output, bad).await;
        let _ = tokio::io::AsyncWriteExt::write_all(&mut peer.output, b"\n").await;
        let error = soon(reading)
            .await
            .expect("the task lives")
            .expect_err("poisoned");
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert_eq!(connection.closed().await.kind, ErrorKind::Lost);
        assert!(matches!(sandbox.closed().await, Closed::Lost { .. }));
    }
}

/// Starts a live run and gives its streams' ids.
pub(crate) async fn live(
    sandbox: &Arc<dyn Sandbox>,
    peer: &mut Peer,
) -> (Execution, serde_json::Value) {
    let request = ExecRequest::new(ProcessSpec::new(["x"])).delivery(Delivery::Live);
    let execution = sandbox
        .exec(&Ctx::new(), request)
        .await
        .expect("on its way");
    let request = peer.request().await;
    assert_eq!(request["method"], "exec");
    (execution, request)
}

pub(crate) fn data(stream: &serde_json::Value, seq: u64, offset: u64, bytes: usize) -> String {
    json!({ "jsonrpc": "2.0", "method": "stream/data", "params": {
        "stream": stream, "seq": seq, "offset": offset, "text": "x".repeat(bytes) } })
    .to_string()
}

#[tokio::test]
async fn data_beyond_its_credit_fails_that_stream_only() {
    let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let (execution, request) = live(&sandbox, &mut peer).await;
    let (stdout, stderr) = (&request["params"]["stdout"], &request["params"]["stderr"]);
    for seq in 0..9 {
        peer.line(data(stdout, seq, seq * 32_768, 32_768)).await;
    }
    peer.line(data(stderr, 0, 0, 5)).await;
    let stop = peer.request().await;
    assert_eq!(
        (&stop["method"], &stop["params"]["stream"]),
        (&json!("stream/stop"), stdout)
    );
    let exit = json!({ "status": { "exited": { "code": 0 } }, "duration_us": 1 });
    let result = json!({ "id": request["params"]["id"], "exit": exit,
        "stdout": { "total": 9 * 32_768 }, "stderr": { "total": 5 } });
    peer.answer(&request["id"], result).await;
    let error = collect(Verb::Exec, execution.stdout, u64::MAX)
        .await
        .expect_err("overrun");
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let stderr = collect(Verb::Exec, execution.stderr, u64::MAX)
        .await
        .expect("intact");
    assert_eq!(&stderr[..], b"xxxxx");
    assert!(connection.stats().refused_data >= 1);
    soon(execution.outcome).await.expect("an outcome");
}

#[tokio::test]
async fn data_with_a_gap_or_a_repetition_fails_its_stream() {
    for second in [(2, 5), (1, 6), (0, 0)] {
        let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
        let (execution, request) = live(&sandbox, &mut peer).await;
        let stdout = &request["params"]["stdout"];
        peer.line(data(stdout, 0, 0, 5)).await;
        peer.line(data(stdout, second.0, second.1, 5)).await;
        let error = soon(collect(Verb::Exec, execution.stdout, u64::MAX)).await;
        assert_eq!(error.expect_err("a gap").kind(), ErrorKind::Protocol);
    }
}

#[tokio::test]
async fn answers_that_do_not_fit_their_question_are_refused() {
    let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let asking = {
        let sandbox = Arc::clone(&sandbox);
        let paths = vec![path("a"), path("b")];
        tokio::spawn(async move {
            sandbox
                .stat_many(&Ctx::new(), StatManyRequest { paths })
                .await
        })
    };
    let request = peer.request().await;
    peer.answer(&request["id"], json!({ "items": [{ "ok": null }] }))
        .await;
    let error = soon(asking)
        .await
        .expect("the task lives")
        .expect_err("one is missing");
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn a_provider_of_another_version_is_refused_with_both_versions_named() {
    let (mut peer, opening) = Peer::open(ConnectOptions::default());
    let request = peer.request().await;
    assert_eq!(request["params"]["protocol"]["majors"], json!([1]));
    let result = json!({ "protocol": { "major": 7 }, "provider": { "name": "p", "version": "9" }, "instance": "i" });
    peer.answer(&request["id"], result).await;
    let error = soon(opening)
        .await
        .expect("the task lives")
        .expect_err("version 7");
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(
        error.detail_text().contains('1') && error.detail_text().contains('7'),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_is_not_waited_for() {
    let (_peer, opening) = Peer::open(ConnectOptions::default());
    let error = opening.await.expect("the task lives").expect_err("silence");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::DeadlineExceeded, Effect::None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_owes_an_answer_and_gives_no_sign_of_life_is_given_up() {
    let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let reading = read(&sandbox);
    assert_eq!(peer.request().await["method"], "read");
    let end = connection.closed().await;
    assert!(end.reason.contains("no sign of life"), "{end}");
    assert_eq!(peer.request().await["method"], "ping");
    let error = reading
        .await
        .expect("the task lives")
        .expect_err("it ended");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_pings_may_take_its_time() {
    let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let reading = read(&sandbox);
    let request = peer.request().await;
    let started = tokio::time::Instant::now();
    while started.elapsed() < Duration::from_secs(300) {
        let line = tokio::time::timeout(Duration::from_secs(60), peer.lines.next_line()).await;
        let line = line
            .expect("a ping comes")
            .expect("readable")
            .expect("a line");
        let ping: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(ping["method"], "ping");
        peer.answer(&ping["id"], json!({})).await;
    }
    peer.answer(&request["id"], content("late")).await;
    reading.await.expect("the task lives").expect("answered");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_answers_a_cancelled_call_is_wedged() {
    let (sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let executing = sandbox.run(&ctx, ProcessSpec::new(["x"]));
    let canceller = async {
        let request = peer.request().await;
        cancel.cancel();
        let cancelled = peer.request().await;
        assert_eq!(cancelled["method"], "$/cancel");
        assert_eq!(cancelled["params"]["id"], request["id"]);
    };
    let (outcome, ()) = futures_util::join!(executing, canceller);
    let error = outcome.expect_err("it never answers");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Disconnected, Effect::Unknown)
    );
    assert!(connection.closed().await.reason.contains("wedged"));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_forgets_a_deadline_is_told_to_stop() {
    let (sandbox, _connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let ctx = Ctx::new().with_timeout(Duration::from_secs(1));
    let executing = sandbox.run(&ctx, ProcessSpec::new(["x"]));
    let started = tokio::time::Instant::now();
    let forgetful = async {
        let request = peer.request().await;
        let deadline = request["params"]["_meta"]["deadline_ms"].as_u64();
        assert!((900..=1000).contains(&deadline.expect("it is told")));
        let cancelled = peer.request().await;
        assert_eq!(cancelled["method"], "$/cancel");
        assert!(started.elapsed() > Duration::from_secs(2));
        let error = json!({ "code": -32800, "message": "m", "data": { "kind": "cancelled", "effect": "unknown" } });
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "error": error });
        peer.line(answer.to_string()).await;
    };
    let (outcome, ()) = futures_util::join!(executing, forgetful);
    let error = outcome.expect_err("it was cancelled");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::DeadlineExceeded, Effect::Unknown)
    );
}

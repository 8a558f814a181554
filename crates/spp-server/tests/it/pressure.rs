//! Streams under credit, and a host that does not read.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::{Host, soon, verb};
use crate::memory::Counts;
use crate::programs::{Sum, pattern};

const WINDOW: u64 = 256 * 1024;

fn produce(bytes: u64) -> Value {
    verb(json!({
        "process": { "argv": ["produce", bytes.to_string()] },
        "delivery": "live", "stdout": 11, "stderr": 12,
    }))
}

/// The payload of a data message.
fn payload(message: &Value) -> Vec<u8> {
    let params = &message["params"];
    match params["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => {
            let text = params["b64"].as_str().expect("text or base64");
            spp_protocol::codec::bytes::decode_base64(text.as_bytes()).expect("base64")
        }
    }
}

/// Reads until a ping sent now is answered; returns the messages before that.
async fn until_ping(host: &mut Host, id: u64) -> Vec<Value> {
    host.request(id, "ping", json!({})).await;
    let mut messages = Vec::new();
    loop {
        let message = host.next().await;
        if message["id"] == id {
            return messages;
        }
        messages.push(message);
    }
}

#[tokio::test]
async fn exactly_the_window_is_sent_and_what_is_given_back_is_sent_again() {
    let mut host = Host::ready().await;
    host.request(5, "exec", produce(2_000_000)).await;
    let (mut cost, mut received, mut seq) = (0, 0, 0);
    let mut id = 1000;
    let mut quiet = 0;
    while quiet < 5 {
        id += 1;
        quiet += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
        for message in until_ping(&mut host, id).await {
            if message["params"]["stream"] == 11 {
                quiet = 0;
                let bytes = payload(&message).len() as u64;
                assert_eq!(message["params"]["seq"], seq);
                assert_eq!(message["params"]["offset"], received);
                seq += 1;
                received += bytes;
                cost += bytes + 512;
            }
        }
    }
    assert!(cost <= WINDOW, "{cost} were spent");
    assert!(cost > WINDOW - 40_000, "only {cost} were spent");

    // Credit that was never spent is not believed: nothing comes of it but what was outstanding.
    host.notify(
        "stream/credit",
        json!({ "stream": 11, "bytes": 1u64 << 50 }),
    )
    .await;
    host.notify("stream/stop", json!({ "stream": 12 })).await;
    let mut sum = Sum::default();
    sum.add(&pattern(0, usize::try_from(received).expect("small")));
    loop {
        let message = host.next().await;
        if message["id"] == 5 {
            assert_eq!(message["result"]["stdout"]["total"], 2_000_000);
            break;
        }
        if message["method"] == "stream/data" && message["params"]["stream"] == 11 {
            let bytes = payload(&message);
            sum.add(&bytes);
            let cost = bytes.len() + 512;
            host.notify("stream/credit", json!({ "stream": 11, "bytes": cost }))
                .await;
        }
    }
    assert_eq!(sum.text(), Sum::of_pattern(2_000_000));
}

#[tokio::test]
async fn small_answers_pass_bulk_that_was_queued_before_them() {
    let mut host = Host::ready().await;
    host.request(5, "exec", produce(10_000_000)).await;
    // The pipe is full, and both outputs have a line waiting in the queue.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let passed = until_ping(&mut host, 6).await;
    let spent: usize = passed.iter().map(|message| payload(message).len()).sum();
    // What was in the pipe and in the writer's hands; not the half megabyte that has credit.
    assert!(spent <= 160_000, "{spent} bytes came first");
}

#[tokio::test]
async fn a_host_that_reads_nothing_is_read_from_all_the_same() {
    let mut host = Host::ready().await;
    host.request(5, "exec", produce(10_000_000)).await;
    // Answers to these do not fit the pipe, and still every request is taken from it.
    for id in 1000..6000 {
        host.request(id, "ping", json!({})).await;
    }
    host.request(6, "read", verb(json!({ "path": "wait" })))
        .await;
    let counts = &host.provider.counts;
    soon(async {
        while Counts::get(&counts.started) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // And it ends in time, although nothing can be written.
    let gone = Instant::now();
    drop(host.output);
    soon(host.served)
        .await
        .expect("the server does not panic")
        .expect("it ends well");
    assert!(
        gone.elapsed() < Duration::from_secs(5),
        "it took {:?}",
        gone.elapsed()
    );
    drop(host.lines);
}

fn data(stream: u64, seq: u64, offset: u64, text: &str) -> Value {
    json!({ "stream": stream, "seq": seq, "offset": offset, "text": text })
}

#[tokio::test]
async fn input_on_the_lines_behind_the_request_is_not_lost() {
    let mut host = Host::ready().await;
    let params = verb(json!({
        "process": { "argv": ["digest"] }, "stdin": { "stream": 21 }, "stdout": 22, "stderr": 23,
    }));
    let request = json!({ "jsonrpc": "2.0", "id": 5, "method": "exec", "params": params });
    let notification = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
    };
    let lines = [
        request.to_string(),
        notification("stream/data", data(21, 0, 0, "one ")),
        notification("stream/data", data(21, 1, 4, "two")),
        notification("stream/end", json!({ "stream": 21, "bytes": 7 })),
    ];
    host.line(lines.join("\n")).await;
    let answer = host.next().await;
    let mut sum = Sum::default();
    sum.add(b"one two");
    assert_eq!(
        answer["result"]["stdout"]["head"]["text"],
        sum.text(),
        "{answer}"
    );
}

#[tokio::test]
async fn input_that_breaks_its_rules_fails_the_run_that_reads_it() {
    for (second, end) in [
        (data(21, 2, 4, "two"), 7),
        (data(21, 1, 5, "two"), 7),
        (data(21, 1, 4, "two"), 8),
        (json!({ "stream": 21, "seq": 1, "offset": 4 }), 7),
    ] {
        let mut host = Host::ready().await;
        let params = verb(json!({
            "process": { "argv": ["digest"] }, "stdin": { "stream": 21 }, "stdout": 22, "stderr": 23,
        }));
        host.request(5, "exec", params).await;
        host.notify("stream/data", data(21, 0, 0, "one ")).await;
        host.notify("stream/data", second.clone()).await;
        host.notify("stream/end", json!({ "stream": 21, "bytes": end }))
            .await;
        let answer = loop {
            let message = host.next().await;
            if message["id"] == 5 {
                break message;
            }
            assert_eq!(message["method"], "stream/stop");
        };
        assert!(answer["error"].is_object(), "{second}: {answer}");
        host.is_quiet().await;
    }
}

#[tokio::test]
async fn content_that_is_not_where_it_is_said_to_be_is_refused() {
    let mut host = Host::ready().await;
    let put = |stream: u64, bytes: Option<u64>| {
        let content = json!({ "stream": stream, "bytes": bytes });
        verb(json!({ "changes": [{ "put": { "path": "f", "content": content } }] }))
    };
    let answer = host.call(5, "write", put(31, None)).await;
    assert_eq!(answer["error"]["data"]["kind"], "invalid_params");
    let answer = host.call(6, "write", put(31, Some(1 << 40))).await;
    assert_eq!(answer["error"]["data"]["kind"], "limit_exceeded");
    // Fewer bytes than announced.
    host.request(7, "write", put(31, Some(10))).await;
    host.notify("stream/data", data(31, 0, 0, "short")).await;
    host.notify("stream/end", json!({ "stream": 31, "bytes": 5 }))
        .await;
    assert_eq!(host.failure().await, (json!(7), "invalid_params".into()));
    assert_eq!(Counts::get(&host.provider.counts.verbs), 0);
    // The same id may be used again, for what it says.
    host.request(8, "write", put(31, Some(5))).await;
    host.notify("stream/data", data(31, 0, 0, "whole")).await;
    host.notify("stream/end", json!({ "stream": 31, "bytes": 5 }))
        .await;
    let answer = host.next().await;
    assert_eq!(answer["result"]["items"][0]["ok"]["bytes"], 5, "{answer}");
}

#[tokio::test]
async fn a_result_too_long_for_the_line_needs_a_stream() {
    let mut host = Host::ready().await;
    let text = "y".repeat(40_000);
    for (id, name) in [(5, "f"), (6, "g")] {
        let change = json!({ "put": { "path": name, "content": { "text": text } } });
        host.call(id, "write", verb(json!({ "changes": [change] })))
            .await;
    }
    // Without a stream it stays on the line while it fits.
    let answer = host.call(7, "read", verb(json!({ "path": "f" }))).await;
    assert_eq!(answer["result"]["content"]["text"], text);
    // With one it comes before its answer, which names it.
    host.request(8, "read", verb(json!({ "path": "f", "content": 41 })))
        .await;
    let mut received = Vec::new();
    let answer = loop {
        let message = host.next().await;
        if message["id"] == 8 {
            break message;
        }
        received.extend(payload(&message));
    };
    assert_eq!(
        answer["result"]["content"],
        json!({ "stream": 41, "bytes": 40_000 })
    );
    assert_eq!(received, text.as_bytes());
}

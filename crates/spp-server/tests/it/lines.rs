//! Every line with an id is answered, none without one is, and none harms another.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::host::{Host, initialize, soon, verb};
use crate::memory::Counts;

#[tokio::test]
async fn nothing_comes_before_initialize_and_that_comes_once() {
    let mut host = Host::raw();
    host.request(1, "ping", json!({})).await;
    assert_eq!(host.failure().await, (json!(1), "not_initialized".into()));
    host.request(2, "acquire", json!({ "spec": { "sandbox": "s" } }))
        .await;
    assert_eq!(host.failure().await, (json!(2), "not_initialized".into()));
    let answer = host.call(3, "initialize", initialize(&[3, 1, 2])).await;
    assert_eq!(answer["result"]["protocol"]["major"], 1);
    assert_eq!(answer["result"]["provider"]["name"], "memory");
    host.request(4, "initialize", initialize(&[1])).await;
    assert_eq!(host.failure().await, (json!(4), "invalid_request".into()));
    host.is_quiet().await;
}

#[tokio::test]
async fn a_host_of_another_version_is_told_what_both_sides_speak() {
    let mut host = Host::raw();
    let answer = host.call(1, "initialize", initialize(&[8, 9])).await;
    let error = &answer["error"];
    assert_eq!(error["code"], 1001);
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.contains("8, 9") && message.contains("provider version 1"),
        "{message}"
    );
    // It may try again.
    let answer = host.call(2, "initialize", initialize(&[1])).await;
    assert!(answer["result"].is_object());
}

#[tokio::test]
async fn members_that_nobody_knows_are_ignored() {
    let mut host = Host::raw();
    let mut params = initialize(&[1]);
    params["later"] = json!({ "deep": [1, { "x": null }] });
    params["host"]["mood"] = json!("good");
    params["limits"] = json!({ "max_line_bytes": 2_000_000, "later": 5 });
    host.request(1, "initialize", params).await;
    assert!(host.next().await["result"].is_object());
    let line = r#"{"later":1,"jsonrpc":"2.0","params":{"spec":{"sandbox":"s","later":2},"later":3},"id":2,"method":"acquire"}"#;
    host.line(line).await;
    assert_eq!(host.next().await["method"], "$/progress");
    let answer = host.next().await;
    assert_eq!(answer["id"], 2);
    assert_eq!(answer["result"]["descriptor"]["generation"], 1);
    let read =
        verb(json!({ "paths": ["x"], "later": [], "_meta": { "deadline_ms": 5000, "later": 1 } }));
    let answer = host.call(3, "stat_many", read).await;
    assert_eq!(answer["result"]["items"], json!([{ "ok": null }]));
}

#[tokio::test]
async fn what_has_an_id_but_is_no_request_is_answered_with_its_id() {
    let mut host = Host::ready().await;
    for id in ["1.5", "-3", "true", "{\"a\":1}", "[7]"] {
        host.line(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
            .await;
        let answer = host.next().await;
        assert_eq!(answer["id"].to_string(), id);
        assert_eq!(answer["error"]["code"], -32600);
    }
    host.line(r#"{"jsonrpc":"2.0","id":5}"#).await;
    assert_eq!(host.failure().await, (json!(5), "-32600".into()));
    host.request(6, "no/such/method", json!({})).await;
    assert_eq!(host.failure().await, (json!(6), "-32601".into()));
    host.request(7, "read", json!([1, 2])).await;
    assert_eq!(host.failure().await, (json!(7), "invalid_params".into()));
    let answer = host.call(8, "read", verb(json!({ "path": 5 }))).await;
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("`path`"), "{message}");
    host.is_quiet().await;
}

#[tokio::test]
async fn what_has_no_id_is_never_answered() {
    let mut host = Host::ready().await;
    for line in [
        "hello",
        "42",
        "{",
        "{}",
        r#"{"jsonrpc":"2.0","method":"later/news","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel","params":{"id":999}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel"}"#,
        r#"{"jsonrpc":"2.0","method":"stream/credit","params":{"stream":1,"bytes":99}}"#,
        r#"{"jsonrpc":"2.0","method":"stream/stop","params":{"stream":1}}"#,
        r#"{"jsonrpc":"2.0","method":"stream/end","params":{"stream":1}}"#,
        r#"{"jsonrpc":"2.0","method":"stream/data","params":{"stream":1,"seq":0,"offset":0,"b64":"!"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        "[]",
        "[1,2]",
    ] {
        host.line(line).await;
        host.is_quiet().await;
    }
    host.line(b"\xff\xfe\x00").await;
    host.is_quiet().await;
}

#[tokio::test]
async fn batches_are_refused_member_by_member() {
    let mut host = Host::ready().await;
    host.line(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#)
        .await;
    assert_eq!(host.failure().await, (json!(1), "-32600".into()));
    assert_eq!(host.failure().await, (json!(2), "-32600".into()));
    host.is_quiet().await;
}

// B185.
#[tokio::test]
async fn an_over_long_line_fails_the_call_it_is() {
    let mut host = Host::ready().await;
    let long = "x".repeat(9 << 20);
    host.line(format!(
        r#"{{"jsonrpc":"2.0","id":77,"method":"read","params":{{"path":"{long}"}}}}"#
    ))
    .await;
    assert_eq!(host.failure().await, (json!(77), "limit_exceeded".into()));
    host.line(long).await;
    host.is_quiet().await;
}

#[tokio::test]
async fn what_was_agreed_holds_and_not_what_this_side_alone_would_take() {
    let mut host = Host::raw();
    let mut params = initialize(&[1]);
    params["limits"] = json!({ "max_line_bytes": 100_000, "max_in_flight": 2 });
    host.request(1, "initialize", params).await;
    let answer = host.next().await;
    assert!(answer["result"]["limits"]["max_line_bytes"].as_u64() > Some(1 << 20));
    host.request(2, "acquire", json!({ "spec": { "sandbox": "s" } }))
        .await;
    assert_eq!(host.next().await["method"], "$/progress");
    assert_eq!(host.next().await["id"], 2);

    let line = |id: u64, length: usize| {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"x":""#);
        let tail = r#""}}"#;
        let long = "x".repeat(length - head.len() - tail.len());
        format!("{head}{long}{tail}")
    };
    host.line(line(3, 100_000)).await;
    assert_eq!(host.next().await["result"], json!({}));
    host.line(line(4, 100_001)).await;
    let answer = host.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["data"]["kind"]),
        (&json!(4), &json!("limit_exceeded"))
    );
    assert_eq!(answer["error"]["data"]["effect"], "none");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("100000 bytes"), "{message}");

    for id in [10, 11] {
        host.request(id, "read", verb(json!({ "path": "wait" })))
            .await;
    }
    host.request(12, "stat_many", verb(json!({ "paths": [] })))
        .await;
    let answer = host.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["data"]["kind"]),
        (&json!(12), &json!("busy"))
    );
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("2 requests"), "{message}");
}

#[tokio::test]
async fn an_id_that_is_under_way_is_not_taken_twice() {
    let mut host = Host::ready().await;
    host.request(5, "read", verb(json!({ "path": "wait" })))
        .await;
    host.request(5, "ping", json!({})).await;
    assert_eq!(host.failure().await, (json!(5), "-32600".into()));
    host.notify("$/cancel", json!({ "id": 5 })).await;
    assert_eq!(host.failure().await, (json!(5), "cancelled".into()));
    // It is free again.
    host.call(5, "ping", json!({})).await;
}

#[tokio::test]
async fn a_cancel_on_the_line_behind_its_request_finds_it() {
    let mut host = Host::ready().await;
    for id in 10..60 {
        let read = json!({ "jsonrpc": "2.0", "id": id, "method": "read", "params": verb(json!({ "path": "wait" })) });
        let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": id } });
        // Both in one write, so that they are read at once.
        host.line(format!("{read}\n{cancel}")).await;
        assert_eq!(host.failure().await, (json!(id), "cancelled".into()));
    }
}

#[tokio::test]
async fn beyond_the_most_at_once_a_request_is_busy_and_what_ends_others_is_not() {
    let mut host = Host::ready().await;
    for id in 100..356 {
        host.request(id, "read", verb(json!({ "path": "wait" })))
            .await;
    }
    host.request(400, "stat_many", verb(json!({ "paths": [] })))
        .await;
    assert_eq!(host.failure().await, (json!(400), "busy".into()));
    host.call(401, "ping", json!({})).await;
    host.call(402, "proc_stop", verb(json!({ "id": "p", "stop": "kill" })))
        .await;
    assert_eq!(Counts::get(&host.provider.counts.started), 256);
    host.notify("$/cancel", json!({ "id": 100 })).await;
    assert_eq!(host.failure().await, (json!(100), "cancelled".into()));
    let answer = host
        .call(403, "stat_many", verb(json!({ "paths": [] })))
        .await;
    assert!(answer["result"].is_object());
}

#[tokio::test]
async fn another_life_of_a_sandbox_is_lost_and_another_sandbox_unknown() {
    let mut host = Host::ready().await;
    let params = json!({ "sandbox": "s", "generation": 2, "paths": [] });
    host.request(1, "stat_many", params).await;
    assert_eq!(host.failure().await, (json!(1), "lost".into()));
    let params = json!({ "sandbox": "t", "generation": 1, "paths": [] });
    host.request(2, "stat_many", params).await;
    assert_eq!(host.failure().await, (json!(2), "sandbox_not_found".into()));
    host.provider.sandbox("s").lose();
    let closed = host.next().await;
    assert_eq!(closed["method"], "sandbox/closed");
    assert_eq!(closed["params"]["reason"], "lost");
    host.request(3, "stat_many", verb(json!({ "paths": [] })))
        .await;
    assert_eq!(host.failure().await, (json!(3), "lost".into()));
}

#[tokio::test]
async fn a_deadline_of_the_host_is_kept() {
    let mut host = Host::ready().await;
    let params = verb(json!({ "path": "wait", "_meta": { "deadline_ms": 30 } }));
    let answer = host.call(1, "read", params).await;
    assert_eq!(answer["error"]["data"]["kind"], "deadline_exceeded");
    let params = verb(json!({ "path": "wait", "_meta": { "deadline_ms": 0 } }));
    let answer = host.call(2, "read", params).await;
    assert_eq!(answer["error"]["data"]["effect"], "none");
    assert_eq!(Counts::get(&host.provider.counts.started), 1);
}

#[tokio::test]
async fn the_end_of_the_line_ends_the_server() {
    let host = Host::ready().await;
    drop(host.output);
    let ended = soon(host.served).await.expect("the server does not panic");
    assert_eq!(ended.expect("it ends well"), spp_server::Ended::HostGone);
    assert_eq!(Counts::get(&host.provider.counts.released), 1);
}

#[tokio::test]
async fn the_end_at_any_byte_of_a_session_ends_the_server_with_all_it_started() {
    let session = [
        json!({ "id": 1, "method": "initialize", "params": initialize(&[1]) }),
        json!({ "id": 2, "method": "acquire", "params": { "spec": { "sandbox": "s" } } }),
        json!({ "id": 3, "method": "exec", "params": verb(json!({
            "process": { "argv": ["digest"] }, "stdin": { "stream": 5 },
            "delivery": "live", "stdout": 6, "stderr": 7,
        })) }),
        json!({ "method": "stream/data", "params": {
            "stream": 5, "seq": 0, "offset": 0, "text": "hello" } }),
        json!({ "id": 4, "method": "exec", "params": verb(json!({
            "process": { "argv": ["sleep"] } })) }),
        json!({ "method": "$/cancel", "params": { "id": 4 } }),
        json!({ "method": "stream/end", "params": { "stream": 5, "bytes": 5 } }),
        json!({ "id": 5, "method": "shutdown", "params": {} }),
    ];
    let mut bytes = Vec::new();
    for mut message in session {
        message["jsonrpc"] = "2.0".into();
        bytes.extend(message.to_string().into_bytes());
        bytes.push(b'\n');
    }
    for end in 0..=bytes.len() {
        let mut host = Host::raw();
        let write = host.output.write_all(&bytes[..end]);
        soon(write).await.expect("the server reads");
        drop(host.output);
        let ended = soon(host.served).await.expect("the server does not panic");
        assert_eq!(
            ended.expect("it ends well"),
            spp_server::Ended::HostGone,
            "the end at byte {end}"
        );
        let counts = &host.provider.counts;
        assert_eq!(
            Counts::get(&counts.started),
            Counts::get(&counts.cancelled),
            "the end at byte {end} left a run"
        );
    }
}

#[tokio::test]
async fn ten_thousand_requests_at_once_are_each_answered_once() {
    let mut host = Host::ready().await;
    let requests: String = (100..10_100)
        .map(|id| {
            format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
            )
        })
        .collect();
    let (mut lines, mut output) = (host.lines, host.output);
    let writing = tokio::spawn(async move {
        output.write_all(requests.as_bytes()).await?;
        std::io::Result::Ok(output)
    });
    let mut answered = std::collections::BTreeSet::new();
    for _ in 0..10_000 {
        let line = soon(lines.next_line()).await.expect("readable");
        let answer: serde_json::Value =
            serde_json::from_str(&line.expect("the server is there")).expect("JSON");
        assert_eq!(answer["result"], json!({}));
        assert!(answered.insert(answer["id"].as_u64()), "answered twice");
    }
    host.lines = lines;
    host.output = soon(writing).await.expect("no panic").expect("it reads");
    host.is_quiet().await;
}

#[tokio::test]
async fn lies_about_credit_and_data_that_nobody_wants_cost_nothing() {
    let mut host = Host::ready().await;
    for bytes in ["-5", "0", "1.5", "null", "18446744073709551615", "1e30"] {
        for stream in ["1", "-1", "18446744073709551615", "\"x\""] {
            host.line(format!(
                r#"{{"jsonrpc":"2.0","method":"stream/credit","params":{{"stream":{stream},"bytes":{bytes}}}}}"#
            ))
            .await;
        }
    }
    for stream in 0..1_000 {
        let piece = json!({ "stream": stream, "seq": 9, "offset": 7, "text": "x".repeat(1_000) });
        host.notify("stream/data", piece).await;
    }
    host.is_quiet().await;
}

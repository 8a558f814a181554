//! Stream messages that cannot be read: whoever waits for the stream is told, and nobody else.

use serde_json::{Value, json};

use crate::host::{Host, verb};
use crate::memory::Counts;

/// Stream messages on stream 21 that a reader must not pass over.
const MALFORMED: [(&str, &str); 8] = [
    (
        "stream/data",
        r#"{"stream":21,"seq":0,"offset":0,"text":"a","b64":"YQ=="}"#,
    ),
    ("stream/data", r#"{"stream":21,"seq":0,"offset":0}"#),
    (
        "stream/data",
        r#"{"stream":21,"seq":-1,"offset":0,"text":"a"}"#,
    ),
    (
        "stream/data",
        r#"{"stream":21,"seq":0,"offset":0,"text":"\ud83d"}"#,
    ),
    (
        "stream/data",
        r#"{"stream":21,"seq":0,"offset":0,"b64":"!"}"#,
    ),
    ("stream/end", r#"{"stream":21,"bytes":-5}"#),
    ("stream/end", r#"{"stream":21,"bytes":"5"}"#),
    ("stream/end", r#"{"stream":21,"error":"it broke"}"#),
];

/// Sends a malformed message in the middle of a stream and gives the answer to request 5, which
/// reads the stream. Nothing more is sent that could end it.
async fn answer_after(host: &mut Host, (method, params): (&str, &str)) -> Value {
    host.line(format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#
    ))
    .await;
    loop {
        let message = host.next().await;
        if message["id"] == 5 {
            return message;
        }
        assert_eq!(message["method"], "stream/stop", "{message}");
        assert_eq!(message["params"]["stream"], 21, "{message}");
    }
}

#[tokio::test]
async fn input_that_cannot_be_read_ends_the_run_that_reads_it() {
    let mut host = Host::ready().await;
    for malformed in MALFORMED {
        let params = verb(json!({
            "process": { "argv": ["digest"] }, "stdin": { "stream": 21 }, "stdout": 22, "stderr": 23,
        }));
        host.request(5, "exec", params).await;
        let answer = answer_after(&mut host, malformed).await;
        let kind = &answer["error"]["data"]["kind"];
        assert_eq!(kind, "invalid_request", "{malformed:?}: {answer}");
        host.is_quiet().await;
    }
}

#[tokio::test]
async fn content_that_cannot_be_read_is_not_written() {
    let mut host = Host::ready().await;
    for malformed in MALFORMED {
        let content = json!({ "stream": 21, "bytes": 5 });
        let change = json!({ "put": { "path": "f", "content": content } });
        host.request(5, "write", verb(json!({ "changes": [change] })))
            .await;
        let answer = answer_after(&mut host, malformed).await;
        let data = &answer["error"]["data"];
        assert_eq!(data["kind"], "invalid_request", "{malformed:?}: {answer}");
        assert_eq!(data["effect"], "none", "{malformed:?}: {answer}");
        host.is_quiet().await;
    }
    assert_eq!(Counts::get(&host.provider.counts.verbs), 0);
}

#[tokio::test]
async fn an_archive_that_cannot_be_read_is_not_taken_for_whole() {
    let mut host = Host::ready().await;
    for malformed in MALFORMED {
        let params = verb(json!({ "archive": 21, "manifest": 22, "destination": "t" }));
        host.request(5, "push_tree", params).await;
        let answer = answer_after(&mut host, malformed).await;
        let kind = &answer["error"]["data"]["kind"];
        assert_eq!(kind, "invalid_request", "{malformed:?}: {answer}");
        host.is_quiet().await;
    }
}

#[tokio::test]
async fn a_message_that_names_no_stream_harms_none() {
    let mut host = Host::ready().await;
    let params = verb(json!({
        "process": { "argv": ["digest"] }, "stdin": { "stream": 21 }, "stdout": 22, "stderr": 23,
    }));
    host.request(5, "exec", params).await;
    for params in ["7", "{}", r#"{"stream":"21"}"#, r#"{"stream":99}"#] {
        for method in ["stream/data", "stream/end"] {
            host.line(format!(
                r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#
            ))
            .await;
        }
    }
    host.notify("stream/end", json!({ "stream": 21, "bytes": 0 }))
        .await;
    let answer = host.next().await;
    assert!(answer["result"].is_object(), "{answer}");
}

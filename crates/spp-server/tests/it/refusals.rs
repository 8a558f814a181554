//! What a refusal says: short, under the right id, and with the effect that it can promise.

use serde_json::{Value, json};

use crate::host::{Host, soon, verb};
use crate::memory::Counts;

/// Nearly as long as a line may be for a host that says nothing.
const LONG: usize = 1_000_000;

#[tokio::test]
async fn a_method_of_any_length_is_refused_on_a_short_line() {
    let mut host = Host::ready().await;
    for (id, name) in [
        (5, "x".repeat(100_000)),
        (6, "x".repeat(LONG)),
        (7, "\u{1}".repeat(100_000)),
        // The cut would be in the middle of a character.
        (8, format!("a{}", "\u{20ac}".repeat(50_000))),
    ] {
        host.request(id, &name, json!({})).await;
        let line = soon(host.lines.next_line()).await.expect("readable");
        let line = line.expect("the server is there");
        assert!(line.len() < 1_000, "{} bytes", line.len());
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(id), &json!(-32601))
        );
    }
    let answer = host.call(9, "no/such", json!({})).await;
    assert_eq!(answer["error"]["message"], "there is no method `no/such`");
    host.is_quiet().await;
}

#[tokio::test]
async fn an_id_is_an_integer_below_two_to_the_53rd_and_no_other_begins_anything() {
    let mut host = Host::ready().await;
    let params = verb(json!({ "paths": [] }));
    for id in [
        "\"7\"",
        "\"a text\"",
        "\"\"",
        "9007199254740992",
        "18446744073709551615",
        "18446744073709551616",
        "1e3",
        "7.0",
        "-1",
        "false",
    ] {
        host.line(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"stat_many","params":{params}}}"#
        ))
        .await;
        let line = soon(host.lines.next_line()).await.expect("readable");
        let line = line.expect("the server is there");
        assert!(line.contains(&format!(r#""id":{id},"#)), "{line}");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["error"]["code"], -32600, "{line}");
    }
    // One that is too long to be repeated is dropped, and `null` is none.
    let long = "x".repeat(1_000);
    for id in [format!("\"{long}\""), "null".into()] {
        host.line(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"stat_many","params":{params}}}"#
        ))
        .await;
        host.is_quiet().await;
    }
    assert_eq!(Counts::get(&host.provider.counts.verbs), 0);
    for id in [0, (1 << 53) - 1] {
        let answer = host.call(id, "stat_many", params.clone()).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[tokio::test]
async fn an_id_of_a_batchs_member_is_repeated_as_it_came() {
    let mut host = Host::ready().await;
    host.line(r#"[{"jsonrpc":"2.0","id":"a","method":"ping"},7,{"jsonrpc":"2.0","id":null,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"ping"}]"#)
        .await;
    assert_eq!(host.failure().await, (json!("a"), "-32600".into()));
    assert_eq!(host.failure().await, (json!(3), "-32600".into()));
    host.is_quiet().await;
}

#[tokio::test]
async fn an_answer_too_long_for_a_line_says_what_its_verb_can_have_done() {
    let mut host = Host::ready().await;
    let long = sandbox_core::SandboxPath::parse("f").expect("a path");
    let sandbox = host.provider.sandbox("s");
    let content = "y".repeat(2 * LONG).into();
    let before = sandbox
        .files
        .lock()
        .expect("not poisoned")
        .insert(long, content);
    assert_eq!(before, None);
    let changes: Vec<_> = (0..20_000)
        .map(|_| json!({ "put": { "path": "g", "content": { "text": "" } } }))
        .collect();
    for (method, members, effect) in [
        ("read", json!({ "path": "f" }), "none"),
        ("read_many", json!({ "paths": ["f"] }), "none"),
        ("glob", json!({ "scope": {}, "limit": 20_000 }), "none"),
        ("write", json!({ "changes": changes }), "unknown"),
    ] {
        let answer = host.call(6, method, verb(members)).await;
        let data = &answer["error"]["data"];
        assert_eq!(data["kind"], "limit_exceeded", "{method}: {answer}");
        assert_eq!(data["effect"], effect, "{method}");
        assert_eq!(data["verb"], method);
    }
}

#[tokio::test]
async fn a_read_that_fails_by_a_defect_or_does_not_end_has_changed_nothing() {
    let mut host = Host::ready().await;
    let answer = host.call(5, "read", verb(json!({ "path": "panic" }))).await;
    assert_eq!(answer["error"]["data"]["kind"], "internal");
    assert_eq!(answer["error"]["data"]["effect"], "none");
    host.request(6, "read", verb(json!({ "path": "stuck" })))
        .await;
    host.notify("$/cancel", json!({ "id": 6 })).await;
    let answer = host.next().await;
    assert_eq!(answer["error"]["data"]["kind"], "cancelled", "{answer}");
    assert_eq!(answer["error"]["data"]["effect"], "none");
}

#[tokio::test]
async fn an_id_of_any_length_that_names_nothing_is_an_invalid_parameter() {
    let mut host = Host::ready().await;
    let long = "x".repeat(LONG);
    let process = json!({ "argv": ["echo"] });
    let at = json!({ "sandbox": long, "generation": 1, "paths": [] });
    for (method, params) in [
        ("stat_many", at),
        ("acquire", json!({ "spec": { "sandbox": long } })),
        ("probe", json!({ "spec": { "sandbox": long } })),
        ("release", json!({ "sandbox": long, "disposition": "keep" })),
        ("update", json!({ "sandbox": long })),
        ("exec", verb(json!({ "id": long, "process": process }))),
        ("spawn", verb(json!({ "id": long, "process": process }))),
        ("proc_read", verb(json!({ "id": long, "from": 0 }))),
        ("proc_stop", verb(json!({ "id": long, "stop": "kill" }))),
    ] {
        host.request(5, method, params).await;
        let line = soon(host.lines.next_line()).await.expect("readable");
        let line = line.expect("the server is there");
        assert!(line.len() < 32 * 1024, "{method}: {} bytes", line.len());
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        let data = &answer["error"]["data"];
        assert_eq!(data["kind"], "invalid_params", "{method}: {line}");
        assert_eq!(data["effect"], "none", "{method}: {line}");
    }
}

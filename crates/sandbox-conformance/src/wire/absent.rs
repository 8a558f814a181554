//! That what is not declared answers `unsupported`, on the wire.

use sandbox_core::Capability;
use serde_json::{Value, json};

use super::peer::{Peer, refused_without_effect};
use crate::check::Verdict;

/// Fails unless the smallest requests that need `capability` answer `unsupported` without effect.
pub(super) async fn answers_unsupported(peer: &mut Peer, capability: Capability) -> Verdict {
    for (method, params) in requests(capability) {
        let what = format!("`{method}` with {params}, for {capability:?}, which is not declared,");
        let params = if of_sandbox(method) {
            peer.verb_params(params)?
        } else {
            params
        };
        let answer = peer.call(method, params).await?;
        // A change is answered among its items, or fails the request.
        let item = &answer["result"]["items"][0];
        let answer = if method == "write" && !item["error"].is_null() {
            item.clone()
        } else {
            answer
        };
        refused_without_effect(&answer, 1003, "unsupported", &what)?;
    }
    Ok(())
}

fn of_sandbox(method: &str) -> bool {
    !matches!(method, "probe" | "attach" | "list" | "prepare" | "update")
}

fn requests(capability: Capability) -> Vec<(&'static str, Value)> {
    let change = |change: Value| ("write", json!({ "changes": [change] }));
    let run = |more: Value| {
        let mut params = json!({"process": {"argv": ["true"]}});
        if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
            params.extend(more);
        }
        ("exec", params)
    };
    let scope = json!({"root": "."});
    let request = match capability {
        Capability::ReadMany => ("read_many", json!({"paths": ["file"]})),
        Capability::Edit => change(
            json!({"edit": {"path": "file", "replacements": [{"find": {"text": "a"}, "replace": {"text": "b"}}]}}),
        ),
        Capability::MakeDirectory => change(json!({"make_directory": {"path": "made"}})),
        Capability::Rename => change(json!({"rename": {"from": "file", "to": "name"}})),
        Capability::SetMode => change(json!({"set_mode": {"path": "file", "mode": 384}})),
        Capability::Link => change(json!({"link": {"path": "linked", "target": "file"}})),
        Capability::Precondition => change(
            json!({"put": {"path": "put", "content": {"text": "x"}, "precondition": "absent"}}),
        ),
        Capability::Durable => (
            "write",
            json!({"changes": [{"put": {"path": "put", "content": {"text": "x"}}}], "durability": "durable"}),
        ),
        Capability::Glob => ("glob", json!({"scope": scope, "limit": 1})),
        Capability::Grep => (
            "grep",
            json!({"scope": scope, "pattern": {"text": "x"}, "limit": 1}),
        ),
        Capability::Fingerprint => (
            "fingerprint",
            json!({"scope": {"scope": scope, "depth": "metadata", "limit": 1}}),
        ),
        Capability::Track => run(json!({
            "track": {"scope": scope, "depth": "metadata", "limit": 1},
        })),
        Capability::Stdin => run(json!({"stdin": {"text": "x"}})),
        Capability::Pty => run(json!({
            "process": {"argv": ["true"], "pty": {"rows": 24, "columns": 80}},
        })),
        Capability::Spawn => {
            return vec![
                (
                    "spawn",
                    json!({"id": "asked", "process": {"argv": ["true"]}}),
                ),
                (
                    "proc_read",
                    json!({"id": "asked", "stream": "stdout", "from": 0}),
                ),
                (
                    "proc_stdin",
                    json!({"id": "asked", "offset": 0, "content": {"text": "x"}}),
                ),
                ("proc_stop", json!({"id": "asked", "stop": "kill"})),
            ];
        }
        Capability::PushTree => (
            "push_tree",
            json!({"destination": "pushed", "archive": 4_000_001}),
        ),
        Capability::PullTree => (
            "pull_tree",
            json!({"scopes": [scope], "archive": 4_000_002}),
        ),
        Capability::Probe => ("probe", json!({"spec": {"sandbox": "asked"}})),
        Capability::Attach => {
            let state = json!({"provider": "p", "sandbox": "asked", "generation": 1, "data": {}});
            return vec![
                ("capture_state", json!({})),
                ("attach", json!({ "state": state })),
            ];
        }
        Capability::List => ("list", json!({})),
        Capability::Prepare => ("prepare", json!({"template": {"name": "template"}})),
        Capability::Update => ("update", json!({"sandbox": "asked"})),
        Capability::Lease => (
            "acquire",
            json!({"spec": {"sandbox": "leased", "lease_ms": 60_000}}),
        ),
        // A wish that accompanies an acquire, and no verb: what cannot linger is not asked to.
        Capability::Linger => return Vec::new(),
    };
    vec![request]
}

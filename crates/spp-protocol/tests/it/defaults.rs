//! A peer may leave out what has a default, and add what nobody knows.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use spp_protocol::message::file::{ReadParams, RemoveParams, WriteParams};
use spp_protocol::message::handshake::{InitializeParams, InitializeResult, ShutdownParams};
use spp_protocol::message::lifecycle::{AcquireParams, ReleaseParams};
use spp_protocol::message::process::{ExecParams, ProcReadParams, SpawnParams};
use spp_protocol::message::search::{GlobParams, GrepParams};

/// What `least` is when everything it leaves out is spelled out.
fn check<T: Serialize + DeserializeOwned>(least: &Value, whole: &Value) {
    let read: T = serde_json::from_value(least.clone()).expect("only what is required is required");
    let spelled = serde_json::to_value(&read).expect("JSON");
    assert_eq!(&spelled, whole, "for {least}");
}

/// `base` and `extra` in one object.
fn with(base: &Value, extra: Value) -> Value {
    let mut object = base.clone();
    let members = object.as_object_mut().expect("an object");
    let Value::Object(extra) = extra else {
        panic!("not an object: {extra}");
    };
    members.extend(extra);
    object
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let at = json!({"sandbox": "a", "generation": 1});
    let scope = json!({"root": ".", "ignore": "git", "hidden": "include"});
    let process = json!({
        "argv": ["x"], "cwd": ".", "grace_ms": 500, "descendants": "kill",
        "output": {"head": 524_288, "tail": 524_288, "log": 67_108_864, "beyond": "drop"},
    });
    check::<ReadParams>(
        &with(&at, json!({"path": "x"})),
        &with(&at, json!({"path": "x", "range": "all", "max": 16_777_216})),
    );
    check::<WriteParams>(
        &with(
            &at,
            json!({"changes": [
                {"put": {"path": "x", "content": {"text": ""}}},
                {"edit": {"path": "x", "replacements": [{"find": {"text": "a"}, "replace": {"text": "b"}}]}},
                {"rename": {"from": "a", "to": "b"}},
            ]}),
        ),
        &with(
            &at,
            json!({"durability": "cached", "changes": [
                {"put": {"path": "x", "content": {"text": ""}, "precondition": "none"}},
                {"edit": {"path": "x", "precondition": "none", "replacements": [
                    {"find": {"text": "a"}, "replace": {"text": "b"}, "occurrences": "one"}
                ]}},
                {"rename": {"from": "a", "to": "b", "existing": "keep"}},
            ]}),
        ),
    );
    check::<RemoveParams>(
        &with(&at, json!({"path": "x"})),
        &with(&at, json!({"path": "x", "recursion": "no"})),
    );
    check::<GlobParams>(
        &with(&at, json!({"scope": {}, "limit": 9})),
        &with(
            &at,
            json!({"scope": scope, "sort": "none", "limit": 9, "stat": "no"}),
        ),
    );
    check::<GrepParams>(
        &with(
            &at,
            json!({"scope": {}, "pattern": {"text": "x"}, "limit": 9}),
        ),
        &with(
            &at,
            json!({
                "scope": scope, "limit": 9, "before": 0, "after": 0, "max_line_bytes": 4096,
                "pattern": {"text": "x", "syntax": "regex", "case": "sensitive", "lines": "single"},
            }),
        ),
    );
    check::<ExecParams>(
        &with(&at, json!({"process": {"argv": ["x"]}})),
        &with(&at, json!({"process": process, "delivery": "at_end"})),
    );
    check::<SpawnParams>(
        &with(
            &at,
            json!({"id": "p", "process": {"argv": ["x"], "output": {}}}),
        ),
        &with(
            &at,
            json!({"id": "p", "process": process, "stdin": "null", "detach": "no"}),
        ),
    );
    check::<ProcReadParams>(
        &with(&at, json!({"id": "p", "from": 0})),
        &with(
            &at,
            json!({"id": "p", "from": 0, "stream": "stdout", "max": 262_144, "wait_ms": 0}),
        ),
    );
    check::<ReleaseParams>(
        &json!({"sandbox": "a"}),
        &json!({"sandbox": "a", "disposition": "keep"}),
    );
    check::<ShutdownParams>(&json!({}), &json!({"mode": "keep"}));
    check::<AcquireParams>(
        &json!({"spec": {"sandbox": "a", "policy": {
            "mounts": [{"host": "/h", "sandbox": "/s"}], "limits": {"memory": {"value": 1}}
        }}}),
        &json!({"spec": {"sandbox": "a", "policy": {
            "mounts": [{"host": "/h", "sandbox": "/s", "access": "read_only"}],
            "limits": {"memory": {"value": 1, "strength": "required"}},
        }}}),
    );
    check::<InitializeParams>(
        &json!({"protocol": {"majors": [1]}, "host": {"name": "h", "version": "1"}}),
        &json!({"protocol": {"majors": [1]}, "host": {"name": "h", "version": "1"}, "capabilities": {}, "limits": {}}),
    );
    check::<InitializeResult>(
        &json!({"protocol": {"major": 1}, "provider": {"name": "p", "version": "1"}, "instance": "i"}),
        &json!({
            "protocol": {"major": 1}, "provider": {"name": "p", "version": "1"}, "instance": "i",
            "capabilities": {}, "limits": {},
        }),
    );
}

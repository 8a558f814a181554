//! What a later version may send does not break this one, and is never taken for more than it is.

use sandbox_core::file::{Encoding, EntryKind, Newline};
use sandbox_core::process::Status;
use sandbox_core::{ErrorKind, Network, Verb};
use serde::de::DeserializeOwned;
use serde_json::json;
use spp_protocol::codec;
use spp_protocol::convert::Inlet;
use spp_protocol::message::Request;
use spp_protocol::message::file::{FileContent, Range, ReadParams, StatManyResult, WriteParams};
use spp_protocol::message::lifecycle::{AcquireParams, SandboxResult};
use spp_protocol::message::process::{ExecParams, ExecResult, ProcStopParams};

fn read<T: DeserializeOwned>(value: &serde_json::Value) -> T {
    serde_json::from_str(&value.to_string()).expect("an unknown choice never fails a message")
}

fn refused<T: Request>(
    params: &serde_json::Value,
    decode: impl FnOnce(T) -> Option<sandbox_core::Error>,
) -> String {
    let params = codec::params::<T>(Some(&params.to_string())).expect("well-formed");
    let error = decode(params).expect("what is not known was accepted");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.effect(), sandbox_core::Effect::None);
    error.detail_text().to_owned()
}

#[test]
fn an_unknown_choice_in_a_request_is_refused_by_name() {
    let read =
        json!({"sandbox": "a", "generation": 1, "path": "x", "range": {"pages": {"first": 1}}});
    assert_eq!(
        refused::<ReadParams>(&read, |params| params.decode().err()),
        "member `range`: `pages` is not known here"
    );
    let write = json!({"sandbox": "a", "generation": 1, "changes": [
        {"make_directory": {"path": "d"}}, {"zap": {"path": "x"}}
    ]});
    assert_eq!(
        refused::<WriteParams>(&write, |params| params.decode(&mut Inlet::none()).err()),
        "member `changes[1]`: `zap` is not known here"
    );
    let exec = json!({"sandbox": "a", "generation": 1, "process": {"argv": ["x"], "output": {"beyond": "spill"}}});
    assert_eq!(
        refused::<ExecParams>(&exec, |params| params.decode().err()),
        "member `process.output.beyond`: `spill` is not known here"
    );
    let acquire = json!({"spec": {"sandbox": "a", "policy": {"require": ["network_denied", "clock_hidden"]}}});
    assert_eq!(
        refused::<AcquireParams>(&acquire, |params| params.decode().err()),
        "member `spec.policy.require[1]`: `clock_hidden` is not known here"
    );
    let limits = json!({"spec": {"sandbox": "a", "policy": {"limits": {"gpus": {"value": 1}}}}});
    assert_eq!(
        refused::<AcquireParams>(&limits, |params| params.decode().err()),
        "member `spec.policy.limits.gpus`: this kind of limit is not known here"
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_its_path() {
    let exec = |process: serde_json::Value| {
        let params = json!({"sandbox": "a", "generation": 1, "process": process});
        refused::<ExecParams>(&params, |params| params.decode().err())
    };
    assert!(exec(json!({"argv": []})).starts_with("member `process.argv`: there is no program"));
    assert!(
        exec(json!({"argv": ["a", "b\0c"]}))
            .starts_with("member `process.argv[1]`: an argument cannot")
    );
    assert!(
        exec(json!({"argv": ["a"], "cwd": "../x"}))
            .starts_with("member `process.cwd`: the path contains `..`")
    );
    assert!(
        exec(json!({"argv": ["a"], "env": [{"name": "A=B"}]}))
            .starts_with("member `process.env[0]`: a variable")
    );
    let live = json!({"sandbox": "a", "generation": 1, "process": {"argv": ["a"]}, "delivery": "live", "stdout": 1});
    assert!(
        refused::<ExecParams>(&live, |params| params.decode().err())
            .contains("live output needs the streams")
    );
    let twice = json!({"sandbox": "a", "generation": 1, "process": {"argv": ["a"]}, "stdout": 1, "stderr": 1});
    assert_eq!(
        refused::<ExecParams>(&twice, |params| params.decode().err()),
        "member `stderr`: both outputs cannot have one stream"
    );
    let stop = json!({"sandbox": "a", "generation": 1, "id": "p", "stop": {"signal": 65}});
    assert_eq!(
        refused::<ProcStopParams>(&stop, |params| params.decode().err()),
        "member `stop.signal`: there is no signal 65"
    );
    let acquire = json!({"spec": {"sandbox": "-rf"}});
    assert!(
        refused::<AcquireParams>(&acquire, |params| params.decode().err())
            .starts_with("member `spec.sandbox`: an id is")
    );
}

#[test]
fn an_unknown_choice_in_a_result_becomes_the_least_promising_value() {
    let content: FileContent = read(&json!({
        "content": {"text": "x"}, "offset": 0, "total_bytes": 1, "mode": 420,
        "text": {"encoding": "ebcdic", "newline": "nel"},
    }));
    let content = content.decode(&mut Inlet::none()).expect("valid");
    assert_eq!(content.text.encoding, Encoding::Binary);
    assert_eq!(content.text.newline, Newline::Mixed);

    let stats: StatManyResult =
        read(&json!({"items": [{"ok": {"kind": "door", "size": 0, "mode": 0, "inode": "1"}}]}));
    let stats = stats.decode().expect("valid");
    let stat = stats[0].as_ref().expect("ok").as_ref().expect("there");
    assert_eq!(stat.kind, EntryKind::Special);

    for status in [
        json!({"frozen": {"at": 3}}),
        json!({"signalled": {"signal": 9999, "core": true}}),
        json!({"signalled": {"signal": 0, "core": false}}),
        // Which of both it is nobody knows.
        json!({"exited": {"code": 0}, "signalled": {"signal": 9, "core": false}}),
    ] {
        let exec: ExecResult = read(&json!({
            "id": "p", "exit": {"status": status, "duration_us": 5},
            "stdout": {"total": 0}, "stderr": {"total": 0},
        }));
        let outcome = exec
            .decode(&mut Inlet::none(), &mut Inlet::none())
            .expect("valid");
        assert_eq!(outcome.exit.status, Status::Lost);
    }

    let sandbox: SandboxResult = read(&json!({"descriptor": {
        "sandbox": "a", "generation": 1, "location": "l", "provider": "p",
        "platform": {"os": "linux", "arch": "x86_64"}, "root": "/w", "network": {"mesh": []},
        "guarantees": {"clock_hidden": "full", "secrets_hidden": "mostly"},
        "limits": {"gpus": {"value": 1, "enforced_by": "driver"}},
    }}));
    let descriptor = sandbox.decode(Verb::Acquire).expect("valid");
    assert_eq!(descriptor.network, Network::Open);
    assert_eq!(descriptor.limits.len(), 0);
    let guarantees: Vec<_> = descriptor.guarantees.into_iter().collect();
    assert_eq!(
        guarantees,
        [(
            sandbox_core::Restriction::SecretsHidden,
            sandbox_core::Grade::Unavailable
        )]
    );
}

#[test]
fn a_choice_survives_by_name_and_may_have_unknown_companions() {
    let range: Range = read(&json!({"pages": {"first": 1}}));
    assert_eq!(range, Range::Unknown("pages".into()));
    let range: Range = read(&json!("pages"));
    assert_eq!(serde_json::to_string(&range).expect("JSON"), "\"pages\"");
    let range: Range = read(&json!({"later": 1, "all": {}}));
    assert_eq!(range, Range::All);
    for wrong in [
        json!({}),
        json!(3),
        json!("bytes"),
        json!({"bytes": {"offset": 0}}),
    ] {
        assert!(
            serde_json::from_value::<Range>(wrong.clone()).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn a_result_that_lies_about_its_stream_is_a_broken_protocol() {
    let content = |field: serde_json::Value| -> FileContent {
        read(&json!({
            "content": field, "offset": 0, "total_bytes": 1, "mode": 420,
            "text": {"encoding": "utf8", "newline": "lf"},
        }))
    };
    let stream = spp_protocol::message::value::StreamId(7);
    let check = |field, carried: &'static [u8], expected: &str| {
        let mut inlet = Inlet::new(stream, carried.into());
        let error = content(field)
            .decode(&mut inlet)
            .expect_err("the bytes do not add up");
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.detail_text().contains(expected), "{error}");
    };
    check(
        json!({"stream": 7, "bytes": 3}),
        b"ab",
        "stream 7 has 2 bytes left, and the field is 3 bytes long",
    );
    check(
        json!({"stream": 7, "bytes": 1}),
        b"ab",
        "1 bytes that belong to no field",
    );
    check(
        json!({"stream": 8, "bytes": 2}),
        b"ab",
        "stream 8 is not the one for this field",
    );
    check(json!({"stream": 7}), b"ab", "`bytes` is missing");
    assert!(serde_json::from_str::<FileContent>(r#"{"content":{"b64":"?"}}"#).is_err());
}

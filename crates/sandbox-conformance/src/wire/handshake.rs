//! How a connection begins, and what each side says of itself.

use std::time::Duration;

use sandbox_core::Capability;
use sandbox_host::direct::Bare;
use serde_json::{Value, json};

use super::peer::refused;
use super::subject::{capabilities, initialize};
use super::{Subject, absent};
use crate::check::{Failure, Verdict};

pub(super) async fn the_answer_says_who_it_is_and_what_it_can_do(subject: &Subject) -> Verdict {
    let peer = subject.ready().await?;
    let hello = &peer.hello;
    ensure_eq!(hello["protocol"]["major"], json!(1), "the version chosen");
    for name in ["name", "version"] {
        ensure!(
            hello["provider"][name]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "`provider.{name}` of the result is {}",
            hello["provider"][name]
        );
    }
    ensure!(
        hello["instance"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "`instance` of the result is {}",
        hello["instance"]
    );
    for (name, kind) in [("capabilities", "an object"), ("limits", "an object")] {
        let member = &hello[name];
        ensure!(
            member.is_null() || member.is_object(),
            "`{name}` of the result must be {kind}, and is {member}"
        );
    }
    for (name, least) in [
        ("max_line_bytes", 64 * 1024),
        ("stream_window_bytes", 64 * 1024),
        ("connection_window_bytes", 64 * 1024),
        ("max_in_flight", 1),
    ] {
        let value = &hello["limits"][name];
        ensure!(
            value.is_null() || value.as_u64().is_some_and(|value| value >= least),
            "`limits.{name}` is {value}, and its range begins at {least}"
        );
    }
    Ok(())
}

pub(super) async fn the_highest_common_version_is_chosen(subject: &Subject) -> Verdict {
    let mut peer = subject.peer()?;
    let hello = peer
        .ok("initialize", initialize(&[999_999, 1, 0], &json!({})))
        .await?;
    ensure_eq!(
        hello["protocol"]["major"],
        json!(1),
        "the version chosen of 999999, 1 and 0"
    );
    Ok(())
}

pub(super) async fn no_common_version_is_said_with_both_sides(subject: &Subject) -> Verdict {
    let mut peer = subject.peer()?;
    let answer = peer
        .call("initialize", initialize(&[999_999], &json!({})))
        .await?;
    let error = refused(
        &answer,
        1001,
        "unsupported_version",
        "an offer of version 999999",
    )?;
    let message = error["message"].as_str().unwrap_or_default();
    let expected = error["data"]["expected"].as_str().unwrap_or_default();
    ensure!(
        message.contains("999999") && message.contains('1'),
        "the message must name both sides' versions, and says {message:?}"
    );
    ensure!(
        expected.contains('1') && !expected.contains("999999"),
        "`expected` must hold the provider's own versions, and is {}",
        error["data"]["expected"]
    );
    Ok(())
}

pub(super) async fn what_comes_first_must_be_initialize(subject: &Subject) -> Verdict {
    let mut peer = subject.peer()?;
    let (spec, _workspace) = subject.spec()?;
    for (method, params) in [
        ("acquire", json!({ "spec": spec })),
        ("ping", json!({})),
        (
            "read",
            json!({"sandbox": "s", "generation": 1, "path": "file"}),
        ),
    ] {
        let answer = peer.call(method, params).await?;
        refused(
            &answer,
            1002,
            "not_initialized",
            &format!("`{method}` before `initialize`"),
        )?;
    }
    peer.ok("initialize", initialize(&[1], &json!({}))).await?;
    peer.is_alive().await
}

pub(super) async fn a_second_initialize_is_refused(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let answer = peer
        .call("initialize", initialize(&[1], &json!({})))
        .await?;
    refused(&answer, -32600, "invalid_request", "a second `initialize`")?;
    peer.is_alive().await
}

pub(super) async fn limits_out_of_range_count_as_the_nearest(subject: &Subject) -> Verdict {
    let limits = json!({
        "max_line_bytes": 1, "stream_window_bytes": 0,
        "connection_window_bytes": 0, "max_in_flight": 0,
    });
    let mut peer = subject.peer()?;
    // What these count as.
    peer.max_line = 64 * 1024;
    peer.streams.window = 64 * 1024;
    peer.hello = peer.ok("initialize", initialize(&[1], &limits)).await?;
    peer.is_alive().await
}

pub(super) async fn each_start_is_another_instance(subject: &Subject) -> Verdict {
    let first = subject.ready().await?.hello["instance"].clone();
    let second = subject.ready().await?.hello["instance"].clone();
    ensure!(
        first != second,
        "two starts have the same `instance`, {first}: a host takes the second for the first"
    );
    Ok(())
}

pub(super) async fn every_mandatory_verb_is_there(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let put = json!({"put": {"path": "file", "content": {"text": "content\n"}}});
    let receipts = peer.verb_ok("write", json!({ "changes": [put] })).await?;
    ensure!(
        receipts["items"][0]["ok"].is_object(),
        "`write` with `put` was answered {receipts}"
    );
    let read = peer.verb_ok("read", json!({"path": "file"})).await?;
    ensure_eq!(
        content(&read["content"])?,
        b"content\n",
        "the content of what was written"
    );
    let stats = peer
        .verb_ok("stat_many", json!({"paths": ["file", "missing"]}))
        .await?;
    ensure!(
        stats["items"][0]["ok"]["kind"] == "file" && stats["items"][1] == json!({"ok": null}),
        "`stat_many` of a file and of nothing was answered {stats}"
    );
    let ran = peer
        .verb_ok("exec", json!({"process": {"argv": ["true"]}}))
        .await?;
    ensure_eq!(
        ran["exit"]["status"],
        json!({"exited": {"code": 0}}),
        "the status of `true`"
    );
    let removed = peer.verb_ok("remove", json!({"path": "file"})).await?;
    ensure_eq!(removed["existed"], json!(true), "`existed` of `remove`");
    let sandbox = peer.verb_params(json!({}))?["sandbox"].clone();
    let released = peer
        .ok(
            "release",
            json!({"sandbox": sandbox, "disposition": "destroy"}),
        )
        .await?;
    ensure_eq!(released["existed"], json!(true), "`existed` of `release`");
    peer.ok("shutdown", json!({})).await?;
    Ok(())
}

/// The bytes of a byte field that is on its line.
pub(super) fn content(field: &Value) -> Result<Vec<u8>, Failure> {
    if let Some(text) = field["text"].as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    field["b64"]
        .as_str()
        .and_then(|text| base64_simd::STANDARD.decode_to_vec(text).ok())
        .ok_or_else(|| Failure::new(format_args!("this is no byte field on the line: {field}")))
}

pub(super) async fn what_is_not_declared_is_unsupported(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let declared = capabilities(&peer.hello);
    for capability in Capability::ALL {
        if !declared.has(capability) {
            absent::answers_unsupported(&mut peer, capability).await?;
        }
    }
    peer.is_alive().await
}

/// Standard input stays open: who reads it waits for ever.
pub(super) async fn started_by_hand_it_explains_itself(subject: &Subject) -> Verdict {
    let mut peer = subject.start(Bare::ByHand(Vec::new()))?;
    let status = peer
        .exited(Duration::from_secs(10))
        .await
        .map_err(|failure| {
            Failure::new(format_args!(
                "without SPP_HOST it must explain itself and exit: {failure}"
            ))
        })?;
    ensure_eq!(status.code(), Some(64), "the exit status without SPP_HOST");
    // What it wrote is in the pipe by now, and only has to be read.
    let said = async {
        while peer.process.stderr().0.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    ensure!(
        tokio::time::timeout(Duration::from_secs(2), said)
            .await
            .is_ok(),
        "without SPP_HOST it says nothing on standard error"
    );
    Ok(())
}

pub(super) async fn the_manifest_is_printed_offline(subject: &Subject) -> Verdict {
    let mut peer = subject.start(Bare::ByHand(vec!["--spp-manifest".to_owned()]))?;
    let (text, status) = peer.printed(Duration::from_secs(10)).await?;
    ensure_eq!(status.code(), Some(0), "the exit status of --spp-manifest");
    let manifest: Value = serde_json::from_slice(&text).map_err(|error| {
        Failure::new(format_args!(
            "--spp-manifest must print one JSON object ({error})"
        ))
    })?;
    let hello = subject.ready().await?.hello.clone();
    for name in ["name", "version"] {
        ensure_eq!(
            manifest[name],
            hello["provider"][name],
            "`{name}` of the manifest, compared to the handshake"
        );
    }
    ensure!(
        manifest["protocol"]["majors"]
            .as_array()
            .is_some_and(|majors| majors.contains(&hello["protocol"]["major"])),
        "`protocol` of the manifest is {}",
        manifest["protocol"]
    );
    let offline = super::subject::capabilities(&manifest);
    for capability in capabilities(&hello).iter() {
        ensure!(
            offline.has(capability),
            "the handshake declares {capability:?} and the manifest does not"
        );
    }
    Ok(())
}

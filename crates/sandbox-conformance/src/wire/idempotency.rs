//! What may be asked again: lives of sandboxes, and everything that has an id or an offset.

use serde_json::{Value, json};

use super::Subject;
use super::handshake::content;
use super::peer::{Peer, refused_without_effect, result};
use super::streams::{line, script};
use crate::check::{Failure, Verdict};

/// What the sandbox of a peer was acquired with.
fn spec(peer: &Peer) -> Result<Value, Failure> {
    let sandbox = peer.sandbox.as_ref();
    sandbox
        .map(|sandbox| sandbox.spec.clone())
        .ok_or_else(|| Failure::new("the check acquired no sandbox"))
}

async fn release(peer: &mut Peer, id: &Value) -> Result<Value, Failure> {
    peer.ok("release", json!({"sandbox": id, "disposition": "destroy"}))
        .await
}

pub(super) async fn a_repeated_acquire_is_the_same_sandbox(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    script(&mut peer, "echo kept >file").await?;
    let spec = spec(&peer)?;
    let again = peer.ok("acquire", json!({ "spec": spec })).await?;
    let first = peer.sandbox.as_ref().map(|sandbox| &sandbox.descriptor);
    ensure_eq!(
        Some(&again["descriptor"]),
        first,
        "the descriptor of the second acquire"
    );
    let read = peer.verb_ok("read", json!({"path": "file"})).await?;
    ensure_eq!(
        content(&read["content"])?,
        b"kept\n",
        "what was there before"
    );
    Ok(())
}

pub(super) async fn an_acquire_with_another_spec_is_a_conflict(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let mut other = spec(&peer)?;
    other["labels"] = json!({"other": "spec"});
    let answer = peer.call("acquire", json!({ "spec": other })).await?;
    refused_without_effect(&answer, 1103, "conflict", "another spec of the same id")?;
    script(&mut peer, "true").await?;
    Ok(())
}

pub(super) async fn a_repeated_release_is_done_already(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let id = spec(&peer)?["sandbox"].clone();
    for existed in [true, false, false] {
        let receipt = release(&mut peer, &id).await?;
        ensure_eq!(receipt["existed"], json!(existed), "`existed` of a release");
    }
    let receipt = release(&mut peer, &json!("never-acquired")).await?;
    ensure_eq!(
        receipt["existed"],
        json!(false),
        "`existed` of the release of what never was"
    );
    Ok(())
}

pub(super) async fn a_release_is_told(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let sandbox = peer.verb_params(json!({}))?;
    release(&mut peer, &sandbox["sandbox"]).await?;
    peer.is_alive().await?;
    let told = peer.notices.iter().any(|(method, params)| {
        method == "sandbox/closed"
            && params["sandbox"] == sandbox["sandbox"]
            && params["generation"] == sandbox["generation"]
            && params["reason"] == "released"
    });
    ensure!(
        told,
        "a release must be told by `sandbox/closed` with the reason `released`; what was told: {:?}",
        peer.notices
    );
    Ok(())
}

pub(super) async fn another_life_is_lost_and_untouched(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    script(&mut peer, "echo kept >file").await?;
    let mut params = peer.verb_params(json!({"path": "file"}))?;
    params["generation"] = json!(params["generation"].as_u64().unwrap_or_default() + 1);
    let answer = peer.call("remove", params).await?;
    refused_without_effect(&answer, 1102, "lost", "a verb for another generation")?;
    peer.verb_ok("read", json!({"path": "file"})).await?;
    let answer = peer
        .call(
            "read",
            json!({"sandbox": "never-acquired", "generation": 1, "path": "file"}),
        )
        .await?;
    refused_without_effect(&answer, 1101, "sandbox_not_found", "a verb for no sandbox")?;
    Ok(())
}

pub(super) async fn a_new_sandbox_of_the_id_is_a_new_life(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let old = peer.verb_params(json!({"paths": ["."]}))?;
    let spec = spec(&peer)?;
    release(&mut peer, &old["sandbox"]).await?;
    let new = peer.ok("acquire", json!({ "spec": spec })).await?;
    let (new, old_life) = (
        new["descriptor"]["generation"].as_u64(),
        old["generation"].as_u64(),
    );
    ensure!(
        new > old_life,
        "the sandbox that was acquired after the release has generation {new:?}, after {old_life:?}"
    );
    let answer = peer.call("stat_many", old).await?;
    refused_without_effect(&answer, 1102, "lost", "a verb for the life before")?;
    Ok(())
}

pub(super) async fn a_requirement_that_cannot_be_met_is_refused(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let limit = json!({"limits": {"x_no_such_limit": {"value": 1}}});
    let restriction = json!({"require": ["x_no_such_restriction"]});
    for policy in [limit, restriction] {
        let (mut spec, _workspace) = subject.spec()?;
        spec["policy"] = policy.clone();
        let answer = peer.call("acquire", json!({ "spec": spec })).await?;
        let error = &answer["error"];
        // Nobody knows it, so nobody can enforce it; as an unknown choice it may be refused too.
        ensure!(
            error["code"] == 1108 || error["code"] == -32602,
            "a policy of which nobody knows the requirement {policy} must be refused, and was answered {answer}"
        );
    }
    Ok(())
}

async fn spawn(peer: &mut Peer, id: &str, command: &str, stdin: &str) -> Result<Value, Failure> {
    let process = line(peer, command);
    peer.verb_ok(
        "spawn",
        json!({"id": id, "process": process, "stdin": stdin}),
    )
    .await
}

async fn kill(peer: &mut Peer, id: &str) -> Verdict {
    peer.verb_ok("proc_stop", json!({"id": id, "stop": "kill"}))
        .await
        .map(drop)
}

pub(super) async fn a_repeated_spawn_is_the_same_process(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let first = spawn(&mut peer, "one", "sleep 300", "null").await?;
    let again = spawn(&mut peer, "one", "sleep 300", "null").await?;
    ensure_eq!(again, first, "the answer to a repeated spawn");
    let other = json!({"id": "one", "process": line(&peer, "sleep 301"), "stdin": "null"});
    let answer = peer.verb("spawn", other).await?;
    refused_without_effect(&answer, 1103, "conflict", "another spawn of the same id")?;
    kill(&mut peer, "one").await
}

pub(super) async fn input_is_taken_once_by_its_offset(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    spawn(&mut peer, "cat", "cat >file; echo done", "open").await?;
    let write = |offset: u64, text: &str, close: bool| json!({"id": "cat", "offset": offset, "content": {"text": text}, "close": close});
    for _ in 0..2 {
        let next = peer
            .verb_ok("proc_stdin", write(0, "hello ", false))
            .await?;
        ensure_eq!(
            next["next"],
            json!(6),
            "`next` after 6 bytes, however often"
        );
    }
    let answer = peer.verb("proc_stdin", write(9, "x", false)).await?;
    let error = refused_without_effect(&answer, 1103, "conflict", "input behind a gap")?;
    let expected = &error["data"]["expected"];
    ensure!(
        expected == "6" || expected == 6,
        "`expected` must be the right offset, 6, and is {expected}"
    );
    // Half of it was accepted before.
    let next = peer
        .verb_ok("proc_stdin", write(3, "lo world", true))
        .await?;
    ensure_eq!(next["next"], json!(11), "`next` after what overlaps");
    wait_for_end(&mut peer, "cat").await?;
    let read = peer.verb_ok("read", json!({"path": "file"})).await?;
    ensure_eq!(
        content(&read["content"])?,
        b"hello world",
        "what the process was given"
    );
    Ok(())
}

async fn wait_for_end(peer: &mut Peer, id: &str) -> Verdict {
    let mut from = 0;
    for _ in 0..20 {
        let params = json!({"id": id, "stream": "stdout", "from": from, "wait_ms": 2000});
        let chunk = peer.verb_ok("proc_read", params).await?;
        from =
            chunk["offset"].as_u64().unwrap_or_default() + content(&chunk["content"])?.len() as u64;
        if chunk["end"] == true {
            return Ok(());
        }
    }
    Err(Failure::new(format_args!(
        "the process `{id}` does not end"
    )))
}

pub(super) async fn a_log_is_read_again_by_its_offset(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    spawn(&mut peer, "seq", "seq 1 1000", "null").await?;
    wait_for_end(&mut peer, "seq").await?;
    let all: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    for (from, max) in [(0, 100), (0, 100), (50, 10), (3000, 5000)] {
        let params = json!({"id": "seq", "stream": "stdout", "from": from, "max": max});
        let id = peer.ask_verb("proc_read", params).await?;
        let chunk = result(peer.answer(id, "proc_read").await?, "proc_read")?;
        let bytes = content(&chunk["content"])?;
        let (from, max) = (usize::try_from(from), usize::try_from(max));
        let (from, max) = (from.unwrap_or(0), max.unwrap_or(0));
        let wanted = all.as_bytes().get(from..).unwrap_or_default();
        let wanted = &wanted[..wanted.len().min(max)];
        ensure!(
            !bytes.is_empty() && wanted.starts_with(&bytes),
            "the log from {from}, at most {max} bytes, is {:?}",
            String::from_utf8_lossy(&bytes)
        );
        ensure_eq!(chunk["offset"], json!(from), "`offset` of what was read");
        ensure_eq!(chunk["total"], json!(all.len()), "`total` of the log");
    }
    Ok(())
}

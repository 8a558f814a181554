//! How long a host waits.

use serde_json::json;

use super::Subject;
use super::cancel::{HEART, heart_beats, heart_stands};
use super::peer::{refused, result};
use super::streams::line;
use crate::check::Verdict;

pub(super) async fn a_deadline_ends_the_run_and_is_said(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let process = line(&peer, HEART);
    let params = json!({"process": process, "_meta": {"deadline_ms": 1500}});
    let id = peer.ask_verb("exec", params).await?;
    heart_beats(&mut peer).await?;
    let answer = peer.answer(id, "a run beyond its deadline").await?;
    heart_stands(&mut peer, "after the deadline").await?;
    refused(
        &answer,
        1004,
        "deadline_exceeded",
        "a run beyond its deadline",
    )?;
    Ok(())
}

pub(super) async fn a_deadline_that_does_not_pass_changes_nothing(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let meta = json!({"deadline_ms": 60_000, "traceparent": "00-00000000000000000000000000000001-0000000000000001-00"});
    let params = json!({"process": {"argv": ["true"]}, "_meta": meta});
    let id = peer.ask_verb("exec", params).await?;
    let outcome = result(peer.answer(id, "a run with a deadline").await?, "exec")?;
    ensure_eq!(
        outcome["exit"]["status"],
        json!({"exited": {"code": 0}}),
        "the status of a run that was done before its deadline"
    );
    Ok(())
}

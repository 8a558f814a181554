//! Giving requests up.

use std::time::Duration;

use serde_json::{Value, json};

use super::Subject;
use super::peer::{Peer, refused, result};
use super::stream::Reading;
use super::streams::{line, live};
use crate::check::{Failure, Verdict};

/// A command line whose daemon beats in a file, in a session of its own.
pub(super) const HEART: &str = "(setsid sh -c 'while :; do echo x >>beats; sleep 0.02; done' >/dev/null 2>&1 &); echo up; sleep 300";
/// In this time a heart that beats does so some ten times.
pub(super) const BEATS: Duration = Duration::from_millis(300);

/// How long the file of beats is.
async fn beats(peer: &mut Peer) -> Result<u64, Failure> {
    let stats = peer
        .verb_ok("stat_many", json!({"paths": ["beats"]}))
        .await?;
    Ok(stats["items"][0]["ok"]["size"].as_u64().unwrap_or(0))
}

/// Waits until the heart beats.
pub(super) async fn heart_beats(peer: &mut Peer) -> Verdict {
    for _ in 0..500 {
        if beats(peer).await? > 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(Failure::new("the command of the check did not start"))
}

/// That the heart beats no more.
pub(super) async fn heart_stands(peer: &mut Peer, when: &str) -> Verdict {
    let before = beats(peer).await?;
    tokio::time::sleep(BEATS).await;
    let after = beats(peer).await?;
    ensure_eq!(after, before, "beats of a daemon {when}");
    Ok(())
}

async fn cancel(peer: &mut Peer, id: u64) -> Verdict {
    peer.notify("$/cancel", json!({ "id": id })).await
}

/// That an answer is one that a cancelled run may have.
fn cancelled(answer: &Value) -> Verdict {
    let status = &answer["result"]["exit"]["status"];
    if status == "cancelled" {
        return Ok(());
    }
    refused(answer, -32800, "cancelled", "a cancelled run").map(drop)
}

pub(super) async fn a_cancelled_run_is_answered_when_nothing_is_left(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let process = line(&peer, HEART);
    let id = peer.ask_verb("exec", json!({ "process": process })).await?;
    heart_beats(&mut peer).await?;
    cancel(&mut peer, id).await?;
    let outcome = result(peer.answer(id, "a cancelled run").await?, "exec")?;
    heart_stands(&mut peer, "after the answer").await?;
    ensure_eq!(
        outcome["exit"]["status"],
        json!("cancelled"),
        "the status of a cancelled run"
    );
    ensure_eq!(
        super::handshake::content(&outcome["stdout"]["head"])?,
        b"up\n",
        "what the cancelled run had printed"
    );
    Ok(())
}

pub(super) async fn a_cancel_right_behind_its_request_is_answered(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    for _ in 0..10 {
        let id = peer.id();
        let params = peer.verb_params(json!({ "process": line(&peer, "sleep 300") }))?;
        let request = super::peer::request(id, "exec", &params);
        let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": id}});
        peer.bytes(format!("{request}\n{cancel}\n").as_bytes())
            .await?;
        cancelled(&peer.answer(id, "a run that was cancelled at once").await?)?;
    }
    Ok(())
}

pub(super) async fn a_cancel_too_late_is_ignored(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let id = peer
        .ask_verb("exec", json!({"process": {"argv": ["true"]}}))
        .await?;
    result(peer.answer(id, "exec").await?, "exec")?;
    cancel(&mut peer, id).await?;
    peer.is_alive().await
}

pub(super) async fn a_cancel_of_nothing_is_ignored(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    for params in [json!({"id": 77_777}), json!({"id": "text"}), json!({})] {
        peer.notify("$/cancel", params).await?;
    }
    peer.is_alive().await
}

pub(super) async fn a_cancel_that_is_repeated_is_answered_once(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let process = line(&peer, HEART);
    let id = peer.ask_verb("exec", json!({ "process": process })).await?;
    heart_beats(&mut peer).await?;
    for _ in 0..5 {
        cancel(&mut peer, id).await?;
    }
    cancelled(
        &peer
            .answer(id, "a run that was cancelled five times")
            .await?,
    )?;
    peer.is_alive().await
}

pub(super) async fn a_cancelled_run_that_waits_for_credit_is_answered(
    subject: &Subject,
) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let run = live(&mut peer, "yes", Reading::Stalled).await?;
    peer.settle(Duration::from_millis(300)).await?;
    cancel(&mut peer, run.id).await?;
    cancelled(
        &peer
            .answer(run.id, "a cancelled run whose output nobody takes")
            .await?,
    )
}

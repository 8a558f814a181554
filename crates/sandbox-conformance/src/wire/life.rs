//! How a provider ends, and that nothing outlives it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::Subject;
use super::cancel::{BEATS, HEART, heart_beats};
use super::peer::{Peer, refused_without_effect, result};
use super::stream::Reading;
use super::streams::{line, live, script};
use crate::check::{Failure, Verdict};

/// What the protocol gives two seconds is given this long, on a machine that may be busy.
const END: Duration = Duration::from_secs(5);
/// A process that was killed takes a moment to be gone.
const DYING: Duration = Duration::from_secs(2);
/// As long may take what nobody waits for.
const CLEANED: Duration = Duration::from_secs(15);

/// A provider in whose sandbox a daemon beats.
async fn beating(subject: &Subject) -> Result<Peer, Failure> {
    let mut peer = subject.sandbox().await?;
    let process = line(&peer, HEART);
    peer.ask_verb("exec", json!({ "process": process })).await?;
    heart_beats(&mut peer).await?;
    Ok(peer)
}

/// The file of beats, where the workspace is a directory of this machine.
fn heart(peer: &Peer) -> Option<PathBuf> {
    let workspace = peer.sandbox.as_ref()?.workspace.as_ref()?;
    Some(workspace.join("beats"))
}

/// That it ends well, and with it everything it started.
async fn ends(subject: &Subject, peer: &mut Peer, after: &str) -> Verdict {
    let status = peer.exited(END).await?;
    ensure_eq!(status.code(), Some(0), "the exit status after {after}");
    nothing_is_left(subject, peer, after, DYING).await
}

/// That nothing of it is left, at the latest after this time.
async fn nothing_is_left(subject: &Subject, peer: &Peer, after: &str, limit: Duration) -> Verdict {
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let heart = heart(peer);
        let size = || {
            let heart = heart.as_ref()?;
            Some(std::fs::metadata(heart).ok()?.len())
        };
        let before = size();
        tokio::time::sleep(BEATS).await;
        let beats = size() != before;
        let left = subject.orphans().besides(&[peer.process.pid()]);
        if !beats && left.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(Failure::new(format_args!(
                "after {after} these processes were left: {}{}",
                left.join(", "),
                if beats {
                    "; a daemon of a sandbox went on"
                } else {
                    ""
                },
            )));
        }
    }
}

pub(super) async fn the_end_of_input_ends_it_and_what_it_started(subject: &Subject) -> Verdict {
    let mut peer = beating(subject).await?;
    peer.end_input();
    ends(subject, &mut peer, "the end of its input").await
}

pub(super) async fn the_end_of_input_ends_it_while_streams_wait_for_credit(
    subject: &Subject,
) -> Verdict {
    let mut peer = subject.sandbox().await?;
    for _ in 0..3 {
        live(&mut peer, "yes", Reading::Stalled).await?;
    }
    peer.settle(Duration::from_millis(300)).await?;
    peer.end_input();
    ends(
        subject,
        &mut peer,
        "the end of its input, while streams waited for credit,",
    )
    .await
}

pub(super) async fn a_line_that_the_end_cuts_off_is_no_message(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    script(&mut peer, "echo kept >file").await?;
    let id = peer.id();
    let params = peer.verb_params(json!({"path": "file"}))?;
    // All of it but the end of the line: a writer may have died in the middle of a larger one.
    peer.bytes(super::peer::request(id, "remove", &params).as_bytes())
        .await?;
    peer.end_input();
    let workspace = peer
        .sandbox
        .as_ref()
        .and_then(|sandbox| sandbox.workspace.clone());
    let status = peer.exited(END).await?;
    ensure_eq!(status.code(), Some(0), "the exit status after half a line");
    if let Some(workspace) = workspace {
        ensure!(
            workspace.join("file").exists(),
            "a request whose line was cut off was carried out"
        );
    }
    Ok(())
}

pub(super) async fn sigterm_means_the_same(subject: &Subject) -> Verdict {
    let mut peer = beating(subject).await?;
    peer.process.terminate();
    ends(subject, &mut peer, "SIGTERM").await
}

pub(super) async fn the_loss_of_both_pipes_ends_it(subject: &Subject) -> Verdict {
    let mut peer = beating(subject).await?;
    live(&mut peer, "yes", Reading::Eager).await?;
    peer.settle_for(Duration::from_millis(200)).await?;
    peer.lose();
    peer.exited(END).await?;
    nothing_is_left(subject, &peer, "the loss of both pipes", DYING).await
}

pub(super) async fn nothing_outlives_a_provider_that_is_killed(subject: &Subject) -> Verdict {
    let mut peer = beating(subject).await?;
    peer.process.kill();
    peer.exited(END).await?;
    nothing_is_left(subject, &peer, "SIGKILL", CLEANED).await
}

/// The lease of these checks. A busy machine keeps it without trouble.
const LEASE: Duration = Duration::from_secs(2);
/// How often a host gives a sign of life within it.
const SIGNS: u32 = 8;

/// A provider in whose sandbox, which has a lease, a daemon beats. It is given signs of life until the daemon does.
async fn leased(subject: &Subject) -> Result<Peer, Failure> {
    let mut peer = subject.ready().await?;
    let (mut spec, workspace) = subject.spec()?;
    spec["lease_ms"] = json!(LEASE.as_millis());
    let acquired = subject.acquire_by(&mut peer, spec, workspace).await?;
    peer.sandbox = Some(acquired);
    let process = line(&peer, HEART);
    peer.ask_verb("exec", json!({ "process": process })).await?;
    heart_beats(&mut peer).await?;
    Ok(peer)
}

pub(super) async fn a_host_that_says_nothing_for_a_lease_is_gone(subject: &Subject) -> Verdict {
    let mut peer = leased(subject).await?;
    // Both pipes stay open.
    peer.exited(LEASE + END).await?;
    nothing_is_left(subject, &peer, "a lease without a sign of life", DYING).await
}

pub(super) async fn any_line_keeps_a_lease(subject: &Subject) -> Verdict {
    let mut peer = leased(subject).await?;
    for _ in 0..3 * SIGNS {
        peer.bytes(b"\n").await?;
        peer.settle_for(LEASE / SIGNS).await?;
    }
    ensure!(
        peer.process.status().is_none(),
        "it ended although it had signs of life"
    );
    peer.ok("ping", json!({})).await?;
    peer.end_input();
    ends(subject, &mut peer, "the end of its input").await
}

pub(super) async fn shutdown_takes_no_new_work(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let process = line(&peer, HEART);
    let run = peer.ask_verb("exec", json!({ "process": process })).await?;
    heart_beats(&mut peer).await?;
    peer.ok("shutdown", json!({"grace_ms": 200})).await?;
    ensure!(
        peer.is_answered(run),
        "`shutdown` was answered before the run that it ends"
    );
    let answer = peer
        .verb("exec", json!({"process": {"argv": ["true"]}}))
        .await?;
    refused_without_effect(
        &answer,
        1104,
        "provider_unavailable",
        "a run after `shutdown`",
    )?;
    ensure!(
        peer.process.status().is_none(),
        "it ended before the end of its input"
    );
    peer.end_input();
    ends(subject, &mut peer, "`shutdown` and the end of its input").await
}

pub(super) async fn a_daemon_that_holds_the_output_holds_no_call(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let process = line(&peer, "setsid sleep 300 & echo started");
    let id = peer.ask_verb("exec", json!({ "process": process })).await?;
    let outcome = result(
        peer.answer(id, "a run whose daemon holds its output")
            .await?,
        "exec",
    )?;
    ensure_eq!(
        outcome["exit"]["status"],
        json!({"exited": {"code": 0}}),
        "the status of a run whose daemon holds its output"
    );
    ensure_eq!(
        super::handshake::content(&outcome["stdout"]["head"])?,
        b"started\n",
        "what it printed"
    );
    Ok(())
}

/// The connection's pipes have numbers, and a process that holds one sees its number.
pub(super) async fn children_do_not_inherit_the_connection(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let held = script(&mut peer, "readlink /proc/self/fd/* /proc/$$/fd/* || true").await?;
    let held = String::from_utf8_lossy(&held).into_owned();
    for pipe in peer.pipes.clone() {
        ensure!(
            !held.lines().any(|line| line == pipe.as_str()),
            "a process of the sandbox holds {pipe}, which is the connection's: {held}"
        );
    }
    Ok(())
}

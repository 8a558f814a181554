//! Checks of what becomes of everything that a process started.
//!
//! Reports B001 to B008, B013 and B014: a timeout ended the shell and not what it had started, and
//! a background process that held a pipe kept the answer from ever coming.

use std::time::Duration;

use sandbox_core::process::{Descendants, ExecRequest, ProcStopRequest, ProcessSpec, Status, Stop};
use sandbox_core::{Cancel, ErrorKind};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{proc_id, soon};

/// Writes its pids to `pids`, then says so with the file `started`: a shell that ignores the
/// polite signals, a child in the same session, and a daemon that left session and parent.
const FAMILY: &str = "trap '' TERM INT HUP; echo $$ >pids; \
    sleep 300 & echo $! >>pids; \
    (setsid sh -c 'trap \"\" TERM INT HUP; echo $$ >>pids; sleep 300 & echo $! >>pids; \
      : >started; wait' &); \
    wait; sleep 300";

fn family(place: &Place) -> Result<ProcessSpec, Failure> {
    let mut process = place.line(FAMILY)?;
    process.grace = Duration::from_millis(100);
    Ok(process)
}

/// Fails unless the whole family is there, so that its absence later means something.
async fn family_is_there(place: &Place) -> Verdict {
    place.appears("started").await?;
    ensure!(
        place.all_gone(&["pids"]).await.is_err(),
        "the processes that the check is about did not start"
    );
    Ok(())
}

/// Report B005.
pub(crate) async fn a_held_pipe_does_not_hold_the_answer(place: &Place) -> Verdict {
    let run = place.run(place.line("sleep 300 & echo done")?);
    let outcome = soon("the end of a command whose child holds its output", run).await??;
    ensure_eq!(
        (outcome.exit.status, outcome.stdout.to_text().as_str()),
        (Status::Exited(0), "done\n"),
        "status and output"
    );
    Ok(())
}

/// Report B002: the last words of a child are waited for a little while.
pub(crate) async fn what_a_child_still_says_is_heard(place: &Place) -> Verdict {
    let run = place.run(place.line("(sleep 0.01; echo late) & echo early")?);
    let outcome = soon("the end of a command whose child still writes", run).await??;
    ensure_eq!(outcome.stdout.to_text(), "early\nlate\n", "output");
    Ok(())
}

pub(crate) async fn a_daemon_does_not_outlive_its_run(place: &Place) -> Verdict {
    let line = "(setsid sh -c 'echo $$ >pids; sleep 300 & echo $! >>pids; : >started; wait' \
                </dev/null >/dev/null 2>&1 &); while ! [ -e started ]; do sleep 0.01; done";
    let outcome = place.run(place.line(line)?).await?;
    ensure_eq!(outcome.exit.status, Status::Exited(0), "status");
    place.all_gone(&["pids"]).await?;
    ensure!(
        outcome.exit.survivors.killed >= 2 && outcome.exit.survivors.left_total == 0,
        "two processes were killed after the leader, and the report says {:?}",
        outcome.exit.survivors
    );
    Ok(())
}

pub(crate) async fn what_is_left_on_request_is_named_and_runs_on(place: &Place) -> Verdict {
    // Until the child is `sleep` it has the name of the shell.
    let line = "sleep 300 >/dev/null 2>&1 & echo $! >pids; \
                until grep -q sleep /proc/$!/comm; do sleep 0.01; done; echo $!";
    let mut process = place.line(line)?;
    process.descendants = Descendants::Leave;
    let outcome = place.run(process).await?;
    let survivors = &outcome.exit.survivors;
    let pid = outcome.stdout.to_text();
    ensure!(
        survivors.left_total == 1
            && survivors.killed == 0
            && survivors
                .left
                .iter()
                .any(|left| left.pid.to_string() == pid.trim() && left.name == "sleep"),
        "`sleep` runs on as {}, and the report says {survivors:?}",
        pid.trim()
    );
    ensure!(
        place.all_gone(&["pids"]).await.is_err(),
        "what was to be left running is gone"
    );
    Ok(())
}

/// Reports B001, B004, B007, B014.
pub(crate) async fn a_timeout_ends_the_whole_tree(place: &Place) -> Verdict {
    let process = family(place)?.timeout(Duration::from_millis(1500));
    let outcome = soon("the end of a tree at its timeout", place.run(process)).await??;
    ensure!(place.exists("started").await?, "the tree had not started");
    ensure_eq!(outcome.exit.status, Status::TimedOut, "status");
    place.all_gone(&["pids"]).await
}

/// Report B008.
pub(crate) async fn a_cancel_ends_the_whole_tree(place: &Place) -> Verdict {
    let cancel = Cancel::new();
    let ctx = place.ctx().with_cancel(cancel.clone());
    let mut process = family(place)?;
    process.argv[2].splice(..0, b"echo partial; ".iter().copied());
    let execution = place.sandbox.exec(&ctx, ExecRequest::new(process)).await?;
    let outcome = tokio::spawn(execution.outcome);
    family_is_there(place).await?;
    cancel.cancel();
    let outcome = soon("the answer to a cancel", outcome)
        .await?
        .map_err(Failure::new)??;
    ensure_eq!(
        (outcome.exit.status, outcome.stdout.to_text().as_str()),
        (Status::Cancelled, "partial\n"),
        "status and output"
    );
    place.all_gone(&["pids"]).await
}

pub(crate) async fn an_outcome_that_nobody_waits_for_is_a_cancel(place: &Place) -> Verdict {
    let execution = place.start(ExecRequest::new(family(place)?)).await?;
    let outcome = tokio::spawn(execution.outcome);
    family_is_there(place).await?;
    outcome.abort();
    place.end(&["pids"]).await
}

pub(crate) async fn a_run_can_be_stopped_by_its_id(place: &Place) -> Verdict {
    let request = ExecRequest::new(family(place)?).id(proc_id("run"));
    let execution = place.start(request).await?;
    let outcome = tokio::spawn(execution.outcome);
    family_is_there(place).await?;
    let stop = ProcStopRequest {
        id: proc_id("run"),
        stop: Stop::Graceful {
            grace: Duration::from_millis(50),
        },
    };
    place.sandbox.proc_stop(&place.ctx(), stop).await?;
    place.all_gone(&["pids"]).await?;
    let outcome = soon("the outcome of a run that was stopped", outcome)
        .await?
        .map_err(Failure::new)??;
    ensure_eq!(outcome.exit.status, Status::Cancelled, "status");
    Ok(())
}

pub(crate) async fn a_timeout_is_polite_first(place: &Place) -> Verdict {
    let mut process = place
        .line(
            // Long enough that whoever kills without grace does so meanwhile on a busy machine too.
            "trap 'sleep 0.5; echo goodbye; exit 0' TERM; echo hello; while :; do sleep 0.02; done",
        )?
        .timeout(Duration::from_secs(1));
    process.grace = Duration::from_secs(4);
    let outcome = soon("a command that ends when asked", place.run(process)).await??;
    ensure_eq!(
        (outcome.exit.status, outcome.stdout.to_text().as_str()),
        (Status::TimedOut, "hello\ngoodbye\n"),
        "status and output"
    );
    Ok(())
}

pub(crate) async fn a_call_cancelled_before_it_begins_starts_nothing(place: &Place) -> Verdict {
    let cancel = Cancel::new();
    cancel.cancel();
    let ctx = place.ctx().with_cancel(cancel);
    let process = place.line("sleep 0.2; echo started >started")?;
    let call = async {
        let execution = place.sandbox.exec(&ctx, ExecRequest::new(process)).await?;
        execution.outcome.await
    };
    match soon("the answer to a call that was cancelled before", call).await? {
        Ok(outcome) => ensure_eq!(outcome.exit.status, Status::Cancelled, "status"),
        Err(error) => ensure_eq!(error.kind(), ErrorKind::Cancelled, "refusal ({error})"),
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    ensure!(
        !place.exists("started").await?,
        "the cancelled call ran to its end"
    );
    Ok(())
}

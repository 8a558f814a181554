//! Doubles that are wrong about what becomes of everything a process started.

use std::time::Duration;

use sandbox_core::process::{
    Descendants, ExecRequest, ProcessSpec, SpawnRequest, Status, Survivors,
};
use sandbox_core::{Ctx, Error, ErrorKind, ProcId, Verb};

use super::doubles;
use super::wrapped::{Honest, mapped};

/// Starts again what was ended, and waits until it is there.
async fn again(honest: &Honest, mut process: ProcessSpec) {
    process.timeout = None;
    if let Ok(id) = ProcId::new("again") {
        let _ = honest
            .spawn(&Ctx::new(), SpawnRequest::new(id, process))
            .await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

doubles! {
    a_held_pipe_does_not_hold_the_answer: "a pipe that is held holds the answer"
    exec(honest, ctx, request) {
        let mut execution = honest.exec(&ctx, request).await?;
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let outcome = outcome.await?;
            if outcome.exit.survivors.killed > 0
                && outcome.exit.status == Status::Exited(0)
                && outcome.stdout.total > 0
            {
                tokio::time::sleep(Duration::from_secs(6)).await;
            }
            Ok(outcome)
        });
        Ok(execution)
    }

    a_daemon_does_not_outlive_its_run: "a daemon is counted as killed and lives"
    exec(honest, ctx, mut request) {
        let kill = request.process.descendants == Descendants::Kill;
        request.process.descendants = Descendants::Leave;
        mapped(&honest, &ctx, request, move |outcome| {
            let mut outcome = outcome?;
            let survivors = &mut outcome.exit.survivors;
            if kill {
                *survivors = Survivors {
                    killed: survivors.killed + survivors.left_total,
                    ..Survivors::default()
                };
            }
            Ok(outcome)
        }).await
    }

    a_timeout_ends_the_whole_tree: "what has timed out is started again"
    exec(honest, ctx, request) {
        let process = request.process.clone();
        let mut execution = honest.exec(&ctx, request).await?;
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let outcome = outcome.await?;
            if outcome.exit.status == Status::TimedOut {
                again(&honest, process).await;
            }
            Ok(outcome)
        });
        Ok(execution)
    }

    a_cancel_ends_the_whole_tree: "what was cancelled is started again"
    exec(honest, ctx, request) {
        let process = request.process.clone();
        let mut execution = honest.exec(&ctx, request).await?;
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let outcome = outcome.await?;
            if ctx.cancel().is_cancelled() && outcome.stdout.total > 0 {
                again(&honest, process).await;
            }
            Ok(outcome)
        });
        Ok(execution)
    }

    an_outcome_that_nobody_waits_for_is_a_cancel: "a run goes on when nobody waits for it"
    exec(honest, ctx, request) {
        let mut execution = honest.exec(&ctx, request).await?;
        let outcome = tokio::spawn(execution.outcome);
        execution.outcome = Box::pin(async move {
            outcome.await.unwrap_or_else(|_| Err(Error::new(Verb::Exec, ErrorKind::Internal)))
        });
        Ok(execution)
    }

    a_run_can_be_stopped_by_its_id: "only what was spawned can be stopped"
    proc_stop(honest, ctx, request) {
        if honest.noted(&format!("exec {}", request.id)) > 0 {
            return Err(Error::refused(Verb::ProcStop, ErrorKind::ProcessNotFound));
        }
        honest.proc_stop(&ctx, request).await
    }

    a_timeout_is_polite_first: "a long grace is no grace"
    process(process) {
        if process.grace > Duration::from_secs(1) {
            process.grace = Duration::ZERO;
        }
    }

    a_call_cancelled_before_it_begins_starts_nothing: "a cancel before the call is not seen"
    exec(honest, ctx, request) {
        let request = ExecRequest { ..request };
        if ctx.cancel().is_cancelled() {
            return honest.exec(&Ctx::new(), request).await;
        }
        honest.exec(&ctx, request).await
    }

    unread_input_holds_up_nothing_else: "much input of one process holds up the next"
    exec(honest, ctx, request) {
        if honest.noted("input") > 100_000 {
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
        honest.exec(&ctx, request).await
    }
}

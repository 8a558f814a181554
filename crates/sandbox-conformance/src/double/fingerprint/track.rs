//! Doubles that are wrong about what a run changed.

use sandbox_core::process::{Delivery, ExecRequest, Outcome, Status};
use sandbox_core::search::{Changes, Completeness};
use sandbox_core::{Ctx, Error, ErrorKind, Result, Verb};

use super::{forget, has_limit, is_old};
use crate::double::doubles;
use crate::double::wrapped::{Honest, mapped};
use crate::support::path;

/// Runs it, and changes what is told about its changes.
async fn told(
    honest: &Honest,
    ctx: &Ctx,
    request: ExecRequest,
    change: impl FnOnce(&mut Changes) + Send + 'static,
) -> Result<sandbox_core::process::Execution> {
    mapped(honest, ctx, request, move |outcome| {
        let mut outcome: Outcome = outcome?;
        outcome.changes.as_mut().map(change);
        Ok(outcome)
    })
    .await
}

doubles! {
    a_run_tells_what_it_created: "what a run created in a directory is not told"
    exec(honest, ctx, request) {
        told(&honest, &ctx, request, |changes| {
            changes.created.retain(|path| path.as_bytes() != b"d/file");
        }).await
    }

    a_run_tells_what_it_modified: "what a run appended to is not told"
    exec(honest, ctx, request) {
        let mut execution = honest.exec(&ctx, request).await?;
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let mut outcome = outcome.await?;
            if let Some(changes) = &mut outcome.changes {
                forget(&honest, &Ctx::new(), &mut changes.modified, |stat| !is_old(stat)).await;
            }
            Ok(outcome)
        });
        Ok(execution)
    }

    a_run_tells_what_it_removed: "what a run removed is not told"
    exec(honest, ctx, request) {
        told(&honest, &ctx, request, |changes| changes.removed.clear()).await
    }

    a_run_that_restores_the_time_is_found_out: "a run that gives the old time back modified nothing"
    exec(honest, ctx, request) {
        let mut execution = honest.exec(&ctx, request).await?;
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let mut outcome = outcome.await?;
            if let Some(changes) = &mut outcome.changes {
                forget(&honest, &Ctx::new(), &mut changes.modified, is_old).await;
            }
            Ok(outcome)
        });
        Ok(execution)
    }

    a_run_that_changes_nothing_tells_nothing: "what a run read is modified"
    exec(honest, ctx, request) {
        let reads = request.process.argv.last().is_some_and(|line| line.starts_with(b"cat "));
        told(&honest, &ctx, request, move |changes| {
            if reads {
                changes.modified.push(path("d/file"));
            }
        }).await
    }

    changes_are_told_only_when_asked_for: "changes are always told"
    exec(honest, ctx, request) {
        mapped(&honest, &ctx, request, |outcome| {
            let mut outcome = outcome?;
            outcome.changes.get_or_insert(Changes {
                created: Vec::new(),
                modified: Vec::new(),
                removed: Vec::new(),
                complete: Completeness::Complete,
            });
            Ok(outcome)
        }).await
    }

    a_run_that_timed_out_tells_its_changes: "a run that timed out tells no changes"
    exec(honest, ctx, request) {
        mapped(&honest, &ctx, request, |outcome| {
            let mut outcome = outcome?;
            if outcome.exit.status == Status::TimedOut {
                outcome.changes = None;
            }
            Ok(outcome)
        }).await
    }

    a_cancelled_run_tells_its_changes: "a cancelled run tells no changes"
    exec(honest, ctx, request) {
        mapped(&honest, &ctx, request, |outcome| {
            let mut outcome = outcome?;
            if outcome.exit.status == Status::Cancelled {
                outcome.changes = None;
            }
            Ok(outcome)
        }).await
    }

    a_live_run_tells_its_changes: "a live run tells no changes"
    exec(honest, ctx, request) {
        let live = request.delivery == Delivery::Live;
        mapped(&honest, &ctx, request, move |outcome| {
            let mut outcome = outcome?;
            if live {
                outcome.changes = None;
            }
            Ok(outcome)
        }).await
    }

    a_run_is_not_failed_by_the_limit_of_tracking: "a tree that is too large fails the run"
    exec(honest, ctx, request) {
        mapped(&honest, &ctx, request, |outcome| {
            let outcome = outcome?;
            match &outcome.changes {
                Some(changes) if has_limit(&changes.complete) && changes.created.is_empty() => {
                    Err(Error::new(Verb::Exec, ErrorKind::TooLarge))
                }
                _ => Ok(outcome),
            }
        }).await
    }

    a_run_with_many_changes_tells_a_part: "a part of a run's changes is said to be all"
    exec(honest, ctx, request) {
        told(&honest, &ctx, request, |changes| {
            if changes.created.len() > 100 {
                changes.created.truncate(100);
                changes.complete = Completeness::Complete;
            }
        }).await
    }

    only_the_scope_of_tracking_counts: "the whole workspace is tracked where a directory was meant"
    exec(honest, ctx, mut request) {
        let root = request.track.as_ref().map(|scope| scope.scope.root.clone());
        if let (Some(scope), Some(root)) = (&mut request.track, root)
            && honest.look(&ctx, &root).await.is_some()
        {
            scope.scope.root = path(".");
        }
        honest.exec(&ctx, request).await
    }

    a_tree_that_a_run_makes_counts_whole: "a tree that is not there yet cannot be tracked"
    exec(honest, ctx, request) {
        if let Some(scope) = &request.track
            && honest.look(&ctx, &scope.scope.root).await.is_none()
        {
            return Err(Error::refused(Verb::Exec, ErrorKind::NotFound));
        }
        honest.exec(&ctx, request).await
    }

    a_scope_that_is_none_is_refused_before_the_run: "a scope that is none is refused after the run"
    exec(honest, ctx, mut request) {
        let none = request
            .track
            .as_ref()
            .is_some_and(|scope| scope.scope.include.iter().any(|glob| glob.contains('[')));
        if none {
            request.track = None;
        }
        mapped(&honest, &ctx, request, move |outcome| {
            if none {
                return Err(Error::refused(Verb::Exec, ErrorKind::InvalidArgument));
            }
            outcome
        }).await
    }
}

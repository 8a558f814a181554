//! What a command changed, told with its outcome.

use std::time::Duration;

use futures_util::StreamExt;
use sandbox_core::process::{Delivery, ExecRequest, Outcome, Status};
use sandbox_core::search::{
    Changes, Completeness, FingerprintDepth, FingerprintScope, IncompleteCause,
};
use sandbox_core::{Ctx, ErrorKind};

use super::{at, cause, metadata, names};
use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{refused, soon};

fn tracked(place: &Place, line: &str, scope: FingerprintScope) -> Result<ExecRequest, Failure> {
    Ok(ExecRequest {
        track: Some(scope),
        ..ExecRequest::new(place.line(line)?)
    })
}

fn told(outcome: Outcome) -> Result<Changes, Failure> {
    let status = outcome.exit.status;
    outcome.changes.ok_or_else(|| {
        Failure::new(format_args!(
            "changes were asked for, and the outcome of what {status} has none"
        ))
    })
}

async fn changes(place: &Place, line: &str, scope: FingerprintScope) -> Result<Changes, Failure> {
    let execution = place.start(tracked(place, line, scope)?).await?;
    told(execution.outcome.await?)
}

pub(crate) async fn a_run_tells_what_it_created(place: &Place) -> Verdict {
    let changes = changes(place, "mkdir d; echo x >d/file", metadata()).await?;
    ensure_eq!(
        names(&changes.created),
        ["d", "d/file"],
        "what the run created"
    );
    Ok(())
}

pub(crate) async fn a_run_tells_what_it_modified(place: &Place) -> Verdict {
    place.script("echo one >file; echo one >other").await?;
    let changes = changes(place, "echo more >>file", metadata()).await?;
    ensure_eq!(names(&changes.modified), ["file"], "what the run modified");
    Ok(())
}

pub(crate) async fn a_run_tells_what_it_removed(place: &Place) -> Verdict {
    place.script("echo x >file; echo x >kept").await?;
    let changes = changes(place, "rm file", metadata()).await?;
    ensure_eq!(names(&changes.removed), ["file"], "what the run removed");
    Ok(())
}

/// The size and the time are as they were, and all of it happens in one moment.
pub(crate) async fn a_run_that_restores_the_time_is_found_out(place: &Place) -> Verdict {
    place
        .script("printf one >file; touch -t 200102030405.06 file")
        .await?;
    let line = "printf two >file; touch -t 200102030405.06 file";
    let changes = changes(place, line, metadata()).await?;
    ensure_eq!(names(&changes.modified), ["file"], "what the run modified");
    Ok(())
}

pub(crate) async fn a_run_that_changes_nothing_tells_nothing(place: &Place) -> Verdict {
    place.script("mkdir d; echo x >d/file").await?;
    let changes = changes(place, "cat d/file", metadata()).await?;
    ensure_eq!(
        changes,
        Changes {
            created: Vec::new(),
            modified: Vec::new(),
            removed: Vec::new(),
            complete: Completeness::Complete,
        },
        "what a run changed that only reads"
    );
    Ok(())
}

pub(crate) async fn changes_are_told_only_when_asked_for(place: &Place) -> Verdict {
    let outcome = place.run(place.line("echo x >file")?).await?;
    ensure_eq!(outcome.changes, None, "changes that nobody asked for");
    Ok(())
}

pub(crate) async fn a_run_that_timed_out_tells_its_changes(place: &Place) -> Verdict {
    let mut request = tracked(place, "mkdir d; sleep 1000", metadata())?;
    request.process.timeout = Some(Duration::from_millis(1500));
    let outcome = place.start(request).await?.outcome.await?;
    ensure_eq!(outcome.exit.status, Status::TimedOut, "status");
    ensure_eq!(
        names(&told(outcome)?.created),
        ["d"],
        "what was created before the timeout"
    );
    Ok(())
}

pub(crate) async fn a_cancelled_run_tells_its_changes(place: &Place) -> Verdict {
    let ctx = Ctx::new();
    let request = tracked(place, "mkdir d; sleep 1000", metadata())?;
    let execution = place.sandbox.exec(&ctx, request).await?;
    let appeared = async {
        place.appears("d").await?;
        ctx.cancel().cancel();
        Ok::<_, Failure>(())
    };
    let (outcome, appeared) = futures_util::join!(execution.outcome, appeared);
    appeared?;
    let outcome = outcome?;
    ensure_eq!(outcome.exit.status, Status::Cancelled, "status");
    ensure_eq!(
        names(&told(outcome)?.created),
        ["d"],
        "what was created before the cancel"
    );
    Ok(())
}

pub(crate) async fn a_live_run_tells_its_changes(place: &Place) -> Verdict {
    let mut request = tracked(place, "echo said; mkdir d", metadata())?;
    request.delivery = Delivery::Live;
    let mut execution = place.start(request).await?;
    while let Some(chunk) = execution.stdout.next().await {
        chunk?;
    }
    drop(execution.stderr);
    let changes = told(execution.outcome.await?)?;
    ensure_eq!(names(&changes.created), ["d"], "what a live run created");
    Ok(())
}

pub(crate) async fn a_run_is_not_failed_by_the_limit_of_tracking(place: &Place) -> Verdict {
    place.script("seq 1 20 | xargs touch").await?;
    let mut scope = metadata();
    scope.limit = 5;
    let changes = changes(place, "true", scope).await?;
    ensure_eq!(
        cause(&changes.complete),
        Some(IncompleteCause::Limit),
        "why changes among 5 of 20 entries are incomplete"
    );
    Ok(())
}

pub(crate) async fn a_run_with_many_changes_tells_a_part(place: &Place) -> Verdict {
    // Long names, and not many files: a disk may take milliseconds for each.
    let line = "mkdir d; cd d; for i in $(seq 1000); do printf '%0200d\\n' $i; done | xargs touch";
    let changes = changes(place, line, metadata()).await?;
    ensure!(
        changes.created.len() == 1001
            || (!changes.created.is_empty()
                && cause(&changes.complete) == Some(IncompleteCause::Limit)),
        "{} of 1001 new entries are told, and of the others {:?}",
        changes.created.len(),
        changes.complete
    );
    Ok(())
}

pub(crate) async fn only_the_scope_of_tracking_counts(place: &Place) -> Verdict {
    place.script("mkdir in").await?;
    let scope = at("in", FingerprintDepth::Metadata);
    let changes = changes(place, "mkdir in/d out", scope).await?;
    ensure_eq!(
        names(&changes.created),
        ["in/d"],
        "what the run created in its scope"
    );
    Ok(())
}

pub(crate) async fn a_tree_that_a_run_makes_counts_whole(place: &Place) -> Verdict {
    let scope = at("build", FingerprintDepth::Metadata);
    let changes = changes(place, "mkdir -p build/sub", scope).await?;
    ensure_eq!(
        names(&changes.created),
        ["build/sub"],
        "what the run created in a directory that it made"
    );
    Ok(())
}

pub(crate) async fn a_scope_that_is_none_is_refused_before_the_run(place: &Place) -> Verdict {
    let mut scope = metadata();
    scope.scope.include = vec!["a[".to_owned()];
    let request = tracked(place, "mkdir ran", scope)?;
    let answer = match place.sandbox.exec(&place.ctx(), request).await {
        Ok(execution) => soon("the refusal", execution.outcome).await?,
        Err(error) => Err(error),
    };
    refused(
        answer,
        ErrorKind::InvalidArgument,
        "a scope with a glob that is none",
    )?;
    ensure!(
        !place.exists("ran").await?,
        "the command ran although its scope was refused"
    );
    Ok(())
}

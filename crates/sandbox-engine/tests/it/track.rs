//! What a command changed, told with its outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use sandbox_core::process::{Delivery, Descendants, ExecRequest, Outcome, ProcessSpec, Status};
use sandbox_core::search::{
    Changes, Completeness, FingerprintDepth, FingerprintScope, IncompleteCause,
};
use sandbox_core::{
    AcquireSpec, Ctx, ErrorKind, Provider, Result, Sandbox, SandboxId, SandboxPath,
};
use sandbox_engine::{EngineProvider, ProviderOptions};

use super::file::{Name, refused};
use super::fingerprint::whole;

struct Place {
    sandbox: Arc<dyn Sandbox>,
    root: PathBuf,
    _provider: EngineProvider,
    _directory: tempfile::TempDir,
}

impl Place {
    async fn open() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let provider = EngineProvider::new(ProviderOptions {
            name: "here".into(),
            version: "1".into(),
            place: sandbox_engine::Place::open("here"),
        });
        let root = directory.path().canonicalize().expect("it is there");
        let mut spec = AcquireSpec::new(SandboxId::new("one").expect("valid"));
        spec.root = Some(root.to_str().expect("UTF-8").into());
        let sandbox = provider
            .acquire(&Ctx::new(), &spec)
            .await
            .expect("acquired");
        Self {
            sandbox,
            root,
            _provider: provider,
            _directory: directory,
        }
    }

    async fn run(&self, ctx: &Ctx, request: ExecRequest) -> Result<Outcome> {
        let mut execution = self.sandbox.exec(ctx, request).await?;
        while let Some(chunk) = execution.stdout.next().await {
            chunk?;
        }
        execution.outcome.await
    }

    async fn changes(&self, script: &str, scope: FingerprintScope) -> Changes {
        let outcome = self.run(&Ctx::new(), tracked(script, scope)).await;
        let outcome = outcome.expect("it ran");
        assert_eq!(outcome.exit.status, Status::Exited(0), "{outcome:?}");
        outcome.changes.expect("they were asked for")
    }
}

fn tracked(script: &str, scope: FingerprintScope) -> ExecRequest {
    ExecRequest {
        track: Some(scope),
        ..ExecRequest::new(ProcessSpec::new(["sh", "-c", script]))
    }
}

fn metadata() -> FingerprintScope {
    whole(FingerprintDepth::Metadata)
}

fn names(paths: &[SandboxPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

fn cause(complete: &Completeness) -> Option<IncompleteCause> {
    match complete {
        Completeness::Complete => None,
        Completeness::Incomplete { cause, .. } => Some(*cause),
    }
}

#[tokio::test]
async fn what_a_command_made_changed_and_removed_comes_with_its_outcome() {
    let place = Place::open().await;
    for depth in [FingerprintDepth::Metadata, FingerprintDepth::Content] {
        std::fs::write(place.root.join("old"), "old").expect("a file");
        std::fs::write(place.root.join("gone"), "gone").expect("a file");
        let script = "echo new >new; echo more >>old; rm gone";
        let changes = place.changes(script, whole(depth)).await;
        assert_eq!(names(&changes.created), ["new"], "{depth:?}");
        assert_eq!(names(&changes.modified), ["old"], "{depth:?}");
        assert_eq!(names(&changes.removed), ["gone"], "{depth:?}");
        assert_eq!(changes.complete, Completeness::Complete);
        std::fs::remove_file(place.root.join("new")).expect("a file");
    }
}

#[tokio::test]
async fn without_track_nothing_is_said_about_changes() {
    let place = Place::open().await;
    let request = ExecRequest::new(ProcessSpec::new(["touch", "file"]));
    let outcome = place.run(&Ctx::new(), request).await.expect("it ran");
    assert_eq!(outcome.changes, None);
}

/// `touch -r` gives the time back, the size is the same, and all of it takes less than a tick.
#[tokio::test]
async fn a_rewrite_that_gives_size_and_time_back_is_not_missed() {
    let place = Place::open().await;
    for round in 0..20 {
        std::fs::write(place.root.join("file"), format!("{round:03}")).expect("a file");
        let script = format!(
            "cp -p file kept; printf {:03} >file; touch -r kept file; rm kept",
            round + 500
        );
        let changes = place.changes(&script, metadata()).await;
        assert_eq!(names(&changes.modified), ["file"], "{round}");
        assert_eq!(names(&changes.created), [""; 0]);
    }
}

#[tokio::test]
async fn a_command_that_was_ended_early_has_changes_too() {
    let place = Place::open().await;
    let mut request = tracked("echo x >before; sleep 1000", metadata());
    request.process = request.process.timeout(Duration::from_millis(500));
    let outcome = place.run(&Ctx::new(), request).await.expect("it ran");
    assert_eq!(outcome.exit.status, Status::TimedOut);
    let changes = outcome.changes.expect("asked for");
    assert_eq!(names(&changes.created), ["before"]);

    let ctx = Ctx::new();
    let cancel = ctx.cancel().clone();
    let request = ExecRequest {
        delivery: Delivery::Live,
        ..tracked("echo x >cancelled; echo done; sleep 1000", metadata())
    };
    let mut execution = place.sandbox.exec(&ctx, request).await.expect("it runs");
    execution
        .stdout
        .next()
        .await
        .expect("a word")
        .expect("whole");
    cancel.cancel();
    let outcome = execution.outcome.await.expect("an outcome");
    assert_eq!(outcome.exit.status, Status::Cancelled);
    let changes = outcome.changes.expect("asked for");
    assert_eq!(names(&changes.created), ["cancelled"]);
}

#[tokio::test]
async fn a_tree_that_the_command_makes_or_removes_counts_whole() {
    let place = Place::open().await;
    let mut scope = metadata();
    scope.scope.root = "build".path();
    let made = place
        .changes("mkdir -p build/sub; echo >build/sub/file", scope.clone())
        .await;
    assert_eq!(names(&made.created), ["build/sub", "build/sub/file"]);
    let removed = place.changes("rm -r build", scope).await;
    assert_eq!(names(&removed.removed), ["build/sub", "build/sub/file"]);
    assert_eq!(removed.complete, Completeness::Complete);
}

/// The outcome of the command is worth more than what is known of its changes.
#[tokio::test]
async fn tracking_that_reaches_its_limit_never_fails_the_command() {
    let place = Place::open().await;
    for number in 0..20 {
        std::fs::write(place.root.join(format!("{number}")), "x").expect("a file");
    }
    let mut scope = metadata();
    scope.limit = 5;
    let changes = place.changes("echo x >new", scope).await;
    assert_eq!(cause(&changes.complete), Some(IncompleteCause::Limit));
    assert_eq!(names(&changes.created), [""; 0]);
    assert_eq!(names(&changes.removed), [""; 0]);
}

#[tokio::test]
async fn a_scope_that_makes_no_sense_is_refused_before_anything_runs() {
    let place = Place::open().await;
    let mut outside = metadata();
    outside.scope.root = "/etc".path();
    let mut glob = metadata();
    glob.scope.include = vec!["[".into()];
    for (scope, kind) in [
        (outside, ErrorKind::OutsideRoot),
        (glob, ErrorKind::InvalidArgument),
    ] {
        let answer = place.run(&Ctx::new(), tracked("echo >ran", scope)).await;
        refused(answer, kind);
        assert!(!place.root.join("ran").exists());
    }
}

#[tokio::test]
async fn what_could_not_start_fails_as_it_does_without_track() {
    let place = Place::open().await;
    let mut request = tracked("", metadata());
    request.process.argv = vec![b"no-such-program".to_vec()];
    refused(place.run(&Ctx::new(), request).await, ErrorKind::NotFound);
    let mut request = tracked("", metadata());
    request.process.cwd = "missing".path();
    refused(place.run(&Ctx::new(), request).await, ErrorKind::NotFound);
}

#[tokio::test]
async fn many_changes_are_listed_in_part_and_counted() {
    let place = Place::open().await;
    let changes = place
        .changes(
            "mkdir d; cd d; seq -f '%05.0f' 1 5000 | xargs touch",
            metadata(),
        )
        .await;
    let Completeness::Incomplete { reason, cause } = &changes.complete else {
        panic!("{} are listed", changes.created.len());
    };
    assert_eq!(*cause, IncompleteCause::Limit);
    assert!(reason.contains("of 5001 created"), "{reason}");
    assert!(changes.created.len() > 1000);
}

#[tokio::test]
async fn changes_of_others_meanwhile_are_among_them() {
    let place = Place::open().await;
    let other = place.root.join("by-another");
    let request = ExecRequest {
        delivery: Delivery::Live,
        ..tracked(
            "echo ready; until test -e by-another; do sleep 0.01; done",
            metadata(),
        )
    };
    let mut execution = place
        .sandbox
        .exec(&Ctx::new(), request)
        .await
        .expect("it runs");
    execution
        .stdout
        .next()
        .await
        .expect("a word")
        .expect("whole");
    std::fs::write(other, "x").expect("a file");
    let outcome = execution.outcome.await.expect("an outcome");
    let changes = outcome.changes.expect("asked for");
    assert_eq!(names(&changes.created), ["by-another"]);
}

#[tokio::test]
async fn what_is_left_running_holds_nothing_up() {
    let place = Place::open().await;
    let mut request = tracked("sleep 1000 & echo x >file", metadata());
    request.process.descendants = Descendants::Leave;
    let outcome = place.run(&Ctx::new(), request).await.expect("it ran");
    assert_eq!(outcome.exit.survivors.left_total, 1);
    assert_eq!(
        names(&outcome.changes.expect("asked for").created),
        ["file"]
    );
}

//! Sandboxes on this machine: what they are made of, and how they begin and end.

use std::path::Path;
use std::time::Duration;

use sandbox_core::process::{ExecRequest, ProcessSpec};
use sandbox_core::{
    AcquireSpec, Capability, Closed, Ctx, Disposition, EnvChange, ErrorKind, Network, Probe,
    Provider, Restriction, SandboxExt, SandboxId, SandboxPath, Strength,
};
use sandbox_core::{Limit, LimitKind};
use sandbox_engine::{EngineProvider, Place, ProviderOptions};

use super::file::refused;

fn provider() -> EngineProvider {
    EngineProvider::new(ProviderOptions {
        name: "here".into(),
        version: "1".into(),
        place: Place::open("here"),
    })
}

fn spec(id: &str, root: &Path) -> AcquireSpec {
    let id = SandboxId::new(id).expect("valid");
    AcquireSpec {
        root: Some(root.to_str().expect("UTF-8").into()),
        ..AcquireSpec::new(id)
    }
}

/// `Arc<dyn Sandbox>` has no debug form, which the errors of tests would show.
async fn refusal(
    provider: &EngineProvider,
    spec: &AcquireSpec,
    kind: ErrorKind,
) -> sandbox_core::Error {
    refused(provider.acquire(&Ctx::new(), spec).await.map(drop), kind)
}

#[tokio::test]
async fn acquiring_twice_gives_one_sandbox_and_another_spec_is_a_conflict() {
    let directory = tempfile::tempdir().expect("a directory");
    let (provider, ctx) = (provider(), Ctx::new());
    let first = provider
        .acquire(&ctx, &spec("one", directory.path()))
        .await
        .expect("acquired");
    let again = provider
        .acquire(&ctx, &spec("one", directory.path()))
        .await
        .expect("acquired");
    assert_eq!(first.descriptor(), again.descriptor());
    refusal(&provider, &spec("one", Path::new("/")), ErrorKind::Conflict).await;
    let listed = provider.list(&ctx, None).await.expect("listed");
    assert_eq!(
        listed
            .iter()
            .map(|entry| entry.id.as_str())
            .collect::<Vec<_>>(),
        ["one"]
    );
}

#[tokio::test]
async fn a_released_sandbox_is_closed_its_files_stay_and_a_new_one_is_another_life() {
    let directory = tempfile::tempdir().expect("a directory");
    let (provider, ctx) = (provider(), Ctx::new());
    let spec = spec("one", directory.path());
    let sandbox = provider.acquire(&ctx, &spec).await.expect("acquired");
    sandbox
        .put(&ctx, SandboxPath::parse("file").expect("valid"), "x".into())
        .await
        .expect("put");
    let mut sleeper = ProcessSpec::new(["sleep", "1000"]);
    sleeper.cwd = SandboxPath::root();
    let running = sandbox
        .exec(&ctx, ExecRequest::new(sleeper))
        .await
        .expect("started");
    let watched = {
        let sandbox = std::sync::Arc::clone(&sandbox);
        tokio::spawn(async move { sandbox.closed().await })
    };

    let receipt = provider
        .release(&ctx, &spec.id, Disposition::Destroy)
        .await
        .expect("released");
    assert!(receipt.existed);
    assert_eq!(
        receipt.disposition,
        Disposition::Keep,
        "a workspace that was there is never removed"
    );
    assert_eq!(watched.await.expect("no panic"), Closed::Released);
    tokio::time::timeout(Duration::from_secs(30), running.outcome)
        .await
        .expect("it was ended")
        .ok();
    refused(
        sandbox
            .read_file(&ctx, SandboxPath::parse("file").expect("valid"))
            .await,
        ErrorKind::Lost,
    );
    assert_eq!(
        std::fs::read(directory.path().join("file")).expect("it is there"),
        b"x"
    );
    assert!(
        !provider
            .release(&ctx, &spec.id, Disposition::Keep)
            .await
            .expect("no error")
            .existed
    );

    let next = provider.acquire(&ctx, &spec).await.expect("acquired");
    assert!(next.descriptor().generation > sandbox.descriptor().generation);
}

#[tokio::test]
async fn the_descriptor_is_honest_about_what_nothing_keeps_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let sandbox = provider()
        .acquire(&Ctx::new(), &spec("one", directory.path()))
        .await
        .expect("acquired");
    let descriptor = sandbox.descriptor();
    assert_eq!(descriptor.network, Network::Open);
    assert_eq!(descriptor.guarantees.len(), 4);
    assert!(
        descriptor
            .guarantees
            .values()
            .all(|grade| *grade == sandbox_core::Grade::Unavailable)
    );
    let real = directory.path().canonicalize().expect("there");
    assert_eq!(descriptor.root.as_str(), real.to_str());
    assert!(descriptor.shell.is_some());
    assert!(
        !descriptor.capabilities.has(Capability::Linger)
            && descriptor.capabilities.has(Capability::Edit)
    );
}

#[tokio::test]
async fn a_root_that_cannot_be_one_is_told_by_acquire_and_by_probe() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("file"), "x").expect("a file");
    let (provider, ctx) = (provider(), Ctx::new());
    for (name, kind) in [
        ("missing", ErrorKind::NotFound),
        ("file", ErrorKind::NotADirectory),
    ] {
        let spec = spec("one", &directory.path().join(name));
        let error = refusal(&provider, &spec, kind).await;
        assert!(error.to_string().contains(name), "{error}");
        let probe = provider.probe(&ctx, &spec).await.expect("asked");
        assert!(
            matches!(probe, Probe::Fails { ref reason, .. } if reason.contains(name)),
            "{probe:?}"
        );
    }
    let works = provider
        .probe(&ctx, &spec("one", directory.path()))
        .await
        .expect("asked");
    assert!(matches!(works, Probe::Works { .. }));
    assert!(
        provider.list(&ctx, None).await.expect("listed").is_empty(),
        "asking made something"
    );
}

#[tokio::test]
async fn what_cannot_be_enforced_is_refused_before_anything_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let (provider, ctx) = (provider(), Ctx::new());
    let mut spec = spec("one", directory.path());
    spec.policy.require.insert(Restriction::SecretsHidden);
    let error = refusal(&provider, &spec, ErrorKind::PolicyUnmet).await;
    assert!(error.to_string().contains("isolates"), "{error}");
    assert!(provider.list(&ctx, None).await.expect("listed").is_empty());
}

#[tokio::test]
async fn limits_that_each_process_can_have_hold() {
    let directory = tempfile::tempdir().expect("a directory");
    let ctx = Ctx::new();
    let mut spec = spec("one", directory.path());
    let limits = [
        (LimitKind::OpenFiles, 50),
        (LimitKind::FileSize, 4096),
        (LimitKind::WallTime, 60_000),
    ];
    for (kind, value) in limits {
        spec.policy.limits.insert(
            kind,
            Limit {
                value,
                strength: Strength::Required,
            },
        );
    }
    let sandbox = provider().acquire(&ctx, &spec).await.expect("acquired");
    let outcome = sandbox
        .run(&ctx, ProcessSpec::new(["sh", "-c", "ulimit -n; ulimit -f"]))
        .await
        .expect("it runs");
    // `ulimit -f` counts in blocks of 512 or 1024 bytes.
    let text = outcome.stdout.to_text();
    assert!(text == "50\n8\n" || text == "50\n4\n", "{text}");
    assert_eq!(sandbox.descriptor().limits.len(), 3);
}

#[tokio::test]
async fn what_runs_has_the_inherited_environment_less_what_is_the_providers_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let ctx = Ctx::new();
    let mut spec = spec("one", directory.path());
    spec.policy.env.changes = vec![EnvChange::set("GIVEN", "yes"), EnvChange::remove("HOME")];
    let sandbox = provider().acquire(&ctx, &spec).await.expect("acquired");
    let outcome = sandbox
        .run(&ctx, ProcessSpec::new(["env"]))
        .await
        .expect("it runs");
    let text = outcome.stdout.to_text();
    assert!(
        text.contains("GIVEN=yes\n") && text.contains("PATH="),
        "{text}"
    );
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("HOME=") || line.starts_with("SPP_HOST")),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_not_offered_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let ctx = Ctx::new();
    let sandbox = provider()
        .acquire(&ctx, &spec("one", directory.path()))
        .await
        .expect("acquired");
    refused(
        sandbox.capture_state(&ctx).await.map(drop),
        ErrorKind::Unsupported,
    );
}

#[tokio::test]
async fn a_program_starts_where_it_is_told_to() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("sub")).expect("a directory");
    let ctx = Ctx::new();
    let sandbox = provider()
        .acquire(&ctx, &spec("one", directory.path()))
        .await
        .expect("acquired");
    let at =
        |cwd: &str| ProcessSpec::new(["pwd", "-P"]).cwd(SandboxPath::parse(cwd).expect("valid"));
    let outcome = sandbox.run(&ctx, at("sub")).await.expect("it runs");
    assert!(outcome.stdout.to_text().ends_with("/sub\n"));
    refused(sandbox.run(&ctx, at("missing")).await, ErrorKind::NotFound);
    refused(sandbox.run(&ctx, at("/etc")).await, ErrorKind::OutsideRoot);
}

//! Limits on all processes of a sandbox together, where this user may make control groups; and that they are
//! refused where it may not.

use std::path::Path;
use std::sync::Arc;

use sandbox_core::process::{ProcessSpec, Status};
use sandbox_core::{
    AcquireSpec, Ctx, Disposition, EnforcedBy, ErrorKind, Limit, LimitKind, Policy, Provider,
    Sandbox, SandboxExt, SandboxId, Strength,
};
use sandbox_engine::{EngineProvider, Place};

use super::file::{as_ordinary_user, refused};
use super::guard::provider;

fn spec(root: &Path, id: &str, kind: LimitKind, value: u64, strength: Strength) -> AcquireSpec {
    let limit = Limit { value, strength };
    AcquireSpec {
        root: Some(root.to_str().expect("UTF-8").into()),
        policy: Policy {
            limits: [(kind, limit)].into(),
            ..Policy::default()
        },
        ..AcquireSpec::new(SandboxId::new(id).expect("valid"))
    }
}

async fn sh(sandbox: &dyn Sandbox, script: &str) -> Status {
    let process = ProcessSpec::new(["sh", "-c", script]);
    let ran = sandbox.run(&Ctx::new(), process).await;
    ran.expect("it runs").exit.status
}

/// A limited sandbox and one that is not, if this user may limit this.
async fn limited(
    root: &Path,
    kind: LimitKind,
    value: u64,
) -> Option<(EngineProvider, Arc<dyn Sandbox>, Arc<dyn Sandbox>)> {
    let (provider, ctx) = (provider(Place::open("here")), Ctx::new());
    let wanted = spec(root, "limited", kind, value, Strength::Required);
    let limited = match provider.acquire(&ctx, &wanted).await {
        Ok(limited) => limited,
        Err(error) => {
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::PolicyUnmet, "{text}");
            assert!(
                text.contains(kind.name()) && text.contains("control group"),
                "{text}"
            );
            return None;
        }
    };
    let report = limited.descriptor().limits[&kind];
    assert!(matches!(
        report.enforced_by,
        EnforcedBy::Cgroup1 | EnforcedBy::Cgroup2
    ));
    let mut other = AcquireSpec::new(SandboxId::new("other").expect("valid"));
    other.root = Some(root.to_str().expect("UTF-8").into());
    let other = provider.acquire(&ctx, &other).await.expect("acquired");
    Some((provider, limited, other))
}

#[tokio::test]
async fn memory_beyond_the_limit_ends_the_command_and_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let limited = limited(directory.path(), LimitKind::Memory, 64 << 20).await;
    let Some((_provider, limited, other)) = limited else {
        return;
    };
    let hog = "exec dd if=/dev/zero of=/dev/null bs=256M count=1 2>&1";
    assert_eq!(sh(&*limited, hog).await, Status::MemoryLimit);
    assert_eq!(sh(&*limited, "true").await, Status::Exited(0), "it goes on");
    // What somebody kills is not called that, although memory was used up before.
    let killed = Status::Signalled {
        signal: libc::SIGKILL,
        core: false,
    };
    assert_eq!(sh(&*limited, "kill -KILL $$").await, killed);
    assert_eq!(
        sh(&*other, hog).await,
        Status::Exited(0),
        "the other is not limited"
    );
}

#[tokio::test]
async fn processes_beyond_the_limit_are_not_made_and_the_group_goes_with_the_sandbox() {
    let directory = tempfile::tempdir().expect("a directory");
    let limited = limited(directory.path(), LimitKind::Processes, 6).await;
    let Some((provider, limited, other)) = limited else {
        return;
    };
    let many = "for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done; wait";
    assert_eq!(sh(&*other, many).await, Status::Exited(0));
    assert_ne!(sh(&*limited, many).await, Status::Exited(0));
    assert_eq!(
        sh(&*limited, "sleep 0 & wait").await,
        Status::Exited(0),
        "it goes on"
    );

    let ctx = Ctx::new();
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("procfs is there");
    let left = || {
        let hierarchies = sandbox_cgroup::Hierarchies::of_this_process().expect("procfs is there");
        let found = hierarchies.of(sandbox_cgroup::Controller::Processes);
        let base = found.and_then(|found| found.base.clone());
        let base = base.expect("it is limited");
        let mark = format!("-{}-", std::process::id());
        std::fs::read_dir(base)
            .expect("it is there")
            .filter(|entry| {
                let name = entry.as_ref().expect("an entry").file_name();
                name.to_string_lossy().contains(&mark)
            })
            .count()
    };
    // Another test of this process may have left one, where they share a process.
    let there = left();
    assert!(there > 0);
    let id = SandboxId::new("limited").expect("valid");
    let released = provider.release(&ctx, &id, Disposition::Keep).await;
    released.expect("released");
    assert_eq!(left(), there - 1);
    let after = std::fs::read_to_string("/proc/self/cgroup").expect("procfs is there");
    assert_eq!(after, own, "this process went into a group");
}

/// Where nobody gave this user groups of its own, which a machine may have done.
#[test]
fn a_user_that_may_make_no_group_is_refused_and_best_effort_says_that_nothing_limits() {
    as_ordinary_user(|| async {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let kind = LimitKind::Processes;
        let (provider, ctx) = (provider(Place::open("here")), Ctx::new());
        let required = spec(root, "required", kind, 50, Strength::Required);
        let best_effort = spec(root, "best-effort", kind, 50, Strength::BestEffort);
        let had = provider
            .acquire(&ctx, &best_effort)
            .await
            .expect("acquired");
        let enforced_by = had.descriptor().limits[&kind].enforced_by;
        let acquired = provider.acquire(&ctx, &required).await;
        if enforced_by == EnforcedBy::None {
            refused(acquired.map(drop), ErrorKind::PolicyUnmet);
        } else {
            acquired
                .map(drop)
                .expect("what can be had at best can be had");
        }
    });
}

//! Policies that name many directories, or what is no directory, at a place that has no mounts of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::process::ProcessSpec;
use sandbox_core::{
    Ctx, Disposition, Effect, ErrorKind, Mount, MountAccess, Policy, Provider, Restriction,
    Sandbox, SandboxExt,
};
use sandbox_engine::{EngineProvider, Place};

use super::guard::{path, provider, spec};

/// Directories beside a workspace.
struct Tree {
    provider: EngineProvider,
    workspace: PathBuf,
    directories: Vec<PathBuf>,
    _directory: tempfile::TempDir,
}

impl Tree {
    fn new(directories: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let make = |name: String| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).expect("a directory");
            path
        };
        Self {
            provider: provider(Place::open("here")),
            workspace: make("workspace".to_owned()),
            directories: (0..directories).map(|it| make(format!("d{it}"))).collect(),
            _directory: directory,
        }
    }

    fn policy(&self, access: MountAccess) -> Policy {
        let mount = |host: &PathBuf| Mount {
            host: host.clone(),
            sandbox: path(host),
            access,
        };
        Policy {
            mounts: self.directories.iter().map(mount).collect(),
            prefer: [Restriction::WriteContained].into(),
            ..Policy::default()
        }
    }

    async fn acquire(&self, policy: Policy) -> sandbox_core::Result<Arc<dyn Sandbox>> {
        self.provider
            .acquire(&Ctx::new(), &spec(&self.workspace, policy))
            .await
    }

    async fn refused(&self, policy: Policy, says: &str) {
        let error = self.acquire(policy).await.map(drop).expect_err(says);
        let found = (error.kind(), error.effect());
        assert_eq!(found, (ErrorKind::PolicyUnmet, Effect::None), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn two_hundred_writable_directories_are_had_and_twenty_thousand_refused_at_once() {
    let tree = Tree::new(200);
    let sandbox = tree
        .acquire(tree.policy(MountAccess::ReadWrite))
        .await
        .expect("they can be had");
    let last = tree
        .directories
        .last()
        .expect("there are some")
        .join("made");
    let write = ProcessSpec::new([b"touch", last.to_str().expect("UTF-8").as_bytes()]);
    let outcome = sandbox.run(&Ctx::new(), write).await.expect("it runs");
    assert!(outcome.exit.status.is_success() && last.is_file());
    let id = &sandbox.descriptor().id;
    let released = tree
        .provider
        .release(&Ctx::new(), id, Disposition::Keep)
        .await;
    assert!(released.expect("it is there").existed);

    let mut policy = tree.policy(MountAccess::ReadWrite);
    let one = policy.mounts[0].clone();
    policy.mounts = vec![one; 20_000];
    let started = Instant::now();
    tree.refused(policy, "20000 mounts are asked for, and at most 256")
        .await;
    // Not a matter of speed: to make a root of each took minutes.
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn more_writable_directories_than_a_domain_takes_are_refused_where_there_is_one() {
    // With the workspace and the temporary directory that is one too many.
    let tree = Tree::new(256);
    let policy = tree.policy(MountAccess::ReadWrite);
    tree.refused(policy, "at most 256 can be had; ask for fewer")
        .await;
    let without = Policy {
        prefer: [].into(),
        ..tree.policy(MountAccess::ReadWrite)
    };
    tree.acquire(without).await.expect("there is no domain");
}

#[tokio::test]
async fn a_single_file_and_something_hidden_are_refused_with_what_to_do() {
    let mut tree = Tree::new(1);
    let file = tree.directories[0].join("file");
    std::fs::write(&file, "").expect("a file");
    tree.directories = vec![file.clone()];
    for access in [MountAccess::ReadOnly, MountAccess::ReadWrite] {
        let policy = tree.policy(access);
        tree.refused(policy, "mount the directory it is in").await;
    }
    let hidden = Policy {
        hidden: [path(&file)].into(),
        ..Policy::default()
    };
    tree.refused(hidden, "file cannot be hidden").await;
}

//! The engine over there: sent once, looked at before each start, kept apart from others, and pruned.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_core::{Ctx, Grade, Network, Policy, Restriction};
use sandbox_host::{Host, OpenRequest};

use super::support::{
    Scratch, end, has, open, over_there, processes, provider, refused, sh, until,
};

/// A directory for engines that only one test uses, open to the account of the tests.
struct Cache {
    scratch: Scratch,
    directory: PathBuf,
}

impl Cache {
    fn new() -> Self {
        let scratch = Scratch::new();
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(scratch.path(), everybody).expect("it is ours");
        let directory = scratch.path().join("engines");
        Self { scratch, directory }
    }

    fn host(&self) -> Host {
        let options = format!("root = '~'\ncache = '{}'\n", self.directory.display());
        self.scratch.host_with("spp-user", &options)
    }

    /// The files in it, by name.
    fn files(&self) -> Vec<String> {
        let script = format!("ls -A {}", self.directory.display());
        let listed = over_there("spp-user", &script);
        listed.lines().map(str::to_owned).collect()
    }

    fn engine(&self) -> PathBuf {
        match &*self.files() {
            [one] if one.starts_with("engine-") => self.directory.join(one),
            other => panic!("one engine, and not {other:?}"),
        }
    }
}

fn inode(path: &Path) -> String {
    over_there("spp-user", &format!("ls -i {}", path.display()))
}

#[tokio::test]
async fn it_is_sent_once_and_never_started_without_being_what_was_sent() {
    let cache = Cache::new();
    let host = cache.host();
    end(open(&host).await, &host).await;
    let engine = cache.engine();
    let first = inode(&engine);
    let mode = over_there(
        "spp-user",
        &format!("stat -c %a {}", cache.directory.display()),
    );
    assert_eq!(mode.trim(), "700");
    let host = cache.host();
    end(open(&host).await, &host).await;
    assert_eq!(inode(&engine), first, "it was there");
    // Cut off, changed, and not to be executed: each is replaced.
    for spoil in ["truncate -s -1", "printf x >>", "chmod 600", "cp /bin/true"] {
        over_there("spp-user", &format!("{spoil} {}", engine.display()));
        let host = cache.host();
        let opened = open(&host).await;
        assert_eq!(sh(&*opened.sandbox, "echo up").await, "up\n", "{spoil}");
        end(opened, &host).await;
        assert_eq!(cache.engine(), engine, "{spoil}");
        let mode = over_there("spp-user", &format!("stat -c %a {}", engine.display()));
        assert_eq!(mode.trim(), "700", "{spoil}");
    }
}

#[tokio::test]
async fn any_number_of_hosts_may_place_it_at_once() {
    let cache = Cache::new();
    let hosts = [cache.host(), cache.host(), cache.host(), cache.host()];
    let opened = tokio::join!(
        open(&hosts[0]),
        open(&hosts[1]),
        open(&hosts[2]),
        open(&hosts[3])
    );
    for (opened, host) in [opened.0, opened.1, opened.2, opened.3]
        .into_iter()
        .zip(&hosts)
    {
        assert_eq!(sh(&*opened.sandbox, "echo up").await, "up\n");
        end(opened, host).await;
    }
    cache.engine();
}

#[tokio::test]
async fn what_is_old_goes_when_a_new_one_comes_and_nothing_else() {
    let cache = Cache::new();
    let script = format!(
        "mkdir -m 700 {0}; cd {0}; touch -d '40 days ago' engine-old other; touch -d '2 days ago' engine-used new-left; touch new-now",
        cache.directory.display()
    );
    over_there("spp-user", &script);
    let host = cache.host();
    end(open(&host).await, &host).await;
    let mut left = cache.files();
    left.retain(|name| name.len() < 20);
    left.sort();
    assert_eq!(left, ["engine-used", "new-now", "other"]);
}

#[tokio::test]
async fn a_directory_that_others_may_change_is_not_used() {
    let cache = Cache::new();
    let script = format!("mkdir -m 777 {}", cache.directory.display());
    over_there("spp-user", &script);
    let text = refused(&cache.host(), OpenRequest::default()).await;
    has(
        &text,
        &["no directory on spp-user", "is not private", "`cache`"],
    );
    assert!(cache.files().is_empty());
}

#[tokio::test]
async fn an_engine_that_cannot_be_placed_is_told() {
    let scratch = Scratch::new();
    let bin = scratch.path().join("bin");
    std::fs::create_dir(&bin).expect("a directory");
    let alone = bin.join("spp-provider-ssh");
    std::fs::copy(provider(), &alone).expect("it was built");
    let options = "host = 'x'\nroot = '/'\n";
    let host = scratch.host_by(&alone, options);
    has(
        &refused(&host, OpenRequest::default()).await,
        &["spp-engine", "is missing", "install"],
    );
    std::fs::copy("/bin/true", bin.join("spp-engine")).expect("a file");
    let host = scratch.host_by(&alone, options);
    has(
        &refused(&host, OpenRequest::default()).await,
        &["linked dynamically", "RUSTFLAGS"],
    );
}

#[tokio::test]
async fn what_runs_over_there_has_the_accounts_variables_and_nothing_of_this_machine() {
    let scratch = Scratch::new();
    let host = scratch.host("spp-user");
    let opened = open(&host).await;
    let env = sh(&*opened.sandbox, "env").await;
    has(&env, &["USER=spp-user", "SSH_CONNECTION="]);
    for name in [
        "SPP_",
        "spp_",
        "SSH_AUTH_SOCK",
        "SSH_TTY",
        "SSH_ASKPASS",
        "CARGO",
    ] {
        let leaked = env.lines().find(|line| line.starts_with(name));
        assert_eq!(leaked, None);
    }
    end(opened, &host).await;
}

#[tokio::test]
async fn a_guard_over_there_is_attested_by_that_kernel() {
    let scratch = Scratch::new();
    let host = scratch.host("spp-user");
    let policy = Policy {
        network: Some(Network::None),
        require: [Restriction::NetworkDenied].into(),
        prefer: [Restriction::WriteContained].into(),
        ..Policy::default()
    };
    let request = OpenRequest {
        policy: Some(policy),
        ..OpenRequest::default()
    };
    let opened = host
        .open(&Ctx::new(), None, request)
        .await
        .expect("it opens");
    let descriptor = opened.sandbox.descriptor();
    assert_eq!(
        descriptor.guarantees[&Restriction::NetworkDenied],
        Grade::Full
    );
    assert_eq!(
        (&*descriptor.location, &*descriptor.provider),
        ("ssh", "ssh")
    );
    let tried = sh(
        &*opened.sandbox,
        "echo x >/var/tmp/written || echo contained; echo y >here && echo in the tree",
    )
    .await;
    has(&tried, &["contained", "in the tree"]);
    end(opened, &host).await;
}

#[tokio::test]
async fn whoever_waits_is_told_that_the_engine_is_sent() {
    let cache = Cache::new();
    let host = cache.host();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let ctx = Ctx::new().with_progress(move |progress| {
        let _ = tell.send(progress);
    });
    let opened = host.open(&ctx, None, OpenRequest::default()).await;
    let opened = opened.expect("it opens");
    let progress = told.recv().await.expect("it was told");
    assert_eq!(progress.phase, "place");
    has(&progress.message, &["MB", "spp-user", "engines"]);
    end(opened, &host).await;
}

#[tokio::test]
async fn who_no_longer_waits_leaves_nothing() {
    for pause in [50, 150, 300, 600, 1200] {
        let cache = Cache::new();
        let host = cache.host();
        let ctx = Ctx::new().with_timeout(Duration::from_millis(pause));
        if let Ok(opened) = host.open(&ctx, None, OpenRequest::default()).await {
            end(opened, &host).await;
        }
        host.shutdown().await;
        let directory = cache.directory.display().to_string();
        until("the end of what was started", || {
            processes(&directory).is_empty()
        })
        .await;
    }
}

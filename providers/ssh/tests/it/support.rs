//! A host with the location `ssh`, and the machines of the tests looked at from outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_core::process::ProcessSpec;
use sandbox_core::{Ctx, Disposition, Sandbox, SandboxExt as _};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, OpenError, OpenRequest, Opened, SearchPath};
use tempfile::TempDir;

const PROVIDER: &str = env!("CARGO_BIN_EXE_spp-provider-ssh");
/// Longest that anything here may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// The configuration of ssh by which the machines are reached.
pub(crate) fn config() -> String {
    std::env::var("SPP_TEST_SSH").expect(
        "there is no ssh server: test with `cargo xtask test`, or beside `cargo xtask sshd`, or name a configuration of ssh \
         with the machines of xtask/src/sshd.rs in SPP_TEST_SSH",
    )
}

/// What a machine of the tests prints, reached without anything of ours.
pub(crate) fn over_there(machine: &str, script: &str) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "the machine is looked at from outside"
    )]
    let mut command = Command::new("ssh");
    let output = command
        .args(["-F", &config(), "-o", "BatchMode=yes", machine, script])
        .stdin(Stdio::null())
        .output()
        .expect("ssh is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The processes of this machine, and so of the tests' machines, whose arguments hold this.
pub(crate) fn processes(with: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc")
        .expect("a process table")
        .flatten();
    let own = std::process::id().to_string();
    all.filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(with))
        })
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// What is needed to start a provider.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a scratch directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A host whose location is the home of the account on this machine of the tests.
    pub(crate) fn host(&self, machine: &str) -> Host {
        self.host_with(machine, "root = '~'\n")
    }

    /// The same with these options.
    pub(crate) fn host_with(&self, machine: &str, options: &str) -> Host {
        let options = format!("host = '{machine}'\nconfig = '{}'\n{options}", config());
        self.host_by(&provider(), &options)
    }

    /// A host whose provider is this executable, with these options and no others.
    pub(crate) fn host_by(&self, provider: &Path, options: &str) -> Host {
        let file = self.path().join("config.toml");
        let text = format!(
            "[sandbox.providers.ssh]\ncommand = '{}'\n[sandbox.providers.ssh.options]\n{options}",
            provider.display()
        );
        std::fs::write(&file, text).expect("a file");
        let search = SearchPath {
            beside: None,
            path: vec!["/usr/bin".into(), "/bin".into()],
        };
        let sources = Sources {
            location: Some("ssh".to_owned()),
            location_variable: None,
            directory: PathBuf::from("/"),
            user_file: UserFile::Named(file),
            search: search.clone(),
        };
        Host::new(Config::load(&sources).expect("it makes sense"), search)
    }
}

/// Where the executable is that was built for the tests, with the engine beside it.
pub(crate) fn provider() -> PathBuf {
    let provider = std::env::var_os("SPP_TEST_BIN_DIR").map_or_else(
        || PathBuf::from(PROVIDER),
        |directory| Path::new(&directory).join("spp-provider-ssh"),
    );
    let engine = provider.with_file_name("spp-engine");
    assert!(
        engine.is_file(),
        "{} is missing: `cargo build --bins`",
        engine.display()
    );
    provider
}

pub(crate) async fn open(host: &Host) -> Opened {
    let opened = host.open(&Ctx::new(), None, OpenRequest::default()).await;
    opened.unwrap_or_else(|error| panic!("{}", told(&error)))
}

/// Why nothing is opened.
pub(crate) async fn refused(host: &Host, request: OpenRequest) -> String {
    let text = match host.open(&Ctx::new(), None, request).await {
        Ok(_) => panic!("it was given"),
        Err(error) => told(&error),
    };
    host.shutdown().await;
    text
}

pub(crate) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// Gives a sandbox back, and ends its provider.
pub(crate) async fn end(opened: Opened, host: &Host) {
    let released = opened.release(&Ctx::new(), Disposition::Destroy).await;
    released.expect("it ends");
    host.shutdown().await;
}

/// An error with its causes.
pub(crate) fn told(error: &OpenError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// What a script prints, standard error behind standard output.
pub(crate) async fn sh(sandbox: &dyn Sandbox, script: &str) -> String {
    let spec = ProcessSpec::new(["sh", "-c", script]);
    let outcome = sandbox.run(&Ctx::new(), spec).await.expect("it runs");
    let text =
        |output: &sandbox_core::process::Output| String::from_utf8_lossy(&output.head).into_owned();
    text(&outcome.stdout) + &text(&outcome.stderr)
}

/// Waits until something holds, and returns how long that took.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    started.elapsed()
}

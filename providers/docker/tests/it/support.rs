//! A host with the location `docker`, a workspace of an ordinary user, and the daemon asked from outside.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_core::process::ProcessSpec;
use sandbox_core::{AcquireSpec, Ctx, Disposition, Policy, Sandbox, SandboxExt as _, SandboxId};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, OpenError, OpenRequest, Opened, SearchPath};
use tempfile::TempDir;

pub(crate) const PROVIDER: &str = env!("CARGO_BIN_EXE_spp-provider-docker");
/// A user that no system gives a name to, and a group that may ask the tests' daemon.
pub(crate) const ORDINARY: u32 = 42_422;
/// The images that the tests' daemon has: one with a shell, one with nothing.
pub(crate) const IMAGE: &str = "spp-test-busybox";
pub(crate) const EMPTY: &str = "spp-test-empty";
/// Longest that anything here may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// Where the daemon is.
pub(crate) fn daemon() -> String {
    std::env::var("SPP_TEST_DOCKER").expect(
        "there is no daemon: test with `cargo xtask test`, or name one with the images of \
         xtask/src/daemon.rs in SPP_TEST_DOCKER",
    )
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What the daemon answers, asked from outside of any sandbox.
pub(crate) fn docker(arguments: &[&str]) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon is looked at from outside"
    )]
    let mut command = Command::new("docker");
    command
        .arg(format!("--host={}", daemon()))
        .args(arguments)
        .stdin(Stdio::null());
    let output = command.output().expect("docker is installed");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout)
        .expect("UTF-8")
        .trim()
        .to_owned()
}

/// A workspace, and what is needed to start providers for it.
pub(crate) struct Scratch {
    directory: TempDir,
    owner: u32,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let scratch = Self {
            owner: if is_root() {
                ORDINARY
            } else {
                rustix::process::geteuid().as_raw()
            },
            directory,
        };
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scratch.directory.path(), everybody).expect("it is ours");
        std::fs::create_dir(scratch.workspace()).expect("a directory");
        scratch.own(&scratch.workspace());
        scratch
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    /// Who owns the workspace.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    pub(crate) fn own(&self, path: &Path) {
        if is_root() {
            std::os::unix::fs::chown(path, Some(self.owner), Some(self.owner)).expect("root may");
        }
    }

    /// The options that name the daemon and this image.
    pub(crate) fn options(image: &str) -> String {
        format!("image = '{image}'\nhost = '{}'\n", daemon())
    }

    /// A host whose provider is started by whoever runs the tests.
    pub(crate) fn host(&self, options: &str) -> Host {
        self.host_with(&[], options)
    }

    /// The same, with these variables.
    pub(crate) fn host_with(&self, variables: &[(&str, &Path)], options: &str) -> Host {
        let start = format!("command = '{}'\n", self.provider().display());
        self.host_by(&(start + &environment(variables)), options)
    }

    /// A program with the name of the container program that does this and then what the real one does. `$1` is what it is
    /// asked for.
    pub(crate) fn program(&self, script: &str) -> PathBuf {
        let path = self.directory.path().join("docker");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\nexec docker \"$@\"\n"))
            .expect("a file");
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, everybody).expect("it is ours");
        path
    }

    /// A host whose provider is started by an ordinary user who may ask the daemon.
    pub(crate) fn ordinary_host(&self, options: &str) -> Host {
        self.ordinary_host_with(&[], options)
    }

    /// The same, with these variables.
    pub(crate) fn ordinary_host_with(&self, variables: &[(&str, &Path)], options: &str) -> Host {
        if !is_root() {
            return self.host_with(variables, options);
        }
        let bin = self.directory.path().join("bin");
        std::fs::create_dir_all(&bin).expect("a directory");
        for name in ["spp-provider-docker", "spp-engine"] {
            let (from, to) = (self.provider().with_file_name(name), bin.join(name));
            if !to.exists() && std::fs::hard_link(&from, &to).is_err() {
                std::fs::copy(&from, &to).expect("it was built");
            }
        }
        let mut start = format!(
            "command = 'setpriv'\nargs = ['--reuid={user}', '--regid={user}', '--clear-groups', '{}']\n",
            bin.join("spp-provider-docker").display(),
            user = self.owner
        );
        start += &environment(variables);
        self.host_by(&start, options)
    }

    /// The configuration of the last host.
    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join("config.toml")
    }

    fn host_by(&self, start: &str, options: &str) -> Host {
        let file = self.config();
        let text = format!(
            "[sandbox.providers.docker]\n{start}[sandbox.providers.docker.options]\n{options}"
        );
        std::fs::write(&file, text).expect("a file");
        let search = SearchPath {
            beside: None,
            path: vec!["/usr/bin".into(), "/bin".into()],
        };
        let sources = Sources {
            location: Some("docker".to_owned()),
            location_variable: None,
            directory: PathBuf::from("/"),
            user_file: UserFile::Named(file),
            search: search.clone(),
        };
        Host::new(Config::load(&sources).expect("it makes sense"), search)
    }

    /// The directory of the executables that were built for the tests.
    pub(crate) fn executables(&self) -> PathBuf {
        let provider = self.provider();
        provider.parent().expect("it has one").to_owned()
    }

    /// Where the executable is that was built for the tests, with the engine beside it.
    pub(crate) fn provider(&self) -> PathBuf {
        let provider = std::env::var_os("SPP_TEST_BIN_DIR").map_or_else(
            || PathBuf::from(PROVIDER),
            |directory| Path::new(&directory).join("spp-provider-docker"),
        );
        let engine = provider.with_file_name("spp-engine");
        assert!(
            engine.is_file(),
            "{} is missing: `cargo build --bins`",
            engine.display()
        );
        provider
    }

    pub(crate) fn request(&self) -> OpenRequest {
        OpenRequest {
            root: Some(self.workspace().to_str().expect("UTF-8").to_owned()),
            ..OpenRequest::default()
        }
    }

    pub(crate) async fn open(&self, host: &Host) -> Opened {
        let opened = host.open(&Ctx::new(), None, self.request()).await;
        opened.unwrap_or_else(|error| panic!("{}", told(&error)))
    }

    /// Why a sandbox with this policy is refused.
    pub(crate) async fn refused(&self, host: &Host, policy: Policy) -> String {
        let request = OpenRequest {
            policy: Some(policy),
            ..self.request()
        };
        match host.open(&Ctx::new(), None, request).await {
            Ok(_) => panic!("it was given"),
            Err(error) => told(&error),
        }
    }

    pub(crate) fn spec(&self, id: &str) -> AcquireSpec {
        let mut spec = AcquireSpec::new(SandboxId::new(id).expect("valid"));
        spec.root = self.request().root;
        spec
    }
}

fn environment(variables: &[(&str, &Path)]) -> String {
    let line = |(name, value): &(&str, &Path)| format!("env.{name} = '{}'\n", value.display());
    variables.iter().map(line).collect()
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

/// The containers of a sandbox, whatever they do.
pub(crate) fn containers(id: &SandboxId) -> Vec<String> {
    let filter = format!("--filter=label=spp.sandbox={id}");
    let listed = docker(&["ps", "--all", "--quiet", "--no-trunc", &filter]);
    listed.lines().map(str::to_owned).collect()
}

/// The process on this machine that is a container's client.
pub(crate) fn client(container: &str) -> Option<u32> {
    let name = docker(&["inspect", "--format={{.Name}}", container]);
    let name = name.trim_start_matches('/');
    let processes = std::fs::read_dir("/proc")
        .expect("a process table")
        .flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .find(|pid: &u32| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                line.split(|byte| *byte == 0)
                    .any(|word| word == name.as_bytes())
            })
        })
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! A provider that is a shell script: it answers what every provider must, and a test adds the fault.
//!
//! Everything a script leaves behind for its test is a file in the scratch directory, which is its
//! variable `$DIR`. Each start appends the process id to `pids`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use sandbox_core::Ctx;
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, OpenError, OpenRequest, Opened, SearchPath, StartError, Timing};
use tempfile::TempDir;

/// Short, so that tests of what happens after them are quick.
pub(crate) const TIMING: Timing = Timing {
    handshake: Duration::from_secs(2),
    grace: Duration::from_millis(500),
};

/// Longest that anything here may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What serves a request in every fixture, unless the test's own cases come first.
const SERVE: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":%s}\n' "$id" "$1"; }
serve() {
    while IFS= read -r line; do
        id=${line#*'"id":'}
        id=${id%%[,\}]*}
        case $line in
            *'"method":"initialize"'*)
                answer '{"protocol":{"major":1},"provider":{"name":"fixture","version":"1.0"},"capabilities":{"processes":{"spawn":{}}},"instance":"1"}' ;;
            *'"method":"acquire"'*)
                sandbox=${line#*'"sandbox":"'}
                sandbox=${sandbox%%\"*}
                printf '%s\n' "$line" >> "$DIR/acquired"
                answer '{"descriptor":{"sandbox":"'"$sandbox"'","generation":1,"location":"fixture","provider":"fixture","platform":{"os":"linux","arch":"x86_64"},"root":"/tmp","network":"open","capabilities":{"processes":{"spawn":{}}}}}' ;;
            *'"method":"release"'*) answer '{"existed":true,"disposition":"keep"}' ;;
            *'"method":"shutdown"'*|*'"method":"ping"'*) answer '{}' ;;
            *) other ;;
        esac
    done
}
"#;

/// A script in a scratch directory, and the configuration that names it.
pub(crate) struct Fixture {
    directory: TempDir,
    settings: String,
    mode: u32,
}

impl Fixture {
    /// A provider whose script is `body`. It may call `serve`; requests that this does not know are
    /// given to the function `other`, which the body defines.
    pub(crate) fn new(body: &str) -> Self {
        let fixture = Self {
            directory: tempfile::tempdir().expect("a scratch directory"),
            settings: String::new(),
            mode: 0o755,
        };
        let script = format!(
            "#!/bin/sh\nDIR='{}'\necho $$ >> \"$DIR/pids\"\n{SERVE}\nother() {{ :; }}\n{body}\n",
            fixture.path("").display()
        );
        fixture.write("provider", &script);
        fixture
    }

    /// More of `[sandbox.providers.fixture]`.
    pub(crate) fn settings(mut self, settings: &str) -> Self {
        self.settings = settings.to_owned();
        self
    }

    /// Other permission bits for the script.
    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn host(&self) -> Host {
        self.host_with("")
    }

    /// A host, with more of `[sandbox]` in its configuration.
    pub(crate) fn host_with(&self, sandbox: &str) -> Host {
        self.timed_host_with(TIMING, sandbox)
    }

    /// A host that waits as long as no test does.
    pub(crate) fn patient_host(&self) -> Host {
        let timing = Timing {
            handshake: LIMIT * 10,
            grace: LIMIT * 10,
        };
        self.timed_host_with(timing, "")
    }

    fn timed_host_with(&self, timing: Timing, sandbox: &str) -> Host {
        let provider = self.path("provider");
        if provider.is_file() {
            std::fs::set_permissions(&provider, std::fs::Permissions::from_mode(self.mode))
                .expect("its mode");
        }
        self.write(
            "config.toml",
            &format!(
                "[sandbox]\nlocation = 'fixture'\n{sandbox}\n[sandbox.providers.fixture]\ncommand = './provider'\n{}\n",
                self.settings
            ),
        );
        let config = Config::load(&Sources {
            location: None,
            location_variable: None,
            directory: self.path(""),
            user_file: UserFile::Named(self.path("config.toml")),
            search: SearchPath::default(),
        })
        .expect("the fixture's configuration is good");
        Host::with_timing(config, SearchPath::default(), timing)
    }

    /// What the script left in a file; empty if there is none.
    pub(crate) fn left(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The process ids of all starts so far, or what a script wrote into another file of that kind.
    pub(crate) fn pids(&self, file: &str) -> Vec<Pid> {
        self.left(file)
            .lines()
            .map(|line| {
                line.trim()
                    .parse()
                    .ok()
                    .and_then(Pid::from_raw)
                    .expect("a process id")
            })
            .collect()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a scratch file");
    }
}

pub(crate) async fn open(host: &Host) -> Result<Opened, OpenError> {
    tokio::time::timeout(LIMIT, host.open(&Ctx::new(), None, OpenRequest::default()))
        .await
        .expect("opening took too long")
}

/// Opens, and expects a fault of the start.
pub(crate) async fn refused(host: &Host) -> StartError {
    match open(host).await {
        Ok(_) => panic!("the faulty provider was opened"),
        Err(OpenError::Start(error)) => error,
        Err(other) => panic!("not a fault of the start: {other}"),
    }
}

pub(crate) fn runs(pid: Pid) -> bool {
    // A process that only nobody has waited for yet does not run any more.
    let stat = std::fs::read_to_string(
        Path::new("/proc")
            .join(pid.as_raw_nonzero().to_string())
            .join("stat"),
    );
    match stat {
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => cfg!(not(target_os = "linux")) && test_kill_process(pid).is_ok(),
    }
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

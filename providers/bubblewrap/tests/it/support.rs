//! A provider as a host sees it, lines in and lines out, on a workspace that a given user owns.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PROVIDER: &str = env!("CARGO_BIN_EXE_spp-provider-bubblewrap");
/// A user that no system gives a name to.
pub(crate) const ORDINARY: u32 = 42_421;
/// Longest that anything here may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Who starts the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs the tests.
    Me,
    /// An ordinary user; the tests run as root.
    Ordinary,
}

/// Tries something for everybody that this test can be.
pub(crate) fn each(check: impl Fn(Who)) {
    check(Who::Me);
    if is_root() {
        check(Who::Ordinary);
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The executables, where anybody can start them, and a workspace in a directory that nobody else may enter.
pub(crate) struct Scratch {
    who: Who,
    executables: PathBuf,
    private: PathBuf,
    _directory: TempDir,
}

impl Scratch {
    pub(crate) fn new(who: Who) -> Self {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let set = |path: &Path, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("it is ours");
        };
        set(directory.path(), 0o755);
        let built = std::env::var_os("SPP_TEST_BIN_DIR").map_or_else(
            || {
                Path::new(PROVIDER)
                    .parent()
                    .expect("it is in a directory")
                    .to_owned()
            },
            PathBuf::from,
        );
        let executables = match who {
            Who::Me => built,
            Who::Ordinary => {
                let copies = directory.path().join("bin");
                std::fs::create_dir(&copies).expect("a directory");
                set(&copies, 0o755);
                for name in ["spp-provider-bubblewrap", "spp-engine"] {
                    let (from, to) = (built.join(name), copies.join(name));
                    if std::fs::hard_link(&from, &to).is_err() {
                        std::fs::copy(&from, &to).expect("it was built");
                    }
                }
                copies
            }
        };
        let engine = executables.join("spp-engine");
        assert!(
            engine.is_file(),
            "{} is missing: `cargo build --bins`",
            engine.display()
        );
        let private = directory.path().join("private");
        std::fs::create_dir_all(private.join("workspace")).expect("a directory");
        let scratch = Self {
            who,
            executables,
            private: private.canonicalize().expect("it is there"),
            _directory: directory,
        };
        scratch.own(&scratch.private);
        scratch.own(&scratch.workspace());
        set(&scratch.private, 0o700);
        scratch
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.private.join("workspace")
    }

    /// A directory beside the workspace, owned by who starts the provider.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        let path = self.private.join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        self.own(&path);
        path
    }

    /// Gives something to who starts the provider.
    pub(crate) fn own(&self, path: &Path) {
        if let Some(user) = self.user() {
            std::os::unix::fs::chown(path, Some(user), Some(user)).expect("root may");
        }
    }

    pub(crate) fn user(&self) -> Option<u32> {
        (self.who == Who::Ordinary).then_some(ORDINARY)
    }

    /// The executable beside which the engine is.
    pub(crate) fn provider(&self) -> PathBuf {
        self.executables.join("spp-provider-bubblewrap")
    }

    /// A command that is the provider, run by its user.
    pub(crate) fn command(&self) -> Command {
        match self.user() {
            None => command(self.provider()),
            Some(user) => {
                let mut start = command("setpriv");
                start.args([&format!("--reuid={user}"), &format!("--regid={user}")]);
                start.arg("--clear-groups").arg(self.provider());
                start
            }
        }
    }

    /// The provider, with a sandbox `s` on the workspace.
    pub(crate) fn serve(&self) -> Served {
        self.serve_with(&json!({}))
    }

    /// The same with a policy.
    pub(crate) fn serve_with(&self, policy: &Value) -> Served {
        let mut served = Served::start(&mut self.command());
        served.acquire(&self.spec(policy));
        served
    }

    pub(crate) fn spec(&self, policy: &Value) -> Value {
        json!({"sandbox": "s", "root": self.workspace().to_str().expect("UTF-8"), "policy": policy})
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the executable is what is tested"
)]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// A provider that was greeted.
pub(crate) struct Served {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
    pub(crate) generation: u64,
    pub(crate) descriptor: Value,
}

impl Served {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .env("SPP_HOST", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut served = Self {
            child,
            input,
            output,
            last: 0,
            generation: 0,
            descriptor: Value::Null,
        };
        served.call(
            "initialize",
            &json!({"protocol": {"majors": [1]}, "host": {"name": "test", "version": "1"},
                "limits": {"max_line_bytes": 8 << 20}}),
        );
        served
    }

    /// Asks and gives the result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.ask(method, params);
        answer
            .get("result")
            .unwrap_or_else(|| panic!("{method} failed: {answer}"))
            .clone()
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.tell(method, params);
        let id = self.last;
        loop {
            let message = self
                .next()
                .unwrap_or_else(|| panic!("it ended at {method}"));
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Asks without waiting.
    pub(crate) fn tell(&mut self, method: &str, params: &Value) {
        self.last += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        let mut input = self.input.as_ref().expect("it is open");
        writeln!(input, "{request}").expect("it reads");
    }

    /// The next message; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => Some(serde_json::from_str(&line).expect("JSON")),
            _ => None,
        }
    }

    pub(crate) fn acquire(&mut self, spec: &Value) {
        self.descriptor = self.call("acquire", &json!({"spec": spec}))["descriptor"].clone();
        self.generation = self.descriptor["generation"].as_u64().expect("a number");
    }

    /// Runs a verb in the sandbox `s`.
    pub(crate) fn verb(&mut self, method: &str, params: Value) -> Value {
        let params = self.of_sandbox(params);
        self.call(method, &params)
    }

    pub(crate) fn of_sandbox(&self, mut params: Value) -> Value {
        params["sandbox"] = "s".into();
        params["generation"] = self.generation.into();
        params
    }

    /// What a script prints, standard error behind standard output.
    pub(crate) fn sh(&mut self, script: &str) -> String {
        let outcome = self.verb("exec", json!({"process": {"argv": ["sh", "-c", script]}}));
        let text = |stream: &str| {
            outcome[stream]["head"]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        text("stdout") + &text("stderr")
    }

    /// Starts a script that runs on, and waits until it has printed something.
    pub(crate) fn spawn(&mut self, script: &str) {
        let spec = json!({"id": "p", "process": {"argv": ["sh", "-c", script]}});
        self.verb("spawn", spec);
        let read = json!({"id": "p", "stream": "stdout", "from": 0, "max": 1, "wait_ms": 30_000});
        self.verb("proc_read", read);
    }

    /// Ends the connection and waits for the end of the provider.
    pub(crate) fn hang_up(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("it ends").code()
    }

    /// The processes that this one has started, and theirs, in the machine's numbers.
    pub(crate) fn family(&self) -> Vec<u32> {
        let mut family = vec![self.child.id()];
        let mut at = 0;
        while let Some(&pid) = family.get(at) {
            at += 1;
            for task in std::fs::read_dir(format!("/proc/{pid}/task"))
                .into_iter()
                .flatten()
                .flatten()
            {
                let children = std::fs::read_to_string(task.path().join("children"));
                let children = children.unwrap_or_default();
                family.extend(
                    children
                        .split_whitespace()
                        .filter_map(|it| it.parse::<u32>().ok()),
                );
            }
        }
        family
    }

    /// The process of this name in the family.
    pub(crate) fn named(&self, name: &str) -> u32 {
        let is = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim() == name)
        };
        let family = self.family();
        *family
            .iter()
            .find(|pid| is(pid))
            .unwrap_or_else(|| panic!("no {name} among {family:?}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that failed half-way must not leave one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process is there and is no zombie.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

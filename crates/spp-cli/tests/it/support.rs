//! A scratch directory to stand in, and `spp` started in it with a known environment.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest that anything here may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A directory to stand in, and an empty home.
pub(crate) struct Place {
    directory: TempDir,
    home: TempDir,
}

/// How a run of `spp` ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output as one JSON object.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }
}

/// `spp` and its providers lie side by side, as in an installation.
pub(crate) fn executable() -> PathBuf {
    let directory = match std::env::var_os("SPP_TEST_BIN_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_BIN_EXE_spp"))
            .parent()
            .expect("an executable is in a directory")
            .to_owned(),
    };
    let provider = directory.join("spp-provider-local");
    assert!(
        provider.is_file(),
        "{} is missing: build it with `cargo build -p spp-provider-local`",
        provider.display()
    );
    directory.join("spp")
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a scratch directory"),
            home: tempfile::tempdir().expect("a scratch directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("below the scratch directory"))
            .expect("directories");
        std::fs::write(path, content).expect("a scratch file");
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The user's configuration file.
    pub(crate) fn configure(&self, text: &str) {
        let directory = self.home.path().join(".config/spp");
        std::fs::create_dir_all(&directory).expect("directories");
        std::fs::write(directory.join("config.toml"), text).expect("a configuration file");
    }

    /// `spp` with these arguments, input from nowhere, output into pipes.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test starts the program as its users do"
        )]
        let mut command = Command::new(executable());
        command
            .args(args)
            .current_dir(self.directory.path())
            .env("HOME", self.home.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("SPP_LOCATION")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `spp` to its end.
    pub(crate) fn spp(&self, args: &[&str]) -> Ended {
        finish(start(&mut self.command(args)))
    }

    /// Runs `spp` to its end, with this input.
    pub(crate) fn spp_with(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut child = start(self.command(args).stdin(Stdio::piped()));
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        // A command that does not read all of it closes the pipe.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let ended = finish(child);
        writer.join().expect("the writer does not panic");
        ended
    }

    /// Waits until a script has written its process ids, one a line, and returns them.
    pub(crate) fn pids(&self, name: &str, count: usize) -> Vec<Pid> {
        eventually("the process ids are there", || {
            let text = self.text(name);
            text.ends_with('\n') && text.lines().count() >= count
        });
        self.text(name)
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
}

pub(crate) fn start(command: &mut Command) -> Child {
    command.spawn().expect("spp starts")
}

/// Waits for the end, and kills what does not end in time.
pub(crate) fn finish(mut child: Child) -> Ended {
    let id = child.id();
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            panic!("spp (process {id}) did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let collect = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        reader.map_or_else(Vec::new, |reader| reader.join().expect("no panic"))
    };
    Ended {
        code: status.code(),
        stdout: collect(stdout),
        stderr: String::from_utf8_lossy(&collect(stderr)).into_owned(),
    }
}

fn drain(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all);
        all
    })
}

/// Reads one line, byte by byte, so that nothing behind it is taken.
pub(crate) fn line(from: &mut impl std::io::Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte).expect("the pipe can be read") == 1 && byte != *b"\n" {
        line.extend_from_slice(&byte);
    }
    String::from_utf8(line).expect("a line of text")
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, signal).expect("spp can be signalled");
}

/// Sends a signal again and again until `spp` has ended: for waits that cannot be seen from outside.
pub(crate) fn signal_until_it_ends(mut child: Child, sent: Signal) -> Ended {
    eventually("it ends", || {
        let ended = child
            .try_wait()
            .expect("a child can be waited for")
            .is_some();
        if !ended {
            signal(&child, sent);
            std::thread::sleep(Duration::from_millis(100));
        }
        ended
    });
    finish(child)
}

/// The processes whose parent this is.
pub(crate) fn children(parent: &Child) -> Vec<Pid> {
    let parent = parent.id().to_string();
    let entries = std::fs::read_dir("/proc").expect("the table of processes");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name: the state, and then the parent.
        let behind = stat.rsplit(')').next().unwrap_or_default();
        behind.split_whitespace().nth(1) == Some(parent.as_str())
    })
    .filter_map(Pid::from_raw)
    .collect()
}

/// Whether a process runs. One that only was not waited for yet does not.
pub(crate) fn runs(pid: Pid) -> bool {
    let stat = Path::new("/proc")
        .join(pid.as_raw_nonzero().to_string())
        .join("stat");
    std::fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asserts how a run ended, whatever it said on standard error.
#[track_caller]
pub(crate) fn check(ended: &Ended, code: i32, stdout: &str) {
    assert_eq!(
        (ended.code, ended.stdout().as_str()),
        (Some(code), stdout),
        "standard error: {}",
        ended.stderr
    );
}

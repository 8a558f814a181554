//! The executable as a host sees it: lines in, lines out.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::alone::PROVIDER;

struct Served {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
    generation: u64,
}

impl Served {
    /// Starts the provider with `directory` as its working directory and greets it.
    fn start(command: &mut Command, directory: &Path) -> Self {
        let mut child = command
            .env("SPP_HOST", "1")
            .current_dir(directory)
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
        };
        served.call(
            "initialize",
            &json!({"protocol": {"majors": [1]}, "host": {"name": "test", "version": "1"}}),
        );
        served
    }

    /// Asks and gives the result.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.ask(method, params);
        answer
            .get("result")
            .unwrap_or_else(|| panic!("{method} failed: {answer}"))
            .clone()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        let mut input = self.input.as_ref().expect("it is open");
        writeln!(input, "{request}").expect("it reads");
        loop {
            let mut line = String::new();
            assert_ne!(
                self.output.read_line(&mut line).expect("text"),
                0,
                "it ended at {method}"
            );
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == self.last {
                return message;
            }
        }
    }

    fn acquire(&mut self, spec: &Value) -> Value {
        let descriptor = self.call("acquire", &json!({"spec": spec}))["descriptor"].clone();
        self.generation = descriptor["generation"].as_u64().expect("a number");
        descriptor
    }

    /// Runs a verb in the sandbox `s`.
    fn verb(&mut self, method: &str, mut params: Value) -> Value {
        params["sandbox"] = "s".into();
        params["generation"] = self.generation.into();
        self.call(method, &params)
    }

    fn sh(&mut self, script: &str) -> String {
        let outcome = self.verb("exec", json!({"process": {"argv": ["sh", "-c", script]}}));
        outcome["stdout"]["head"]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Ends the connection and waits for the end of the provider.
    fn hang_up(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that failed half-way must not leave one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the executable is what is tested"
)]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

fn is_running(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie runs no more.
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

#[test]
fn it_does_file_verbs_and_commands_where_it_was_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut served = Served::start(&mut command(PROVIDER), directory.path());
    let descriptor = served.acquire(&json!({"sandbox": "s"}));
    let real = directory.path().canonicalize().expect("there");
    assert_eq!(descriptor["root"].as_str(), real.to_str());
    assert_eq!(descriptor["network"], "open");

    let receipts = served.verb(
        "write",
        json!({"changes": [{"put": {"path": "a/b", "content": {"text": "hello\n"}}}]}),
    );
    assert_eq!(receipts["items"][0]["ok"]["existed"], false, "{receipts}");
    assert_eq!(
        std::fs::read(real.join("a/b")).expect("it is there"),
        b"hello\n"
    );
    let read = served.verb("read", json!({"path": "a/b"}));
    assert_eq!(read["content"]["text"], "hello\n", "{read}");
    assert_eq!(
        served.sh("cat a/b; pwd"),
        format!("hello\n{}\n", real.display())
    );

    let refused = served.ask(
        "read",
        &json!({"sandbox": "s", "generation": served.generation, "path": "/etc/passwd"}),
    );
    assert_eq!(
        refused["error"]["data"]["kind"], "outside_root",
        "{refused}"
    );
    assert_eq!(served.hang_up(), Some(0));
}

#[test]
fn what_runs_does_not_see_the_hosts_cookie_and_cannot_reach_the_protocol() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut served = Served::start(&mut command(PROVIDER), directory.path());
    served.acquire(&json!({"sandbox": "s"}));
    assert_eq!(
        served.sh("env | grep SPP_HOST; ls /proc/self/fd"),
        "0\n1\n2\n3\n",
        "3 is the directory that ls reads"
    );
    // What is printed to a descriptor that the protocol might be on reaches nobody.
    let forged = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    served.sh(&format!(
        "for fd in 3 4 5 100 101; do eval \"echo '{forged}' >&$fd\"; done 2>/dev/null"
    ));
    assert_eq!(served.sh("echo unharmed"), "unharmed\n");
}

#[test]
fn when_the_host_goes_everything_that_was_started_goes() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut served = Served::start(&mut command(PROVIDER), directory.path());
    served.acquire(&json!({"sandbox": "s"}));
    let script = "setsid sleep 1000 & echo $! > daemon; sleep 1000";
    let receipt = served.verb(
        "spawn",
        json!({"id": "p", "process": {"argv": ["sh", "-c", script]}}),
    );
    let leader = receipt["pid"].as_u64().expect("a number");
    let started = Instant::now();
    let daemon = loop {
        let text = std::fs::read_to_string(directory.path().join("daemon")).unwrap_or_default();
        if let Ok(pid) = text.trim().parse() {
            break pid;
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "the script never wrote its number"
        );
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(is_running(leader) && is_running(daemon));
    assert_eq!(served.hang_up(), Some(0));
    let ended = Instant::now();
    while is_running(leader) || is_running(daemon) {
        assert!(
            ended.elapsed() < Duration::from_secs(10),
            "something outlived the provider"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_ends_when_the_host_is_gone_in_the_middle_of_a_change_and_nobody_reads_its_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = std::fs::File::create(directory.path().join("holes")).expect("a file");
    file.set_len(1 << 42).expect("room for holes");
    let mut provider = command(PROVIDER);
    let mut served = Served::start(provider.stderr(Stdio::piped()), directory.path());
    served.acquire(&json!({"sandbox": "s"}));
    // To replace it takes hours: all of the old content is gone through first.
    let request = json!({"jsonrpc": "2.0", "id": 99, "method": "write", "params": {
        "sandbox": "s", "generation": served.generation,
        "changes": [{"put": {"path": "holes", "content": {"text": "x"}}}],
    }});
    let mut input = served.input.take().expect("it is open");
    writeln!(input, "{request}").expect("it reads");
    drop(served.child.stderr.take());
    drop(input);
    let gone = Instant::now();
    let status = loop {
        if let Some(status) = served.child.try_wait().expect("it can be waited for") {
            break status;
        }
        assert!(
            gone.elapsed() < Duration::from_secs(10),
            "it outlived its host"
        );
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
    assert_eq!(file.metadata().expect("it is there").len(), 1 << 42);
}

#[test]
fn an_inherited_limit_on_file_sizes_fails_writes_and_ends_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut limited = command("sh");
    limited.args(["-c", "ulimit -f 8; exec \"$0\"", PROVIDER]);
    let mut served = Served::start(&mut limited, directory.path());
    served.acquire(&json!({"sandbox": "s"}));
    // More than fits: a file of output, and a file of the tree.
    let script = "head -c 300000 /dev/zero; printf end; exit 3";
    let outcome = served.verb("exec", json!({"process": {"argv": ["sh", "-c", script]}}));
    assert_eq!(outcome["exit"]["status"]["exited"]["code"], 3, "{outcome}");
    assert_eq!(outcome["stdout"]["total"], 300_003, "{outcome}");
    let content = "x".repeat(100_000);
    let change = json!({"put": {"path": "file", "content": {"text": content}}});
    let written = served.verb("write", json!({"changes": [change]}));
    assert_eq!(
        written["items"][0]["error"]["data"]["effect"], "none",
        "{written}"
    );
    let entries = std::fs::read_dir(directory.path()).expect("a directory");
    assert_eq!(entries.count(), 0);
    // What is started has the signal's default.
    let said = served.sh("dd if=/dev/zero of=file bs=100000 count=1 2>&-; kill -l $?");
    assert_eq!(said.trim(), "XFSZ");
    assert_eq!(served.hang_up(), Some(0));
}

#[test]
fn a_descriptor_that_it_inherited_is_given_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut shell = command("sh");
    // The pipe is the provider's descriptor 7, and nobody else's.
    shell
        .args(["-c", r#"exec 7>&2 2>/dev/null; exec "$0""#, PROVIDER])
        .stderr(writer);
    let served = Served::start(&mut shell, directory.path());
    // The command still holds the end it was given.
    drop(shell);
    let mut rest = String::new();
    reader
        .read_to_string(&mut rest)
        .expect("it ends while the provider lives");
    assert_eq!(rest, "");
    assert_eq!(served.hang_up(), Some(0));
}

#[test]
fn commands_of_the_same_user_cannot_look_into_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let mode = |path: &Path| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    };
    // Somewhere that any user can start it.
    let program = directory.path().join("provider");
    std::fs::copy(PROVIDER, &program).expect("a copy");
    mode(directory.path());
    mode(&program);
    let uid = command("id").arg("-u").output().expect("it runs").stdout;
    let mut start = if uid == b"0\n" {
        let mut start = command("setpriv");
        start
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program);
        start
    } else {
        command(&program)
    };
    let mut served = Served::start(&mut start, directory.path());
    served.acquire(&json!({"sandbox": "s"}));
    let provider = served.child.id();
    let text = served.sh(&format!(
        "id -u; for it in environ mem fd/0 fd/100 maps; do head -c1 /proc/{provider}/$it 2>/dev/null && echo $it; done; ls /proc/{provider}/fd 2>/dev/null"
    ));
    assert_eq!(text.lines().count(), 1, "only the user's number: {text}");
    assert_ne!(text, "0\n", "root may look into everything");
}

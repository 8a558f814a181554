//! `spp-chaos-provider MODE`: a provider that lies to its host in one way.
//!
//! It does what every provider must do, honestly, except once: at the moment that the mode names it
//! does what no provider may, and is honest again after. What a host then says, and that it
//! survives, is the host's test; `--list` prints every mode, so that no mode is left without one.
//!
//! **Invariant:** a mode lies in one way only. Where a host has to notice it by the answer, nothing
//! else is wrong with that answer.
//!
//! Not here: being useful. It has no files and runs nothing; its one file is called by any name and
//! contains `fine`.

mod answers;
mod calls;
mod lines;
mod places;
mod streams;

use std::io::{BufRead, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

/// One way to lie.
struct Lie {
    name: &'static str,
    /// What it does, completing "it ...".
    does: &'static str,
    when: When,
    act: fn(&mut Chaos, &Request),
}

/// When a lie is told; the request is not answered beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before anything is read. There is no request yet: its id is null.
    Start,
    /// In place of the answer to the first request of this method.
    At(&'static str),
    /// In place of the answer to the first verb of a sandbox.
    Verb,
}

/// What a host asked.
struct Request {
    id: Value,
    method: String,
    params: Value,
}

/// The provider while it runs.
struct Chaos {
    out: std::io::Stdout,
    input: std::io::StdinLock<'static>,
    lied: bool,
}

/// Where a start by hand ends, as at any provider.
const EXIT_NOT_A_HOST: u8 = 64;

fn lies() -> impl Iterator<Item = &'static Lie> {
    [
        lines::LIES,
        calls::LIES,
        answers::LIES,
        streams::LIES,
        places::LIES,
    ]
    .into_iter()
    .flatten()
}

#[expect(
    clippy::print_stdout,
    reason = "the list is printed where no host is; to a host nothing is printed but messages"
)]
fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if argument == "--list" {
        for lie in lies() {
            println!("{}\t{}", lie.name, lie.does);
        }
        return ExitCode::SUCCESS;
    }
    let lie = lies().find(|lie| lie.name == argument);
    let (Some(lie), Some("1")) = (lie, std::env::var("SPP_HOST").ok().as_deref()) else {
        eprintln!(
            "this is a provider that lies to its host: start it from a test, with one of the modes \
             that `--list` prints"
        );
        return ExitCode::from(EXIT_NOT_A_HOST);
    };
    let mut chaos = Chaos {
        out: std::io::stdout(),
        input: std::io::stdin().lock(),
        lied: false,
    };
    if lie.when == When::Start {
        let nobody = Request {
            id: Value::Null,
            method: String::new(),
            params: Value::Null,
        };
        chaos.lied = true;
        (lie.act)(&mut chaos, &nobody);
    }
    while let Some(request) = chaos.next() {
        let now = match lie.when {
            When::Start => false,
            When::At(method) => method == request.method,
            When::Verb => !is_of_the_provider(&request.method),
        };
        if now && !chaos.lied {
            chaos.lied = true;
            (lie.act)(&mut chaos, &request);
        } else {
            chaos.honest(&request);
        }
    }
    ExitCode::SUCCESS
}

/// Whether a method is not one of a sandbox.
fn is_of_the_provider(method: &str) -> bool {
    matches!(
        method,
        "initialize" | "ping" | "shutdown" | "acquire" | "release" | "list"
    )
}

impl Chaos {
    /// The next request; notifications are passed over.
    fn next(&mut self) -> Option<Request> {
        loop {
            let message = self.message()?;
            if message.get("id").is_some() && message.get("method").is_some() {
                return Some(Request {
                    id: message["id"].clone(),
                    method: message["method"].as_str().unwrap_or_default().to_owned(),
                    params: message["params"].clone(),
                });
            }
        }
    }

    /// The next message.
    fn message(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => serde_json::from_str(&line).ok(),
        }
    }

    /// Writes bytes as they are. A host that is gone is no reason to go on.
    fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        let written = self
            .out
            .write_all(bytes.as_ref())
            .and_then(|()| self.out.flush());
        if written.is_err() {
            std::process::exit(0);
        }
    }

    /// Writes a line.
    fn line(&mut self, line: impl AsRef<[u8]>) {
        let mut line = line.as_ref().to_vec();
        line.push(b'\n');
        self.raw(line);
    }

    /// Writes a message.
    fn send(&mut self, message: &Value) {
        self.line(message.to_string());
    }

    /// Writes a notification.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "its callers make the value in place"
    )]
    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Answers with a result.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "its callers make the value in place"
    )]
    fn answer(&mut self, request: &Request, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request.id, "result": result }));
    }

    /// Answers with an error.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "its callers make the value in place"
    )]
    fn refuse(&mut self, request: &Request, error: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request.id, "error": error }));
    }

    /// Answers as a provider does that does not lie.
    fn honest(&mut self, request: &Request) {
        let result = match request.method.as_str() {
            "initialize" => json!({
                "protocol": { "major": 1 },
                "provider": { "name": "chaos", "version": env!("CARGO_PKG_VERSION") },
                "capabilities": {
                    "files": { "read_many": {} },
                    "search": { "glob": {}, "grep": {}, "fingerprint": {} },
                    "exec": { "stdin": {} },
                    "processes": { "spawn": {} },
                    "trees": { "push": {}, "pull": {} },
                    "lifecycle": { "list": {}, "attach": {} },
                },
                "instance": "chaos",
            }),
            "acquire" => json!({ "descriptor": descriptor(&request.params["spec"]["sandbox"]) }),
            "release" => json!({ "existed": true, "disposition": "keep" }),
            "ping" | "shutdown" => json!({}),
            "list" => json!({ "sandboxes": [] }),
            "read" => file("fine"),
            "exec" => {
                let id = request.params["id"].clone();
                if request.params["delivery"] == "live" {
                    let stdout = request.params["stdout"].clone();
                    self.data(&stdout, 0, 0, "fine\n");
                }
                exited(&id, &request.params, "fine\n")
            }
            _ => {
                self.refuse(
                    request,
                    json!({ "code": 1003, "message": "there is only one file here",
                        "data": { "kind": "unsupported", "effect": "none" } }),
                );
                return;
            }
        };
        self.answer(request, result);
    }

    /// Sends a piece of a stream.
    fn data(&mut self, stream: &Value, seq: u64, offset: u64, text: &str) {
        self.notify(
            "stream/data",
            json!({ "stream": stream, "seq": seq, "offset": offset, "text": text }),
        );
    }
}

/// A sandbox of this id.
fn descriptor(sandbox: &Value) -> Value {
    json!({
        "sandbox": sandbox, "generation": 1, "location": "chaos", "provider": "chaos",
        "platform": { "os": "linux", "arch": "x86_64" }, "root": "/workspace", "network": "none",
        "capabilities": { "files": { "read_many": {} } },
    })
}

/// The answer to a `read` of a file with this content.
fn file(content: &str) -> Value {
    json!({
        "content": { "text": content }, "offset": 0, "total_bytes": content.len(), "mode": 420,
        "text": { "encoding": "utf8", "newline": "none" },
    })
}

/// The answer to an `exec` that wrote `output` and exited with 0.
fn exited(id: &Value, params: &Value, output: &str) -> Value {
    let stdout = if params["delivery"] == "live" {
        json!({ "total": output.len() })
    } else {
        json!({ "head": { "text": output }, "total": output.len() })
    };
    json!({
        "id": id,
        "exit": { "status": { "exited": { "code": 0 } }, "duration_us": 1 },
        "stdout": stdout,
        "stderr": { "total": 0 },
    })
}

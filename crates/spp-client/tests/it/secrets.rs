//! What nobody may log: the values of variables, the content of files, input and output.

use std::io::Write;
use std::sync::{Arc, Mutex};

use sandbox_core::file::{Change, ReadRequest, WriteRequest};
use sandbox_core::process::*;
use sandbox_core::*;
use serde_json::json;
use spp_client::ConnectOptions;

use crate::faults::with_sandbox;
use crate::memory::Memory;
use crate::{path, sandbox, soon, until};

const SECRET: &str = "hunter2-and-then-some";

/// Everything that this thread logs, at every level, of every library.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        let bytes = self.0.lock().expect("not poisoned");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_verbs_carry_is_in_no_log_at_any_level() {
    let (log, _guard) = Log::start();
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let put = Change::put(path("f"), SECRET);
    soon(sandbox.write(&ctx, WriteRequest::new([put])))
        .await
        .expect("written");
    let content = soon(sandbox.read(&ctx, ReadRequest::new(path("f")))).await;
    assert_eq!(&content.expect("read").bytes[..], SECRET.as_bytes());
    for delivery in [Delivery::Live, Delivery::AtEnd] {
        let mut process = ProcessSpec::new(["echo", SECRET]);
        process.env = vec![EnvChange::set("TOKEN", SECRET)];
        let request = ExecRequest::new(process)
            .stdin(Stdin::Bytes(SECRET.into()))
            .delivery(delivery);
        let execution = soon(sandbox.exec(&ctx, request)).await.expect("started");
        let read = soon(collect(Verb::Exec, execution.stdout, u64::MAX)).await;
        read.expect("read");
        let outcome = soon(execution.outcome).await.expect("an outcome");
        assert_eq!(outcome.stdout.total, 1 + SECRET.len() as u64);
    }
    let text = log.text();
    assert!(text.contains("jsonrpsee"), "nothing was recorded: {text}");
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_message_that_is_dropped_is_not_shown_and_a_stray_print_is() {
    let (log, _guard) = Log::start();
    let (_sandbox, connection, mut peer) = with_sandbox(ConnectOptions::default()).await;
    let content = json!({ "content": { "text": SECRET } });
    for line in [
        json!({ "id": 5, "result": content }).to_string(),
        json!({ "jsonrpc": "2.0", "result": content }).to_string(),
        json!([{ "jsonrpc": "2.0", "id": 5, "result": content }]).to_string(),
        json!({ "jsonrpc": "2.0", "method": "stream/data", "params": { "stream": 5, "text": SECRET } })
            .to_string(),
        json!({ "jsonrpc": "2.0", "method": "$/progress", "params": SECRET }).to_string(),
        format!(r#" {{"jsonrpc":"2.0","id":5,"result":"{SECRET}"#),
        format!(r#"{{"method":"log","text":"{SECRET}{}"#, "x".repeat(9 << 20)),
        "Welcome to the box".to_owned(),
    ] {
        peer.line(line).await;
    }
    until(|| connection.stats().bad_lines == 8).await;
    let text = log.text();
    assert!(text.contains("Welcome to the box"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

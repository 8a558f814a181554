//! What a server logs of lines that it drops: how many and how long, never what is in them.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::host::{Host, soon, verb};

const SECRET: &str = "hunter2-and-then-some";

/// Everything that this thread logs, at every level, of every library.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        let bytes = self.0.lock().expect("not poisoned");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The records about dropped lines.
    fn dropped(&self) -> Vec<Value> {
        let text = self.text();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .filter(|record| record.to_string().contains("dropped"))
            .collect()
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
async fn of_a_message_that_is_dropped_the_log_has_its_length_and_nothing_else() {
    let (log, _guard) = Log::start();
    let mut host = Host::ready().await;
    let notification = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
    };
    let lines = [
        notification("$/cancel", json!({ "id": SECRET })),
        notification("stream/credit", json!({ "stream": 1, "bytes": SECRET })),
        notification("stream/stop", json!({ "stream": SECRET })),
        notification(
            "stream/end",
            json!({ "stream": 1, "error": { "code": SECRET } }),
        ),
        notification(
            "stream/data",
            json!({ "stream": 1, "seq": SECRET, "offset": 0, "text": SECRET }),
        ),
        notification(
            "stream/data",
            json!({ "stream": 1, "seq": 0, "offset": 0, "b64": SECRET }),
        ),
        format!(r#"{{"text":"{SECRET}"#),
        format!(r#"["{SECRET}"#),
        json!({ "text": SECRET }).to_string(),
        json!({ "id": format!("{SECRET}{}", "x".repeat(1_000)), "method": "ping" }).to_string(),
    ];
    for line in &lines {
        host.line(line).await;
        host.is_quiet().await;
    }
    let dropped = log.dropped();
    assert_eq!(dropped.len(), lines.len(), "{dropped:?}");
    for record in &dropped {
        assert!(
            record["bytes"].is_u64() && record["problem"].is_string(),
            "{record}"
        );
    }
    // Requests that fail are no different.
    host.request(5, "exec", verb(json!({ "process": { "argv": SECRET } })))
        .await;
    host.failure().await;
    host.request(6, SECRET, json!({})).await;
    host.failure().await;
    let text = log.text();
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn junk_without_end_does_not_fill_the_log() {
    let (log, _guard) = Log::start();
    let mut host = Host::ready().await;
    for round in 0..500 {
        host.line(format!("junk {round}")).await;
        host.line("{}").await;
        host.notify("stream/stop", json!({})).await;
        host.notify(
            "stream/data",
            json!({ "stream": 1, "seq": 0, "offset": 0, "b64": "!" }),
        )
        .await;
    }
    host.is_quiet().await;
    assert_eq!(log.dropped().len(), 10);
    // At the end, how many there were.
    drop(host.output);
    soon(host.served)
        .await
        .expect("the server does not panic")
        .expect("it ends well");
    let dropped = log.dropped();
    assert_eq!(dropped.len(), 11, "{dropped:?}");
    assert_eq!(dropped[10]["lines"], 4 * 500 - 10);
}

//! A host that speaks raw lines.

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::Provider;
use serde_json::{Value, json};
use spp_server::{Ended, ServeError, ServeOptions, serve};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;

use crate::memory::Memory;

/// Bytes that a pipe holds.
const PIPE: usize = 64 * 1024;

pub(crate) struct Host {
    pub(crate) provider: Arc<Memory>,
    pub(crate) lines: Lines<BufReader<DuplexStream>>,
    pub(crate) output: DuplexStream,
    pub(crate) served: JoinHandle<Result<Ended, ServeError>>,
}

impl Host {
    /// A server that has heard nothing yet.
    pub(crate) fn raw() -> Self {
        Self::served_by(|memory| memory)
    }

    /// The same, with another provider around the one in memory.
    pub(crate) fn served_by(around: impl FnOnce(Arc<Memory>) -> Arc<dyn Provider>) -> Self {
        let provider = Memory::whole();
        let (output, server_input) = tokio::io::duplex(PIPE);
        let (server_output, input) = tokio::io::duplex(PIPE);
        let served = tokio::spawn(serve(
            around(Arc::clone(&provider)),
            server_input,
            server_output,
            ServeOptions::default(),
        ));
        Self {
            provider,
            lines: BufReader::new(input).lines(),
            output,
            served,
        }
    }

    /// A server that is initialized and has given out the sandbox `s`, generation 1.
    pub(crate) async fn ready() -> Self {
        let mut host = Self::raw();
        host.call(1, "initialize", initialize(&[1])).await;
        host.request(2, "acquire", json!({ "spec": { "sandbox": "s" } }))
            .await;
        assert_eq!(host.next().await["method"], "$/progress");
        assert_eq!(host.next().await["id"], 2);
        host
    }

    pub(crate) async fn line(&mut self, line: impl AsRef<[u8]>) {
        let output = &mut self.output;
        let write = async {
            output.write_all(line.as_ref()).await?;
            output.write_all(b"\n").await
        };
        soon(write).await.expect("the server reads");
    }

    pub(crate) async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let request = json!({
            "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params,
        });
        self.line(request.to_string()).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        let notification = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.line(notification.to_string()).await;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.expect("readable");
        serde_json::from_str(&line.expect("the server is there")).expect("servers write JSON")
    }

    /// Asks, and takes the next message for the answer.
    pub(crate) async fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.request(id, method, params).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The id and `data.kind`, or else the code, of the next message, which is a failure.
    pub(crate) async fn failure(&mut self) -> (Value, String) {
        let answer = self.next().await;
        let error = &answer["error"];
        let kind = match error["data"]["kind"].as_str() {
            Some(kind) => kind.to_owned(),
            None => error["code"].to_string(),
        };
        (answer["id"].clone(), kind)
    }

    /// Nothing is under way and nothing is on its way: a ping is answered next.
    pub(crate) async fn is_quiet(&mut self) {
        let answer = self.call(424_242, "ping", json!({})).await;
        assert_eq!(answer["result"], json!({}));
    }
}

pub(crate) fn initialize(majors: &[u32]) -> Value {
    json!({ "protocol": { "majors": majors }, "host": { "name": "raw", "version": "0" } })
}

/// Members of a verb of the sandbox `s`.
pub(crate) fn verb(members: Value) -> Value {
    let mut params = json!({ "sandbox": "s", "generation": 1 });
    let object = params.as_object_mut().expect("an object");
    if let Value::Object(members) = members {
        object.extend(members);
    }
    params
}

/// Fails a test that would otherwise hang.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("it happens within twenty seconds")
}

//! A peer that speaks raw lines: for what a real provider never does.

use std::sync::Arc;

use serde_json::{Value, json};
use spp_client::{ConnectOptions, Connection};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};

/// The far end of a connection.
pub(crate) struct Peer {
    pub(crate) lines: Lines<BufReader<DuplexStream>>,
    pub(crate) output: DuplexStream,
}

impl Peer {
    /// A client that has done its handshake with this peer.
    pub(crate) async fn connect(options: ConnectOptions) -> (Arc<Connection>, Self) {
        let (mut peer, opening) = Self::open(options);
        let request = peer.request().await;
        assert_eq!(request["method"], "initialize");
        peer.answer(
            &request["id"],
            json!({
                "protocol": { "major": 1 },
                "provider": { "name": "raw", "version": "0" },
                "instance": "i",
                "later": { "unknown": true },
            }),
        )
        .await;
        let connection = opening.await.expect("the task lives").expect("it opens");
        (connection, peer)
    }

    /// A client that is about to open.
    pub(crate) fn open(
        options: ConnectOptions,
    ) -> (
        Self,
        tokio::task::JoinHandle<sandbox_core::Result<Arc<Connection>>>,
    ) {
        let (input, their_output) = tokio::io::duplex(1 << 20);
        let (their_input, output) = tokio::io::duplex(1 << 20);
        let opening = tokio::spawn(Connection::open(their_input, their_output, options));
        let lines = BufReader::new(input).lines();
        (Self { lines, output }, opening)
    }

    /// The next message of the client.
    pub(crate) async fn request(&mut self) -> Value {
        let line = crate::soon(self.lines.next_line()).await;
        let line = line.expect("readable").expect("the client is there");
        serde_json::from_str(&line).expect("clients write JSON")
    }

    pub(crate) async fn line(&mut self, line: impl AsRef<[u8]>) {
        self.output
            .write_all(line.as_ref())
            .await
            .expect("the client reads");
        self.output
            .write_all(b"\n")
            .await
            .expect("the client reads");
    }

    /// A line of which the client need not read all.
    pub(crate) async fn last_line(&mut self, line: impl AsRef<[u8]>) {
        let _ = self.output.write_all(line.as_ref()).await;
        let _ = self.output.write_all(b"\n").await;
    }

    pub(crate) async fn answer(&mut self, id: &Value, result: Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        self.line(answer.to_string()).await;
    }

    /// Takes an `acquire` and answers it.
    pub(crate) async fn give_out(&mut self) {
        let request = self.request().await;
        assert_eq!(request["method"], "acquire");
        let descriptor = json!({
            "sandbox": request["params"]["spec"]["sandbox"],
            "generation": 1,
            "location": "raw",
            "provider": "raw",
            "platform": { "os": "linux", "arch": "x86_64" },
            "root": "/workspace",
            "network": "none",
            "mood": "unknown to us",
        });
        self.answer(&request["id"], json!({ "descriptor": descriptor }))
            .await;
    }
}

//! A client against a real server on a provider in memory, and against peers that misbehave.

mod cancel;
mod ending;
mod faults;
mod lease;
mod loss;
mod memory;
mod peer;
mod programs;
mod secrets;
mod streams;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{AcquireSpec, Ctx, Provider, Sandbox, SandboxId, SandboxPath};
use spp_client::{ConnectOptions, Connection};
use spp_server::{Ended, ServeError, ServeOptions, serve};
use tokio::task::JoinHandle;

use memory::Memory;

/// Bytes that a pipe holds.
const PIPE: usize = 64 * 1024;

type Served = JoinHandle<Result<Ended, ServeError>>;

/// Connects a client with a server around `provider`.
async fn connect(provider: Arc<Memory>) -> (Arc<Connection>, Served) {
    let (to_server, from_client) = tokio::io::duplex(PIPE);
    let (to_client, from_server) = tokio::io::duplex(PIPE);
    let served = tokio::spawn(serve(
        provider as Arc<dyn Provider>,
        from_client,
        to_client,
        ServeOptions::default(),
    ));
    let connection = Connection::open(from_server, to_server, ConnectOptions::default())
        .await
        .expect("the handshake succeeds");
    (connection, served)
}

/// A sandbox of a provider that can do everything.
async fn sandbox(provider: &Arc<Memory>) -> (Arc<dyn Sandbox>, Arc<Connection>) {
    let (connection, _) = connect(Arc::clone(provider)).await;
    let sandbox = connection
        .acquire(&Ctx::new(), &spec("s1"))
        .await
        .expect("there is room");
    (sandbox, connection)
}

fn spec(id: &str) -> AcquireSpec {
    AcquireSpec::new(SandboxId::new(id).expect("a valid id"))
}

fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect("a valid path")
}

/// Fails a test that would otherwise hang.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .expect("it happens within a minute")
}

/// Waits until `condition` holds.
async fn until(condition: impl Fn() -> bool) {
    soon(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

//! Signs of life: who promised them gives them, and who owes them is not waited for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::process::ProcessSpec;
use sandbox_core::{Closed, Ctx, ErrorKind, Provider, Sandbox, SandboxExt as _};
use serde_json::json;
use spp_client::{ConnectOptions, Connection, Strictness};
use spp_server::Ended;

use super::memory::Memory;
use super::peer::Peer;
use super::{connect, soon, spec};

const LEASE: Duration = Duration::from_millis(400);

async fn leased(strictness: Strictness) -> (Arc<dyn Sandbox>, Arc<Connection>, Peer) {
    let options = ConnectOptions {
        strictness,
        ..ConnectOptions::default()
    };
    let (connection, mut peer) = Peer::connect(options).await;
    let acquiring = {
        let connection = Arc::clone(&connection);
        let mut spec = spec("s");
        spec.lease = Some(LEASE);
        tokio::spawn(async move { connection.acquire(&Ctx::new(), &spec).await })
    };
    // Signs of life may come ahead of it.
    loop {
        let request = peer.request().await;
        if request["method"] == "acquire" {
            let descriptor = json!({
                "sandbox": "s", "generation": 1, "location": "raw", "provider": "raw", "root": "/", "network": "none",
                "platform": {"os": "linux", "arch": "x86_64"},
            });
            peer.answer(&request["id"], json!({ "descriptor": descriptor }))
                .await;
            break;
        }
        peer.answer(&request["id"], json!({})).await;
    }
    let sandbox = acquiring.await.expect("the task lives").expect("acquired");
    (sandbox, connection, peer)
}

#[tokio::test]
async fn a_peer_that_owes_a_sign_of_life_is_lost_within_a_lease_though_its_pipes_stay_open() {
    for (strictness, kind) in [
        (Strictness::Engine, ErrorKind::Lost),
        (Strictness::Provider, ErrorKind::Disconnected),
    ] {
        let (sandbox, _connection, _peer) = leased(strictness).await;
        let began = Instant::now();
        let ctx = Ctx::new();
        let run = soon(sandbox.run(&ctx, ProcessSpec::new(["x"]))).await;
        let error = run.expect_err("nobody answers");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("no sign of life"), "{error}");
        assert!(began.elapsed() >= LEASE / 2, "{:?}", began.elapsed());
        let Closed::Lost { .. } = soon(sandbox.closed()).await else {
            panic!("it was not released")
        };
    }
}

#[tokio::test]
async fn signs_of_life_are_given_and_an_idle_sandbox_lives_on_them() {
    let (sandbox, connection, mut peer) = leased(Strictness::Engine).await;
    let began = Instant::now();
    let mut signs = 0;
    while began.elapsed() < LEASE * 3 {
        let request = peer.request().await;
        assert_eq!(request["method"], "ping");
        peer.answer(&request["id"], json!({})).await;
        signs += 1;
    }
    assert!((4..40).contains(&signs), "{signs} in three leases");
    assert!(!connection.is_closed());
    drop(sandbox);
}

#[tokio::test]
async fn a_real_server_is_kept_by_a_client_and_ends_without_one() {
    let provider = Memory::whole();
    let (connection, served) = connect(provider).await;
    let mut spec = spec("s");
    spec.lease = Some(LEASE);
    let sandbox = connection
        .acquire(&Ctx::new(), &spec)
        .await
        .expect("there is room");
    tokio::time::sleep(LEASE * 3).await;
    assert!(!served.is_finished(), "it had signs of life");
    drop(sandbox);

    // The same asked by hand, by somebody who then says nothing.
    let (mut input, theirs) = tokio::io::duplex(1 << 16);
    let (output, _kept_open) = tokio::io::duplex(1 << 16);
    let provider: Arc<dyn Provider> = Memory::whole();
    let served = tokio::spawn(spp_server::serve(
        provider,
        theirs,
        output,
        spp_server::ServeOptions::default(),
    ));
    let hello = json!({"protocol": {"majors": [1]}, "host": {"name": "t", "version": "0"}});
    let acquire = json!({"spec": {"sandbox": "s", "lease_ms": LEASE.as_millis()}});
    for (id, method, params) in [(1, "initialize", hello), (2, "acquire", acquire)] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        tokio::io::AsyncWriteExt::write_all(&mut input, format!("{request}\n").as_bytes())
            .await
            .expect("it is read");
    }
    let ended = soon(served).await.expect("the task lives");
    assert_eq!(ended.expect("it ends in order"), Ended::HostSilent);
}

#[tokio::test]
async fn a_lease_that_no_busy_machine_could_keep_is_refused() {
    let (connection, _served) = connect(Memory::whole()).await;
    let mut spec = spec("s");
    spec.lease = Some(Duration::from_millis(50));
    let refused = connection.acquire(&Ctx::new(), &spec).await.map(drop);
    let error = refused.expect_err("too short");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("200 ms or more"), "{error}");
}

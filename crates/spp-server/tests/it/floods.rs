//! Hosts that send without end and read nothing: they are noticed, and memory stays bounded.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use sandbox_core::*;
use serde_json::json;
use spp_server::{Ended, ServeOptions, serve};
use tokio::io::{AsyncRead, ReadBuf};

use crate::host::{Host, verb};
use crate::memory::{Counts, Memory};

/// Bytes that a flood sends before it ends. It is to be noticed long before.
const FLOOD: usize = 128 << 20;

/// The same line again and again, at once whenever it is asked for more.
struct Flood {
    line: Vec<u8>,
    at: usize,
    sent: Arc<AtomicUsize>,
}

impl AsyncRead for Flood {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        while buffer.remaining() > 0 && this.sent.load(Ordering::SeqCst) < FLOOD {
            let rest = &this.line[this.at..];
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..count]);
            this.at = (this.at + count) % this.line.len();
            this.sent.fetch_add(count, Ordering::SeqCst);
        }
        Poll::Ready(Ok(()))
    }
}

/// Serves a host that sends `line` for ever and reads nothing. Gives how that ended, and how many
/// bytes were taken until then.
async fn flooded_with(line: String, options: ServeOptions) -> (Ended, usize) {
    let sent = Arc::new(AtomicUsize::new(0));
    let flood = Flood {
        line: format!("{line}\n").into_bytes(),
        at: 0,
        sent: Arc::clone(&sent),
    };
    let (output, _unread) = tokio::io::duplex(16);
    let ended = serve(Memory::whole(), flood, output, options).await;
    (ended.expect("it ends well"), sent.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_host_that_floods_and_reads_nothing_is_given_up() {
    // Answered with almost as much.
    let id = "x".repeat(250);
    let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#);
    let (ended, sent) = flooded_with(line, ServeOptions::default()).await;
    assert_eq!(ended, Ended::HostDeaf);
    assert!(sent < FLOOD / 2, "{sent} bytes were taken before");
}

#[tokio::test]
async fn a_flood_does_not_keep_a_server_from_being_stopped() {
    let options = ServeOptions::default();
    let stop = options.stop.clone();
    let line = json!({ "jsonrpc": "2.0", "method": "later/news", "params": "x".repeat(1_000) });
    let serving = flooded_with(line.to_string(), options);
    let stopping = async {
        tokio::task::yield_now().await;
        stop.cancel();
    };
    let ((ended, sent), ()) = tokio::join!(serving, stopping);
    assert_eq!(ended, Ended::Stopped);
    assert!(sent < FLOOD / 2, "{sent} bytes were taken before");
}

#[tokio::test]
async fn long_answers_that_nobody_reads_are_held_for_so_many_requests_only() {
    let mut host = Host::ready().await;
    let change = json!({ "put": { "path": "f", "content": { "text": "y".repeat(40_000) } } });
    host.call(3, "write", verb(json!({ "changes": [change] })))
        .await;
    let reads = 1_000;
    for id in 0..reads {
        host.request(1_000 + id, "read", verb(json!({ "path": "f" })))
            .await;
    }
    let (mut answered, mut busy) = (0, 0);
    while answered + busy < reads {
        let answer = host.next().await;
        match answer["error"]["data"]["kind"].as_str() {
            None => answered += 1,
            Some("busy") => busy += 1,
            Some(_) => panic!("{answer}"),
        }
    }
    // Those that wait, and those that were in the pipe and the queue before it.
    assert!(busy > 0 && answered <= 256 + 16, "{answered} were answered");
    assert_eq!(Counts::get(&host.provider.counts.verbs), 1 + answered);
    // All places are free again.
    let answer = host.call(4, "read", verb(json!({ "path": "f" }))).await;
    assert!(answer["result"].is_object(), "{answer}");
}

/// A provider that never gets done with a release.
struct Slow(Arc<Memory>);

#[async_trait]
impl Provider for Slow {
    fn info(&self) -> Arc<ProviderInfo> {
        self.0.info()
    }

    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        self.0.probe(ctx, spec).await
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        self.0.acquire(ctx, spec).await
    }

    async fn attach(&self, ctx: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>> {
        self.0.attach(ctx, state).await
    }

    async fn release(&self, ctx: &Ctx, _: &SandboxId, _: Disposition) -> Result<ReleaseReceipt> {
        ctx.cancel().cancelled().await;
        Err(Error::refused(Verb::Release, ErrorKind::Cancelled))
    }

    async fn list(&self, ctx: &Ctx, _: Option<&str>) -> Result<Vec<SandboxEntry>> {
        self.0.list(ctx, None).await
    }

    async fn prepare(&self, ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        self.0.prepare(ctx, template).await
    }

    async fn update(&self, ctx: &Ctx, id: &SandboxId, update: &Update) -> Result<()> {
        self.0.update(ctx, id, update).await
    }
}

#[tokio::test]
async fn what_ends_work_has_many_places_and_not_any_number() {
    let mut host = Host::served_by(|memory| Arc::new(Slow(memory)));
    host.call(1, "initialize", crate::host::initialize(&[1]))
        .await;
    let release = json!({ "sandbox": "s", "disposition": "keep" });
    for id in 1_000..1_512 {
        host.request(id, "release", release.clone()).await;
    }
    host.request(2, "release", release).await;
    assert_eq!(host.failure().await, (json!(2), "busy".into()));
    host.notify("$/cancel", json!({ "id": 1_000 })).await;
    assert_eq!(host.failure().await, (json!(1_000), "cancelled".into()));
    host.is_quiet().await;
}

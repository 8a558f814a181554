//! Meeting, parting, and the life of sandboxes.

use std::sync::Arc;
use std::time::Duration;

use jsonrpsee::core::server::RpcModule;
use sandbox_core::{AcquireSpec, Error, ErrorKind, Result, Sandbox, Verb};
use spp_protocol::limits::Limits;
use spp_protocol::message::handshake::{
    CapabilityTree, Chosen, InitializeParams, InitializeResult, Peer, PingParams, ShutdownMode,
    ShutdownParams,
};
use spp_protocol::message::lifecycle::{
    AcquireParams, AttachParams, CaptureStateParams, CaptureStateResult, ListParams, ListResult,
    PrepareParams, PrepareResult, ProbeParams, ProbeResult, ReleaseParams, ReleaseResult,
    SandboxResult, UpdateParams,
};
use spp_protocol::message::value::Empty;
use spp_protocol::version;

use super::{Begun, empty, method};
use crate::gate;
use crate::session::{Ending, Outlives, Session};

/// Time for running work if `shutdown` does not say.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long cancelled work, and ending sandboxes, may take after that.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn register(module: &mut RpcModule<Session>) {
    method(module, Verb::Initialize, initialize);
    method(module, Verb::Initialize, ping);
    method(module, Verb::Shutdown, shutdown);
    method(module, Verb::Probe, probe);
    method(module, Verb::Acquire, acquire);
    method(module, Verb::Attach, attach);
    method(module, Verb::Release, release);
    method(module, Verb::List, list);
    method(module, Verb::Prepare, prepare);
    method(module, Verb::Update, update);
    method(module, Verb::CaptureState, capture_state);
}

async fn initialize(begun: Begun<InitializeParams>) -> Result<InitializeResult> {
    let Begun {
        session, params, ..
    } = begun;
    let major = version::negotiate(&params.protocol.majors)?;
    if !session.initialize(Limits::from_wire(params.limits)) {
        return Err(Error::refused(Verb::Initialize, ErrorKind::Protocol)
            .detail("the connection is initialized already; it comes once"));
    }
    if let (Some(set), Some(level)) = (&session.log_level, &params.log_level) {
        set(level);
    }
    tracing::debug!(
        host = params.host.name,
        version = params.host.version,
        "initialized"
    );
    Ok(InitializeResult {
        protocol: Chosen { major },
        provider: Peer::from(&*session.info),
        capabilities: CapabilityTree::encode(&session.info.capabilities),
        limits: session.limits.to_wire(),
        instance: session.instance.clone(),
    })
}

async fn ping(_: Begun<PingParams>) -> Result<Empty> {
    Ok(empty())
}

async fn shutdown(begun: Begun<ShutdownParams>) -> Result<Empty> {
    let Begun {
        session,
        call,
        params,
        ..
    } = begun;
    session.drain();
    let grace = params
        .grace_ms
        .map_or(SHUTDOWN_GRACE, Duration::from_millis);
    if tokio::time::timeout(grace, session.idle(call.id()))
        .await
        .is_err()
    {
        session.cancel_all(Some(call.id()));
        if tokio::time::timeout(SHUTDOWN_LIMIT, session.idle(call.id()))
            .await
            .is_err()
        {
            tracing::warn!("cancelled calls did not end in time");
        }
    }
    if params.mode == ShutdownMode::Release {
        session.end_sandboxes(Ending::All, SHUTDOWN_LIMIT).await;
    }
    Ok(empty())
}

async fn probe(begun: Begun<ProbeParams>) -> Result<ProbeResult> {
    let (work, params) = begun.work();
    let spec = params.decode()?;
    let provider = Arc::clone(&work.session.provider);
    let probe = work
        .run(|ctx| async move { provider.probe(&ctx, &spec).await })
        .await?;
    Ok(ProbeResult::encode(probe))
}

async fn acquire(begun: Begun<AcquireParams>) -> Result<SandboxResult> {
    let (work, params) = begun.work();
    let spec = params.decode()?;
    gate::acquire(&work.session.info.capabilities, &spec)?;
    let provider = Arc::clone(&work.session.provider);
    let (outlives, lease) = (outlives(&spec), spec.lease);
    let sandbox = work
        .run(|ctx| async move { provider.acquire(&ctx, &spec).await })
        .await?;
    Ok(given_out(&work.session, sandbox, outlives, lease))
}

async fn attach(begun: Begun<AttachParams>) -> Result<SandboxResult> {
    let (work, params) = begun.work();
    let state = params.decode()?;
    let provider = Arc::clone(&work.session.provider);
    let sandbox = work
        .run(|ctx| async move { provider.attach(&ctx, &state).await })
        .await?;
    // Only what outlived a connection can be attached to, and it goes on to do so.
    Ok(given_out(&work.session, sandbox, Outlives::ForAWhile, None))
}

fn outlives(spec: &AcquireSpec) -> Outlives {
    match spec.linger {
        Some(linger) if !linger.is_zero() => Outlives::ForAWhile,
        _ => Outlives::No,
    }
}

fn given_out(
    session: &Arc<Session>,
    sandbox: Arc<dyn Sandbox>,
    outlives: Outlives,
    lease: Option<Duration>,
) -> SandboxResult {
    let descriptor = sandbox.descriptor();
    session.adopt(sandbox, outlives, lease);
    SandboxResult::encode((*descriptor).clone())
}

async fn release(begun: Begun<ReleaseParams>) -> Result<ReleaseResult> {
    let (work, params) = begun.work();
    let (id, disposition) = params.decode()?;
    let provider = Arc::clone(&work.session.provider);
    let receipt = work
        .run(|ctx| async move {
            let receipt = provider.release(&ctx, &id, disposition).await?;
            Ok((id, receipt))
        })
        .await;
    let (id, receipt) = receipt?;
    work.session.released(&id);
    Ok(receipt.into())
}

async fn list(begun: Begun<ListParams>) -> Result<ListResult> {
    let (work, params) = begun.work();
    let options = params.decode();
    let provider = Arc::clone(&work.session.provider);
    let entries = work
        .run(|ctx| async move { provider.list(&ctx, options.as_deref()).await })
        .await?;
    Ok(ListResult::encode(entries))
}

async fn prepare(begun: Begun<PrepareParams>) -> Result<PrepareResult> {
    let (work, params) = begun.work();
    let template = params.decode();
    let provider = Arc::clone(&work.session.provider);
    let receipt = work
        .run(|ctx| async move { provider.prepare(&ctx, &template).await })
        .await?;
    Ok(receipt.into())
}

async fn update(begun: Begun<UpdateParams>) -> Result<Empty> {
    let (work, params) = begun.work();
    let (id, update) = params.decode()?;
    let provider = Arc::clone(&work.session.provider);
    work.run(|ctx| async move { provider.update(&ctx, &id, &update).await })
        .await?;
    Ok(empty())
}

async fn capture_state(begun: Begun<CaptureStateParams>) -> Result<CaptureStateResult> {
    let (work, sandbox, _) = begun.sandbox_work()?;
    let state = work
        .run(|ctx| async move { sandbox.capture_state(&ctx).await })
        .await?;
    Ok(CaptureStateResult::encode(&state))
}

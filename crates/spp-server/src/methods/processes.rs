//! The verbs that run something.

use std::sync::Arc;
use std::time::Duration;

use futures_util::join;
use jsonrpsee::core::server::RpcModule;
use sandbox_core::process::{Delivery, Execution, Outcome, Status, Stdin, Stop};
use sandbox_core::{ByteStream, Cancel, Error, ErrorKind, Result, Sandbox, Verb};
use spp_protocol::convert::{ExecArrival, Outlet, referenced};
use spp_protocol::message::process::{
    ExecParams, ExecResult, ProcReadParams, ProcReadResult, ProcStdinParams, ProcStdinResult,
    ProcStopParams, ProcStopResult, SpawnParams, SpawnResult,
};
use spp_protocol::message::value::StreamId;

use super::{Begun, MAX_CONTENT_BYTES, Work, method};
use crate::gate;
use crate::pump::pump;
use crate::session::Session;

pub(super) fn register(module: &mut RpcModule<Session>) {
    method(module, Verb::Exec, exec);
    method(module, Verb::Spawn, spawn);
    method(module, Verb::ProcRead, proc_read);
    method(module, Verb::ProcStdin, proc_stdin);
    method(module, Verb::ProcStop, proc_stop);
}

async fn exec(begun: Begun<ExecParams>) -> Result<ExecResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let mut arrival = params.decode()?;
    if let Some((stream, _)) = arrival.stdin {
        arrival.request.stdin = Stdin::Stream(Box::pin(work.receive(stream)?));
    }
    gate::exec(&work.session.info.capabilities, &arrival.request)?;
    let work = work.with_grace(arrival.request.process.grace);
    let delivery = arrival.request.delivery;
    let (mut stdout, mut stderr) = match delivery {
        Delivery::AtEnd => (Outlet::new(arrival.stdout), Outlet::new(arrival.stderr)),
        Delivery::Live => (Outlet::new(None), Outlet::new(None)),
    };
    let mut outcome = run(&work, sandbox, arrival).await?;
    if let Some(changes) = &mut outcome.changes {
        changes.cut(work.list_bytes());
    }
    let answer = ExecResult::encode(outcome, delivery, &mut stdout, &mut stderr);
    let (stdout, stderr) = join!(work.send_fields(stdout), work.send_fields(stderr));
    stdout.and(stderr)?;
    Ok(answer)
}

async fn run(work: &Work, sandbox: Arc<dyn Sandbox>, arrival: ExecArrival) -> Result<Outcome> {
    let ExecArrival {
        request,
        stdout: stdout_id,
        stderr: stderr_id,
        ..
    } = arrival;
    let delivery = request.delivery;
    let outcome = work
        .run(|ctx| async move {
            let Execution {
                stdout,
                stderr,
                outcome,
                ..
            } = sandbox.exec(&ctx, request).await?;
            if delivery == Delivery::AtEnd {
                drop((stdout, stderr));
                return outcome.await;
            }
            let (outcome, (), ()) = join!(
                outcome,
                carry(work, stdout, stdout_id, ctx.cancel()),
                carry(work, stderr, stderr_id, ctx.cancel()),
            );
            outcome
        })
        .await?;
    if work.call.is_expired() && outcome.exit.status == Status::Cancelled {
        return Err(Error::new(Verb::Exec, ErrorKind::DeadlineExceeded)
            .detail("the run was ended when the call's deadline passed"));
    }
    Ok(outcome)
}

/// Carries one output to the host, and says where it ended: its reader need not wait for the run.
/// Its failure is told on the stream as well; the run goes on.
async fn carry(work: &Work, stream: ByteStream, id: Option<StreamId>, cancel: &Cancel) {
    // With a terminal there is one output, and the host need not name a stream for the other.
    let Some(id) = id else { return };
    // An id that is in use is the host's mistake, and the other stream of that id its answer.
    let Ok(mut outgoing) = work.send(id) else {
        return;
    };
    let carried = pump(Verb::Exec, stream, outgoing.sender(), cancel).await;
    work.end_stream(outgoing, carried).await;
}

async fn spawn(begun: Begun<SpawnParams>) -> Result<SpawnResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let request = params.decode()?;
    gate::spawn(&work.session.info.capabilities, &request)?;
    let receipt = work
        .run(|ctx| async move { sandbox.spawn(&ctx, request).await })
        .await?;
    Ok(receipt.into())
}

async fn proc_read(begun: Begun<ProcReadParams>) -> Result<ProcReadResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let mut outlet = Outlet::new(params.content);
    let request = params.decode()?;
    let chunk = work
        .run(|ctx| async move { sandbox.proc_read(&ctx, request).await })
        .await?;
    let answer = ProcReadResult::encode(chunk, &mut outlet);
    work.send_fields(outlet).await?;
    Ok(answer)
}

async fn proc_stdin(begun: Begun<ProcStdinParams>) -> Result<ProcStdinResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let fields = referenced(Verb::ProcStdin, params.byte_fields(), MAX_CONTENT_BYTES)?;
    let incoming = work.receive_fields(fields)?;
    let receipt = work
        .run(|ctx| async move {
            let mut inlet = incoming.collect(Verb::ProcStdin, &ctx).await?;
            let request = params.decode(&mut inlet)?;
            sandbox.proc_stdin(&ctx, request).await
        })
        .await?;
    Ok(receipt.into())
}

async fn proc_stop(begun: Begun<ProcStopParams>) -> Result<ProcStopResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let request = params.decode()?;
    let grace = match request.stop {
        Stop::Graceful { grace } => grace,
        Stop::Signal(_) | Stop::Kill => Duration::ZERO,
    };
    let receipt = work
        .with_grace(grace)
        .run(|ctx| async move { sandbox.proc_stop(&ctx, request).await })
        .await?;
    Ok(ProcStopResult::encode(receipt))
}

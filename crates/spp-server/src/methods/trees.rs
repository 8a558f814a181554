//! The verbs that move trees.

use futures_util::join;
use jsonrpsee::core::server::RpcModule;
use sandbox_core::transfer::Pull;
use sandbox_core::{Result, Verb};
use spp_protocol::convert::{Outlet, referenced};
use spp_protocol::message::tree::{PullTreeParams, PullTreeResult, PushTreeParams, PushTreeResult};

use super::{Begun, MAX_CONTENT_BYTES, method};
use crate::session::Session;

pub(super) fn register(module: &mut RpcModule<Session>) {
    method(module, Verb::PushTree, push_tree);
    method(module, Verb::PullTree, pull_tree);
}

async fn push_tree(begun: Begun<PushTreeParams>) -> Result<PushTreeResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let mut outlet = Outlet::new(params.manifest);
    let fields = referenced(Verb::PushTree, params.byte_fields(), MAX_CONTENT_BYTES)?;
    let archive = work.receive(params.archive)?;
    let incoming = work.receive_fields(fields)?;
    let receipt = work
        .run(|ctx| async move {
            let mut inlet = incoming.collect(Verb::PushTree, &ctx).await?;
            let request = params.decode(Box::pin(archive), &mut inlet)?;
            sandbox.push_tree(&ctx, request).await
        })
        .await?;
    let answer = PushTreeResult::encode(&receipt, &mut outlet);
    work.send_fields(outlet).await?;
    Ok(answer)
}

async fn pull_tree(begun: Begun<PullTreeParams>) -> Result<PullTreeResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let mut outlet = Outlet::new(params.manifest);
    let fields = referenced(Verb::PullTree, params.byte_fields(), MAX_CONTENT_BYTES)?;
    let incoming = work.receive_fields(fields)?;
    let archive_id = params.archive;
    let work = &work;
    let receipt = work
        .run(|ctx| async move {
            let mut inlet = incoming.collect(Verb::PullTree, &ctx).await?;
            let request = params.decode(&mut inlet)?;
            let mut outgoing = work.send(archive_id)?;
            let Pull { archive, receipt } = sandbox.pull_tree(&ctx, request).await?;
            let (carried, receipt) = join!(
                crate::pump::pump(Verb::PullTree, archive, outgoing.sender(), ctx.cancel()),
                receipt,
            );
            // An archive that ended early is no archive, whatever the receipt says.
            carried.and(receipt)
        })
        .await?;
    let answer = PullTreeResult::encode(&receipt, &mut outlet);
    work.send_fields(outlet).await?;
    Ok(answer)
}

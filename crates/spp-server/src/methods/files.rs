//! The file verbs.

use jsonrpsee::core::server::RpcModule;
use sandbox_core::{Result, Verb};
use spp_protocol::convert::{Outlet, referenced};
use spp_protocol::message::file::{
    FileContent, ReadManyParams, ReadManyResult, ReadParams, RemoveParams, RemoveResult,
    StatManyParams, StatManyResult, WriteParams, WriteResult,
};

use super::{Begun, MAX_CONTENT_BYTES, method};
use crate::gate;
use crate::session::Session;

pub(super) fn register(module: &mut RpcModule<Session>) {
    method(module, Verb::Read, read);
    method(module, Verb::ReadMany, read_many);
    method(module, Verb::Write, write);
    method(module, Verb::Remove, remove);
    method(module, Verb::StatMany, stat_many);
}

async fn read(begun: Begun<ReadParams>) -> Result<FileContent> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let mut outlet = Outlet::new(params.content);
    let request = params.decode()?;
    let content = work
        .run(|ctx| async move { sandbox.read(&ctx, request).await })
        .await?;
    let answer = FileContent::encode(content, &mut outlet);
    work.send_fields(outlet).await?;
    Ok(answer)
}

async fn read_many(begun: Begun<ReadManyParams>) -> Result<ReadManyResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let mut outlet = Outlet::new(params.content);
    let request = params.decode()?;
    let items = work
        .run(|ctx| async move { sandbox.read_many(&ctx, request).await })
        .await?;
    let answer = ReadManyResult::encode(items, &mut outlet);
    work.send_fields(outlet).await?;
    Ok(answer)
}

async fn write(begun: Begun<WriteParams>) -> Result<WriteResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let fields = referenced(Verb::Write, params.byte_fields(), MAX_CONTENT_BYTES)?;
    let incoming = work.receive_fields(fields)?;
    let capabilities = work.session.info.capabilities.clone();
    let items = work
        .run(|ctx| async move {
            let mut inlet = incoming.collect(Verb::Write, &ctx).await?;
            let request = params.decode(&mut inlet)?;
            gate::write(&capabilities, &request)?;
            sandbox.write(&ctx, request).await
        })
        .await?;
    Ok(WriteResult::encode(items))
}

async fn remove(begun: Begun<RemoveParams>) -> Result<RemoveResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let request = params.decode()?;
    let receipt = work
        .run(|ctx| async move { sandbox.remove(&ctx, request).await })
        .await?;
    Ok(receipt.into())
}

async fn stat_many(begun: Begun<StatManyParams>) -> Result<StatManyResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let request = params.decode()?;
    let items = work
        .run(|ctx| async move { sandbox.stat_many(&ctx, request).await })
        .await?;
    Ok(StatManyResult::encode(items))
}

//! The verbs that look at many entries.

use jsonrpsee::core::server::RpcModule;
use sandbox_core::{Result, Verb};
use spp_protocol::message::search::{
    FingerprintParams, FingerprintResult, GlobParams, GlobResult, GrepParams, GrepResult,
};

use super::{Begun, method};
use crate::session::Session;

pub(super) fn register(module: &mut RpcModule<Session>) {
    method(module, Verb::Glob, glob);
    method(module, Verb::Grep, grep);
    method(module, Verb::Fingerprint, fingerprint);
}

async fn glob(begun: Begun<GlobParams>) -> Result<GlobResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let request = params.decode()?;
    let found = work
        .run(|ctx| async move { sandbox.glob(&ctx, request).await })
        .await?;
    Ok(GlobResult::encode(found))
}

async fn grep(begun: Begun<GrepParams>) -> Result<GrepResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let request = params.decode()?;
    let found = work
        .run(|ctx| async move { sandbox.grep(&ctx, request).await })
        .await?;
    Ok(GrepResult::encode(found))
}

async fn fingerprint(begun: Begun<FingerprintParams>) -> Result<FingerprintResult> {
    let (work, sandbox, params) = begun.sandbox_work()?;
    let request = params.decode()?;
    let mut found = work
        .run(|ctx| async move { sandbox.fingerprint(&ctx, request).await })
        .await?;
    if let Some(changes) = &mut found.changes {
        changes.cut(work.list_bytes());
    }
    Ok(FingerprintResult::encode(found))
}

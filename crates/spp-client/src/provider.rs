//! A connection as a [`Provider`].

use std::sync::Arc;

use async_trait::async_trait;
use sandbox_core::{
    AcquireSpec, Closed, Ctx, Descriptor, Disposition, Error, ErrorKind, Probe, Provider,
    ProviderInfo, ReleaseReceipt, Result, Sandbox, SandboxEntry, SandboxId, SandboxState,
    TemplateReceipt, TemplateSpec, Update, Verb,
};
use spp_protocol::message::lifecycle::{
    AcquireParams, AttachParams, ListParams, PrepareParams, ProbeParams, ReleaseParams,
    UpdateParams,
};

use crate::call::{Plan, call, judged};
use crate::connection::Connection;
use crate::lease;
use crate::sandbox::RemoteSandbox;

/// `Provider` is implemented for the shared connection, because the sandboxes it gives out hold it.
#[async_trait]
impl Provider for Connection {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::clone(&self.info)
    }

    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        let plan = Plan::new(Verb::Probe);
        let answer = call(&self.shared, ctx, plan, |meta| {
            ProbeParams::encode(spec, meta)
        });
        Ok(answer.await?.decode())
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        self.acquire_as(ctx, spec, |descriptor| descriptor).await
    }

    async fn attach(&self, ctx: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>> {
        let plan = Plan::new(Verb::Attach);
        let answer = call(&self.shared, ctx, plan, |meta| {
            AttachParams::encode(state, meta)
        });
        let descriptor = answer.await?.decode(Verb::Attach)?;
        if descriptor.generation != state.generation {
            return Err(Error::refused(Verb::Attach, ErrorKind::Lost)
                .on(&state.id)
                .detail(format_args!(
                    "generation {} was captured, and the provider has generation {}",
                    state.generation.0, descriptor.generation.0
                )));
        }
        self.handle(Verb::Attach, &state.id, descriptor)
    }

    async fn release(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        let plan = Plan::new(Verb::Release);
        let answer = call(&self.shared, ctx, plan, |meta| {
            ReleaseParams::encode(id, disposition, meta)
        });
        let receipt = answer.await?.into();
        self.shared.lives.end(id, None, Closed::Released);
        Ok(receipt)
    }

    async fn list(&self, ctx: &Ctx, options: Option<&str>) -> Result<Vec<SandboxEntry>> {
        let plan = Plan::new(Verb::List);
        let answer = call(&self.shared, ctx, plan, |meta| {
            ListParams::encode(options, meta)
        });
        judged(Verb::List, answer.await?.decode())
    }

    async fn prepare(&self, ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        let plan = Plan::new(Verb::Prepare);
        let answer = call(&self.shared, ctx, plan, |meta| {
            PrepareParams::encode(template, meta)
        });
        Ok(answer.await?.into())
    }

    async fn update(&self, ctx: &Ctx, id: &SandboxId, update: &Update) -> Result<()> {
        let plan = Plan::new(Verb::Update);
        let answer = call(&self.shared, ctx, plan, |meta| {
            UpdateParams::encode(id, update, meta)
        });
        answer.await.map(|_| ())
    }
}

impl Connection {
    /// [`acquire`](Provider::acquire), for a provider that knows more about the place than the engine it has
    /// placed there.
    ///
    /// - `describe`: makes the descriptor of the sandbox from what the peer said. Its id and generation have to
    ///   stay.
    ///
    /// # Errors
    ///
    /// As `acquire`.
    pub async fn acquire_as(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        describe: impl FnOnce(Descriptor) -> Descriptor + Send,
    ) -> Result<Arc<dyn Sandbox>> {
        if let Some(lease) = spec.lease {
            // Before it is asked: a sandbox that is there needs them at once.
            lease::keep(&self.shared, lease);
        }
        let plan = Plan::new(Verb::Acquire);
        let answer = call(&self.shared, ctx, plan, |meta| {
            AcquireParams::encode(spec, meta)
        });
        let descriptor = answer.await?.decode(Verb::Acquire)?;
        self.handle(Verb::Acquire, &spec.id, describe(descriptor))
    }

    fn handle(
        &self,
        verb: Verb,
        asked: &SandboxId,
        mut descriptor: Descriptor,
    ) -> Result<Arc<dyn Sandbox>> {
        if descriptor.id != *asked {
            return Err(Error::new(verb, ErrorKind::Protocol)
                .on(asked)
                .detail(format_args!(
                    "the provider answered with sandbox `{}`",
                    descriptor.id
                )));
        }
        if let Some(location) = &self.location {
            descriptor.location.clone_from(location);
        }
        let connection = self.me.upgrade().ok_or_else(|| {
            Error::new(verb, ErrorKind::Disconnected).detail("this side closed the connection")
        })?;
        let life = self.shared.lives.of(&descriptor.id, descriptor.generation);
        Ok(Arc::new(RemoteSandbox {
            connection,
            descriptor: Arc::new(descriptor),
            life,
        }))
    }
}

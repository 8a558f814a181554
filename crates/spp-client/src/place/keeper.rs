//! The sandboxes of a provider that places an engine for each: made once for an id, and ended once.
//!
//! What differs between providers of this kind is how a place is made and what is left of it outside of its
//! engine: that is a [`Maker`]. Ids, lives and the order of calls are the same for all, and are here.
//!
//! **Invariants.**
//! - A release is not answered before everything inside is gone, and nothing takes the place of a sandbox before.
//! - A sandbox that ended by itself is lost, for good: its id can be acquired again, and is then another life.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{
    AcquireSpec, Claim, Ctx, Descriptor, Disposition, Effect, Error, ErrorKind, Probe, Provider,
    ProviderInfo, ReleaseReceipt, Result, Sandbox, SandboxEntry, SandboxId, SandboxState,
    TemplateReceipt, TemplateSpec, Update, Verb,
};

use super::refusal::{Refusal, Trouble};
use super::start::{NotEnded, Placed};
use super::wait::{answered, within};

/// How long an engine may take to answer for its sandbox. It takes milliseconds; the rest is for a busy machine.
const START: Duration = Duration::from_secs(30);
/// How long what runs may be ended in order before the whole place is.
const RELEASE: Duration = Duration::from_secs(2);

/// What a place is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For a sandbox.
    Acquire,
    /// To see whether one could be had. Nothing is put there that takes long.
    Probe,
}

/// How a place was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was released, and this was asked for.
    Released(Disposition),
    /// It was lost, or never became a sandbox.
    GivenUp,
}

/// Makes places.
#[async_trait]
pub trait Maker: Send + Sync + 'static {
    /// A spec that can be tried.
    type Plan: Send + Sync;
    /// What of a place is outside of its engine.
    type Rest: Send + Sync;

    /// What the provider is.
    fn info(&self) -> &Arc<ProviderInfo>;

    /// Decides what a spec asks for, and makes nothing.
    ///
    /// # Errors
    ///
    /// `PolicyUnmet` and what is wrong with the root, without effect.
    async fn plan(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Self::Plan>;

    /// What the engine of such a place is asked for.
    fn inside(plan: &Self::Plan) -> &AcquireSpec;

    /// Makes a place with an engine that has answered.
    ///
    /// # Errors
    ///
    /// [`Trouble`], and nothing of the place is left.
    async fn place(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        plan: &mut Self::Plan,
        purpose: Purpose,
    ) -> std::result::Result<(Placed, Self::Rest), Trouble>;

    /// What to add to the descriptor of a sandbox. Location and provider are set already.
    fn describe(&self, _rest: &Self::Rest, descriptor: Descriptor) -> Descriptor {
        descriptor
    }

    /// Removes, or keeps, what is left of a place whose engine has ended, and says which.
    ///
    /// # Errors
    ///
    /// What may be left, and how to remove it by hand. It is asked again by the next call that has the id.
    async fn clear(&self, rest: &mut Self::Rest, id: &SandboxId, left: Left)
    -> Result<Disposition>;

    /// Sees at once to a place whose engine has ended by itself, ahead of [`clear`](Self::clear): what is paused, or cut off,
    /// may be there still, and nobody may ask for it again for long.
    ///
    /// # Errors
    ///
    /// What may be left. It is logged, and `clear` is asked all the same.
    async fn lost(&self, _rest: &mut Self::Rest, _id: &SandboxId) -> Result<()> {
        Ok(())
    }

    /// What [`release`](Provider::release) does where no place is: something may have been kept.
    ///
    /// # Errors
    ///
    /// It could not be removed.
    async fn release_kept(
        &self,
        _id: &SandboxId,
        _disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        Ok(ReleaseReceipt {
            existed: false,
            disposition: Disposition::Keep,
        })
    }

    /// What is there besides what this process has made and holds, for [`list`](Provider::list).
    ///
    /// # Errors
    ///
    /// It cannot be read.
    async fn kept(&self, _ctx: &Ctx, _options: Option<&str>) -> Result<Vec<SandboxEntry>> {
        Ok(Vec::new())
    }

    /// What to do in place of a verb that this provider does not have.
    fn instead(verb: Verb) -> &'static str;
}

/// A provider whose places are made by `M`.
///
/// A release is not answered before everything inside is gone. A sandbox that ended by itself is lost: its id can be
/// acquired again, and is then another life.
pub struct Keeper<M: Maker> {
    maker: Arc<M>,
    slots: Mutex<HashMap<SandboxId, Arc<Slot<M::Rest>>>>,
}

/// What has an id. Whoever makes or ends it holds the lock.
type Slot<R> = tokio::sync::Mutex<Option<Living<R>>>;

struct Living<R> {
    /// Whether its release has begun: it is nobody's any more, and not gone yet.
    is_released: bool,
    spec: AcquireSpec,
    sandbox: Arc<dyn Sandbox>,
    engine: Placed,
    rest: R,
}

impl<M: Maker> std::fmt::Debug for Keeper<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("sandboxes", &self.slots().len())
            .finish_non_exhaustive()
    }
}

impl<R> Living<R> {
    fn is_there(&self) -> bool {
        !self.is_released && self.engine.is_there()
    }
}

impl<M: Maker> Keeper<M> {
    /// A provider without sandboxes.
    #[must_use]
    pub fn new(maker: M) -> Self {
        Self {
            maker: Arc::new(maker),
            slots: Mutex::default(),
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Slot<M::Rest>>>> {
        // Nothing that runs under the lock leaves it half-changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &SandboxId) -> Arc<Slot<M::Rest>> {
        Arc::clone(self.slots().entry(id.clone()).or_default())
    }

    /// Gives a slot back, and forgets it if it is empty and nobody else has it.
    fn give_back(&self, id: &SandboxId, slot: Arc<Slot<M::Rest>>) {
        let mut slots = self.slots();
        drop(slot);
        // A clone is only made under the lock that is held here.
        if let Some(known) = slots.get_mut(id)
            && Arc::get_mut(known).is_some_and(|slot| slot.get_mut().is_none())
        {
            slots.remove(id);
        }
    }

    async fn make(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Living<M::Rest>> {
        let mut plan = self.maker.plan(ctx, spec).await?;
        let placed = self.maker.place(ctx, spec, &mut plan, Purpose::Acquire);
        let (engine, mut rest) = placed.await.map_err(|trouble| trouble.error(&spec.id))?;
        let inside = engine.connection();
        let describe = |inside| self.describe(&rest, inside);
        let acquired = inside.acquire_as(ctx, M::inside(&plan), describe);
        match answered(START, Verb::Acquire, acquired).await {
            Ok(sandbox) => Ok(Living {
                is_released: false,
                spec: spec.clone(),
                sandbox,
                engine,
                rest,
            }),
            Err(error) => {
                if let Err(left) = engine.end().await {
                    return Err(error.detail(left));
                }
                match self.maker.clear(&mut rest, &spec.id, Left::GivenUp).await {
                    // Whatever the engine had done is gone with it.
                    Ok(_) => Err(error.with_effect(Effect::None)),
                    Err(left) => Err(error.caused_by(left)),
                }
            }
        }
    }

    /// What [`acquire`](Provider::acquire) does once it has the slot.
    async fn acquire_in(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        slot: &Arc<Slot<M::Rest>>,
        living: &mut Option<Living<M::Rest>>,
    ) -> Result<Arc<dyn Sandbox>> {
        if let Some(known) = living {
            if known.is_there() {
                if known.spec == *spec {
                    return Ok(Arc::clone(&known.sandbox));
                }
                return Err(Error::refused(Verb::Acquire, ErrorKind::Conflict)
                    .on(&spec.id)
                    .detail(
                        "the id is in use with another spec; release it first, or choose another id",
                    ));
            }
            // It stays here until it is gone, so that whoever gives up waiting leaves that to the next.
            let ended = self.end(known, &spec.id, Left::GivenUp);
            let ended = within(ctx, Verb::Acquire, &spec.id, ended).await?;
            ended.map_err(|error| error.with_verb(Verb::Acquire).on(&spec.id))?;
            *living = None;
        }
        let made = self.make(ctx, spec).await?;
        let watch = watch(Arc::clone(&self.maker), Arc::downgrade(slot), &made);
        tokio::spawn(watch);
        Ok(Arc::clone(&living.insert(made).sandbox))
    }

    async fn end(
        &self,
        known: &mut Living<M::Rest>,
        id: &SandboxId,
        left: Left,
    ) -> Result<Disposition> {
        // It stays with its id as long as something of it is there, so that it can be asked again.
        let ended = known.engine.end().await;
        ended.map_err(|left| still_there(id, left))?;
        self.maker.clear(&mut known.rest, id, left).await
    }

    /// What [`release`](Provider::release) does once it has the slot.
    async fn release_in(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        disposition: Disposition,
        living: &mut Option<Living<M::Rest>>,
    ) -> Result<ReleaseReceipt> {
        let Some(known) = living else {
            return self.maker.release_kept(id, disposition).await;
        };
        let existed = known.is_there();
        if existed {
            known.is_released = true;
            let left = ctx.remaining().map_or(RELEASE, |left| left.min(RELEASE));
            let inside = known.engine.connection();
            // So that what holds the sandbox learns that it was released. The place is ended in any case, also where
            // the engine does not even answer that it gave up.
            let released = inside.release(ctx, id, Disposition::Keep);
            match tokio::time::timeout(left, released).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::debug!(sandbox = %id, %error, "the engine did not release it");
                }
                Err(_) => tracing::debug!(sandbox = %id, "the engine did not release it in time"),
            }
        }
        let ended = self.end(known, id, Left::Released(disposition)).await;
        let disposition = ended.map_err(|error| error.with_verb(Verb::Release).on(id))?;
        *living = None;
        Ok(ReleaseReceipt {
            existed,
            disposition,
        })
    }

    /// What the sandbox is, from what its engine says.
    fn describe(&self, rest: &M::Rest, inside: Descriptor) -> Descriptor {
        let info = self.maker.info();
        let descriptor = Descriptor {
            location: info.name.clone(),
            provider: info.name.clone(),
            capabilities: inside.capabilities.intersection(&info.capabilities),
            ..inside
        };
        self.maker.describe(rest, descriptor)
    }
}

#[async_trait]
impl<M: Maker> Provider for Keeper<M> {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::clone(self.maker.info())
    }

    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        let mut plan = match self.maker.plan(ctx, spec).await {
            Ok(plan) => plan,
            Err(error) if !error.is_verdict() => return Err(error.with_verb(Verb::Probe)),
            Err(error) => return Ok(Refusal::of_spec(&error).probe()),
        };
        let placed = self.maker.place(ctx, spec, &mut plan, Purpose::Probe);
        match placed.await {
            Ok((engine, mut rest)) => {
                let probed = engine.connection().probe(ctx, M::inside(&plan));
                let answer = answered(START, Verb::Probe, probed).await;
                let ended = engine.end().await;
                ended.map_err(|left| still_there(&spec.id, left).with_verb(Verb::Probe))?;
                let cleared = self.maker.clear(&mut rest, &spec.id, Left::GivenUp).await;
                cleared.map_err(|error| error.with_verb(Verb::Probe))?;
                answer
            }
            Err(trouble) => trouble.probe(&spec.id),
        }
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        let slot = self.slot(&spec.id);
        let acquired = match within(ctx, Verb::Acquire, &spec.id, slot.lock()).await {
            Ok(mut living) => self.acquire_in(ctx, spec, &slot, &mut living).await,
            Err(error) => Err(error),
        };
        self.give_back(&spec.id, slot);
        acquired
    }

    async fn attach(&self, _ctx: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>> {
        Err(unsupported::<M>(Verb::Attach).on(&state.id))
    }

    async fn release(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        // One that is just being made is waited for, and then ended.
        let slot = self.slot(id);
        let released = match within(ctx, Verb::Release, id, slot.lock()).await {
            Ok(mut living) => self.release_in(ctx, id, disposition, &mut living).await,
            Err(error) => Err(error),
        };
        self.give_back(id, slot);
        released
    }

    async fn list(&self, ctx: &Ctx, options: Option<&str>) -> Result<Vec<SandboxEntry>> {
        let entry = |(id, slot): (&SandboxId, &Arc<Slot<M::Rest>>)| {
            // One that is just being made, or ended, is not there.
            let living = slot.try_lock().ok()?;
            let living = living.as_ref().filter(|living| living.is_there())?;
            Some(SandboxEntry {
                id: id.clone(),
                labels: living.spec.labels.clone(),
                running: true,
                claim: Claim::Held,
                detail: String::new(),
            })
        };
        let mut entries: Vec<_> = self.slots().iter().filter_map(entry).collect();
        entries.extend(self.maker.kept(ctx, options).await?);
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(entries)
    }

    async fn prepare(&self, _ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        Err(unsupported::<M>(Verb::Prepare).on(&template.name))
    }

    async fn update(&self, _ctx: &Ctx, id: &SandboxId, _update: &Update) -> Result<()> {
        Err(unsupported::<M>(Verb::Update).on(id))
    }
}

/// Waits for the end of an engine, and has its place seen to if it is the one that the slot still has.
fn watch<M: Maker>(
    maker: Arc<M>,
    slot: Weak<Slot<M::Rest>>,
    living: &Living<M::Rest>,
) -> impl Future<Output = ()> + Send + use<M> {
    let gone = living.engine.gone();
    let (id, generation) = (
        living.spec.id.clone(),
        living.sandbox.descriptor().generation,
    );
    async move {
        gone.await;
        let Some(slot) = slot.upgrade() else { return };
        let mut living = slot.lock().await;
        let Some(known) = living.as_mut().filter(|known| {
            !known.is_released && known.sandbox.descriptor().generation == generation
        }) else {
            return;
        };
        if let Err(error) = maker.lost(&mut known.rest, &id).await {
            tracing::warn!(sandbox = %id, %error, "what is left of a sandbox that was lost");
        }
    }
}

/// That something of a sandbox runs on, although it was killed.
fn still_there(id: &SandboxId, left: NotEnded) -> Error {
    Error::new(Verb::Release, ErrorKind::ProviderUnavailable)
        .on(id)
        .detail(left)
}

fn unsupported<M: Maker>(verb: Verb) -> Error {
    Error::refused(verb, ErrorKind::Unsupported).detail(M::instead(verb))
}

#[cfg(test)]
mod tests;

//! Sandboxes that are namespaces of this machine.
//!
//! Each has an engine of its own, which is the first process of its namespaces. What is asked of the sandbox is asked
//! of that engine; this process only starts it, and ends it.
//!
//! **Invariants.**
//! - A release is not answered before everything inside is gone, and nothing takes the place of a sandbox before.
//! - A sandbox that ended by itself is lost, for good: its id can be acquired again, and is then another life.
//! - The workspace is the caller's. It is never removed, whatever a release asks for. A private copy of one is ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{
    AcquireSpec, Capabilities, Capability, Ctx, Descriptor, Disposition, Effect, Error, ErrorKind,
    Probe, Provider, ProviderInfo, ReleaseReceipt, Result, Sandbox, SandboxEntry, SandboxId,
    SandboxState, TemplateReceipt, TemplateSpec, Update, Verb,
};
use spp_client::place::NotEnded;

use crate::copies::{Copies, PrivateCopy};
use crate::place::{Place, Places, START, Trouble};
use crate::spec::{Plan, Workspace};
use crate::wait::{answered, within};

/// The name of this provider and of its location.
pub(crate) const NAME: &str = "bubblewrap";
/// How long what runs may be ended in order before the whole place is.
const RELEASE: Duration = Duration::from_secs(2);
/// What this provider can do.
pub(crate) fn capabilities() -> Capabilities {
    let own = [Capability::Probe, Capability::List];
    spp_client::place::capabilities()
        .iter()
        .chain(own)
        .collect()
}

/// Gives out sandboxes. See the [module](self).
pub(crate) struct Bubblewrap {
    info: Arc<ProviderInfo>,
    places: Places,
    copies: Copies,
    slots: Mutex<HashMap<SandboxId, Arc<Slot>>>,
}

/// What has an id. Whoever makes or ends it holds the lock.
type Slot = tokio::sync::Mutex<Option<Living>>;

struct Living {
    /// Whether its release has begun: it is nobody's any more, and not gone yet.
    is_released: bool,
    spec: AcquireSpec,
    sandbox: Arc<dyn Sandbox>,
    place: Place,
    /// The workspace, where it is a copy.
    copy: Option<PrivateCopy>,
}

impl Bubblewrap {
    /// A provider without sandboxes.
    ///
    /// # Errors
    ///
    /// No thread can be made.
    pub(crate) fn new() -> Result<Self> {
        let places = Places::new().map_err(|error| {
            Error::refused(Verb::Initialize, ErrorKind::ProviderUnavailable)
                .detail("no thread can be made; see the limits of this user")
                .caused_by(error)
        })?;
        let copies = Copies::of_this_user();
        let left = copies.clone();
        // What cannot be had now is had by the next copy that is made.
        let _ = std::thread::Builder::new()
            .name("sweep".into())
            .spawn(move || left.sweep());
        Ok(Self {
            info: Arc::new(ProviderInfo {
                name: NAME.into(),
                version: env!("CARGO_PKG_VERSION").into(),
                capabilities: capabilities(),
            }),
            places,
            copies,
            slots: Mutex::default(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Slot>>> {
        // Nothing that runs under the lock leaves it half-changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &SandboxId) -> Arc<Slot> {
        Arc::clone(self.slots().entry(id.clone()).or_default())
    }

    /// Gives a slot back, and forgets it if it is empty and nobody else has it.
    fn give_back(&self, id: &SandboxId, slot: Arc<Slot>) {
        let mut slots = self.slots();
        drop(slot);
        // A clone is only made under the lock that is held here.
        if let Some(known) = slots.get_mut(id)
            && Arc::get_mut(known).is_some_and(|slot| slot.get_mut().is_none())
        {
            slots.remove(id);
        }
    }

    async fn make(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Living> {
        let mut plan = plan(ctx, spec).await?;
        let copy = self.copy(ctx, spec, &mut plan).await?;
        let place = match self.places.place(ctx, &plan).await {
            Ok(place) => place,
            Err(trouble) => {
                drop_copy(copy).await;
                return Err(trouble.error(&spec.id));
            }
        };
        let inside = place.engine.connection();
        let acquired = answered(
            START,
            Verb::Acquire,
            inside.acquire_as(ctx, &plan.inside, |inside| {
                self.describe(inside, copy.as_ref())
            }),
        );
        match acquired.await {
            Ok(sandbox) => Ok(Living {
                is_released: false,
                spec: spec.clone(),
                sandbox,
                place,
                copy,
            }),
            Err(error) => {
                if let Err(left) = place.end().await {
                    return Err(error.detail(left));
                }
                drop_copy(copy).await;
                // Whatever the engine had done is gone with it.
                Err(error.with_effect(Effect::None))
            }
        }
    }

    /// What [`acquire`](Provider::acquire) does once it has the slot.
    async fn acquire_in(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        living: &mut Option<Living>,
    ) -> Result<Arc<dyn Sandbox>> {
        if let Some(known) = &*living {
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
            let ended = within(ctx, Verb::Acquire, &spec.id, known.place.end()).await?;
            ended.map_err(|left| still_there(Verb::Acquire, &spec.id, left))?;
            // A life that was lost has lost its copy as well, unless that was kept once.
            if let Some(lost) = living.take() {
                drop_copy(lost.copy).await;
            }
        }
        let made = self.make(ctx, spec).await?;
        Ok(Arc::clone(&living.insert(made).sandbox))
    }

    /// What [`release`](Provider::release) does once it has the slot; whether there was something.
    async fn release_in(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        disposition: Disposition,
        living: &mut Option<Living>,
    ) -> Result<ReleaseReceipt> {
        let Some(known) = living else {
            return self.release_kept(id, disposition).await;
        };
        let existed = known.is_there();
        if existed {
            known.is_released = true;
            let left = ctx.remaining().map_or(RELEASE, |left| left.min(RELEASE));
            let inside = known.place.engine.connection();
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
        // It stays here as long as something of it does, so that it can be asked again.
        let ended = known.place.end().await;
        ended.map_err(|left| still_there(Verb::Release, id, left))?;
        let copy = living.take().and_then(|known| known.copy);
        // A workspace that was there before stays, whatever is asked for.
        let disposition = match copy {
            None => Disposition::Keep,
            Some(copy) => give_up(copy, disposition, id).await?,
        };
        Ok(ReleaseReceipt {
            existed,
            disposition,
        })
    }

    /// The same where nothing runs: only a copy may be kept.
    async fn release_kept(
        &self,
        id: &SandboxId,
        disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        let (copies, id) = (self.copies.clone(), id.clone());
        let existed = blocking(Verb::Release, move || match disposition {
            Disposition::Keep => Ok(copies.has(&id)),
            Disposition::Destroy => copies.forget(&id),
        });
        let existed = existed.await?;
        Ok(ReleaseReceipt {
            existed,
            disposition: match existed {
                true => disposition,
                false => Disposition::Keep,
            },
        })
    }

    /// Copies the workspace, where that is what the plan says.
    async fn copy(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        plan: &mut Plan,
    ) -> Result<Option<PrivateCopy>> {
        let Some(workspace) = plan.shown.first_mut() else {
            return Ok(None);
        };
        if plan.workspace == Workspace::Bound {
            return Ok(None);
        }
        let (copies, ctx, spec) = (self.copies.clone(), ctx.clone(), spec.clone());
        let root = workspace.source.clone();
        // It sees by itself whether it is still wanted, and is removed where nobody takes it.
        let copy = blocking(Verb::Acquire, move || copies.take(&ctx, &spec, &root)).await?;
        workspace.source = copy.tree();
        Ok(Some(copy))
    }

    /// What the sandbox is, from what its engine says.
    fn describe(&self, mut inside: Descriptor, copy: Option<&PrivateCopy>) -> Descriptor {
        inside.notes.extend(copy.map(|copy| copy.note.clone()));
        Descriptor {
            location: NAME.into(),
            provider: NAME.into(),
            capabilities: inside.capabilities.intersection(&self.info.capabilities),
            ..inside
        }
    }
}

impl Living {
    fn is_there(&self) -> bool {
        !self.is_released && self.place.engine.is_there()
    }
}

/// Does what waits for a disk, beside everything else that goes on.
async fn blocking<T: Send + 'static>(
    verb: Verb,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::new(verb, ErrorKind::Internal).detail(error)),
    }
}

/// Removes a copy that was not kept.
async fn drop_copy(copy: Option<PrivateCopy>) {
    let _ = tokio::task::spawn_blocking(|| drop(copy)).await;
}

/// Keeps or removes a copy whose sandbox is gone.
async fn give_up(
    copy: PrivateCopy,
    disposition: Disposition,
    id: &SandboxId,
) -> Result<Disposition> {
    let id = id.clone();
    blocking(Verb::Release, move || {
        let done = match disposition {
            Disposition::Keep => copy.keep(),
            Disposition::Destroy => copy.destroy(),
        };
        done.map(|()| disposition).map_err(|error| {
            Error::new(Verb::Release, ErrorKind::Io)
                .on(id)
                .detail(
                    "the sandbox is gone; what was asked for its private copy could not be done",
                )
                .caused_by(error)
        })
    })
    .await
}

/// Decides what a spec asks for, beside everything else that goes on: it may name many paths, and disks may be slow.
async fn plan(ctx: &Ctx, spec: &AcquireSpec) -> Result<Plan> {
    let asked = spec.clone();
    let decided = blocking(Verb::Acquire, move || Plan::of(&asked, std::env::vars_os()));
    within(ctx, Verb::Acquire, &spec.id, decided).await?
}

/// That something of a sandbox runs on, although it was killed.
fn still_there(verb: Verb, id: &SandboxId, left: NotEnded) -> Error {
    Error::new(verb, ErrorKind::ProviderUnavailable)
        .on(id)
        .detail(left)
}

#[async_trait]
impl Provider for Bubblewrap {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::clone(&self.info)
    }

    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        let plan = match plan(ctx, spec).await {
            Ok(plan) => plan,
            Err(error) if !error.is_verdict() => return Err(error.with_verb(Verb::Probe)),
            Err(error) => {
                return Ok(Probe::Fails {
                    reason: format!("{} {}", error.subject(), error.kind())
                        .trim()
                        .to_owned(),
                    remedy: match error.detail_text() {
                        "" => "name a directory that is there and that you may enter".to_owned(),
                        detail => detail.to_owned(),
                    },
                });
            }
        };
        match self.places.place(ctx, &plan).await {
            Ok(place) => {
                let inside = place.engine.connection();
                let answer = answered(START, Verb::Probe, inside.probe(ctx, &plan.inside)).await;
                if let Err(left) = place.end().await {
                    return Err(still_there(Verb::Probe, &spec.id, left));
                }
                answer
            }
            Err(Trouble::Refused(refusal)) => Ok(refusal.probe()),
            Err(Trouble::Failed(error)) => Err(error.with_verb(Verb::Probe).on(&spec.id)),
        }
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        let slot = self.slot(&spec.id);
        let acquired = match within(ctx, Verb::Acquire, &spec.id, slot.lock()).await {
            Ok(mut living) => self.acquire_in(ctx, spec, &mut living).await,
            Err(error) => Err(error),
        };
        self.give_back(&spec.id, slot);
        acquired
    }

    async fn attach(&self, _ctx: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>> {
        Err(unsupported(
            Verb::Attach,
            "a sandbox here ends with its connection; acquire it again",
        )
        .on(&state.id))
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

    async fn list(&self, _ctx: &Ctx) -> Result<Vec<SandboxEntry>> {
        let entry = |(id, slot): (&SandboxId, &Arc<Slot>)| {
            // One that is just being made, or ended, is not there.
            let living = slot.try_lock().ok()?;
            let living = living.as_ref().filter(|living| living.is_there())?;
            Some(SandboxEntry {
                id: id.clone(),
                labels: living.spec.labels.clone(),
                running: true,
            })
        };
        let mut entries: Vec<_> = self.slots().iter().filter_map(entry).collect();
        let copies = self.copies.clone();
        let kept = blocking(Verb::List, move || Ok(copies.kept())).await?;
        entries.extend(kept.into_iter().filter_map(|kept| {
            Some(SandboxEntry {
                id: SandboxId::new(kept.id).ok()?,
                labels: kept.labels,
                running: false,
            })
        }));
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(entries)
    }

    async fn prepare(&self, _ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        Err(unsupported(
            Verb::Prepare,
            "a sandbox here shows a directory that is there; name it as the root",
        )
        .on(&template.name))
    }

    async fn update(&self, _ctx: &Ctx, id: &SandboxId, _update: &Update) -> Result<()> {
        Err(unsupported(
            Verb::Update,
            "release the sandbox and acquire it with the new policy",
        )
        .on(id))
    }
}

fn unsupported(verb: Verb, instead: &str) -> Error {
    Error::refused(verb, ErrorKind::Unsupported).detail(instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_another_call_stops_at_the_deadline_or_when_cancelled_and_nothing_is_forgotten()
     {
        let provider = Bubblewrap::new().expect("a thread");
        let spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        let id = &spec.id;
        let slot = provider.slot(id);
        // As another call that is making the sandbox.
        let making = slot.lock().await;
        let late = Ctx::new().with_timeout(Duration::ZERO);
        let cancelled = Ctx::new();
        cancelled.cancel().cancel();
        for (ctx, kind) in [
            (late, ErrorKind::DeadlineExceeded),
            (cancelled, ErrorKind::Cancelled),
        ] {
            let acquired = provider.acquire(&ctx, &spec).await.map(drop);
            let released = provider.release(&ctx, id, Disposition::Keep).await;
            for (verb, error) in [
                (Verb::Acquire, acquired.expect_err("it is being made")),
                (Verb::Release, released.expect_err("it is being made")),
            ] {
                let found = (error.verb(), error.kind(), error.effect());
                assert_eq!(found, (verb, kind, Effect::None), "{error}");
            }
            assert!(
                provider.slots().contains_key(id),
                "what is being made cannot be released any more"
            );
        }
        drop(making);
        provider.give_back(id, slot);
        assert!(!provider.slots().contains_key(id), "an empty slot is kept");
    }

    #[tokio::test]
    async fn an_acquire_that_fails_and_a_release_of_nothing_leave_nothing_behind() {
        let provider = Bubblewrap::new().expect("a thread");
        let mut spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        spec.root = Some("/nothing/is/here".to_owned());
        let ctx = Ctx::new();
        let refused = provider.acquire(&ctx, &spec).await.map(drop);
        assert_eq!(refused.expect_err("no root").kind(), ErrorKind::NotFound);
        assert!(!provider.slots().contains_key(&spec.id));
        let receipt = provider.release(&ctx, &spec.id, Disposition::Keep).await;
        assert!(!receipt.expect("nothing to do").existed);
        assert!(!provider.slots().contains_key(&spec.id));
    }
}

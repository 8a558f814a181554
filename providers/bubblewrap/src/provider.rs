//! Sandboxes that are namespaces of this machine.
//!
//! Each has an engine of its own, which is the first process of its namespaces. What is asked of the sandbox is asked
//! of that engine; this process only starts it, and ends it.
//!
//! **Invariant:** the workspace is the caller's. It is never removed, whatever a release asks for. A private copy of one
//! is ours.
//!
//! Not here: ids, lives and the order of calls (`spp_client::place::Keeper`).

use std::sync::Arc;

use async_trait::async_trait;
use sandbox_core::{
    AcquireSpec, Claim, Ctx, Descriptor, Disposition, Error, ErrorKind, ProviderInfo,
    ReleaseReceipt, Result, SandboxEntry, SandboxId, Verb,
};
use spp_client::place::{Left, Maker, Placed, Purpose, Trouble, provider_capabilities, within};

use crate::copies::{Copies, PrivateCopy};
use crate::limits;
use crate::place::{Places, Rest};
use crate::spec::{Plan, Workspace};

/// The name of this provider and of its location.
pub(crate) const NAME: &str = "bubblewrap";

/// Makes places. See the [module](self).
pub(crate) struct Bubblewrap {
    info: Arc<ProviderInfo>,
    places: Places,
    copies: Copies,
}

impl Bubblewrap {
    /// A maker that has made none.
    ///
    /// # Errors
    ///
    /// No thread can be made.
    pub(crate) fn new() -> Result<Self> {
        let places = Places::new()?;
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
                capabilities: provider_capabilities(),
            }),
            places,
            copies,
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

#[async_trait]
impl Maker for Bubblewrap {
    type Plan = Plan;
    type Rest = Rest;

    fn info(&self) -> &Arc<ProviderInfo> {
        &self.info
    }

    async fn plan(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Plan> {
        // Beside everything else that goes on: it may name many paths, and disks may be slow.
        let asked = spec.clone();
        let decided = blocking(Verb::Acquire, move || Plan::of(&asked, std::env::vars_os()));
        within(ctx, Verb::Acquire, &spec.id, decided).await?
    }

    fn inside(plan: &Plan) -> &AcquireSpec {
        &plan.inside
    }

    async fn place(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        plan: &mut Plan,
        purpose: Purpose,
    ) -> std::result::Result<(Placed, Rest), Trouble> {
        let copy = match purpose {
            Purpose::Acquire => self.copy(ctx, spec, plan).await.map_err(Trouble::Failed)?,
            Purpose::Probe => None,
        };
        match self.places.place(ctx, plan).await {
            Ok((engine, mut rest)) => {
                rest.copy = copy;
                Ok((engine, rest))
            }
            Err(trouble) => {
                drop_copy(copy).await;
                Err(trouble)
            }
        }
    }

    fn describe(&self, rest: &Rest, mut descriptor: Descriptor) -> Descriptor {
        let note = rest.copy.as_ref().map(|copy| copy.note.clone());
        descriptor.notes.extend(note);
        descriptor
    }

    async fn clear(&self, rest: &mut Rest, id: &SandboxId, left: Left) -> Result<Disposition> {
        if let Some(group) = rest.group.take() {
            limits::remove(&group).await;
        }
        match (rest.copy.take(), left) {
            // A workspace that was there before stays, whatever is asked for.
            (None, _) => Ok(Disposition::Keep),
            (Some(copy), Left::Released(disposition)) => give_up(copy, disposition, id).await,
            // A life that was lost has lost its copy as well, unless that was kept once.
            (Some(copy), Left::GivenUp) => {
                drop_copy(Some(copy)).await;
                Ok(Disposition::Destroy)
            }
        }
    }

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

    async fn kept(&self, _ctx: &Ctx, _options: Option<&str>) -> Result<Vec<SandboxEntry>> {
        let copies = self.copies.clone();
        let kept = blocking(Verb::List, move || Ok(copies.kept())).await?;
        let entries = kept.into_iter().filter_map(|kept| {
            Some(SandboxEntry {
                id: SandboxId::new(kept.id).ok()?,
                labels: kept.labels,
                running: false,
                claim: Claim::Kept,
                detail: "a private copy of a workspace".to_owned(),
            })
        });
        Ok(entries.collect())
    }

    fn instead(verb: Verb) -> &'static str {
        match verb {
            Verb::Attach => "a sandbox here ends with its connection; acquire it again",
            Verb::Prepare => "a sandbox here shows a directory that is there; name it as the root",
            _ => "release the sandbox and acquire it with the new policy",
        }
    }
}

//! The trait [`Provider`]: where sandboxes come from.
//!
//! Every method is idempotent on ids that the host chose: acquiring the same id with the same spec
//! twice gives the same sandbox, releasing one that is not there succeeds. So a host that lost an
//! answer asks again, and nothing exists twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Capabilities, Ctx, EnvChange, Policy, Result, Sandbox, SandboxId};

/// Gives out sandboxes.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Who this is and what it can do. No round trip.
    fn info(&self) -> Arc<ProviderInfo>;

    /// Whether `spec` would work here, and if not, why and what to do about it. Changes nothing.
    ///
    /// # Errors
    ///
    /// `Unsupported` without the capability; failures to ask. That it would not work is a [`Probe`].
    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe>;

    /// Obtains a sandbox that is ready for every verb.
    ///
    /// # Errors
    ///
    /// `Conflict` if the id is in use with another spec; `PolicyUnmet` for what cannot be enforced;
    /// `UnsupportedSpec`, `ProviderUnavailable`, `AuthFailed`, `QuotaExceeded`, `Busy`.
    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>>;

    /// Takes up a sandbox that was captured by [`Sandbox::capture_state`], perhaps by another
    /// process.
    ///
    /// # Errors
    ///
    /// `Lost` if it is gone: never silently a new one. `Unsupported` without the capability.
    async fn attach(&self, ctx: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>>;

    /// Gives a sandbox back. Whether its files are kept is a request; the receipt says what was done.
    ///
    /// # Errors
    ///
    /// Failures to do it. A sandbox that is not there is released already.
    async fn release(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        disposition: Disposition,
    ) -> Result<ReleaseReceipt>;

    /// The sandboxes that this provider knows of, those of others among them where it can see them.
    ///
    /// - `options`: the provider's own, as of a spec: where to look besides what this process has made
    ///
    /// # Errors
    ///
    /// `Unsupported` without the capability; failures to ask.
    async fn list(&self, ctx: &Ctx, options: Option<&str>) -> Result<Vec<SandboxEntry>>;

    /// Makes a template ready, so that acquiring from it is quick.
    ///
    /// # Errors
    ///
    /// `Unsupported` without the capability; `UnsupportedSpec` for a template it cannot make.
    async fn prepare(&self, ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt>;

    /// Changes environment or policy of a living sandbox, for what is started after.
    ///
    /// # Errors
    ///
    /// `Unsupported` without the capability; `PolicyUnmet`; `SandboxNotFound`.
    async fn update(&self, ctx: &Ctx, id: &SandboxId, update: &Update) -> Result<()>;
}

/// Who a provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// Its short name, such as `local`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// What kind of sandbox is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireSpec {
    /// The id it will have.
    pub id: SandboxId,
    /// Marks for people and for clean-up.
    pub labels: BTreeMap<String, String>,
    /// The workspace root in the provider's own terms: at `local` a host directory. `None` for the
    /// provider's default.
    pub root: Option<String>,
    /// The template to start from.
    pub template: Option<String>,
    /// What is asked of the place.
    pub policy: Policy,
    /// Without a sign of life for this long the place ends itself.
    pub lease: Option<Duration>,
    /// How long the place waits for its owner after a connection ended.
    pub linger: Option<Duration>,
    /// The provider's own options: JSON text, passed through untouched.
    pub options: Option<String>,
}

impl AcquireSpec {
    /// A sandbox of this id with everything else at the provider's default.
    #[must_use]
    pub fn new(id: SandboxId) -> Self {
        Self {
            id,
            labels: BTreeMap::new(),
            root: None,
            template: None,
            policy: Policy::default(),
            lease: None,
            linger: None,
            options: None,
        }
    }
}

/// Whether a spec would work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It would.
    Works {
        /// What to know about it, each in one sentence; may be empty.
        notes: Vec<String>,
    },
    /// It would not.
    Fails {
        /// Why.
        reason: String,
        /// The one thing to do.
        remedy: String,
    },
}

/// What a release asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// End what runs; keep the files.
    Keep,
    /// End what runs and remove everything the provider made for the sandbox. A workspace that was
    /// there before is never removed.
    Destroy,
}

/// What a release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseReceipt {
    /// Whether there was such a sandbox.
    pub existed: bool,
    /// What became of its files.
    pub disposition: Disposition,
}

/// A sandbox that a provider knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxEntry {
    /// Its id.
    pub id: SandboxId,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it runs, as opposed to being kept.
    pub running: bool,
    /// Whose it is.
    pub claim: Claim,
    /// What it is over there, such as a container's name; may be empty.
    pub detail: String,
}

/// Whose a sandbox is, as far as its provider can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This provider's, which is asked.
    Held,
    /// Somebody's who is still there.
    Used,
    /// Nobody's at the moment, and it was asked to stay.
    Kept,
    /// Nobody's any more: whoever made it is gone. A release with [`Disposition::Destroy`] removes it.
    Abandoned,
    /// That cannot be told here, so nothing is done about it.
    Unclear,
}

/// What is needed to take up a sandbox again. Small, and free of secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxState {
    /// The provider that made it.
    pub provider: String,
    /// The sandbox.
    pub id: SandboxId,
    /// Its life that was captured.
    pub generation: crate::Generation,
    /// The provider's own data: JSON text, at most 16 KiB.
    pub data: String,
}

/// A recipe to start sandboxes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSpec {
    /// Its name.
    pub name: String,
    /// The provider's own options: JSON text, passed through untouched.
    pub options: Option<String>,
}

/// A template is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateReceipt {
    /// Identifies the content.
    pub key: String,
    /// Whether it was ready before.
    pub reused: bool,
}

/// Changes to a living sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Changes to the environment.
    pub env: Vec<EnvChange>,
    /// A new policy.
    pub policy: Option<Policy>,
}

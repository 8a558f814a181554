//! The life of sandboxes: `probe`, `acquire`, `attach`, `release`, `list`, `prepare`, `update`,
//! `capture_state`.
//!
//! Every method here is idempotent on ids that the host chose: a host that lost an answer asks
//! again.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handshake::CapabilityTree;
use super::open::{default, open};
use super::policy::{EnvChange, Grade, LimitReport, Network, Policy};
use super::value::{Empty, JsonText, Octets};
use super::{request, verb};

request! {
    /// Asks whether a spec would work here, and if not, why. Changes nothing.
    pub struct ProbeParams("probe") -> ProbeResult {
        /// What would be wanted.
        pub spec: AcquireSpec,
    }
}

/// Answers `probe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// Whether it would work.
    pub verdict: ProbeVerdict,
}

open! {
    /// Whether a spec would work.
    pub enum ProbeVerdict {
        /// It would.
        Works(ProbeWorks) = "works",
        /// It would not.
        Fails(ProbeFails) = "fails",
    }
}

/// The spec would work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeWorks {
    /// What to know about it, each in one sentence.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The spec would not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeFails {
    /// Why.
    pub reason: String,
    /// The one thing to do.
    pub remedy: String,
}

request! {
    /// Obtains a sandbox that is ready for every verb.
    pub struct AcquireParams("acquire") -> SandboxResult {
        /// What is wanted.
        pub spec: AcquireSpec,
    }
}

/// What kind of sandbox is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AcquireSpec {
    /// The id it will have: 1 to 64 letters, digits, `-`, `_` or `.`, the first a letter or digit.
    pub sandbox: String,
    /// Marks for people and for clean-up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The workspace root in the provider's own terms; absent for its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The template to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What is asked of the place.
    #[serde(default)]
    pub policy: Policy,
    /// Without a sign of life for this long, in milliseconds, the place ends itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How long the place waits for its owner after a connection ended, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linger_ms: Option<u64>,
    /// The provider's own options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<JsonText>,
}

/// Answers `acquire` and `attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxResult {
    /// What the place is.
    pub descriptor: Descriptor,
}

/// What a place is, attested by the side that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Descriptor {
    /// The sandbox's id.
    pub sandbox: String,
    /// Its life: a sandbox made anew under an id has a higher one.
    pub generation: u64,
    /// Where this is, in the provider's terms.
    pub location: String,
    /// The provider's name.
    pub provider: String,
    /// Operating system and architecture.
    pub platform: Platform,
    /// The workspace root as processes there see it; absolute.
    pub root: Octets,
    /// `HOME` of processes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<Octets>,
    /// The shell for command lines; absolute. Absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<Octets>,
    /// Its network.
    pub network: Network,
    /// How well each restriction holds, by its name. One that is absent is unavailable.
    #[serde(default)]
    pub guarantees: BTreeMap<String, Grade>,
    /// What became of each requested limit, by its kind.
    #[serde(default)]
    pub limits: BTreeMap<String, LimitReport>,
    /// What it can do.
    #[serde(default)]
    pub capabilities: CapabilityTree,
    /// What to know about it, each in one sentence.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Operating system and architecture of a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Platform {
    /// Operating system: `linux`, `macos`.
    pub os: String,
    /// Architecture: `x86_64`, `aarch64`.
    pub arch: String,
}

request! {
    /// Takes up a sandbox that was captured. One that is gone is `lost`, never silently a new one.
    pub struct AttachParams("attach") -> SandboxResult {
        /// What was captured.
        pub state: SandboxState,
    }
}

/// What is needed to take up a sandbox again. Free of secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxState {
    /// The provider that made it.
    pub provider: String,
    /// The sandbox.
    pub sandbox: String,
    /// Its life.
    pub generation: u64,
    /// The provider's own data, at most 16 KiB.
    pub data: JsonText,
}

verb! {
    /// Captures what is needed to take this sandbox up again.
    pub struct CaptureStateParams("capture_state") -> CaptureStateResult {
    }
}

/// Answers `capture_state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureStateResult {
    /// What was captured.
    pub state: SandboxState,
}

request! {
    /// Gives a sandbox back. One that is not there is released already.
    pub struct ReleaseParams("release") -> ReleaseResult {
        /// The sandbox.
        pub sandbox: String,
        /// What is asked to become of its files. Default `keep`.
        #[serde(default)]
        pub disposition: Disposition,
    }
}

open! {
    /// What becomes of a sandbox's files.
    pub enum Disposition {
        /// What runs is ended; the files are kept.
        Keep = "keep",
        /// What runs is ended, and everything the provider made for the sandbox is removed.
        Destroy = "destroy",
    }
}
default!(Disposition::Keep);

/// Answers `release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseResult {
    /// Whether there was such a sandbox.
    pub existed: bool,
    /// What became of its files.
    #[serde(default)]
    pub disposition: Disposition,
}

request! {
    /// Names the sandboxes that the provider knows of.
    pub struct ListParams("list") -> ListResult {
        /// The provider's own options: where to look besides what this process has made.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub options: Option<JsonText>,
    }
}

/// Answers `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListResult {
    /// The sandboxes.
    pub sandboxes: Vec<SandboxEntry>,
}

/// A sandbox that the provider knows of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxEntry {
    /// Its id.
    pub sandbox: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether it runs, as opposed to being kept.
    pub running: bool,
    /// Whose it is.
    #[serde(default)]
    pub claim: Claim,
    /// What it is over there; may be empty.
    #[serde(default)]
    pub detail: String,
}

open! {
    /// Whose a sandbox is, as far as its provider can tell.
    pub enum Claim {
        /// The provider's that is asked.
        Held = "held",
        /// Somebody's who is still there.
        Used = "used",
        /// Nobody's at the moment, and it was asked to stay.
        Kept = "kept",
        /// Nobody's any more: whoever made it is gone.
        Abandoned = "abandoned",
        /// That cannot be told.
        Unclear = "unclear",
    }
}
default!(Claim::Unclear);

request! {
    /// Makes a template ready, so that acquiring from it is quick.
    pub struct PrepareParams("prepare") -> PrepareResult {
        /// The recipe.
        pub template: TemplateSpec,
    }
}

/// A recipe to start sandboxes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateSpec {
    /// Its name.
    pub name: String,
    /// The provider's own options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<JsonText>,
}

/// Answers `prepare`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareResult {
    /// Identifies the content.
    pub key: String,
    /// Whether it was ready before.
    pub reused: bool,
}

request! {
    /// Changes environment or policy of a living sandbox, for what is started after.
    pub struct UpdateParams("update") -> Empty {
        /// The sandbox.
        pub sandbox: String,
        /// Changes to the environment, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub env: Vec<EnvChange>,
        /// A new policy; absent to leave it as it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub policy: Option<Policy>,
    }
}

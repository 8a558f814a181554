//! The port: what an agent's tools may ask of the place where they run.
//!
//! Two traits carry everything. A [`Provider`] gives out sandboxes; a [`Sandbox`] is a tree and a
//! place to run processes, reached by sixteen verbs of which each is one round trip. Whoever calls
//! the port cannot tell, and need not know, whether the place is this directory, a namespace, a
//! container or a machine far away.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`sandbox`] | the trait [`Sandbox`] and its [`Descriptor`] |
//! | [`ext`] | [`SandboxExt`]: sugar over single verbs, never a loop over them |
//! | [`provider`] | the trait [`Provider`], the acquire spec, what a release reports |
//! | [`file`](mod@file), [`search`], [`process`], [`transfer`] | requests and answers of the verbs |
//! | [`mounts`] | names of the host and names in a place, and what leads from the one to the other |
//! | [`policy`], [`capability`] | what is asked of a place, and what a provider can do |
//! | [`output`] | the one rule by which head and tail of output are kept |
//! | [`path`], [`id`], [`digest`] | values that are parsed once and trusted after |
//! | [`ctx`], [`stream`] | cancellation, deadlines, and bytes that arrive over time |
//! | [`error`] | one error type: verb, subject, kind, effect |
//!
//! **Invariants.** No I/O, no serialisation and no runtime live here: wire types are
//! `spp_protocol`'s, behaviour is `sandbox_engine`'s. `Sandbox` has no default bodies, because a
//! default drifts silently in a wrapper. Both traits are object safe.

pub mod capability;
pub mod ctx;
pub mod digest;
pub mod error;
pub mod ext;
pub mod file;
pub mod id;
pub mod mounts;
pub mod output;
pub mod path;
pub mod policy;
pub mod process;
pub mod provider;
pub mod sandbox;
pub mod search;
pub mod stream;
pub mod transfer;

pub use capability::{Capabilities, Capability};
pub use ctx::{Cancel, Ctx, Progress};
pub use digest::Digest;
pub use error::{Effect, Error, ErrorKind, Result, Verb};
pub use ext::SandboxExt;
pub use id::{Generation, IdError, ProcId, SandboxId};
pub use mounts::{Located, Mounts, MountsError};
pub use output::OutputKeeper;
pub use path::{PathError, SandboxPath};
pub use policy::{
    EnforcedBy, EnvChange, EnvInherit, EnvPolicy, Grade, Limit, LimitKind, LimitReport, Limits,
    Mount, MountAccess, Network, Policy, Restriction, Strength,
};
pub use provider::{
    AcquireSpec, Claim, Disposition, Probe, Provider, ProviderInfo, ReleaseReceipt, SandboxEntry,
    SandboxState, TemplateReceipt, TemplateSpec, Update,
};
pub use sandbox::{Closed, Descriptor, Platform, Sandbox};
pub use stream::{ByteStream, collect};

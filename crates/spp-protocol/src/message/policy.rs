//! What is asked of a place, and what became of it: network, mounts, environment, limits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::open::{default, open};
use super::value::Octets;

/// What is asked of a place. The default asks for nothing beyond what the location is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// The network; absent for the location's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What of the host to show in the place, and what of that to hide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// The environment of what runs there.
    #[serde(default, skip_serializing_if = "EnvPolicy::is_default")]
    pub env: EnvPolicy,
    /// Restrictions that must hold in full; otherwise `acquire` is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Restriction>,
    /// Restrictions that are wanted as far as the place can give them; `guarantees` tells how far that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<Restriction>,
    /// Limits on what runs there, by kind ([`LimitKind`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Limit>,
}

open! {
    /// What a place may reach.
    pub enum Network {
        /// Nothing.
        None = "none",
        /// These origins (`https://example.org:443`), through the host's gateway.
        Allow(Vec<String>) = "allow",
        /// Everything that the machine it is on can reach.
        Open = "open",
    }
}

/// A directory or file of the host, shown in the place; or something that is not to be seen there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// What it is on the host; absolute. Absent where something is hidden, and only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Octets>,
    /// Where it is seen; absolute.
    pub sandbox: Octets,
    /// What can be done with it. Default `read_only`.
    #[serde(default)]
    pub access: MountAccess,
}

open! {
    /// What can be done with a mount.
    pub enum MountAccess {
        /// It can be read.
        ReadOnly = "read_only",
        /// It can be read and written.
        ReadWrite = "read_write",
        /// Nothing: what has this name in the place is hidden.
        Hidden = "hidden",
    }
}
default!(MountAccess::ReadOnly);

/// The environment of what runs in a place: what is inherited, then these changes, then those of
/// the single call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvPolicy {
    /// What is inherited from the process the engine runs in; absent for the location's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherit: Option<EnvInherit>,
    /// Changes to that, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<EnvChange>,
}

impl EnvPolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

open! {
    /// Which variables are inherited.
    pub enum EnvInherit {
        /// All of them.
        All = "all",
        /// None of them.
        Nothing = "nothing",
        /// Those of these names.
        Names(Vec<String>) = "names",
    }
}

/// Sets or removes one variable.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvChange {
    /// The name: not empty, no `=`, no NUL.
    pub name: Octets,
    /// The value, without NUL. Absent: the variable is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Octets>,
}

impl std::fmt::Debug for EnvChange {
    /// Without the value, which may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(Octets(value)) => write!(f, "{:?}=<{} bytes>", self.name, value.len()),
            None => write!(f, "{:?} removed", self.name),
        }
    }
}

open! {
    /// Something that what runs in a place cannot do.
    pub enum Restriction {
        /// Reach any network.
        NetworkDenied = "network_denied",
        /// Change anything outside the writable roots.
        WriteContained = "write_contained",
        /// See or touch processes outside the place.
        ProcessContained = "process_contained",
        /// Read the host's secrets.
        SecretsHidden = "secrets_hidden",
    }
}

open! {
    /// How well a restriction holds.
    pub enum Grade {
        /// In full.
        Full = "full",
        /// With gaps.
        Partial(Gaps) = "partial",
        /// Not at all.
        Unavailable = "unavailable",
    }
}

/// What a restriction does not cover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// What is still possible, each in one sentence.
    pub gaps: Vec<String>,
}

open! {
    /// What can be limited.
    pub enum LimitKind {
        /// Memory of all processes together, in bytes.
        Memory = "memory",
        /// Processes and threads at once.
        Processes = "processes",
        /// Processor time per second of wall time, in thousandths of one processor.
        Cpu = "cpu",
        /// Open files per process.
        OpenFiles = "open_files",
        /// Size of any one file written, in bytes.
        FileSize = "file_size",
        /// Bytes on disk in the workspace.
        Disk = "disk",
        /// Longest run of any one process tree, in milliseconds.
        WallTime = "wall_time",
        /// Running process trees at once.
        Concurrency = "concurrency",
    }
}

/// One limit, in the unit of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// The most.
    pub value: u64,
    /// Whether a place that cannot enforce it is acceptable. Default `required`.
    #[serde(default)]
    pub strength: Strength,
}

open! {
    /// Whether a place that cannot enforce a limit is acceptable.
    pub enum Strength {
        /// It is not: `acquire` is refused.
        Required = "required",
        /// It is: the descriptor reports `none`.
        BestEffort = "best_effort",
    }
}
default!(Strength::Required);

/// What became of a requested limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReport {
    /// The most, in the unit of its kind.
    pub value: u64,
    /// What enforces it.
    pub enforced_by: EnforcedBy,
}

open! {
    /// What enforces a limit.
    pub enum EnforcedBy {
        /// A cgroup of version 1.
        Cgroup1 = "cgroup1",
        /// A cgroup of version 2.
        Cgroup2 = "cgroup2",
        /// The container's runtime.
        Container = "container",
        /// A resource limit of each process.
        Rlimit = "rlimit",
        /// The engine, which looks now and then.
        Poll = "poll",
        /// The engine, at the moment it happens.
        Engine = "engine",
        /// Nothing.
        None = "none",
    }
}

//! What is asked of a place: network, mounts, environment, restrictions, limits.
//!
//! A policy is data. The provider enforces it or refuses: what was required and cannot be had is
//! `PolicyUnmet`, never a weaker place in silence. The [`Descriptor`](crate::Descriptor) answers
//! with what is really so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::SandboxPath;

/// What is asked of a place. The default asks for nothing beyond what the location is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The network; `None` for the location's default, which the descriptor tells.
    pub network: Option<Network>,
    /// Host directories and files to show in the place.
    pub mounts: Vec<Mount>,
    /// What is not to be read or written under these names, though what holds it is shown; absolute. Something
    /// has to be there: a name that nothing has yet cannot be hidden.
    pub hidden: BTreeSet<SandboxPath>,
    /// The environment of what runs there.
    pub env: EnvPolicy,
    /// Restrictions that must hold in full; otherwise the acquire is refused.
    pub require: BTreeSet<Restriction>,
    /// Restrictions that are wanted as far as the place can give them; the descriptor tells how far that
    /// is. For a place that cannot give one in full and is better with it than without.
    pub prefer: BTreeSet<Restriction>,
    /// Limits on what runs there.
    pub limits: Limits,
}

/// What a place may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    None,
    /// These origins (`https://example.org:443`), through the host's gateway.
    Allow(Vec<String>),
    /// Everything the machine it is on can reach.
    Open,
}

/// A host directory or file shown in the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The directory or file on the host.
    pub host: std::path::PathBuf,
    /// Where it is seen; absolute.
    pub sandbox: SandboxPath,
    /// Whether it can be written.
    pub access: MountAccess,
}

/// Whether a mount can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// It cannot.
    ReadOnly,
    /// It can.
    ReadWrite,
}

/// The environment of what runs in a place: what is inherited, then these changes, then those of
/// the single call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvPolicy {
    /// What is inherited from the process the engine runs in; `None` for the location's default.
    pub inherit: Option<EnvInherit>,
    /// Changes to that.
    pub changes: Vec<EnvChange>,
}

/// Which variables are inherited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvInherit {
    /// All of them.
    All,
    /// None of them.
    Nothing,
    /// Those of these names.
    Names(Vec<String>),
}

/// Sets or removes one variable. Shown without its value in debug output, since values may be
/// secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvChange {
    /// The name: not empty, no `=`, no NUL.
    pub name: Vec<u8>,
    /// The value without NUL, or `None` to remove the variable.
    pub value: Option<Vec<u8>>,
}

impl EnvChange {
    /// Sets a variable.
    pub fn set(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            value: Some(value.as_ref().to_vec()),
        }
    }

    /// Removes a variable.
    pub fn remove(name: impl AsRef<[u8]>) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            value: None,
        }
    }

    /// Whether name and value can be handed to a process.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.name.is_empty()
            && !self.name.iter().any(|byte| matches!(byte, 0 | b'='))
            && !self.value.as_ref().is_some_and(|value| value.contains(&0))
    }
}

impl fmt::Debug for EnvChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name);
        match &self.value {
            Some(value) => write!(f, "{name}=<{} bytes>", value.len()),
            None => write!(f, "{name} removed"),
        }
    }
}

/// Something that what runs in a place cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Restriction {
    /// Reach any network.
    NetworkDenied,
    /// Change anything outside the writable roots.
    WriteContained,
    /// See or touch processes outside the place.
    ProcessContained,
    /// Read the host's secrets: home directories, credentials, other sandboxes.
    SecretsHidden,
}

impl Restriction {
    /// Every restriction.
    pub const ALL: [Self; 4] = [
        Self::NetworkDenied,
        Self::WriteContained,
        Self::ProcessContained,
        Self::SecretsHidden,
    ];

    /// The name used in configuration and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NetworkDenied => "network-denied",
            Self::WriteContained => "write-contained",
            Self::ProcessContained => "process-contained",
            Self::SecretsHidden => "secrets-hidden",
        }
    }
}

/// How well a restriction holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grade {
    /// In full.
    Full,
    /// With these gaps.
    Partial {
        /// What is still possible, each in one sentence.
        gaps: Vec<String>,
    },
    /// Not at all.
    Unavailable,
}

/// Limits on what runs in a place.
pub type Limits = BTreeMap<LimitKind, Limit>;

/// What can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LimitKind {
    /// Memory of all processes together, in bytes.
    Memory,
    /// Processes and threads at once.
    Processes,
    /// Processor time per second of wall time, in thousandths of one processor.
    Cpu,
    /// Open files per process.
    OpenFiles,
    /// Size of any one file written, in bytes.
    FileSize,
    /// Bytes on disk in the workspace.
    Disk,
    /// Longest run of any one process tree, in milliseconds.
    WallTime,
    /// Running process trees at once.
    Concurrency,
}

impl LimitKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Memory,
        Self::Processes,
        Self::Cpu,
        Self::OpenFiles,
        Self::FileSize,
        Self::Disk,
        Self::WallTime,
        Self::Concurrency,
    ];

    /// The name used in configuration and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "cpu",
            Self::OpenFiles => "open-files",
            Self::FileSize => "file-size",
            Self::Disk => "disk",
            Self::WallTime => "wall-time",
            Self::Concurrency => "concurrency",
        }
    }
}

/// One limit, in the unit of its [`LimitKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The most.
    pub value: u64,
    /// Whether a place that cannot enforce it is acceptable.
    pub strength: Strength,
}

/// Whether a place that cannot enforce a limit is acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// It is not: the acquire is refused.
    Required,
    /// It is: the descriptor reports `EnforcedBy::None`.
    BestEffort,
}

/// What became of a requested limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReport {
    /// The most, in the unit of its kind.
    pub value: u64,
    /// What enforces it.
    pub enforced_by: EnforcedBy,
}

/// What enforces a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnforcedBy {
    /// A cgroup of version 1.
    Cgroup1,
    /// A cgroup of version 2.
    Cgroup2,
    /// The container's runtime.
    Container,
    /// A resource limit of each process.
    Rlimit,
    /// The engine, which looks now and then.
    Poll,
    /// The engine, at the moment it happens.
    Engine,
    /// Nothing.
    None,
}

//! The place that an engine is in, as whoever put the engine there says it.
//!
//! An engine cannot tell by itself what surrounds it: a namespace, a container, or nothing. Whoever placed
//! it knows, and says so here; policies are then decided by what the surroundings keep away and what the
//! guard of each process adds (`policy`).
//!
//! **Invariant:** a claim only ever widens what is granted by what was claimed. What is not claimed is
//! taken for unavailable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox_core::{EnvInherit, Grade, Restriction};

/// Where an engine is, and what that means for what runs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The location that descriptors name.
    pub location: String,
    /// What of this process's environment is inherited where the policy does not say.
    pub inherit: EnvInherit,
    /// What to know about every sandbox here, each in one sentence.
    pub notes: Vec<String>,
    /// What the surroundings keep away from everything in the place, the engine included, and how well.
    /// What is missing is not kept away.
    pub kept_away: BTreeMap<Restriction, Grade>,
    /// Directories that the place has for itself and that may be written, such as a `/tmp` that nobody outside shares;
    /// absolute. They are roots beside the workspace. Without any, a guarded process has a temporary directory of
    /// its sandbox.
    pub writable: Vec<PathBuf>,
    /// Directories of the place that may be read, such as its `/usr`; absolute. They are roots beside the workspace.
    pub readable: Vec<PathBuf>,
    /// When what runs is guarded.
    pub guard: GuardUse,
    /// Whether the users of the place are nobody else's, so that the processes of one are those of the place.
    pub own_users: bool,
    /// Whether the place is a control group of its own, whose limits are those that its one sandbox was to have. No other
    /// group is made then.
    pub own_group: bool,
}

/// When what runs is given a guard of its own, besides what the surroundings keep away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardUse {
    /// When a policy asks for something that needs it. For a place that promises no isolation.
    ByPolicy,
    /// Always. For a place that keeps apart what is inside: the engine itself is inside, and must not be
    /// at the mercy of what it started. Where the kernel cannot see to that (no Landlock), nothing is acquired.
    Always,
}

/// Version and revision of the kernel; the oldest if it cannot be understood.
fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    (next().unwrap_or(0), next().unwrap_or(0))
}

impl Place {
    /// A place of this name that keeps nothing away, and inherits everything.
    #[must_use]
    pub fn open(location: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            inherit: EnvInherit::All,
            notes: Vec::new(),
            kept_away: BTreeMap::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            guard: GuardUse::ByPolicy,
            own_users: false,
            own_group: false,
        }
    }

    /// Whether the kernel's limit on the processes of a user is one on what runs in the place. It is where users are
    /// the place's own, and counted there, which they are from Linux 5.14 on.
    pub(super) fn counts_processes(&self) -> bool {
        self.own_users && kernel() >= (5, 14)
    }

    /// How well the surroundings alone keep something away.
    #[must_use]
    pub fn grade(&self, restriction: Restriction) -> Grade {
        self.kept_away
            .get(&restriction)
            .cloned()
            .unwrap_or(Grade::Unavailable)
    }
}

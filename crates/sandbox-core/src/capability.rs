//! What a provider can do.
//!
//! Capability is data, and absence is tested: a verb that is not declared answers `Unsupported`,
//! and nobody emulates it. `read`, `write` of whole files, `remove`, `stat_many`, `exec`, `acquire`
//! and `release` are mandatory and therefore have no entry here.

use std::collections::BTreeSet;

use crate::Verb;

/// One thing a provider may or may not be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// The verb `read_many`.
    ReadMany,
    /// `write` with an edit.
    Edit,
    /// `write` that makes a directory.
    MakeDirectory,
    /// `write` that renames.
    Rename,
    /// `write` that sets a mode.
    SetMode,
    /// `write` that makes a link.
    Link,
    /// `write` with a precondition.
    Precondition,
    /// `write` that waits for the disk.
    Durable,
    /// The verb `glob`.
    Glob,
    /// The verb `grep`.
    Grep,
    /// The verb `fingerprint`.
    Fingerprint,
    /// `exec` that tracks changes.
    Track,
    /// `exec` with standard input.
    Stdin,
    /// `exec` and `spawn` with a terminal.
    Pty,
    /// The verbs `spawn`, `proc_read`, `proc_stdin` and `proc_stop`.
    Spawn,
    /// The verb `push_tree`.
    PushTree,
    /// The verb `pull_tree`.
    PullTree,
    /// Asking whether a spec would work.
    Probe,
    /// Taking a sandbox up again from its state.
    Attach,
    /// Naming the sandboxes there are.
    List,
    /// Preparing templates.
    Prepare,
    /// Changing environment or policy of a living sandbox.
    Update,
    /// Sandboxes that outlive a connection for a while.
    Linger,
    /// Sandboxes that end by themselves when nothing is heard from their owner.
    Lease,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Self; 24] = [
        Self::ReadMany,
        Self::Edit,
        Self::MakeDirectory,
        Self::Rename,
        Self::SetMode,
        Self::Link,
        Self::Precondition,
        Self::Durable,
        Self::Glob,
        Self::Grep,
        Self::Fingerprint,
        Self::Track,
        Self::Stdin,
        Self::Pty,
        Self::Spawn,
        Self::PushTree,
        Self::PullTree,
        Self::Probe,
        Self::Attach,
        Self::List,
        Self::Prepare,
        Self::Update,
        Self::Linger,
        Self::Lease,
    ];

    /// The capability without which `verb` answers `Unsupported`; `None` for a mandatory verb.
    #[must_use]
    pub fn of(verb: Verb) -> Option<Self> {
        Some(match verb {
            Verb::ReadMany => Self::ReadMany,
            Verb::Glob => Self::Glob,
            Verb::Grep => Self::Grep,
            Verb::Fingerprint => Self::Fingerprint,
            Verb::Spawn | Verb::ProcRead | Verb::ProcStdin | Verb::ProcStop => Self::Spawn,
            Verb::PushTree => Self::PushTree,
            Verb::PullTree => Self::PullTree,
            Verb::Probe => Self::Probe,
            Verb::Attach | Verb::CaptureState => Self::Attach,
            Verb::List => Self::List,
            Verb::Prepare => Self::Prepare,
            Verb::Update => Self::Update,
            Verb::Initialize
            | Verb::Shutdown
            | Verb::Acquire
            | Verb::Release
            | Verb::Read
            | Verb::Write
            | Verb::Remove
            | Verb::StatMany
            | Verb::Exec => return None,
        })
    }
}

/// The set of things a provider can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// Only what is mandatory.
    #[must_use]
    pub fn mandatory() -> Self {
        Self::default()
    }

    /// Whether `capability` is declared.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// Whether `verb` is declared or mandatory.
    #[must_use]
    pub fn allows(&self, verb: Verb) -> bool {
        Capability::of(verb).is_none_or(|capability| self.has(capability))
    }

    /// What both sides can do: what a provider may advertise that re-serves an engine.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The declared capabilities, in order.
    pub fn iter(&self) -> impl Iterator<Item = Capability> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(capabilities.into_iter().collect())
    }
}

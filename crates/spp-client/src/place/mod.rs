//! Placing an engine: what every provider does that starts one somewhere and speaks to it over its pipes.
//!
//! A provider of this kind has no verb of its own. It finds the engine's executable, makes a command that
//! starts it where the tools are to run, has a [`Spawner`] start that, and holds the [`Placed`] engine: a
//! connection, and the certainty of its end.
//!
//! **Invariants.** What an engine says is hostile input ([`Strictness::Engine`](crate::Strictness)). A place
//! whose process is gone is gone at once for every call, with the reason; a place whose connection ended is
//! ended.
//!
//! Not here: how a place is kept apart from the rest of the machine, which is each provider's own.

mod door;
mod executable;
mod first;
pub mod idmap;
mod keeper;
mod life;
mod lone;
mod program;
mod refusal;
mod spawner;
mod start;
mod wait;
mod words;
mod workspace;

pub use door::{Door, take_away};
pub use executable::{
    ARCHITECTURES, ENGINE, EngineFault, EngineFile, find_engine, find_engine_for,
};
pub use keeper::{Keeper, Left, Maker, Purpose};
pub use life::{Outside, Why};
pub use lone::Lone;
pub use program::find_program;
pub use refusal::{Refusal, Trouble, real_engine};
pub use spawner::Spawner;
pub use start::{DialFault, Introduction, NotEnded, PlaceOptions, Placed, StartFault};
pub use wait::{answered, within};
pub use workspace::{MACHINES, is_machines, workspace};

pub use spp_link::handover::SECRET_VARIABLE;

use sandbox_core::{Capabilities, Capability};

/// What a provider of this kind can do: what its engines can, and what its [`Keeper`] does for all.
#[must_use]
pub fn provider_capabilities() -> Capabilities {
    let own = [Capability::Probe, Capability::List];
    capabilities().iter().chain(own).collect()
}

/// What an engine of this version can do, so that a provider can say so before it has placed one.
///
/// [`Placed::start`] refuses an engine that can do less.
#[must_use]
pub fn capabilities() -> Capabilities {
    [
        Capability::ReadMany,
        Capability::Edit,
        Capability::MakeDirectory,
        Capability::Rename,
        Capability::SetMode,
        Capability::Link,
        Capability::Precondition,
        Capability::Durable,
        Capability::Glob,
        Capability::Grep,
        Capability::Fingerprint,
        Capability::Stdin,
        Capability::Pty,
        Capability::Track,
        Capability::Spawn,
        Capability::PushTree,
        Capability::PullTree,
        Capability::Lease,
    ]
    .into_iter()
    .collect()
}

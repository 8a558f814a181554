//! The control group of a sandbox, which limits memory, processes and processors of all commands together.
//!
//! It is made here, because what is in the namespaces sees none and may make none. The engine is told how to have its
//! commands enter, and is not in it itself: it has to survive what it watches. Where a group could not be made, or not
//! for everything, the engine has the number of processes limited in another way and refuses the rest.
//!
//! Not here: which limits are required, and what is reported of them (the engine's).

use std::sync::Arc;

use sandbox_cgroup::{Group, Hierarchies, Wanted};
use sandbox_core::{LimitKind, Policy};
use tokio::task::spawn_blocking;

/// Makes the group that a policy asks for, as far as this process may. What a provider that was killed has left is
/// removed first.
pub(crate) async fn group(policy: &Policy) -> Option<Arc<Group>> {
    let of = |kind| policy.limits.get(&kind).map(|limit| limit.value);
    let wanted = Wanted {
        memory: of(LimitKind::Memory),
        processes: of(LimitKind::Processes),
        cpu: of(LimitKind::Cpu),
    };
    if wanted == Wanted::default() {
        return None;
    }
    let made = spawn_blocking(move || {
        let hierarchies = Hierarchies::of_this_process().ok()?;
        Some(Arc::new(Group::new(&hierarchies, wanted)))
    });
    made.await.ok().flatten()
}

/// Removes it, once nothing is in it any more but what ends at this moment.
pub(crate) async fn remove(group: &Arc<Group>) {
    let group = Arc::clone(group);
    let removed = spawn_blocking(move || group.remove()).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!("the control group of a sandbox could not be removed: {error}");
    }
}

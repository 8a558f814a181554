//! What everything is under that a pool starts.

use std::sync::Arc;

use sandbox_cgroup::{Controller, Group};
use sandbox_guard::Guard;

/// Most directories of one group: one for each controller.
pub(super) const ENTRANCES: usize = Controller::ALL.len();

/// What everything is under that a pool starts: where it cannot be put under it, it is not started. The
/// default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// What the kernel keeps away from each process.
    pub guard: Option<Arc<Guard>>,
    /// What they are limited to all together.
    pub group: Option<Arc<Group>>,
}

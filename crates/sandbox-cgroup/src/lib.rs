//! Limits on a group of processes by the kernel's control groups, of either version, without a service
//! manager.
//!
//! Which hierarchy holds which controller differs from machine to machine: all in one (version 2), one each
//! (version 1), or some here and some there. So each controller is looked for by itself ([`Hierarchies`]), and
//! a [`Group`] is one directory in each hierarchy that is needed, beneath this process's own, or in version 2 beneath one
//! above that, and then none that limits lies between: what limits us limits it too.
//!
//! Processes enter by themselves ([`enter`]), between fork and execution, by handles that were opened
//! before. One that cannot see groups is given the handles by whoever starts it ([`Passed`]), and one that was put into a
//! group of its own, as in a container, is limited by that ([`Group::around`]). What a group could not be given is not an
//! error here: it is missing in [`Group::enforced`].
//!
//! **Invariants.**
//! - A group is empty when it is removed, and what a process that was killed left behind is removed by the
//!   next one ([`sweep`]). A group that belongs to a living process is never touched by another.
//! - Nothing outside the directories that were made here is written, but for the one file that hands
//!   controllers on (`cgroup.subtree_control`, version 2).
//!
//! Not here: limits of single processes (`setrlimit(2)`), and killing what is in a group.

mod around;
mod delegated;
mod group;
mod hierarchy;
mod passed;
mod stale;

pub use group::{Fired, Group, Wanted, enter};
pub use hierarchy::{Controller, Hierarchies, Hierarchy, Version};
pub use passed::{Door, Handles, Passed};
pub use stale::sweep;

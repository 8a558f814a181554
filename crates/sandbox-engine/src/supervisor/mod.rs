//! Who starts commands, waits for them, and ends everything they left behind.
//!
//! Every command runs under a *supervisor*: a small process that was forked from the engine before
//! the command was asked for. It is the nearest subreaper of the command's tree, so whatever
//! daemonises inside comes back to exactly one place, and nobody has to guess whose orphan it is.
//! It never executes another program, never allocates, and holds one descriptor that matters: a
//! socket to the engine. When that socket ends, for whatever reason, it kills its tree and leaves.
//!
//! The process that becomes the program, the *leader*, is there before it is asked for too: it waits
//! on a socket of its own for what to execute. So a command costs neither a fork nor a word between
//! engine and supervisor before it runs.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `pool` | the engine's side: supervisors that wait |
//! | `running` | the engine's side: the handle of a run |
//! | `launch` | what is to be started, and how it is laid out for the other side |
//! | `image` | the layout: programs, arguments, environment and limits in one block of memory |
//! | `wire` | the messages between the two |
//! | `confinement` | what everything is under that is started |
//! | `fork` | how a supervisor comes to be, and which processes of ours are supervisors |
//! | `child` | the supervisor's own loop |
//! | `reap` | a run, and what becomes of it when its processes end |
//! | `end` | how it ends a tree |
//! | `leader` | from a process that waits to the running program |
//! | `slip` | the memory in which a leader leaves word for its supervisor |
//! | `tree` | the process table |
//! | `hunt` | who descends from whom, however fast it changes |
//! | `sys` | the few system calls that have no safe wrapper elsewhere |
//!
//! **Invariants.**
//! - A supervisor serves one run at a time, and goes back to the pool only when the kernel said
//!   that it has no child left. Only then does it make the leader of the next.
//! - The code in `child`, `end`, `hunt`, `leader`, `reap`, `slip`, `tree` and `sys` runs after a fork of a process with
//!   threads: it makes system calls on memory it already has, takes no lock and does not panic.
//! - A process of a run is never in the engine's session, because supervisor and leader make their
//!   own. That is how orphans of a lost supervisor are told from other children of this process.
//!
//! Not here: pipes, output, input, timeouts as the caller sees them (`process`).

mod child;
mod confinement;
mod end;
mod fork;
mod hunt;
mod image;
mod launch;
mod leader;
mod pool;
mod reap;
mod running;
mod slip;
mod sys;
mod tree;
mod wire;

pub use confinement::Confinement;
pub use launch::{Announce, Launch, Privileges, RlimitSpec, Terminal};
pub use pool::{LaunchError, Pool, PoolOptions};
pub use running::{Event, Running};
pub use wire::{Scope, Stage, Survivors, Usage};

#[cfg(test)]
mod ptrace;
#[cfg(test)]
mod rings;
#[cfg(test)]
mod tests;

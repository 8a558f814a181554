//! Every verb, done in place against directory handles.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`engine`] | one sandbox: files and processes behind the port |
//! | [`provider`] | where sandboxes on this machine come from |
//! | [`root`] | the directories a sandbox reaches, and opening beneath them |
//! | [`file`](mod@file) | `read`, `read_many`, `write`, `remove`, `stat_many` |
//! | [`fingerprint`] | `fingerprint`, and what an `exec` changed |
//! | [`process`] | `exec`, `spawn`, `proc_read`, `proc_stdin`, `proc_stop` |
//! | [`transfer`] | `push_tree`, `pull_tree` |
//! | `search` | `glob`, `grep` |
//! | [`supervisor`] | who starts commands, and ends everything they left behind |
//!
//! **Invariants.** A verb's behaviour is written here once, for every location. No JSON and no
//! protocol: those are `spp-server`'s. No path is resolved but beneath a root, and no program is
//! started but under a supervisor.

pub mod engine;
pub mod file;
pub mod fingerprint;
mod harden;
pub mod process;
pub mod provider;
pub mod root;
mod search;
pub mod supervisor;
pub mod transfer;

pub use engine::Engine;
pub use harden::harden;
pub use provider::{EngineProvider, GuardUse, Place, ProviderOptions};
// What an executable around the engine is given by whoever started it, and gives to the provider.
pub use sandbox_cgroup::{Group as LimitGroup, Passed as PassedLimit};

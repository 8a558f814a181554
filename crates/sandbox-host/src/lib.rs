//! The caller's side: configuration, finding and starting providers, keeping them alive, and the
//! sandboxes they give.
//!
//! A [`Host`] is made from a [`Config`](config::Config) and opens locations. Behind each location is
//! a provider: an executable that speaks the protocol on its standard input and output. This crate
//! starts it ([`spawn`](mod@spawn)), watches it, tells its failures as errors that say what to do
//! ([`StartError`]), starts it again within bounds, and ends it for certain.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`] | sources, checks and errors of the configuration |
//! | [`locate`] | finding a provider's executable |
//! | [`direct`] | one provider, named by its command, for whoever checks providers |
//! | [`spawn`](mod@spawn) | the one door for starting processes, and the environment they get |
//! | `process` | one life of a provider: handshake, watch, certain end |
//! | `supervise` | many lives: restart with backoff, giving up |
//! | `stderr`, `preview` | what a provider says outside of the protocol |
//! | `admission` | how many commands run at once |
//! | [`id`] | ids for sandboxes and processes |
//! | [`tree`] | directories of this machine, pushed to a sandbox and pulled from it |
//! | [`host`] | all of it as one value |
//!
//! **Invariants.** No process is started anywhere else in this program's host side. Standard error of a
//! provider is always read. A provider that exits fails every pending call at once, whoever still
//! holds its output. Nothing is ever run at another location than the one named.

pub mod config;
pub mod direct;
pub mod error;
pub mod host;
pub mod id;
pub mod locate;
pub mod spawn;
pub mod tree;

mod admission;
mod preview;
mod process;
mod stderr;
mod supervise;

pub use error::{OpenError, StartError};
pub use host::{Host, OpenRequest, Opened};
pub use locate::SearchPath;
pub use process::Timing;

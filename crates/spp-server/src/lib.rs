//! Serves any [`Provider`](sandbox_core::Provider) on a reader and a writer: what an adapter author
//! builds on.
//!
//! An adapter implements the two traits of `sandbox_core` and calls [`main`](main()). Everything
//! between the pipes and the traits is here: lines, dispatch, streams under credit, cancellation,
//! deadlines, capability gating, and coming to an end.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`entry`] | what a provider's `main` does: `--spp-manifest`, `--help`, the cookie, serving |
//! | [`serve`](mod@serve) | the life of one connection |
//! | [`stdio`](mod@stdio) | the protocol's pipes, taken away from everybody else |
//!
//! **Invariants.** Every request with an id is answered, whatever its handler does. A provider is never
//! asked for what it did not declare. The provider's code sees values of the port only, never JSON.
//!
//! Not here: what a provider does ([`sandbox_core`]), how messages look (`spp_protocol`).

pub mod entry;
pub mod serve;
pub mod stdio;

mod call;
mod dispatch;
mod failure;
mod gate;
mod junk;
mod lease;
mod log;
mod methods;
mod notice;
mod pump;
mod session;

pub use entry::{ProviderMain, main, main_with, reached_through, usage};
pub use serve::{Ended, LogLevel, ServeError, ServeOptions, serve};
pub use stdio::{Stdio, stdio};

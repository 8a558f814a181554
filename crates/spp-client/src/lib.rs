//! A provider and its sandboxes over a connection: the caller's end of the wire.
//!
//! [`Connection::open`] takes a reader and a writer, does the handshake, and is a
//! [`Provider`](sandbox_core::Provider) from then on. Everything between the port's traits and the
//! pipes is here: the guard against what a peer may send, random ids, streams in both directions,
//! cancellation, deadlines, and the certainty of an end.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`connection`] | opening, ending, liveness |
//! | [`options`] | how to open, how it ended, what was counted |
//! | [`place`] | placing an engine, for providers that do |
//! | [`stderr`] | the standard error of what was started |
//! | `guard`, `transport`, `shared` | lines: which count, and what they do |
//! | `pending`, `call` | calls under way, and one call from start to end |
//! | `provider`, `sandbox`, `run`, `life` | the port's traits on top |
//! | `fit` | whether an answer fits its question |
//!
//! **Invariants.** The peer's bytes are hostile input: nothing it sends ends more than its own
//! connection, takes more memory than was granted, or answers a call it has not seen. An outcome is
//! never guessed: a call that failed without an answer has no effect only if the peer cannot have
//! seen it, or if it changes nothing. Nothing is ever retried here.
//!
//! Not here: the processes of providers. Whoever starts one watches it, and says so with
//! [`Connection::abort`] when it is gone.

pub mod connection;
pub mod options;
// Who places an engine looks after it by what Linux has for that.
#[cfg(target_os = "linux")]
pub mod place;
pub mod stderr;

mod call;
mod fit;
mod guard;
mod lease;
mod life;
mod pending;
mod provider;
mod run;
mod sandbox;
mod shared;
mod transport;

pub use connection::Connection;
pub use options::{ConnectOptions, ConnectionEnd, Liveness, Stats, Strictness};

//! What both ends of a connection have in common: lines, lanes, and streams under credit.
//!
//! A host and a provider differ in what they ask and answer; how bytes reach the pipe and come off
//! it is the same on both sides, and so it is written once. `spp-client` and `spp-server` are built
//! on this crate, and nothing else is.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`line`](mod@line) | bounded lines from a reader |
//! | [`lane`] | the writer: short control lines pass bulk data |
//! | [`send`] | streams this side sends, as far as the receiver gave credit |
//! | [`receive`] | streams this side receives, buffered within the credit it gave |
//! | [`handover`] | how an engine behind a socket gets its pipes |
//!
//! **Invariants.** The reader of a connection never waits for its writer, nor for any consumer: so
//! two peers can never wait for each other, and nobody's stalled stream is anybody else's. What is
//! buffered is bounded by the windows that this side advertised.
//!
//! Not here: requests, answers and ids, which the two sides do differently; spelling, which is
//! `spp_protocol::codec`'s.

pub mod handover;
pub mod lane;
pub mod line;
pub mod receive;
pub mod send;

pub use lane::{BULK_LINE, Closed, LaneWriter, Lanes, Taken, lanes};
pub use line::LineReader;
pub use receive::{Fault, Keeping, Kept, Receiver, Receivers, Refused};
pub use send::{IdInUse, SendEnd, Sender, Senders};

/// Payload bytes of a data message, at most. Larger pieces make others wait longer behind them.
pub const CHUNK_BYTES: usize = 32 * 1024;

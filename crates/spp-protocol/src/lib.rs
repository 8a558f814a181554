//! The Sandbox Provider Protocol (SPP): what travels between a host and a provider, as types.
//!
//! One message is one JSON-RPC object on one line. This crate knows how every message looks, how
//! long a line may be, which codes errors have, and how wire values and the port's values
//! ([`sandbox_core`]) turn into each other. `docs/protocol.md` specifies the same in words, and
//! `docs/schema/spp-1.schema.json` as JSON Schema; tests hold the three together.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`codec`] | lines, the envelope of a message, byte fields, stream data |
//! | [`message`] | parameters and results of every method |
//! | [`method`] | the table of methods |
//! | [`convert`] | wire to port and back: the only place where input is validated |
//! | [`error`] | error codes and the error object |
//! | [`version`], [`limits`] | what the two sides agree on in `initialize` |
//! | [`schema`] | the JSON Schema document |
//!
//! **Invariants.** Unknown members are ignored everywhere, and a value that this version does not
//! know never fails the line it is on ([`message::value`]). Nothing here reads, writes or waits: the
//! crate has no I/O and no runtime. Those are `spp-client`'s and `spp-server`'s.

pub mod codec;
pub mod convert;
pub mod error;
pub mod limits;
pub mod message;
pub mod method;
pub mod schema;
pub mod version;

/// The environment variable that tells a provider that a host started it; its value is `1`.
pub const HOST_VARIABLE: &str = "SPP_HOST";
/// The environment variable with the host's process id.
pub const HOST_PID_VARIABLE: &str = "SPP_HOST_PID";
/// Exit status of a provider that was started by hand, without [`HOST_VARIABLE`].
pub const EXIT_NOT_A_HOST: u8 = 64;

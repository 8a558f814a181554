//! From bytes to messages and back: lines, the envelope, byte fields, stream data.
//!
//! Everything here is synchronous and incremental: a caller feeds bytes that came, and takes lines
//! that are complete. Sizes are bounded by construction, because the bytes come from a peer that
//! nobody trusts.

pub mod bytes;
pub mod envelope;
pub mod line;
pub mod stream_data;

pub use envelope::{
    Envelope, Id, has_in_prefix, id_in_prefix, method_in_prefix, params, result,
    write_notification, write_response,
};
pub use line::{Line, LineBuffer};
pub use stream_data::{
    MAX_CHUNK_BYTES, Payload, StreamChunk, StreamError, stream_named, write_stream_data,
};

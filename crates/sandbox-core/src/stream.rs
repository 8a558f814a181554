//! Bytes that arrive over time.

use std::pin::{Pin, pin};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;

use crate::{Error, ErrorKind, Result, Verb};

/// Chunks of bytes in order. Pulling is the back-pressure: a producer waits while nobody pulls.
///
/// Ends with `None` when complete. An `Err` is the last item: what came before it is good, what
/// would have come after is lost.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Reads a stream to its end, at most `max` bytes.
///
/// # Errors
///
/// The stream's own error, or [`ErrorKind::TooLarge`] naming `verb` once more than `max` bytes
/// came.
pub async fn collect(verb: Verb, stream: ByteStream, max: u64) -> Result<Bytes> {
    let mut stream = pin!(stream);
    let mut all = BytesMut::new();
    while let Some(chunk) = std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
    {
        let chunk = chunk?;
        if (all.len() as u64).saturating_add(chunk.len() as u64) > max {
            return Err(Error::refused(verb, ErrorKind::TooLarge)
                .detail(format_args!("a stream carried more than {max} bytes")));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

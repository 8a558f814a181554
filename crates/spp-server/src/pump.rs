//! Carries a stream of the provider's to the host, as fast as the host takes it.
//!
//! One pump per stream, so that a stream nobody reads makes only its own producer wait. Small
//! pieces that are there at once travel together; nothing is held back to wait for more.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};
use sandbox_core::{ByteStream, Cancel, ErrorKind, Result, Verb};
use spp_link::{CHUNK_BYTES, SendEnd, Sender};

use crate::failure::failed;

/// How long a cancelled run waits for a reader that takes nothing, before it gives up the rest of
/// the stream: without an end to that wait, one stalled reader would keep a cancelled call open.
const STALLED_AFTER_CANCEL: Duration = Duration::from_secs(1);

/// Carries `stream` to its end, or until the host wants no more. The stream is dropped then, which
/// discards the rest of it.
///
/// # Errors
///
/// The stream's own error; `Cancelled` if the host took nothing more after `cancel` was raised;
/// `Disconnected` if it is gone.
pub(crate) async fn pump(
    verb: Verb,
    mut stream: ByteStream,
    sender: &mut Sender,
    cancel: &Cancel,
) -> Result<()> {
    loop {
        let next = tokio::select! {
            biased;
            next = stream.next() => next,
            end = sender.ended() => return stopped(verb, end),
        };
        let Some(first) = next else {
            return Ok(());
        };
        let (bytes, end) = gather(first?, &mut stream);
        match send(sender, bytes, cancel).await {
            Some(Ok(())) => {}
            Some(Err(end)) => return stopped(verb, end),
            None => {
                return Err(failed(verb, ErrorKind::Cancelled).detail(
                    "it was cancelled, nobody read the stream, and the rest of it was given up",
                ));
            }
        }
        match end {
            None => {}
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => return Err(error),
        }
    }
}

/// The host wants no more, which is in order; or it is gone, and then the rest is lost: what still
/// reaches it must not pass for all there was.
fn stopped(verb: Verb, end: SendEnd) -> Result<()> {
    match end {
        SendEnd::Stopped => Ok(()),
        SendEnd::Closed => Err(failed(verb, ErrorKind::Disconnected)
            .detail("the host is gone, and the rest of the stream was given up")),
    }
}

/// `None` if nobody reads and the run was cancelled.
async fn send(
    sender: &mut Sender,
    bytes: Bytes,
    cancel: &Cancel,
) -> Option<std::result::Result<(), SendEnd>> {
    let stalled = async {
        cancel.cancelled().await;
        tokio::time::sleep(STALLED_AFTER_CANCEL).await;
    };
    tokio::select! {
        biased;
        sent = sender.send(bytes) => Some(sent),
        () = stalled => None,
    }
}

/// Joins to `first` what else is there already, up to one chunk, and says whether the stream
/// turned out to have ended.
fn gather(first: Bytes, stream: &mut ByteStream) -> (Bytes, Option<Result<()>>) {
    if first.len() >= CHUNK_BYTES / 2 {
        return (first, None);
    }
    let mut joined: Option<BytesMut> = None;
    let end = loop {
        let length = joined.as_ref().map_or(first.len(), BytesMut::len);
        if length >= CHUNK_BYTES / 2 {
            break None;
        }
        match stream.next().now_or_never() {
            None => break None,
            Some(None) => break Some(Ok(())),
            Some(Some(Err(error))) => break Some(Err(error)),
            Some(Some(Ok(more))) => joined
                .get_or_insert_with(|| BytesMut::from(&first[..]))
                .extend_from_slice(&more),
        }
    };
    (joined.map_or(first, BytesMut::freeze), end)
}

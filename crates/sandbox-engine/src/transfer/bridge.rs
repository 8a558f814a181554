//! Streams of the port as a reader and a writer on a thread that may wait.

use std::io::{self, Read, Write};

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::{ByteStream, Error, Result};
use sandbox_tree::pieces::{PieceReader, PieceWriter};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::Wanted;

/// Pieces that may wait for whoever takes them.
const WAITING: usize = 4;

/// A stream as a reader. Ends with an error when the work is not wanted any more.
pub(super) fn source(mut stream: ByteStream, wanted: Wanted) -> impl Read + Send {
    let runtime = Handle::current();
    PieceReader::new(move || {
        let next = runtime.block_on(async {
            tokio::select! {
                biased;
                next = stream.next() => next,
                error = wanted.ended() => Some(Err(error)),
            }
        });
        next.transpose().map_err(io::Error::other)
    })
}

/// A writer whose bytes come out of a stream, what comes out, and its end. Waits while nobody takes them.
pub(super) fn sink(wanted: Wanted) -> (impl Write + Send, ByteStream, End) {
    let (pieces, mut taken) = mpsc::channel::<Result<Bytes>>(WAITING);
    let end = End(pieces.clone());
    let writer = PieceWriter::new(move |piece| {
        if pieces.blocking_send(Ok(piece)).is_err() {
            return Err(sandbox_tree::pack::unwanted(wanted.verb));
        }
        wanted.check().map_err(io::Error::other)
    });
    let stream = futures_util::stream::poll_fn(move |context| taken.poll_recv(context));
    (writer, Box::pin(stream), end)
}

/// For telling the reader of the stream that it ended early.
pub(super) struct End(mpsc::Sender<Result<Bytes>>);

impl End {
    /// Ends the stream with what `error` says.
    pub(super) fn fail(self, error: &Error) {
        let told = Error::new(error.verb(), error.kind())
            .with_effect(error.effect())
            .on(error.subject())
            .detail(error.detail_text());
        // Nobody is left to be told if it fails.
        let _ = self.0.blocking_send(Err(told));
    }
}

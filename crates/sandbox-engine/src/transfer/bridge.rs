//! Streams of the port as a reader and a writer on a thread that may wait.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use sandbox_core::{ByteStream, Error, Result};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::Wanted;

/// Bytes that are handed on at once.
const PIECE: usize = 64 * 1024;
/// Pieces that may wait for whoever takes them.
const WAITING: usize = 4;

/// A stream as a reader. Ends with an error when the work is not wanted any more.
pub(super) struct Source {
    stream: ByteStream,
    wanted: Wanted,
    runtime: Handle,
    rest: Bytes,
}

impl Source {
    pub(super) fn new(stream: ByteStream, wanted: Wanted) -> Self {
        Self {
            stream,
            wanted,
            runtime: Handle::current(),
            rest: Bytes::new(),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let (stream, wanted) = (&mut self.stream, &self.wanted);
            let next = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    next = stream.next() => next,
                    error = wanted.ended() => Some(Err(error)),
                }
            });
            match next {
                None => return Ok(0),
                Some(Ok(bytes)) => self.rest = bytes,
                Some(Err(error)) => return Err(io::Error::other(error)),
            }
        }
        let read = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}

/// A writer whose bytes come out of a stream. Waits while nobody takes them.
pub(super) struct Sink {
    wanted: Wanted,
    pieces: mpsc::Sender<Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Sink {
    /// The writer, and what comes out.
    pub(super) fn new(wanted: Wanted) -> (Self, ByteStream) {
        let (pieces, mut taken) = mpsc::channel(WAITING);
        let stream = futures_util::stream::poll_fn(move |context| taken.poll_recv(context));
        let sink = Self {
            wanted,
            pieces,
            buffer: Vec::new(),
        };
        (sink, Box::pin(stream))
    }

    /// For telling the reader of the stream that it ended early.
    pub(super) fn end(&self) -> End {
        End(self.pieces.clone())
    }

    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.buffer);
        if self.pieces.blocking_send(Ok(piece.into())).is_err() {
            return Err(sandbox_tree::pack::unwanted(self.wanted.verb));
        }
        self.wanted.check().map_err(io::Error::other)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(PIECE);
        }
        let room = (PIECE - self.buffer.len()).min(bytes.len());
        self.buffer.extend_from_slice(&bytes[..room]);
        if self.buffer.len() == PIECE {
            self.send()?;
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.send()
    }
}

/// The end of a stream.
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

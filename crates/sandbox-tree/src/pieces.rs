//! An archive in pieces: a writer that hands them on, and a reader that asks for them.
//!
//! Archives are written and read on threads that may wait; what carries them hands on [`Bytes`]. How a piece is
//! handed on, and what it means that nobody takes it, is the caller's.
//!
//! **Invariant:** no piece is empty, and none but the last before a flush is shorter than [`PIECE`].

use std::io::{self, Read, Write};

use bytes::{Buf as _, Bytes};

/// Bytes that are handed on at once.
pub const PIECE: usize = 64 * 1024;

/// A writer whose bytes are handed to `send`.
#[derive(Debug)]
pub struct PieceWriter<S> {
    send: S,
    buffer: Vec<u8>,
}

impl<S: FnMut(Bytes) -> io::Result<()>> PieceWriter<S> {
    /// Hands every piece to `send`, which may wait.
    pub fn new(send: S) -> Self {
        Self {
            send,
            buffer: Vec::new(),
        }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.buffer);
        (self.send)(piece.into())
    }
}

impl<S: FnMut(Bytes) -> io::Result<()>> Write for PieceWriter<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(PIECE);
        }
        let room = (PIECE - self.buffer.len()).min(bytes.len());
        self.buffer.extend_from_slice(&bytes[..room]);
        if self.buffer.len() == PIECE {
            self.hand_on()?;
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.hand_on()
    }
}

/// A reader of what `take` returns, up to its first `None`.
#[derive(Debug)]
pub struct PieceReader<T> {
    take: T,
    rest: Bytes,
}

impl<T: FnMut() -> io::Result<Option<Bytes>>> PieceReader<T> {
    /// Asks `take`, which may wait, whenever there is nothing left.
    pub fn new(take: T) -> Self {
        Self {
            take,
            rest: Bytes::new(),
        }
    }
}

impl<T: FnMut() -> io::Result<Option<Bytes>>> Read for PieceReader<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match (self.take)()? {
                None => return Ok(0),
                Some(piece) => self.rest = piece,
            }
        }
        let read = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_handed_on_whole_in_pieces_that_are_never_empty() {
        let mut pieces = Vec::new();
        let mut writer = PieceWriter::new(|piece: Bytes| {
            pieces.push(piece);
            Ok(())
        });
        let content: Vec<u8> = (0..=u8::MAX).cycle().take(2 * PIECE + 7).collect();
        writer.write_all(&content).expect("taken");
        writer.flush().expect("taken");
        writer.flush().expect("there is nothing to take");
        let lengths: Vec<_> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [PIECE, PIECE, 7]);

        // An empty piece is no end.
        let mut pieces = std::iter::once(Bytes::new()).chain(pieces);
        let mut read = Vec::new();
        let mut reader = PieceReader::new(|| Ok(pieces.next()));
        reader.read_to_end(&mut read).expect("read");
        assert!(read == content);
    }
}

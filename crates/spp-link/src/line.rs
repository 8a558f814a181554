//! Lines from a reader: bounded, and safe to wait for beside other things.

use std::io;

use spp_protocol::codec::{Line, LineBuffer};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads lines of bounded length.
///
/// Take what is [`buffered`](Self::buffered), then [`fill`](Self::fill), until that says the end.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    buffer: LineBuffer,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `max` bytes from `reader`.
    pub fn new(reader: R, max: usize) -> Self {
        Self {
            reader,
            buffer: LineBuffer::new(max),
        }
    }

    /// Changes the limit, for lines that come after.
    pub fn set_max(&mut self, max: usize) {
        self.buffer.set_max(max);
    }

    /// The next line that is here already.
    pub fn buffered(&mut self) -> Option<Line<'_>> {
        self.buffer.next_line()
    }

    /// How much of an over-long line came whose end did not, in bytes.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.buffer.discarded()
    }

    /// Reads more. Returns how many bytes; 0 at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The reader's own.
    pub async fn fill(&mut self) -> io::Result<usize> {
        let count = self.reader.read(self.buffer.spare()).await?;
        self.buffer.filled(count);
        Ok(count)
    }
}

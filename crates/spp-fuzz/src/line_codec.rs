//! Bytes to lines, and lines to envelopes and stream data.

use futures_util::FutureExt;
use spp_link::LineReader;
use spp_protocol::codec::{Envelope, Line, LineBuffer, StreamChunk, id_in_prefix, stream_named};

/// Short, so that it is reached.
const MAX: usize = 512;

/// However the bytes come in, the lines are the same, no longer than the limit and never blank; and the quick reading of
/// a data message is never another one than a JSON parser's.
pub fn line_codec(data: &[u8]) {
    let (first, data) = data.split_first().unwrap_or((&0, &[]));
    let whole = lines(data, data.len().max(1));
    assert_eq!(whole, lines(data, usize::from(*first % 7) + 1), "in pieces");
    assert_eq!(whole, read(data), "from a reader");
    for line in &whole {
        match line {
            Ok(line) => complete(line),
            Err(prefix) => assert!(prefix.len() <= 256, "a prefix of {}", prefix.len()),
        }
    }
}

/// A line, or the first bytes of one that is too long.
type Found = Result<Vec<u8>, Vec<u8>>;

fn found(line: &Line<'_>) -> Found {
    match line {
        Line::Complete(line) => Ok(line.to_vec()),
        Line::TooLong { prefix } => {
            let _ = id_in_prefix(prefix);
            Err(prefix.to_vec())
        }
    }
}

fn lines(data: &[u8], piece: usize) -> Vec<Found> {
    let mut buffer = LineBuffer::new(MAX);
    let mut lines = Vec::new();
    for piece in data.chunks(piece) {
        buffer.push(piece);
        while let Some(line) = buffer.next_line() {
            lines.push(found(&line));
        }
    }
    lines
}

fn read(data: &[u8]) -> Vec<Found> {
    let mut reader = LineReader::new(data, MAX);
    let mut lines = Vec::new();
    loop {
        let count = reader
            .fill()
            .now_or_never()
            .expect("bytes in memory are there")
            .expect("and cannot fail");
        while let Some(line) = reader.buffered() {
            lines.push(found(&line));
        }
        if count == 0 {
            return lines;
        }
    }
}

fn complete(line: &[u8]) {
    assert!(line.len() <= MAX && !line.is_empty() && !line.contains(&b'\n'));
    let slow = || {
        let envelope = Envelope::parse(line).ok()?;
        let params = envelope
            .params
            .filter(|_| envelope.method.as_deref() == Some("stream/data"))?;
        let chunk = StreamChunk::from_params(params.get()).ok()?;
        let (stream, seq, offset) = (chunk.stream, chunk.seq, chunk.offset);
        assert_eq!(stream_named(params.get()), Some(stream));
        Some((stream, seq, offset, chunk.payload.into_bytes().ok()?))
    };
    if let Some(quick) = StreamChunk::parse_line(line) {
        let (stream, seq, offset) = (quick.stream, quick.seq, quick.offset);
        let quick = quick.payload.into_bytes().ok();
        assert_eq!(quick.map(|bytes| (stream, seq, offset, bytes)), slow());
    }
}

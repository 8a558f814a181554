//! Bytes of a hostile peer: nothing panics, and the quick reading of a message is never another one
//! than a JSON parser's.

use proptest::prelude::*;
use sandbox_core::Verb;
use spp_protocol::codec::{
    Envelope, Line, LineBuffer, StreamChunk, id_in_prefix, stream_named, write_stream_data,
};
use spp_protocol::error::ErrorObject;
use spp_protocol::message::value::StreamId;

/// A data message with some of its bytes replaced, left out or doubled.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[ -~\u{e9}\u{1f600}\"\\\\\n\t\u{1b}]{0,40}".prop_map(String::into_bytes),
    ];
    let interesting = proptest::sample::select(&b"\"\\{}[],:0123456789-+.eunx \t\r\x00\xff"[..]);
    let edits =
        proptest::collection::vec((any::<proptest::sample::Index>(), interesting, 0..4), 0..4);
    (payload, any::<u64>(), edits).prop_map(|(payload, seq, edits)| {
        let mut line = Vec::new();
        write_stream_data(&mut line, StreamId(7), seq, 3, &payload);
        line.pop();
        for (at, byte, kind) in edits {
            if line.is_empty() {
                break;
            }
            let at = at.index(line.len());
            match kind {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                2 => drop(line.remove(at)),
                _ => line.truncate(at + 1),
            }
        }
        line
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_data_message_that_is_read_quickly_means_what_a_json_parser_reads(line in mutated()) {
        let slow = || {
            let envelope = Envelope::parse(&line).ok()?;
            let params = envelope.params.filter(|_| envelope.method.as_deref() == Some("stream/data"))?;
            let chunk = StreamChunk::from_params(params.get()).ok()?;
            let (stream, seq, offset) = (chunk.stream, chunk.seq, chunk.offset);
            assert_eq!(stream_named(params.get()), Some(stream));
            Some((stream, seq, offset, chunk.payload.into_bytes().ok()?))
        };
        if let Some(quick) = StreamChunk::parse_line(&line) {
            let (stream, seq, offset) = (quick.stream, quick.seq, quick.offset);
            let quick = quick.payload.into_bytes().ok();
            prop_assert_eq!(quick.map(|bytes| (stream, seq, offset, bytes)), slow());
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), cut in 1..64usize) {
        let mut lines = LineBuffer::new(64);
        for piece in bytes.chunks(cut) {
            lines.push(piece);
            while let Some(line) = lines.next_line() {
                let (Line::Complete(line) | Line::TooLong { prefix: line }) = line;
                prop_assert!(line.len() <= 256);
                let _ = (id_in_prefix(line), StreamChunk::parse_line(line));
                if let Ok(text) = std::str::from_utf8(line) {
                    let _ = (stream_named(text), StreamChunk::from_params(text));
                    if let Ok(error) = serde_json::from_str::<ErrorObject>(text) {
                        let _ = error.decode(Verb::Read);
                    }
                }
            }
        }
    }
}

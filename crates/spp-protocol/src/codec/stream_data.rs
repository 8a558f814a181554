//! `stream/data`, written and read directly: the one message whose speed is the speed of bulk.
//!
//! The writer puts the JSON line together in one pass over the payload. The reader recognises exactly that
//! spelling and borrows the payload from the line; any other spelling of the same message goes through
//! a JSON parser and means the same.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memchr2;
use serde::Deserialize;

use super::bytes::{
    Base64Error, Encoding, decode_base64, encoding_of, plain_prefix, write_base64_string,
    write_json_string,
};
use crate::message::value::StreamId;

/// Most payload bytes of one data message. 32 KiB are recommended.
pub const MAX_CHUNK_BYTES: usize = 256 * 1024;

const START: &[u8] = br#"{"jsonrpc":"2.0","method":"stream/data","params":{"stream":"#;
const SEQ: &[u8] = br#","seq":"#;
const OFFSET: &[u8] = br#","offset":"#;
const TEXT: &[u8] = br#","text":"#;
const B64: &[u8] = br#","b64":"#;
const END: &[u8] = b"}}";

/// Appends the line of a data message, its end included.
pub fn write_stream_data(
    out: &mut Vec<u8>,
    stream: StreamId,
    seq: u64,
    offset: u64,
    payload: &[u8],
) {
    out.reserve(payload.len() + payload.len() / 3 + 160);
    out.extend_from_slice(START);
    write_integer(out, stream.0);
    out.extend_from_slice(SEQ);
    write_integer(out, seq);
    out.extend_from_slice(OFFSET);
    write_integer(out, offset);
    match encoding_of(payload) {
        Encoding::Text(text) => {
            out.extend_from_slice(TEXT);
            write_json_string(out, text);
        }
        Encoding::Base64 => {
            out.extend_from_slice(B64);
            write_base64_string(out, payload);
        }
    }
    out.extend_from_slice(END);
    out.push(b'\n');
}

/// A data message, borrowed from its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamChunk<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Counts the data messages of the stream from 0.
    pub seq: u64,
    /// Bytes of the stream before these.
    pub offset: u64,
    /// The bytes, as they are spelled.
    pub payload: Payload<'a>,
}

/// The bytes of a data message, as they are spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// As this text.
    Text(Cow<'a, str>),
    /// In base64.
    Base64(Cow<'a, str>),
}

/// Why a data message cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It is not the JSON that it should be.
    #[error("malformed stream data")]
    Json(#[from] serde_json::Error),
    /// Not exactly one of `text` and `b64` is there.
    #[error("stream data has exactly one of the members `text` and `b64`")]
    Forms,
    /// The payload is not base64.
    #[error(transparent)]
    Base64(#[from] Base64Error),
    /// The payload is longer than [`MAX_CHUNK_BYTES`].
    #[error("stream data carries {0} bytes, more than {MAX_CHUNK_BYTES}")]
    TooLong(usize),
}

impl<'a> StreamChunk<'a> {
    /// Reads a line that [`write_stream_data`] or a like-minded peer wrote; `None` for any other line, which
    /// may still be a data message ([`from_params`](Self::from_params)).
    #[must_use]
    pub fn parse_line(line: &'a [u8]) -> Option<Self> {
        let (stream, rest) = read_integer(line.strip_prefix(START)?)?;
        let (seq, rest) = read_integer(rest.strip_prefix(SEQ)?)?;
        let (offset, rest) = read_integer(rest.strip_prefix(OFFSET)?)?;
        let payload = if let Some(rest) = rest.strip_prefix(TEXT) {
            Payload::Text(read_text(string_body(rest)?)?)
        } else {
            let body = string_body(rest.strip_prefix(B64)?)?;
            // Base64 has neither; with them, more members follow, or a slash is spelled `\/`. Whatever
            // else is wrong with it is found out by decoding it.
            if memchr2(b'"', b'\\', body).is_some() {
                return None;
            }
            Payload::Base64(std::str::from_utf8(body).ok()?.into())
        };
        Some(Self {
            stream: StreamId(stream),
            seq,
            offset,
            payload,
        })
    }

    /// Reads the parameters of a data message in any spelling.
    ///
    /// # Errors
    ///
    /// [`StreamError::Json`] and [`StreamError::Forms`].
    pub fn from_params(params: &'a str) -> Result<Self, StreamError> {
        #[derive(Deserialize)]
        struct Raw<'a> {
            stream: StreamId,
            seq: u64,
            offset: u64,
            #[serde(borrow, default)]
            text: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            b64: Option<Cow<'a, str>>,
        }
        let raw: Raw<'a> = serde_json::from_str(params)?;
        let payload = match (raw.text, raw.b64) {
            (Some(text), None) => Payload::Text(text),
            (None, Some(text)) => Payload::Base64(text),
            _ => return Err(StreamError::Forms),
        };
        Ok(Self {
            stream: raw.stream,
            seq: raw.seq,
            offset: raw.offset,
            payload,
        })
    }
}

/// The stream that a malformed `stream/data` or `stream/end` is about, if that much can be read: it
/// has lost something, and whoever reads it must not take it for whole.
#[must_use]
pub fn stream_named(params: &str) -> Option<StreamId> {
    #[derive(Deserialize)]
    struct Named {
        stream: StreamId,
    }
    serde_json::from_str::<Named>(params)
        .ok()
        .map(|named| named.stream)
}

impl Payload<'_> {
    /// The bytes.
    ///
    /// # Errors
    ///
    /// [`StreamError::Base64`] and [`StreamError::TooLong`].
    pub fn into_bytes(self) -> Result<Bytes, StreamError> {
        let bytes = match self {
            Self::Text(text) => text.into_owned().into_bytes(),
            Self::Base64(text) => decode_base64(text.as_bytes())?,
        };
        if bytes.len() > MAX_CHUNK_BYTES {
            return Err(StreamError::TooLong(bytes.len()));
        }
        Ok(bytes.into())
    }
}

/// The inside of the one string that is left on the line, if the line ends as it should.
fn string_body(rest: &[u8]) -> Option<&[u8]> {
    rest.strip_prefix(b"\"")?
        .strip_suffix(END)?
        .strip_suffix(b"\"")
}

/// Undoes the escapes of a JSON string; `None` for what a JSON parser would refuse, or should decide.
fn read_text(body: &[u8]) -> Option<Cow<'_, str>> {
    let body = std::str::from_utf8(body).ok()?;
    let plain = plain_prefix(body.as_bytes());
    if plain == body.len() {
        return Some(Cow::Borrowed(body));
    }
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    loop {
        let run = plain_prefix(rest.as_bytes());
        text.push_str(&rest[..run]);
        let mut special = rest[run..].bytes();
        match special.next() {
            None => return Some(Cow::Owned(text)),
            Some(b'\\') => {}
            // A quote ends the string early, and a control character must be escaped: no string of ours.
            Some(_) => return None,
        }
        let mut length = 2;
        text.push(match special.next()? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            escape @ (b'"' | b'\\' | b'/') => escape.into(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                length = 6;
                let digits = rest.get(run + 2..run + 6)?;
                let code = u32::from_str_radix(digits, 16).ok()?;
                // Surrogates, and anything odd, are the JSON parser's.
                char::from_u32(code).filter(|_| !digits.starts_with('+'))?
            }
            _ => return None,
        });
        rest = &rest[run + length..];
    }
}

fn write_integer(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).expect("one digit");
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn read_integer(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 || (length > 1 && text[0] == b'0') {
        return None;
    }
    let value = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    Some((value, &text[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_stream_data(&mut out, StreamId(7), 3, 98304, payload);
        assert_eq!(out.pop(), Some(b'\n'));
        out
    }

    #[test]
    fn what_is_written_is_what_is_read_by_us_and_by_a_json_parser() {
        let noisy: Vec<u8> = (0..=255).collect();
        let text: String = (1..0x800).filter_map(char::from_u32).collect();
        for payload in [
            &b""[..],
            b"plain",
            &noisy,
            text.as_bytes(),
            b"a\tb\"c\\d\ne\x1bfghijklmnopqrstu",
        ] {
            let line = line(payload);
            let fast = StreamChunk::parse_line(&line).expect("our own spelling");
            let value: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
            let params = value["params"].to_string();
            let slow = StreamChunk::from_params(&params).expect("valid");
            assert_eq!(fast, slow);
            assert_eq!(
                (fast.stream, fast.seq, fast.offset),
                (StreamId(7), 3, 98304)
            );
            assert_eq!(fast.payload.into_bytes().expect("valid"), payload);
        }
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        let line = line("na\u{ef}ve".as_bytes());
        let chunk = StreamChunk::parse_line(&line).expect("our own spelling");
        assert!(matches!(chunk.payload, Payload::Text(Cow::Borrowed(_))));
    }

    #[test]
    fn what_a_json_parser_would_refuse_or_read_otherwise_is_left_to_it() {
        for tail in [
            r#""a","text":"b"}}"#,
            r#""a\x"}}"#,
            r#""a\"}}"#,
            r#""a\ud83d"}}"#,
            r#""a\u+041"}}"#,
            r#""a"}"#,
            r#"7}}"#,
            "\"a\tb\"}}",
            r#""a"}, "x":"}}"#,
            r#""a","later":"b"}}"#,
        ] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"stream/data","params":{{"stream":7,"seq":0,"offset":0,"text":{tail}"#
            );
            assert_eq!(StreamChunk::parse_line(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn base64_with_more_members_behind_it_or_escaped_slashes_means_what_json_says() {
        for (tail, bytes) in [
            (r#""YQ==","later":"b"}}"#, &b"a"[..]),
            (r#""\/\/8=","later":["b"]}}"#, b"\xff\xff"),
            (r#""\/\/8="}}"#, b"\xff\xff"),
        ] {
            let line = format!(
                r#"{{"jsonrpc":"2.0","method":"stream/data","params":{{"stream":7,"seq":0,"offset":0,"b64":{tail}"#
            );
            assert_eq!(StreamChunk::parse_line(line.as_bytes()), None, "{line}");
            let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            let params = value["params"].to_string();
            let chunk = StreamChunk::from_params(&params).expect("valid");
            assert_eq!(chunk.payload.into_bytes().expect("base64"), bytes);
        }
    }

    #[test]
    fn a_payload_is_bounded_and_has_one_form() {
        let long = line(&vec![b'a'; MAX_CHUNK_BYTES + 1]);
        let chunk = StreamChunk::parse_line(&long).expect("our own spelling");
        assert!(matches!(
            chunk.payload.into_bytes(),
            Err(StreamError::TooLong(_))
        ));
        for params in [
            r#"{"stream":1,"seq":0,"offset":0}"#,
            r#"{"stream":1,"seq":0,"offset":0,"text":"","b64":""}"#,
        ] {
            assert!(matches!(
                StreamChunk::from_params(params),
                Err(StreamError::Forms)
            ));
        }
    }
}

//! How bytes are spelled in JSON: as text where that is short, as base64 otherwise.
//!
//! Text is chosen where the bytes are UTF-8 and, with its escapes, it is no longer than base64 would
//! be. Text is quicker to read for people and for parsers; control characters grow sixfold.

/// The spelling chosen for some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding<'a> {
    /// As a JSON string of this text.
    Text(&'a str),
    /// As a JSON string of their base64.
    Base64,
}

/// Chooses the spelling of `bytes`.
#[must_use]
pub fn encoding_of(bytes: &[u8]) -> Encoding<'_> {
    match std::str::from_utf8(bytes) {
        Ok(text) if escaping_is_cheap(bytes) => Encoding::Text(text),
        _ => Encoding::Base64,
    }
}

/// How many of `bytes` to send now so that no character is cut in two: all of them, or up to three
/// fewer if they end inside a character. Bytes that are not UTF-8 are never held back, and neither is
/// everything.
#[must_use]
pub fn character_boundary(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    let Some(lead) = bytes[start..].iter().rposition(|&byte| byte >= 0xC0) else {
        return bytes.len();
    };
    let lead = start + lead;
    match std::str::from_utf8(&bytes[lead..]) {
        // `None`: so far a character, and it ends too early.
        Err(error) if error.error_len().is_none() && lead > 0 => lead,
        _ => bytes.len(),
    }
}

/// The base64 of `bytes`: standard alphabet, padded.
#[must_use]
pub fn encode_base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// The text is not base64 in the standard alphabet with padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not base64 (standard alphabet, padded)")]
pub struct Base64Error;

/// Undoes [`encode_base64`].
///
/// # Errors
///
/// [`Base64Error`] if the text is anything else.
pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>, Base64Error> {
    base64_simd::STANDARD
        .decode_to_vec(text)
        .map_err(|_| Base64Error)
}

/// Whether a JSON string of `bytes` is no longer than their base64.
fn escaping_is_cheap(bytes: &[u8]) -> bool {
    // Per block sums fit a byte, which lets the compiler count 16 or 32 bytes at a time.
    let mut growth = 0usize;
    for block in bytes.chunks(32) {
        let (mut short, mut long) = (0u8, 0u8);
        for &byte in block {
            let control = u8::from(byte < 0x20);
            let two = u8::from(matches!(byte, b'"' | b'\\'))
                | u8::from(matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0C));
            short += two;
            long += control & !two;
        }
        growth += usize::from(short) + 5 * usize::from(long);
    }
    bytes.len() + growth <= 4 * bytes.len().div_ceil(3)
}

/// Appends the JSON string of `text`, quotes included.
pub(crate) fn write_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let plain = plain_prefix(rest);
        out.extend_from_slice(&rest[..plain]);
        let Some((&special, after)) = rest[plain..].split_first() else {
            break;
        };
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
        rest = after;
    }
    out.push(b'"');
}

/// Appends `bytes` in base64, with quotes and without a copy in between.
pub(crate) fn write_base64_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    base64_simd::STANDARD.encode_append(bytes, out);
    out.push(b'"');
}

/// Length of the longest prefix that needs no escape in a JSON string.
pub(crate) fn plain_prefix(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // The classic test for a zero byte in a word. A byte above a true hit may be reported as well,
    // never one below it, and only the lowest is used.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut done = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        let hits = control | quote | backslash;
        if hits != 0 {
            return done + (hits.trailing_zeros() / 8) as usize;
        }
        done += 8;
    }
    let tail = &bytes[done..];
    done + tail
        .iter()
        .position(|&byte| byte < 0x20 || matches!(byte, b'"' | b'\\'))
        .unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_chosen_where_it_is_shorter_than_base64() {
        let check = |bytes: &[u8], text: bool| {
            assert_eq!(
                matches!(encoding_of(bytes), Encoding::Text(_)),
                text,
                "{bytes:?}"
            );
        };
        check(b"", true);
        check("plain, na\u{ef}ve \u{1f600}\n".as_bytes(), true);
        check(b"caf\xe9", false);
        check(b"\x1b[31m", false);
        check(b"0123456789abcdef\x1b", true);
        check(b"\n\n\n", false);
        check(b"\"\"\n", false);
        check(b"1\n", true);
        check(b"ab\n", true);
    }

    #[test]
    fn our_strings_are_those_of_a_json_library() {
        let all: Vec<char> = (0..0x500).filter_map(char::from_u32).collect();
        for piece in all.windows(40) {
            let text: String = piece.iter().collect();
            let mut out = Vec::new();
            write_json_string(&mut out, &text);
            assert_eq!(
                String::from_utf8(out).expect("UTF-8"),
                serde_json::to_string(&text).expect("a string")
            );
        }
    }

    #[test]
    fn the_plain_prefix_ends_at_the_first_special_byte_wherever_it_is() {
        for special in (0..0x20).chain([b'"', b'\\']) {
            for at in 0..20 {
                let mut bytes = [b'x'; 20];
                bytes[19] = b'"';
                bytes[at] = special;
                assert_eq!(plain_prefix(&bytes), at);
            }
        }
        for plain in [0x20, b'!', b'#', b'[', b']', 0x7F, 0x80, 0xFF] {
            assert_eq!(plain_prefix(&[plain; 20]), 20);
        }
    }

    #[test]
    fn a_character_is_not_cut_in_two() {
        let check =
            |bytes: &[u8], boundary| assert_eq!(character_boundary(bytes), boundary, "{bytes:?}");
        check(b"", 0);
        check(b"abc", 3);
        check("ab\u{e9}".as_bytes(), 4);
        check(b"ab\xc3", 2);
        check(b"ab\xe2\x82", 2);
        check(b"ab\xf0\x9f\x98", 2);
        check("ab\u{1f600}".as_bytes(), 6);
        // Neither a character nor the start of one.
        check(b"ab\xff", 3);
        check(b"ab\xe2\x28", 4);
        check(b"ab\x80", 3);
        // Holding back everything would be waiting for ever.
        check(b"\xf0\x9f\x98", 3);
    }
}

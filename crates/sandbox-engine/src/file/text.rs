//! What bytes look like as text: lines, line ends, encoding. Facts only; nothing is converted.

use memchr::{memchr, memchr_iter};
use sandbox_core::file::{Encoding, Newline, TextFacts};

/// The byte order marks that are told apart.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF16_LE_MARK: &[u8] = b"\xff\xfe";
const UTF16_BE_MARK: &[u8] = b"\xfe\xff";
/// Bytes of a file's start that settle its mark.
pub(super) const MARK_BYTES: usize = 3;

/// How much of a file `bytes` are, which decides whether a character may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Some,
}

/// Describes a part of a file; `start` are the first bytes of the file.
pub(super) fn facts(bytes: &[u8], start: &[u8], part: Part) -> TextFacts {
    let encoding = if start.starts_with(UTF16_LE_MARK) {
        Encoding::Utf16Le
    } else if start.starts_with(UTF16_BE_MARK) {
        Encoding::Utf16Be
    } else if memchr(0, bytes).is_none() && is_utf8(bytes, part) {
        Encoding::Utf8
    } else {
        Encoding::Binary
    };
    let bom = match encoding {
        Encoding::Utf16Le | Encoding::Utf16Be => true,
        Encoding::Utf8 | Encoding::Binary => start.starts_with(UTF8_MARK),
    };
    TextFacts {
        encoding,
        bom,
        newline: newline(bytes),
    }
}

/// How lines end.
pub(super) fn newline(bytes: &[u8]) -> Newline {
    // Nearly every text has no carriage return, and is then not gone through line by line.
    if memchr(b'\r', bytes).is_none() {
        return match memchr(b'\n', bytes) {
            Some(_) => Newline::Lf,
            None => Newline::None,
        };
    }
    let (mut lf, mut crlf) = (false, false);
    for at in memchr_iter(b'\n', bytes) {
        if at > 0 && bytes[at - 1] == b'\r' {
            crlf = true;
        } else {
            lf = true;
        }
        if lf && crlf {
            return Newline::Mixed;
        }
    }
    match (lf, crlf) {
        (false, false) => Newline::None,
        (true, false) => Newline::Lf,
        (false, true) => Newline::CrLf,
        (true, true) => Newline::Mixed,
    }
}

/// How many lines there are: each ends in LF or at the end of the bytes.
pub(super) fn lines(bytes: &[u8]) -> u64 {
    let ends = memchr_iter(b'\n', bytes).count() as u64;
    ends + u64::from(bytes.last().is_some_and(|&byte| byte != b'\n'))
}

/// Whether bytes are UTF-8. A part may begin and end within a character.
fn is_utf8(bytes: &[u8], part: Part) -> bool {
    let bytes = match part {
        Part::Whole => bytes,
        Part::Some => {
            let inside = bytes
                .iter()
                .take(3)
                .take_while(|&&byte| byte & 0xc0 == 0x80)
                .count();
            &bytes[inside..]
        }
    };
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => part == Part::Some && error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_lf_or_with_the_bytes() {
        for (text, count) in [
            ("", 0),
            ("a", 1),
            ("a\n", 1),
            ("a\nb", 2),
            ("\n\n", 2),
            ("a\r\n", 1),
        ] {
            assert_eq!(lines(text.as_bytes()), count, "{text:?}");
        }
    }

    #[test]
    fn line_ends_are_told_apart_and_a_lone_carriage_return_is_data() {
        for (text, expected) in [
            ("a\rb\r", Newline::None),
            ("a\nb", Newline::Lf),
            ("a\r\nb\r\n", Newline::CrLf),
            ("a\r\nb\n", Newline::Mixed),
            ("\n", Newline::Lf),
        ] {
            assert_eq!(newline(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn encodings_are_told_by_mark_nul_and_validity() {
        let check = |bytes: &[u8], encoding, bom| {
            let facts = facts(bytes, bytes, Part::Whole);
            assert_eq!((facts.encoding, facts.bom), (encoding, bom), "{bytes:?}");
        };
        check(b"plain", Encoding::Utf8, false);
        check("\u{feff}text".as_bytes(), Encoding::Utf8, true);
        check(b"\xff\xfea\0", Encoding::Utf16Le, true);
        check(b"\xfe\xff\0a", Encoding::Utf16Be, true);
        check(b"a\0b", Encoding::Binary, false);
        check(b"caf\xe9", Encoding::Binary, false);
    }

    #[test]
    fn a_part_may_begin_and_end_within_a_character() {
        let text = "€€".as_bytes();
        assert_eq!(
            facts(&text[1..5], text, Part::Some).encoding,
            Encoding::Utf8
        );
        assert_eq!(
            facts(&text[..5], text, Part::Whole).encoding,
            Encoding::Binary
        );
    }
}

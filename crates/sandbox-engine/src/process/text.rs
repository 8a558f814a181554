//! Cutting a stream where a character ends, if it is text.

use bytes::Bytes;

/// Drops an incomplete character from the end.
pub(super) fn cut_end(bytes: Bytes) -> Bytes {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        match width(bytes.get(at).copied().unwrap_or_default()) {
            Some(0) => {}
            Some(width) if width > back => return bytes.slice(..at),
            Some(_) | None => break,
        }
    }
    bytes
}

/// Drops the rest of a character from the start.
pub(super) fn cut_start(bytes: Bytes) -> Bytes {
    let rest = bytes
        .iter()
        .take(4)
        .take_while(|byte| width(**byte) == Some(0))
        .count();
    // No character has four bytes after its first.
    if rest < 4 { bytes.slice(rest..) } else { bytes }
}

/// Bytes of the character that begins so; 0 for one that continues a character, and nothing for one
/// that is in no text.
fn width(byte: u8) -> Option<usize> {
    match byte {
        0x00..=0x7f => Some(1),
        0x80..=0xbf => Some(0),
        0xc2..=0xdf => Some(2),
        0xe0..=0xef => Some(3),
        0xf0..=0xf4 => Some(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_incomplete_character_is_dropped() {
        let text = "aé你🦀";
        for at in 0..=text.len() {
            let (before, after) = text.as_bytes().split_at(at);
            let before = cut_end(Bytes::copy_from_slice(before));
            let after = cut_start(Bytes::copy_from_slice(after));
            assert!(text.starts_with(std::str::from_utf8(&before).expect("whole characters")));
            assert!(text.ends_with(std::str::from_utf8(&after).expect("whole characters")));
            assert!(text.len() - before.len() - after.len() <= 4);
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        let binary = Bytes::from_static(&[0x80, 0x81, 0x82, 0x83, 0x84]);
        assert_eq!(cut_start(binary.clone()), binary);
        assert_eq!(cut_end(binary.clone()), binary);
        assert_eq!(cut_end(Bytes::from_static(&[0xff])).len(), 1);
    }
}

//! One header: 512 bytes, every field at its place.

use super::{BLOCK, Refusal};

/// The types that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    File,
    Directory,
    Link,
    /// GNU `L`: the name of the next entry.
    LongName,
    /// GNU `K`: the text of the next entry's link.
    LongLink,
    /// POSIX `x`: what is different about the next entry.
    Extended,
}

/// A header whose checksum is right.
pub(super) struct Header<'a> {
    block: &'a [u8; BLOCK],
    /// Names have a second part, which the GNU format has other uses for.
    has_prefix: bool,
}

impl<'a> Header<'a> {
    pub(super) fn parse(block: &'a [u8; BLOCK]) -> Result<Self, Refusal> {
        let sum = block[..148]
            .iter()
            .chain(&[b' '; 8])
            .chain(&block[156..])
            .map(|&byte| u64::from(byte))
            .sum::<u64>();
        if octal(&block[148..156]) != Some(sum) {
            return Err(Refusal::Checksum);
        }
        let has_prefix = match &block[257..265] {
            b"ustar\x0000" => true,
            b"ustar  \0" => false,
            _ => return Err(Refusal::Format),
        };
        Ok(Self { block, has_prefix })
    }

    pub(super) fn kind(&self) -> Result<Type, Refusal> {
        Ok(match self.block[156] {
            b'0' | 0 => Type::File,
            b'5' => Type::Directory,
            b'2' => Type::Link,
            b'L' => Type::LongName,
            b'K' => Type::LongLink,
            b'x' => Type::Extended,
            other => return Err(Refusal::Type(other)),
        })
    }

    pub(super) fn name(&self) -> Vec<u8> {
        let name = text(&self.block[..100]);
        let prefix = text(&self.block[345..500]);
        if self.has_prefix && !prefix.is_empty() {
            [prefix, b"/", name].concat()
        } else {
            name.to_vec()
        }
    }

    pub(super) fn link(&self) -> Vec<u8> {
        text(&self.block[157..257]).to_vec()
    }

    pub(super) fn mode(&self) -> Result<u32, Refusal> {
        octal(&self.block[100..108])
            .and_then(|mode| u32::try_from(mode).ok())
            .ok_or(Refusal::Number("mode"))
    }

    pub(super) fn size(&self) -> Result<u64, Refusal> {
        number(&self.block[124..136])
            .and_then(|size| u64::try_from(size).ok())
            .ok_or(Refusal::Number("size"))
    }

    pub(super) fn modified(&self) -> Result<i64, Refusal> {
        number(&self.block[136..148]).ok_or(Refusal::Number("time"))
    }
}

/// A field up to its first NUL.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&byte| byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// Octal digits after blanks, up to a NUL or a blank; a field of nothing is 0.
fn octal(field: &[u8]) -> Option<u64> {
    let field = text(field).trim_ascii();
    field.iter().try_fold(0_u64, |number, &byte| match byte {
        b'0'..=b'7' => number.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Octal digits, or in the GNU way a big-endian integer behind a first byte of 0x80 or 0xff.
fn number(field: &[u8]) -> Option<i64> {
    let (&first, rest) = field.split_first()?;
    let negative = match first {
        0x80 => false,
        0xff => true,
        _ => return octal(field).and_then(|number| i64::try_from(number).ok()),
    };
    let start = if negative { -1_i128 } else { 0 };
    let value = rest.iter().fold(start, |number, &byte| {
        number.wrapping_shl(8) | i128::from(byte)
    });
    i64::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary_and_nothing_else() {
        assert_eq!(octal(b"0000644\0"), Some(0o644));
        assert_eq!(octal(b"   644 \0"), Some(0o644));
        assert_eq!(octal(b"\0\0\0\0\0\0\0\0"), Some(0));
        for bad in [
            &b"0000648\0"[..],
            b"+000644\0",
            b"-000644\0",
            b"0x0644\0",
            b"6 4\0",
        ] {
            assert_eq!(octal(bad), None, "{bad:?}");
        }
        assert_eq!(number(b"\x80\0\0\0\0\0\0\0\0\0\x01\0"), Some(256));
        assert_eq!(
            number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            Some(-1)
        );
        assert_eq!(number(b"\x80\x01\0\0\0\0\0\0\0\0\0\0"), None);
    }
}

//! Headers as they are written: ustar, with an extension record where a name or a text is longer than a
//! header's field.

use sandbox_core::file::EntryKind;

use crate::reader::BLOCK;

/// Longest name and text that fit a header.
const FIELD: usize = 100;
/// First number that eleven octal digits cannot say.
const OCTAL_END: u64 = 1 << 33;

pub(super) struct Header<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: EntryKind,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) modified: i64,
    /// The text of a link.
    pub(super) link: &'a [u8],
}

impl Header<'_> {
    /// The blocks before the content.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut blocks = Vec::with_capacity(BLOCK);
        let record = self.record();
        if !record.is_empty() {
            blocks.extend_from_slice(&block(
                b"././@PaxHeader",
                b'x',
                0o644,
                record.len() as u64,
                0,
                &[],
            ));
            blocks.extend_from_slice(&record);
            blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
        }
        let (flag, mode) = match self.kind {
            EntryKind::Directory => (b'5', self.mode),
            EntryKind::Link => (b'2', 0o777),
            EntryKind::File | EntryKind::Special => (b'0', self.mode),
        };
        blocks.extend_from_slice(&block(
            self.name,
            flag,
            mode,
            self.size,
            self.modified,
            self.link,
        ));
        blocks
    }

    fn record(&self) -> Vec<u8> {
        let mut record = Vec::new();
        let long: Vec<_> = [("path", self.name), ("linkpath", self.link)]
            .into_iter()
            .filter(|(_, value)| value.len() > FIELD)
            .collect();
        if long
            .iter()
            .any(|(_, value)| std::str::from_utf8(value).is_err())
        {
            pair(&mut record, "hdrcharset", b"BINARY");
        }
        for (key, value) in long {
            pair(&mut record, key, value);
        }
        record
    }
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn pair(record: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    record.extend_from_slice(format!("{length} {key}=").as_bytes());
    record.extend_from_slice(value);
    record.push(b'\n');
}

fn block(name: &[u8], flag: u8, mode: u32, size: u64, modified: i64, link: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name[..name.len().min(FIELD)]);
    put(100, format!("{mode:07o}\0").as_bytes());
    put(108, b"0000000\x000000000\0");
    put(124, &number(i128::from(size)));
    put(136, &number(i128::from(modified)));
    put(156, &[flag]);
    put(157, &link[..link.len().min(FIELD)]);
    put(257, b"ustar\x0000");
    put(148, b"        ");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Eleven octal digits; beyond them, in the GNU way, an integer behind a byte that no digit is.
fn number(value: i128) -> [u8; 12] {
    let mut field = [0; 12];
    match u64::try_from(value) {
        Ok(value) if value < OCTAL_END => {
            field[..11].copy_from_slice(format!("{value:011o}").as_bytes());
        }
        _ => {
            field.copy_from_slice(&value.to_be_bytes()[4..]);
            field[0] = if value < 0 { 0xff } else { 0x80 };
        }
    }
    field
}

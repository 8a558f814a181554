//! The strict reader of archives, on the bytes of a hostile peer.

use std::io::Cursor;

use sandbox_core::transfer::Compression;
use sandbox_tree::reader::{ArchiveError, Kind, Limits, Reader};

/// Small, so that they are reached.
const LIMITS: Limits = Limits {
    entries: 64,
    depth: 8,
    bytes: 1 << 20,
};

/// Reads an archive to its end or its first fault. What is given out keeps to the limits and to what an entry may be.
pub fn archive(data: &[u8]) {
    for compression in [Compression::None, Compression::Gzip] {
        let reader = Reader::open(Cursor::new(data.to_vec()), compression, LIMITS);
        drop(read(reader));
    }
}

fn read(mut reader: Reader<Box<dyn std::io::Read + Send>>) -> Result<(), ArchiveError> {
    let mut bytes = 0;
    let mut entries = 0;
    while let Some(entry) = reader.next_entry()? {
        entries += 1;
        assert!(entries <= LIMITS.entries, "more entries than the limit");
        assert!(entry.mode <= 0o777, "mode {:o}", entry.mode);
        assert!(entry.modified.1 < 1_000_000_000, "{:?}", entry.modified);
        assert!(!entry.path.is_absolute(), "{}", entry.path);
        if let Kind::Link { text } = &entry.kind {
            assert!(!text.is_empty() && !text.contains(&0), "{text:?}");
        }
        let size = match entry.kind {
            Kind::File { size } => size,
            Kind::Directory | Kind::Link { .. } => 0,
        };
        let mut buffer = [0; 4096];
        let mut read = 0;
        loop {
            match reader.read(&mut buffer)? {
                0 => break,
                more => read += more as u64,
            }
        }
        assert_eq!(read, size, "bytes of {}", entry.path);
        bytes += read;
        assert!(bytes <= LIMITS.bytes, "more bytes than the limit");
    }
    Ok(())
}

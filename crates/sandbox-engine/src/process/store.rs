//! Bytes of one output stream, by absolute offset: in memory while they are few, then in a file
//! that has no name.
//!
//! A file without a name cannot be found, forged or left behind. Where the temporary directory gives
//! none, memory that looks like a file takes its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags};

/// Bytes that are kept in memory before a file is made.
const IN_MEMORY: usize = 64 * 1024;

/// What is stored. See the [module](self).
#[derive(Debug)]
pub(super) enum Store {
    Memory(Vec<u8>),
    File(File),
}

impl Store {
    pub(super) fn new() -> Self {
        Store::Memory(Vec::new())
    }

    /// Puts `bytes` at `offset`, which is where the last ones ended.
    pub(super) fn append(&mut self, offset: u64, bytes: &[u8], directory: &Path) -> io::Result<()> {
        if let Store::Memory(memory) = self {
            if memory.len() + bytes.len() <= IN_MEMORY {
                memory.extend_from_slice(bytes);
                return Ok(());
            }
            let file = nameless(directory)?;
            file.write_all_at(memory, 0)?;
            *self = Store::File(file);
        }
        match self {
            Store::File(file) => file.write_all_at(bytes, offset),
            Store::Memory(_) => Ok(()),
        }
    }

    /// Reads up to `length` bytes from `offset`.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        match self {
            Store::Memory(memory) => {
                let from = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(memory.len());
                let to = from.saturating_add(length).min(memory.len());
                Ok(memory.get(from..to).unwrap_or_default().to_vec())
            }
            Store::File(file) => {
                let mut bytes = vec![0; length];
                let mut filled = 0;
                while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                    match file.read_at(rest, offset + filled as u64)? {
                        0 => break,
                        length => filled += length,
                    }
                }
                bytes.truncate(filled);
                Ok(bytes)
            }
        }
    }

    /// Gives the space of a range back. What is read there afterwards is zeros.
    pub(super) fn release(&mut self, from: u64, to: u64) {
        if let Store::File(file) = self
            && to > from
        {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // A file system without holes keeps the bytes; nobody reads them again.
            let _ = rustix::fs::fallocate(file, flags, from, to - from);
        }
    }
}

fn nameless(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(_) => rustix::fs::memfd_create(c"output", MemfdFlags::CLOEXEC)?,
    };
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_by_offset_on_both_sides_of_the_move_to_a_file() {
        let directory = std::env::temp_dir();
        let mut store = Store::new();
        let all: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let mut offset = 0;
        for piece in all.chunks(7_001) {
            store
                .append(offset, piece, &directory)
                .expect("there is space");
            offset += piece.len() as u64;
            let end = usize::try_from(offset).expect("small");
            assert_eq!(store.read(0, end).expect("readable"), &all[..end]);
        }
        assert!(matches!(store, Store::File(_)));
        assert_eq!(
            store.read(70_000, 10).expect("readable"),
            &all[70_000..70_010]
        );
        assert_eq!(store.read(199_995, 100).expect("readable"), &all[199_995..]);
        assert_eq!(store.read(500_000, 100).expect("readable"), b"");
    }

    #[test]
    fn a_directory_that_is_not_there_does_not_lose_output() {
        let mut store = Store::new();
        let piece = vec![7; IN_MEMORY + 1];
        store
            .append(0, &piece, Path::new("/nowhere/at/all"))
            .expect("memory takes its place");
        assert_eq!(store.read(0, piece.len()).expect("readable"), piece);
    }
}

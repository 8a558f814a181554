//! Reading a directory, as much at a time as the kernel gives.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use sandbox_core::file::EntryKind;

/// Bytes that are asked of the kernel at a time.
#[cfg(target_os = "linux")]
const BUFFER: usize = 32 << 10;

/// Some entries of one directory.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Each with its NUL.
    text: Vec<u8>,
    list: Vec<(u32, EntryKind)>,
}

impl Names {
    pub(super) fn push(&mut self, name: &CStr, kind: EntryKind) {
        // A part of a listing is far from 4 GiB long.
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.text.extend_from_slice(name.to_bytes_with_nul());
        self.list.push((start, kind));
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.list.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&CStr, EntryKind)> {
        self.list
            .iter()
            .filter_map(|&(start, kind)| Some((self.name_at(start)?, kind)))
    }

    /// Those from one index to before another.
    pub(super) fn part(&self, from: usize, to: usize) -> Self {
        let mut part = Self::default();
        for (name, kind) in self.iter().take(to).skip(from) {
            part.push(name, kind);
        }
        part
    }

    /// Takes the last one out.
    pub(super) fn pop(&mut self) -> Option<Box<CStr>> {
        let (start, _) = self.list.pop()?;
        let name = self.name_at(start).map(Box::from);
        self.text.truncate(start as usize);
        name
    }

    fn name_at(&self, start: u32) -> Option<&CStr> {
        CStr::from_bytes_until_nul(self.text.get(start as usize..)?).ok()
    }
}

/// Whether what was given is the end of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// More may come.
    More,
    /// That was the last.
    Last,
}

/// What a directory is read into.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Self {
        #[cfg(target_os = "linux")]
        return Self(Vec::with_capacity(BUFFER));
        #[cfg(not(target_os = "linux"))]
        Self(Vec::new())
    }
}

/// Reads a directory from where its descriptor stands and gives its entries part by part, the last one
/// named so. `f` says whether to go on.
pub(super) fn list(
    directory: BorrowedFd<'_>,
    buffer: &mut Buffer,
    names: &mut Names,
    mut f: impl FnMut(&Names, Part) -> bool,
) -> Result<(), Errno> {
    names.clear();
    #[cfg(target_os = "linux")]
    {
        let mut listing = rustix::fs::RawDir::new(directory, buffer.0.spare_capacity_mut());
        loop {
            let border = listing.is_buffer_empty();
            let Some(entry) = listing.next() else {
                break;
            };
            let entry = entry?;
            if border && names.len() > 0 {
                if !f(names, Part::More) {
                    return Ok(());
                }
                names.clear();
            }
            add(directory, entry.file_name(), entry.file_type(), names);
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = &buffer.0;
        for entry in rustix::fs::Dir::read_from(directory)? {
            let entry = entry?;
            if names.len() >= 1024 {
                if !f(names, Part::More) {
                    return Ok(());
                }
                names.clear();
            }
            add(directory, entry.file_name(), entry.file_type(), names);
        }
    }
    f(names, Part::Last);
    Ok(())
}

fn add(directory: BorrowedFd<'_>, name: &CStr, kind: FileType, names: &mut Names) {
    if matches!(name.to_bytes(), b"." | b"..") {
        return;
    }
    let kind = match kind {
        FileType::Unknown => match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            // It went away meanwhile.
            Err(_) => return,
        },
        kind => kind,
    };
    names.push(
        name,
        match kind {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Special,
        },
    );
}

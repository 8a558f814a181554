//! A whole tree copied as it is, on this machine: nothing is left out for being ignored.
//!
//! The content of a file is shared with the original where the file system can do that (`FICLONE`), so that a copy
//! takes no time and no room until one side writes; elsewhere it is copied by the kernel. Links keep their text, hard
//! links within the tree are hard links within the copy, and modes and times are kept; owners too where this process may
//! give files away. Set-id bits are not. Sockets and devices are left out, and counted.
//!
//! **Invariants.** No link is followed, on either side. What cannot be read fails the copy: whoever works on a copy is to
//! find what the original has. What changes meanwhile is copied as it is at some moment of its own.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, statat,
};
use rustix::io::Errno;

/// Deepest nesting of directories. Two descriptors are open for each.
const DEEPEST: usize = 256;
/// Bytes that are asked of the kernel at once, so that it can be stopped in between.
const CHUNK: usize = 64 << 20;
/// Bytes that are read and written at once where the kernel does not copy.
const BUFFER: usize = 256 << 10;

/// What was copied so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Entries of all kinds, the top not counted.
    pub entries: u64,
    /// Bytes of content, shared or copied.
    pub bytes: u64,
    /// Files whose content is shared with the original.
    pub shared: u64,
    /// Sockets and devices, which the copy has not.
    pub left_out: u64,
}

/// Why a tree was not copied. Some of the copy may be there.
#[derive(Debug, thiserror::Error)]
pub enum CopyFault {
    /// It was no longer wanted.
    #[error("it was stopped")]
    Stopped,
    /// The operating system said no.
    #[error("{}: {errno}", String::from_utf8_lossy(.path).escape_debug())]
    Os {
        /// Where, below the top.
        path: Vec<u8>,
        /// What it said.
        errno: Errno,
    },
    /// Directories are nested deeper than anybody means.
    #[error("directories are nested deeper than {DEEPEST}")]
    TooDeep,
}

/// Copies everything in one directory into another one, which is empty, and makes that one like the first.
///
/// - `from`, `to`: open for reading
/// - `go_on`: asked before each entry and each part of a large file
///
/// # Errors
///
/// See [`CopyFault`].
pub fn copy(
    from: &impl AsFd,
    to: &impl AsFd,
    mut go_on: impl FnMut(&Copied) -> bool,
) -> Result<Copied, CopyFault> {
    let mut copy = Copy {
        top: to.as_fd(),
        copied: Copied::default(),
        known: HashMap::new(),
        go_on: &mut go_on,
        path: Vec::new(),
        gives: rustix::process::geteuid().is_root(),
    };
    match copy.run(from.as_fd()) {
        Ok(()) => Ok(copy.copied),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Os(errno)) => Err(CopyFault::Os {
            path: copy.path,
            errno,
        }),
    }
}

enum Stop {
    Fault(CopyFault),
    Os(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Os(errno)
    }
}

struct Copy<'a> {
    top: BorrowedFd<'a>,
    copied: Copied,
    /// Where the first name of a file is that has several.
    known: HashMap<(u64, u64), Vec<u8>>,
    go_on: &'a mut dyn FnMut(&Copied) -> bool,
    /// The entry that is being copied, below the top.
    path: Vec<u8>,
    /// Whether owners are kept.
    gives: bool,
}

/// A directory that is gone through.
struct Level {
    from: OwnedFd,
    to: OwnedFd,
    stat: Stat,
    /// What is in it and was not copied yet.
    names: Vec<CString>,
    /// How long the path to it is.
    path: usize,
}

impl Level {
    fn new(from: OwnedFd, to: OwnedFd, path: usize) -> Result<Self, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&from)? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        Ok(Self {
            stat: rustix::fs::fstat(&from)?,
            from,
            to,
            names,
            path,
        })
    }
}

const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Copy<'_> {
    fn run(&mut self, from: BorrowedFd<'_>) -> Result<(), Stop> {
        let again = |dir: BorrowedFd<'_>| rustix::fs::openat(dir, ".", LIST, Mode::empty());
        let mut levels = vec![Level::new(again(from)?, again(self.top)?, 0)?];
        while let Some(level) = levels.last_mut() {
            self.path.truncate(level.path);
            let Some(name) = level.names.pop() else {
                let done = levels.pop();
                done.map_or(Ok(()), |done| self.finish(&done))?;
                continue;
            };
            if !(self.go_on)(&self.copied) {
                return Err(Stop::Fault(CopyFault::Stopped));
            }
            if level.path > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            let inner = match self.entry(level, &name) {
                // It is gone since the directory was read, or is another thing now.
                Err(Stop::Os(Errno::NOENT)) => None,
                inner => inner?,
            };
            if let Some(inner) = inner {
                if levels.len() == DEEPEST {
                    return Err(Stop::Fault(CopyFault::TooDeep));
                }
                levels.push(inner);
            }
        }
        Ok(())
    }

    /// Copies one entry; a directory is returned, to be gone through.
    fn entry(&mut self, level: &Level, name: &CStr) -> Result<Option<Level>, Stop> {
        let stat = statat(&level.from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let from = rustix::fs::openat(&level.from, name, LIST, Mode::empty())?;
                rustix::fs::mkdirat(&level.to, name, Mode::RWXU)?;
                let to = rustix::fs::openat(&level.to, name, LIST, Mode::empty())?;
                self.copied.entries += 1;
                return Ok(Some(Level::new(from, to, self.path.len())?));
            }
            FileType::RegularFile => {
                if self.is_linked(level, name, &stat)? {
                    return Ok(None);
                }
                self.file(level, name)?;
            }
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(&level.from, name, Vec::new())?;
                rustix::fs::symlinkat(&text, &level.to, name)?;
                self.give(level, name, &stat)?;
            }
            FileType::Fifo => {
                let kind = FileType::Fifo;
                rustix::fs::mknodat(&level.to, name, kind, Mode::RUSR | Mode::WUSR, 0)?;
                self.give(level, name, &stat)?;
                rustix::fs::chmodat(&level.to, name, mode(&stat), AtFlags::empty())?;
            }
            _ => {
                self.copied.left_out += 1;
                return Ok(None);
            }
        }
        times(level.to.as_fd(), name, &stat)?;
        self.copied.entries += 1;
        Ok(None)
    }

    /// Gives a file another name if it is in the copy already.
    fn is_linked(&mut self, level: &Level, name: &CStr, stat: &Stat) -> Result<bool, Stop> {
        if stat.st_nlink < 2 {
            return Ok(false);
        }
        let Some(first) = self.known.get(&(stat.st_dev, stat.st_ino)) else {
            let path = self.path.clone();
            self.known.insert((stat.st_dev, stat.st_ino), path);
            return Ok(false);
        };
        match rustix::fs::linkat(self.top, &**first, &level.to, name, AtFlags::empty()) {
            Ok(()) => {
                self.copied.entries += 1;
                Ok(true)
            }
            // It has as many names as it may, or a path that is too long to be named.
            Err(Errno::MLINK | Errno::NAMETOOLONG | Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn file(&mut self, level: &Level, name: &CStr) -> Result<(), Stop> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let from = match rustix::fs::openat(&level.from, name, flags, Mode::empty()) {
            // It became a link, or something that cannot be opened.
            Err(Errno::LOOP | Errno::NXIO) => return Err(Errno::NOENT.into()),
            from => from?,
        };
        let stat = rustix::fs::fstat(&from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::NOENT.into());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = rustix::fs::openat(&level.to, name, flags, Mode::RUSR | Mode::WUSR)?;
        if rustix::fs::ioctl_ficlone(&to, &from).is_ok() {
            self.copied.shared += 1;
            self.copied.bytes += stat.st_size.cast_unsigned();
        } else {
            self.content(&from, &to)?;
        }
        if self.gives {
            rustix::fs::fchown(
                &to,
                Some(Uid::from_raw(stat.st_uid)),
                Some(Gid::from_raw(stat.st_gid)),
            )?;
        }
        rustix::fs::fchmod(&to, mode(&stat))?;
        Ok(())
    }

    fn content(&mut self, from: &OwnedFd, to: &OwnedFd) -> Result<(), Stop> {
        let mut buffer = None;
        loop {
            let count = match &mut buffer {
                None => match rustix::fs::copy_file_range(from, None, to, None, CHUNK) {
                    // Not between these two, or not by this kernel.
                    Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                        buffer = Some(vec![0; BUFFER]);
                        continue;
                    }
                    count => count?,
                },
                Some(buffer) => {
                    let count = rustix::io::read(from, &mut *buffer)?;
                    let mut rest = buffer.get(..count).unwrap_or_default();
                    while !rest.is_empty() {
                        let written = rustix::io::write(to, rest)?;
                        rest = rest.get(written..).unwrap_or_default();
                    }
                    count
                }
            };
            if count == 0 {
                return Ok(());
            }
            self.copied.bytes += count as u64;
            if !(self.go_on)(&self.copied) {
                return Err(Stop::Fault(CopyFault::Stopped));
            }
        }
    }

    fn give(&self, level: &Level, name: &CStr, stat: &Stat) -> Result<(), Errno> {
        if !self.gives {
            return Ok(());
        }
        rustix::fs::chownat(
            &level.to,
            name,
            Some(Uid::from_raw(stat.st_uid)),
            Some(Gid::from_raw(stat.st_gid)),
            AtFlags::SYMLINK_NOFOLLOW,
        )
    }

    /// Makes a directory like its original, after everything is in it.
    fn finish(&self, level: &Level) -> Result<(), Stop> {
        self.give(level, c".", &level.stat)?;
        rustix::fs::fchmod(&level.to, mode(&level.stat))?;
        rustix::fs::futimens(&level.to, &timestamps(&level.stat))?;
        Ok(())
    }
}

/// Permission bits, without those that let others act as the owner.
fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o1777)
}

fn times(dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<(), Errno> {
    rustix::fs::utimensat(dir, name, &timestamps(stat), AtFlags::SYMLINK_NOFOLLOW)
}

fn timestamps(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.cast_signed(),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

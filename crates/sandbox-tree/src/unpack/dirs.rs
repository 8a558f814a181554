//! Directories beneath a handle, one level at a time and never through a link.
//!
//! Entries come in path order mostly, so the directories on the way to the last one are kept open:
//! the next one is then a name in a directory that is there already.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use sandbox_core::SandboxPath;

const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory and those in it that were entered last.
#[derive(Debug)]
pub(crate) struct Dirs {
    root: OwnedFd,
    /// From the outside in.
    stack: Vec<(Box<[u8]>, OwnedFd)>,
}

/// What is done where a directory on the way is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// `ENOENT`.
    Fail,
    /// It is made, with these permission bits less the umask.
    Make(u32),
}

impl Dirs {
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self {
            root,
            stack: Vec::new(),
        }
    }

    /// The directory that `path` lies in, and its name there.
    ///
    /// `ENOTDIR` or `ELOOP` if something else than a directory is on the way.
    pub(crate) fn parent<'a>(
        &'a mut self,
        path: &'a SandboxPath,
        missing: Missing,
    ) -> Result<(BorrowedFd<'a>, &'a OsStr), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let bytes = path.as_bytes();
        let parent = &bytes[..bytes.len() - name.len()];
        self.enter(parent, missing)?;
        let dir = self
            .stack
            .last()
            .map_or_else(|| self.root.as_fd(), |(_, dir)| dir.as_fd());
        Ok((dir, OsStr::from_bytes(name)))
    }

    /// Forgets what is kept open: names may lead elsewhere now.
    pub(crate) fn forget(&mut self) {
        self.stack.clear();
    }

    fn enter(&mut self, parent: &[u8], missing: Missing) -> Result<(), Errno> {
        let mut names = parent
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
            .peekable();
        let mut same = 0;
        while let (Some(name), Some((kept, _))) = (names.peek(), self.stack.get(same)) {
            if **name != **kept {
                break;
            }
            names.next();
            same += 1;
        }
        self.stack.truncate(same);
        for name in names {
            let above = self
                .stack
                .last()
                .map_or_else(|| self.root.as_fd(), |(_, dir)| dir.as_fd());
            let dir = open(above, OsStr::from_bytes(name), missing)?;
            self.stack.push((name.into(), dir));
        }
        Ok(())
    }
}

/// Opens a directory for listing.
pub(crate) fn open_dir(above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(above, name, OPEN, Mode::empty())
}

fn open(above: BorrowedFd<'_>, name: &OsStr, missing: Missing) -> Result<OwnedFd, Errno> {
    match (open_dir(above, name), missing) {
        (Err(Errno::NOENT), Missing::Make(mode)) => {
            match rustix::fs::mkdirat(above, name, mode_bits(mode)) {
                Ok(()) | Err(Errno::EXIST) => open_dir(above, name),
                Err(errno) => Err(errno),
            }
        }
        (opened, _) => opened,
    }
}

/// Permission bits as the system's own type.
pub(crate) fn mode_bits(mode: u32) -> Mode {
    // On some systems the type is too short for numbers that are no permission bits either.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_truncation,
        reason = "the types differ between systems"
    )]
    Mode::from_bits_truncate(mode as rustix::fs::RawMode)
}

/// Permission bits, without set-id and sticky ones.
pub(crate) fn mode_of(stat: &Stat) -> u32 {
    #[expect(
        clippy::useless_conversion,
        reason = "the types differ between systems"
    )]
    let mode: u32 = stat.st_mode.into();
    mode & 0o777
}

//! Removing a tree that nobody uses any more, whatever it is like.
//!
//! What made it may have nested directories deeper than a process may have files open, or than its stack is deep, and may
//! have taken the right to write into them away. So nothing recurses: a directory that is not empty gives its
//! directories to the outermost one, and what is left of it is removed.
//!
//! **Invariant:** no link is followed, and nothing outside of the tree is touched. Nobody else may change the tree meanwhile.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

/// Removes what has this name in a directory, with everything in it. Nothing is an error that was gone already.
///
/// # Errors
///
/// The operating system's; some of the tree may be removed.
pub fn clear(above: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    let above = above.as_fd();
    let name = name.into_c_str()?;
    match rustix::fs::unlinkat(above, &*name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // POSIX has the second number for a directory, Linux the first.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let top = match enter(above, &name) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let mut moved = 0_u64;
    loop {
        let inside = directories_in(top.as_fd())?;
        if inside.is_empty() {
            break;
        }
        for name in inside {
            if rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR).is_ok() {
                continue;
            }
            flatten(top.as_fd(), &name, &mut moved)?;
        }
    }
    rustix::fs::unlinkat(above, &*name, AtFlags::REMOVEDIR)
}

/// Removes a directory of the outermost one, which gets the directories in it.
fn flatten(top: BorrowedFd<'_>, name: &CStr, moved: &mut u64) -> Result<(), Errno> {
    let directory = enter(top, name)?;
    for inner in directories_in(directory.as_fd())? {
        // To change what is above a directory is to write to it.
        permit(directory.as_fd(), &inner)?;
        loop {
            *moved += 1;
            let free = format!(".spp-cleared-{moved:x}");
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&directory, &inner, top, &free, flags) {
                Err(Errno::EXIST) => {}
                done => break done?,
            }
        }
    }
    rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR)
}

/// Removes everything in a directory but directories, which it returns.
fn directories_in(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut inside = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // Not every file system says what an entry is.
                Err(Errno::ISDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        inside.push(name.to_owned());
    }
    Ok(inside)
}

/// Opens a directory, which its owner may then do everything to.
fn enter(above: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    permit(above, name)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty())
}

fn permit(above: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let stat = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory
        || Mode::from_raw_mode(stat.st_mode).contains(Mode::RWXU)
    {
        return Ok(());
    }
    rustix::fs::chmodat(above, name, Mode::RWXU, AtFlags::empty())
}

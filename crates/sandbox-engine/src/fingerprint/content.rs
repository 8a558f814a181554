//! Reading what files hold, many at a time.
//!
//! A file is opened beneath the handle of the tree's root, directory by directory and through no
//! link, never waits and is never mapped: one that is cut short while it is read is only shorter.
//! What was a regular file when it was listed may be anything by now, so it is looked at once more
//! when it is open, and again when it was read.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sandbox_core::{Ctx, Digest};

use super::manifest::Identity;
use crate::file::call::interrupted;
use crate::root::{check_access, is_kernel_files};

/// Bytes read at a time.
const PIECE: usize = 128 * 1024;
/// Files that a thread takes at a time; neighbours, so that their directory stays open.
const SHARE: usize = 32;
/// How often a file is read that changes meanwhile.
const ATTEMPTS: u32 = 3;
/// Most threads.
const MAX_THREADS: usize = 8;

/// As a place that is a directory.
const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// For reading, without waiting and without becoming a terminal's owner.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// What reading a file came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It holds this, and was this when it was read.
    Content(Digest, Identity),
    /// It changed each time it was read, or is no regular file any more.
    Moving,
    /// It is not there any more.
    Gone,
    /// It is there and cannot be read.
    Unreadable,
    /// The work had to end before.
    Stopped,
}

/// Opens what lies beneath a root, keeping the directory that was used last.
#[derive(Debug)]
pub(super) struct Opener<'a> {
    root: BorrowedFd<'a>,
    device: u64,
    directory: Vec<u8>,
    open: Option<OwnedFd>,
}

impl<'a> Opener<'a> {
    /// - `device`: that of the root, which was seen to be no kernel's file system
    pub(super) fn new(root: BorrowedFd<'a>, device: u64) -> Self {
        Self {
            root,
            device,
            directory: Vec::new(),
            open: None,
        }
    }

    /// The same for a root that was seen to be no kernel's file system.
    pub(super) fn of(root: &'a OwnedFd) -> Result<Self, Errno> {
        Ok(Self::new(root.as_fd(), rustix::fs::fstat(root)?.st_dev))
    }

    /// Whether something is at a path.
    pub(super) fn is_there(&mut self, path: &[u8]) -> bool {
        let Ok((directory, name)) = self.parent(path) else {
            return false;
        };
        rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether a directory is there that may not be listed or entered.
    pub(super) fn is_closed(&mut self, path: &[u8]) -> bool {
        let Ok((directory, name)) = self.parent(path) else {
            return true;
        };
        let access = Access::READ_OK | Access::EXEC_OK;
        check_access(directory, name, access).is_err()
    }

    fn file(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        // A directory that became a link is gone, and so is what was in it.
        let parent = self.parent(path);
        let (directory, name) = parent.map_err(|errno| match errno {
            Errno::LOOP => Errno::NOENT,
            errno => errno,
        })?;
        rustix::fs::openat(directory, name, READ, Mode::empty())
    }

    fn parent<'p>(&mut self, path: &'p [u8]) -> Result<(BorrowedFd<'_>, &'p OsStr), Errno> {
        let (directory, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        if directory.is_empty() {
            return Ok((self.root, OsStr::from_bytes(name)));
        }
        if self.open.is_none() || self.directory != directory {
            self.open = None;
            self.open = Some(descend(self.root, directory)?);
            self.directory.clear();
            self.directory.extend_from_slice(directory);
        }
        let open = self.open.as_ref().map_or(self.root, AsFd::as_fd);
        Ok((open, OsStr::from_bytes(name)))
    }
}

/// Opens a directory through no link, by the kernel if it can and by hand otherwise.
fn descend(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(
        root,
        OsStr::from_bytes(path),
        DIRECTORY,
        Mode::empty(),
        resolve,
    ) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::NAMETOOLONG) => {}
        result => return result,
    }
    let mut open: Option<OwnedFd> = None;
    for name in path.split(|&byte| byte == b'/') {
        let at = open.as_ref().map_or(root, AsFd::as_fd);
        open = Some(rustix::fs::openat(
            at,
            OsStr::from_bytes(name),
            DIRECTORY,
            Mode::empty(),
        )?);
    }
    open.ok_or(Errno::NOENT)
}

/// Reads many files on many threads, and says of each what came of it, in order.
///
/// - `path`: those of the files, ascending
pub(super) fn read_all<'p>(
    root: BorrowedFd<'_>,
    device: u64,
    count: usize,
    path: impl Fn(usize) -> &'p [u8] + Sync,
    ctx: &Ctx,
) -> Vec<Read> {
    let shares = count.div_ceil(SHARE);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(shares));
    let work = || {
        let mut opener = Opener::new(root, device);
        let mut buffer = vec![0; PIECE];
        loop {
            let share = next.fetch_add(1, Ordering::Relaxed);
            if share >= shares {
                return;
            }
            let first = share * SHARE;
            let read: Vec<_> = (first..count.min(first + SHARE))
                .map(|at| read(&mut opener, path(at), &mut buffer, ctx))
                .collect();
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((share, read));
        }
    };
    together(shares, work);
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(share, _)| *share);
    done.into_iter().flat_map(|(_, read)| read).collect()
}

/// Does `work`, which takes parts until none is left, on this thread and on as many others as there
/// are processors, but no more than there are `parts`.
pub(super) fn together(parts: usize, work: impl Fn() + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..threads.min(MAX_THREADS).min(parts) {
            // Where no thread can be had, the others do its part.
            let _ = std::thread::Builder::new().spawn_scoped(scope, &work);
        }
        work();
    });
}

fn read(opener: &mut Opener<'_>, path: &[u8], buffer: &mut [u8], ctx: &Ctx) -> Read {
    for _ in 0..ATTEMPTS {
        if interrupted(ctx).is_some() {
            return Read::Stopped;
        }
        let file = match opener.file(path) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Read::Gone,
            Err(Errno::LOOP) => return Read::Moving,
            Err(_) => return Read::Unreadable,
        };
        match read_open(&file, opener.device, buffer, ctx) {
            Ok(Some(read)) => return read,
            Ok(None) => {}
            Err(_) => return Read::Unreadable,
        }
    }
    Read::Moving
}

/// `None` if it changed meanwhile.
fn read_open(
    file: &OwnedFd,
    device: u64,
    buffer: &mut [u8],
    ctx: &Ctx,
) -> Result<Option<Read>, Errno> {
    let before = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Ok(Some(Read::Moving));
    }
    if before.st_dev != device && is_kernel_files(file.as_fd())? {
        return Ok(Some(Read::Unreadable));
    }
    let identity = Identity::of(&before);
    // Not to its end: one that grows as fast as it is read would have none.
    let mut left = identity.size;
    let mut hasher: Option<blake3::Hasher> = None;
    let digest = loop {
        let wanted = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = fill(file, &mut buffer[..wanted])?;
        left -= read as u64;
        let ended = left == 0 || read < wanted;
        match &mut hasher {
            // Small files are most of a tree.
            None if ended => break blake3::hash(&buffer[..read]),
            hasher => {
                hasher
                    .get_or_insert_with(blake3::Hasher::new)
                    .update(&buffer[..read]);
            }
        }
        if let (true, Some(hasher)) = (ended, &hasher) {
            break hasher.finalize();
        }
        if interrupted(ctx).is_some() {
            return Ok(Some(Read::Stopped));
        }
    };
    let after = rustix::fs::fstat(file)?;
    let digest = Digest::from_bytes(*digest.as_bytes());
    Ok((Identity::of(&after) == identity).then_some(Read::Content(digest, identity)))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn look(directory: &Path, paths: &[&str]) -> Vec<Read> {
        let root = rustix::fs::open(directory, DIRECTORY, Mode::empty()).expect("a directory");
        let device = rustix::fs::fstat(&root).expect("open").st_dev;
        let path = |at: usize| paths[at].as_bytes();
        read_all(root.as_fd(), device, paths.len(), path, &Ctx::new())
    }

    fn digest(read: &Read) -> Option<Digest> {
        match read {
            Read::Content(digest, _) => Some(*digest),
            _ => None,
        }
    }

    fn hash(bytes: &[u8]) -> Option<Digest> {
        Some(Digest::from_bytes(*blake3::hash(bytes).as_bytes()))
    }

    #[test]
    fn each_file_is_read_whole_whatever_its_size() {
        let directory = tempfile::tempdir().expect("a directory");
        let sizes = [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5];
        let mut contents = Vec::new();
        let mut names = Vec::new();
        for (number, size) in sizes.into_iter().cycle().take(200).enumerate() {
            let content = vec![u8::try_from(number).expect("few"); size];
            let name = format!("{}/{number:03}", number % 7);
            let path = directory.path().join(&name);
            std::fs::create_dir_all(path.parent().expect("one")).expect("a directory");
            std::fs::write(path, &content).expect("a file");
            contents.push(hash(&content));
            names.push(name);
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let read: Vec<_> = look(directory.path(), &names).iter().map(digest).collect();
        assert_eq!(read, contents);
    }

    /// What a guest can put in place of a file between the listing and the reading.
    #[test]
    fn what_took_the_place_of_a_file_is_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("real"), "outside").expect("a file");
        symlink("real", at("link")).expect("a link");
        std::fs::create_dir(at("directory")).expect("a directory");
        symlink("directory", at("door")).expect("a link");
        std::fs::write(at("directory/file"), "x").expect("a file");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RWXU).expect("a FIFO");
        let swapped = ["link", "directory", "fifo"];
        assert_eq!(look(directory.path(), &swapped), [Read::Moving; 3]);
        let gone = ["door/file", "missing", "missing/x", "real/x"];
        assert_eq!(look(directory.path(), &gone), [Read::Gone; 4]);
    }

    #[test]
    fn the_kernels_own_files_are_not_read() {
        // `/proc` lies on another device than `/`, which is the root here.
        let read = look(Path::new("/"), &["proc/version"]);
        assert_eq!(read, [Read::Unreadable]);
    }

    #[test]
    fn work_that_is_to_stop_stops() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("file"), "x").expect("a file");
        let root = rustix::fs::open(directory.path(), DIRECTORY, Mode::empty()).expect("one");
        let ctx = Ctx::new();
        ctx.cancel().cancel();
        let read = read_all(root.as_fd(), 0, 1, |_| b"file", &ctx);
        assert_eq!(read, [Read::Stopped]);
    }
}

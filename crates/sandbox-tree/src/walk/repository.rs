//! Files of patterns: those in the tree, those of a repository, those of the user.
//!
//! A file counts if it is a regular one; a link is not followed, as git does not. `.git` may be a file
//! that names the repository's directory, as it is in a linked worktree and in a submodule. That name, and the
//! user's own excludes, are the only paths from `/` that a walk opens, and nothing but patterns is
//! read there: a tree that names a foreign directory learns at most which of its own names are ignored.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::pattern::Patterns;

/// Largest file of patterns, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Largest `.git` file, in bytes: a path and a word.
const MAX_POINTER: u64 = 8 << 10;
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// The `.gitignore` of a directory; `None` if it has none.
pub(super) fn gitignore(directory: BorrowedFd<'_>) -> Result<Option<Arc<Patterns>>, Errno> {
    patterns(directory, ".gitignore")
}

/// The excludes of the repository whose top is `directory`.
pub(super) fn exclude(directory: BorrowedFd<'_>) -> Result<Option<Arc<Patterns>>, Errno> {
    let git = rustix::fs::openat(
        directory,
        ".git",
        DIRECTORY | OFlags::NOFOLLOW,
        Mode::empty(),
    );
    let git = match git {
        Ok(git) => git,
        Err(Errno::NOTDIR) => match linked(directory)? {
            Some(git) => git,
            None => return Ok(None),
        },
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    match rustix::fs::openat(&git, "info", DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(info) => patterns(info.as_fd(), "exclude"),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether `directory` is the top of a repository.
pub(super) fn is_top(directory: BorrowedFd<'_>) -> bool {
    rustix::fs::statat(directory, ".git", rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// The user's global excludes.
pub(super) fn global() -> Result<Option<Arc<Patterns>>, Errno> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let settings = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(home.as_ref()?.join(".config")))
        .map(|path| path.join("git"));
    let mut excludes = settings.as_ref().map(|path| path.join("ignore"));
    let places = [
        Some(PathBuf::from("/etc/gitconfig")),
        settings.map(|path| path.join("config")),
        home.as_ref().map(|path| path.join(".gitconfig")),
    ];
    for place in places.into_iter().flatten() {
        let content = content(
            rustix::fs::CWD,
            place.as_os_str(),
            MAX_BYTES,
            OFlags::empty(),
        );
        if let Some(value) = content?.as_deref().and_then(excludes_file) {
            excludes = match (value.strip_prefix(b"~/"), &home) {
                (Some(rest), Some(home)) => Some(home.join(OsStr::from_bytes(rest))),
                _ => Some(PathBuf::from(std::ffi::OsString::from_vec(value))),
            };
        }
    }
    let Some(path) = excludes.filter(|path| path.is_absolute()) else {
        return Ok(None);
    };
    let content = content(
        rustix::fs::CWD,
        path.as_os_str(),
        MAX_BYTES,
        OFlags::empty(),
    )?;
    Ok(content.map(|content| Arc::new(Patterns::parse(&content))))
}

/// The directory that a `.git` file leads to: the one that all worktrees share.
fn linked(directory: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    let Some(pointer) = content(directory, OsStr::new(".git"), MAX_POINTER, OFlags::NOFOLLOW)?
    else {
        return Ok(None);
    };
    let Some(path) = pointer.strip_prefix(b"gitdir:") else {
        return Ok(None);
    };
    let own = match rustix::fs::openat(directory, path_of(path), DIRECTORY, Mode::empty()) {
        Ok(own) => own,
        // The repository is not here, such as in a sandbox that was given the worktree alone.
        Err(_) => return Ok(None),
    };
    match content(
        own.as_fd(),
        OsStr::new("commondir"),
        MAX_POINTER,
        OFlags::NOFOLLOW,
    )? {
        Some(common) => {
            Ok(rustix::fs::openat(&own, path_of(&common), DIRECTORY, Mode::empty()).ok())
        }
        None => Ok(Some(own)),
    }
}

fn path_of(line: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(line.trim_ascii()))
}

fn patterns(directory: BorrowedFd<'_>, name: &str) -> Result<Option<Arc<Patterns>>, Errno> {
    let content = content(directory, OsStr::new(name), MAX_BYTES, OFlags::NOFOLLOW)?;
    Ok(content.map(|content| Arc::new(Patterns::parse(&content))))
}

/// The content of a regular file; `None` if there is none.
fn content(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    most: u64,
    links: OFlags,
) -> Result<Option<Vec<u8>>, Errno> {
    let flags = READ.difference(OFlags::NOFOLLOW) | links;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut content = Vec::new();
    std::fs::File::from(file)
        .take(most + 1)
        .read_to_end(&mut content)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if content.len() as u64 > most {
        return Err(Errno::FBIG);
    }
    Ok(Some(content))
}

/// The value of `core.excludesFile`, from the text of a configuration of git.
fn excludes_file(config: &[u8]) -> Option<Vec<u8>> {
    let mut core = false;
    let mut found = None;
    for line in config.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.first() == Some(&b'[') {
            core = line.eq_ignore_ascii_case(b"[core]");
        } else if core && let Some(equals) = memchr::memchr(b'=', line) {
            let (key, value) = (line[..equals].trim_ascii(), line[equals + 1..].trim_ascii());
            if key.eq_ignore_ascii_case(b"excludesfile") {
                let value = value
                    .strip_prefix(b"\"")
                    .and_then(|value| value.strip_suffix(b"\""))
                    .unwrap_or(value);
                found = Some(value.to_vec());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_excludes_file_of_the_core_section_counts() {
        let config = b"[user]\n excludesFile = no\n[core]\n\tExcludesFile = \"~/a b\"\n[core]\nexcludesfile=/c\n[x]";
        assert_eq!(excludes_file(config).as_deref(), Some(&b"/c"[..]));
        assert_eq!(excludes_file(b"[core]\n pager = x\n"), None);
    }
}

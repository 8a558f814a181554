//! Directories that live as long as somebody holds them.
//!
//! Who makes one under a name that nobody else has, and holds it, need not be there to remove it: a lock ends with its
//! process, so one that nobody holds was left behind, and whoever comes next may remove it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FlockOperation;

/// Holds a directory, if it is still the one of this name and nobody else holds it. Dropping the handle gives it up.
///
/// # Errors
///
/// `WouldBlock` if somebody holds it, `NotFound` if it is gone, or what the system says.
pub fn hold(directory: &Path) -> io::Result<File> {
    let handle = File::open(directory)?;
    rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive)?;
    // Whoever held it before may have removed it, and may have made another one.
    let (held, named) = (handle.metadata()?, std::fs::symlink_metadata(directory)?);
    if (held.dev(), held.ino()) == (named.dev(), named.ino()) {
        Ok(handle)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

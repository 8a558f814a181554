//! Directories of this machine that say in their names who made them, so that what a killed provider has left is found.
//!
//! They are where temporary files go, and what is in them is shown to the daemon: their paths can be arguments.
//!
//! Not here: what is in one, and how it is taken away.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::owner;

/// A path that nothing has yet, for a directory of this process.
///
/// - `prefix`: what it is for, and ends in a dash
///
/// # Errors
///
/// `InvalidFilename` if it could not be an argument; there are no random numbers.
pub(crate) fn path(prefix: &str) -> io::Result<PathBuf> {
    let own = owner::own().unwrap_or_default().replace('/', ".");
    let drawn = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let path = std::env::temp_dir().join(format!("{prefix}{own}-{drawn:016x}"));
    match path.is_absolute() && is_plain(&path) {
        true => Ok(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            "its path cannot be an argument",
        )),
    }
}

/// Whether a path can be part of an argument that is a list with commas, and from there of JSON.
pub(crate) fn is_plain(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|text| !text.contains([',', '"', '\n']))
}

/// The directories of this user whose maker is known to be gone.
///
/// - `prefix`: what they are for
pub(crate) fn left(beneath: &Path, prefix: &str) -> impl Iterator<Item = PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(beneath).into_iter().flatten().flatten();
    entries
        .filter(move |entry| {
            let name = entry.file_name();
            let maker = name
                .to_str()
                .and_then(|name| name.strip_prefix(prefix)?.rsplit_once('-'));
            let is_own = entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && found.uid() == own);
            is_own && maker.is_some_and(|(maker, _)| owner::is_gone(&maker.replace('.', "/")))
        })
        .map(|entry| entry.path())
}

//! A program of this machine, found where nobody can have put another one because of where this process stands.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Finds a program by its absolute path or in `path`, in directories that mean the same wherever one stands: a guest may
/// write where this process stands.
///
/// - `path`: directories as in the variable `PATH`
///
/// # Errors
///
/// There is none (`NotFound`).
pub fn find_program(program: &str, path: Option<&OsStr>) -> io::Result<PathBuf> {
    if program.contains('/') {
        let program = PathBuf::from(program);
        return match program.is_absolute() {
            true => Ok(program),
            false => Err(io::ErrorKind::NotFound.into()),
        };
    }
    let directories = path.map(std::env::split_paths).into_iter().flatten();
    directories
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| {
            std::fs::metadata(candidate)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_is_found_where_this_process_stands() {
        let found = |program: &str, path: &str| find_program(program, Some(path.as_ref())).ok();
        assert_eq!(found("sh", ".:bin::/bin"), Some("/bin/sh".into()));
        assert_eq!(found("sh", ".:"), None);
        assert_eq!(found("./sh", "/bin"), None);
        assert_eq!(found("sub/sh", "/bin"), None);
        assert_eq!(found("/opt/podman", ""), Some("/opt/podman".into()));
    }
}

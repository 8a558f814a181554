//! Directories of this machine that a place may be shown.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sandbox_core::{Error, ErrorKind, Result, Verb};

/// What belongs to the machine and to places themselves: the kernel's own files, and the engine's.
pub const MACHINES: [&str; 4] = ["/proc", "/sys", "/dev", "/run/spp"];

/// Whether a real path of this machine is one that no place is shown.
#[must_use]
pub fn is_machines(real: &Path) -> bool {
    real == Path::new("/") || MACHINES.iter().any(|taken| real.starts_with(taken))
}

/// The workspace's real path, whatever it was named by: who names it stands in it.
///
/// # Errors
///
/// `NotFound`, `NotADirectory`, `PermissionDenied`, `Io`; `InvalidArgument` if it is the machine's.
pub fn workspace(named: &str) -> Result<PathBuf> {
    let refused = |kind| Error::refused(Verb::Acquire, kind).on(named);
    let of_errno = |errno| match errno {
        Errno::NOENT => refused(ErrorKind::NotFound),
        Errno::NOTDIR => refused(ErrorKind::NotADirectory),
        Errno::ACCESS | Errno::PERM => refused(ErrorKind::PermissionDenied),
        errno => refused(ErrorKind::Io).caused_by(std::io::Error::from(errno)),
    };
    let real = std::fs::canonicalize(named)
        .map_err(|error| of_errno(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(&real, flags, Mode::empty()).map_err(of_errno)?;
    if is_machines(&real) {
        return Err(refused(ErrorKind::InvalidArgument).detail(
            "it holds what a sandbox must not have; name the directory that is to be worked on",
        ));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use sandbox_core::Effect;

    use super::*;

    #[test]
    fn a_workspace_is_a_directory_and_not_the_machines_by_any_name() {
        for (named, kind) in [
            ("/nothing/is/here", ErrorKind::NotFound),
            ("/etc/passwd", ErrorKind::NotADirectory),
            ("/", ErrorKind::InvalidArgument),
            ("/usr/..", ErrorKind::InvalidArgument),
            ("//", ErrorKind::InvalidArgument),
            ("/proc/self", ErrorKind::InvalidArgument),
            ("/usr/../sys/kernel", ErrorKind::InvalidArgument),
        ] {
            let error = workspace(named).expect_err(named);
            assert_eq!(
                (error.kind(), error.effect()),
                (kind, Effect::None),
                "{error}"
            );
        }
        assert_eq!(
            workspace("/usr/bin/..").expect("it is there"),
            Path::new("/usr")
        );
    }
}

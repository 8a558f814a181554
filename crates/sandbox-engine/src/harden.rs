//! What an executable does before anything else, so that neither what it starts nor what it inherited can
//! turn on it.

#![expect(
    unsafe_code,
    reason = "closing descriptors that nobody here opened, and ignoring a signal"
)]

use std::io;
use std::os::fd::RawFd;

use rustix::process::DumpableBehavior;

/// Makes this process one that others of the same user cannot look into, and gives up every descriptor
/// it inherited beyond standard input, output and error, but for those that are named.
///
/// A process that is not dumpable cannot be traced, and its memory, descriptors and environment under
/// `/proc` are closed to what runs in the sandbox under the same user. An inherited descriptor would
/// keep a pipe of somebody else's open, or show what no root holds.
///
/// A file that would grow beyond an inherited limit on file sizes is a failed write from here on, and not
/// the signal that ends the process. What is started has the signal's default back.
///
/// - `kept`: descriptors that whoever started this process means for it
///
/// # Errors
///
/// What the system says.
///
/// # Safety
///
/// Nothing in this process may own a descriptor above 2 yet: call it first in `main`.
pub unsafe fn harden(kept: impl IntoIterator<Item = RawFd>) -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // SAFETY: no handler is installed: the signal is ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mut kept: Vec<_> = kept
        .into_iter()
        .filter_map(|fd| u32::try_from(fd).ok())
        .collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        // SAFETY: as below.
        unsafe { close(first, fd.saturating_sub(1)) }?;
        first = first.max(fd.saturating_add(1));
    }
    // SAFETY: the caller promises that no descriptor above 2 belongs to anybody here.
    unsafe { close(first, u32::MAX) }
}

/// Closes descriptors from one to another; none if the first is beyond the last.
///
/// # Safety
///
/// None of them may belong to anybody in this process.
unsafe fn close(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: the caller promises it; the call touches no memory.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) };
    match done {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Kernels before 5.9. What is started gets no descriptor of ours there either: each process
            // closes all but its own three.
            error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            error => Err(error),
        },
    }
}

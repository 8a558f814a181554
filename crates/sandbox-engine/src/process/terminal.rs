//! A terminal in place of three pipes.

use std::os::fd::{AsFd, OwnedFd};

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use sandbox_core::process::PtySize;

/// What ends the input of whoever reads a line from a terminal. Twice: the first one hands over a
/// line that was begun, the second one then stands at the start of a line, where it means the end.
pub(super) const END_OF_INPUT: &[u8] = b"\x04\x04";

/// Opens a terminal of this size: our side, and the side of the process.
pub(super) fn open(size: PtySize) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    // By the descriptor and not by its name, which another mount may have given to another.
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    resize(&ours, size)?;
    Ok((ours, theirs))
}

/// Changes the size; the foreground processes are told by SIGWINCH.
pub(super) fn resize(terminal: impl AsFd, size: PtySize) -> rustix::io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(terminal, size)
}

//! The caller's terminal: its size, raw mode, and giving it back as it was.

use rustix::fd::BorrowedFd;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use sandbox_core::process::PtySize;

use crate::failure::{Failure, Result};

/// The terminal in raw mode: every key goes through as it is. Dropping this restores it.
pub(crate) struct Raw {
    saved: Termios,
    raw: Termios,
}

impl Raw {
    /// Switches the terminal on standard input to raw mode.
    ///
    /// # Errors
    ///
    /// If standard input or standard output is no terminal, or the system refuses.
    pub(crate) fn enter() -> Result<Self> {
        if !isatty(input()) || !isatty(rustix::stdio::stdout()) {
            return Err(Failure::new(
                "`spp shell` needs a terminal on standard input and standard output; use `spp run` for commands in scripts and pipes",
            ));
        }
        let failed = |error: rustix::io::Errno| Failure::io("set up the terminal", error.into());
        let saved = tcgetattr(input()).map_err(failed)?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(input(), OptionalActions::Drain, &raw).map_err(failed)?;
        Ok(Self { saved, raw })
    }

    /// Switches to raw mode again. A shell that stopped this program and continued it has set the
    /// terminal up for itself meanwhile.
    pub(crate) fn again(&self) {
        // The terminal may be gone, which the reader of its keys notices.
        let _ = tcsetattr(input(), OptionalActions::Now, &self.raw);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Without waiting for the screen, which may stand still. The terminal may be gone, and then there
        // is nothing to restore.
        let _ = tcsetattr(input(), OptionalActions::Now, &self.saved);
    }
}

/// The terminal's size; 24 by 80 if it does not tell.
pub(crate) fn size() -> PtySize {
    match tcgetwinsize(input()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => PtySize {
            rows: size.ws_row,
            columns: size.ws_col,
        },
        _ => PtySize {
            rows: 24,
            columns: 80,
        },
    }
}

fn input() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

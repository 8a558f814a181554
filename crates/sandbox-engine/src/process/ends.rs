//! The descriptors of a process: three for it, and what of them stays with us.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use sandbox_core::process::PtySize;
use sandbox_core::{Error, ErrorKind, Result, Verb};
use tokio::net::unix::pipe;

use super::terminal;

/// What a process gets, and what of it stays with us.
pub(super) struct Ends {
    /// Its standard input; nothing to read if absent.
    pub(super) input_end: Option<OwnedFd>,
    /// Its standard output and error.
    pub(super) output_ends: [OwnedFd; 2],
    pub(super) outputs: Vec<pipe::Receiver>,
    pub(super) input: Option<pipe::Sender>,
    pub(super) terminal: Option<OwnedFd>,
}

impl Ends {
    /// Opens a terminal, or pipes and (`has_input`) one for the input.
    pub(super) fn open(
        verb: Verb,
        pty: Option<PtySize>,
        has_input: bool,
        spare: &Spare,
    ) -> Result<Self> {
        let opened = match pty {
            Some(size) => Ends::terminal(size),
            None => Ends::pipes(has_input, spare),
        };
        opened.map_err(|error| exhausted(verb, error))
    }

    /// The three streams of the process.
    pub(super) fn streams(&self, verb: Verb) -> Result<[BorrowedFd<'_>; 3]> {
        let input = match &self.input_end {
            Some(input) => input.as_fd(),
            None => nothing().map_err(|error| exhausted(verb, error))?,
        };
        let [output, errors] = &self.output_ends;
        Ok([input, output.as_fd(), errors.as_fd()])
    }

    fn pipes(has_input: bool, spare: &Spare) -> std::io::Result<Self> {
        let (input_end, input) = if has_input {
            let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            (Some(theirs), Some(pipe::Sender::from_owned_fd(ours)?))
        } else {
            (None, None)
        };
        let [(stdout, output), (stderr, errors)] = spare.take()?;
        Ok(Ends {
            input_end,
            output_ends: [output, errors],
            outputs: vec![stdout, stderr],
            input,
            terminal: None,
        })
    }

    fn terminal(size: PtySize) -> std::io::Result<Self> {
        let (ours, theirs) = terminal::open(size)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let output = pipe::Receiver::from_owned_fd_unchecked(ours.try_clone()?)?;
        let input = pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?;
        Ok(Ends {
            input_end: Some(theirs.try_clone()?),
            output_ends: [theirs.try_clone()?, theirs],
            outputs: vec![output],
            input: Some(input),
            terminal: Some(ours),
        })
    }
}

fn exhausted(verb: Verb, error: std::io::Error) -> Error {
    Error::refused(verb, ErrorKind::SpawnFailed)
        .detail("the system gives no more pipes or terminals")
        .caused_by(error)
}

/// Our end of an output pipe, and the process's.
type OutputPipe = (pipe::Receiver, OwnedFd);

/// A pair of output pipes laid ready, because making them takes longer than anything else that is
/// done between a request and its process.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Option<[OutputPipe; 2]>>);

impl Spare {
    fn take(&self) -> std::io::Result<[OutputPipe; 2]> {
        match self.ready().take() {
            Some(pipes) => Ok(pipes),
            None => Ok([output_pipe()?, output_pipe()?]),
        }
    }

    /// Lays a pair ready, if there is none. That none can be made now is said by whoever needs it.
    pub(super) fn refill(&self) {
        let mut ready = self.ready();
        if ready.is_none()
            && let (Ok(stdout), Ok(stderr)) = (output_pipe(), output_pipe())
        {
            *ready = Some([stdout, stderr]);
        }
    }

    fn ready(&self) -> MutexGuard<'_, Option<[OutputPipe; 2]>> {
        // Whole pipes are good whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pipe for output: our end, which does not block, and the process's, which does.
fn output_pipe() -> std::io::Result<OutputPipe> {
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    // What it is need not be asked of the kernel again.
    Ok((pipe::Receiver::from_owned_fd_unchecked(ours)?, theirs))
}

/// What a process reads that is given no input: one for all of them. Where there is no `/dev/null`,
/// a pipe that nobody writes to.
fn nothing() -> std::io::Result<BorrowedFd<'static>> {
    static NOTHING: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(nothing) = NOTHING.get() {
        return Ok(nothing.as_fd());
    }
    let opened = match rustix::fs::open(
        c"/dev/null",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(null) => null,
        Err(_) => rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?.0,
    };
    Ok(NOTHING.get_or_init(|| opened).as_fd())
}

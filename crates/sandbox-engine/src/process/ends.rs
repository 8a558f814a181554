//! The descriptors of a process: three for it, and what of them stays with us.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use sandbox_core::process::PtySize;
use sandbox_core::{Error, ErrorKind, Result, Verb};
use tokio::net::unix::pipe;

use super::terminal;

/// What a process gets, and what of it stays with us.
pub(super) struct Ends {
    pub(super) theirs: [OwnedFd; 3],
    pub(super) outputs: Vec<pipe::Receiver>,
    pub(super) input: Option<pipe::Sender>,
    pub(super) terminal: Option<OwnedFd>,
}

impl Ends {
    /// Opens a terminal, or pipes and (`has_input`) one for the input.
    pub(super) fn open(verb: Verb, pty: Option<PtySize>, has_input: bool) -> Result<Self> {
        let opened = match pty {
            Some(size) => Ends::terminal(size),
            None => Ends::pipes(has_input),
        };
        opened.map_err(|error| {
            Error::refused(verb, ErrorKind::SpawnFailed)
                .detail("the system gives no more pipes or terminals")
                .caused_by(error)
        })
    }

    fn pipes(has_input: bool) -> std::io::Result<Self> {
        let (stdin, input) = if has_input {
            let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            (theirs, Some(pipe::Sender::from_owned_fd(ours)?))
        } else {
            (nothing()?, None)
        };
        let (out, stdout) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (err, stderr) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let outputs = vec![
            pipe::Receiver::from_owned_fd(out)?,
            pipe::Receiver::from_owned_fd(err)?,
        ];
        Ok(Ends {
            theirs: [stdin, stdout, stderr],
            outputs,
            input,
            terminal: None,
        })
    }

    fn terminal(size: PtySize) -> std::io::Result<Self> {
        let (ours, theirs) = terminal::open(size)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let output = pipe::Receiver::from_owned_fd_unchecked(ours.try_clone()?)?;
        let input = pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?;
        let streams = [theirs.try_clone()?, theirs.try_clone()?, theirs];
        Ok(Ends {
            theirs: streams,
            outputs: vec![output],
            input: Some(input),
            terminal: Some(ours),
        })
    }
}

/// What a process reads that is given no input. Where there is no `/dev/null`, an empty pipe.
fn nothing() -> std::io::Result<OwnedFd> {
    match rustix::fs::open(
        c"/dev/null",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(null) => Ok(null),
        Err(_) => Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?.0),
    }
}

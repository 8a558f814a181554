//! Standard input: fed from a request, or written piece by piece.
//!
//! A command need not read what it is given: that its end of the pipe is closed is never an error of
//! the run. For pieces it is, because whoever sends one wants to know.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::process::{MAX_PROC_STDIN_BYTES, ProcStdinRequest, Stdin, StdinReceipt};
use sandbox_core::{Ctx, Error, ErrorKind, Result, Verb};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::terminal;

/// Writes all of a request's input, then what ends it.
///
/// # Errors
///
/// The input itself failed midway, so that its end would be a lie.
pub(super) async fn feed(mut pipe: pipe::Sender, stdin: Stdin, end: &'static [u8]) -> Result<()> {
    match stdin {
        Stdin::Null => {}
        Stdin::Bytes(bytes) => {
            let _ = pipe.write_all(&bytes).await;
        }
        Stdin::Stream(mut stream) => {
            while let Some(chunk) = stream.next().await {
                if pipe.write_all(&chunk?).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    let _ = pipe.write_all(end).await;
    Ok(())
}

/// Input that is written piece by piece, by offset.
#[derive(Debug)]
pub(super) struct Input {
    /// Held while a piece is written, so that pieces of two callers do not mix.
    state: Mutex<State>,
    terminal: Option<OwnedFd>,
}

#[derive(Debug)]
struct State {
    pipe: Option<pipe::Sender>,
    next: u64,
}

impl Input {
    /// No input at all, or (`terminal`) input that only the terminal's size is of.
    pub(super) fn new(pipe: Option<pipe::Sender>, terminal: Option<OwnedFd>) -> Self {
        Input {
            state: Mutex::new(State { pipe, next: 0 }),
            terminal,
        }
    }

    /// Does what a request says. Resolves when all of it was taken, and early once `ended` does.
    pub(super) async fn write(
        &self,
        ctx: &Ctx,
        request: &ProcStdinRequest,
        ended: impl Future<Output = ()>,
    ) -> Result<StdinReceipt> {
        let refused = |kind| Error::refused(Verb::ProcStdin, kind).on(&request.id);
        if request.bytes.len() > MAX_PROC_STDIN_BYTES {
            return Err(refused(ErrorKind::TooLarge).detail(format_args!(
                "{} bytes, and one call takes at most {MAX_PROC_STDIN_BYTES}",
                request.bytes.len()
            )));
        }
        if let Some(size) = request.resize {
            let Some(ours) = &self.terminal else {
                return Err(refused(ErrorKind::InvalidArgument)
                    .detail("it has no terminal whose size could change"));
            };
            terminal::resize(ours, size)
                .map_err(|error| refused(ErrorKind::Io).caused_by(std::io::Error::from(error)))?;
        }
        let mut state = self.state.lock().await;
        let next = state.next;
        let Some(known) = next.checked_sub(request.offset) else {
            return Err(refused(ErrorKind::Conflict)
                .expected(next)
                .detail(format_args!(
                    "bytes from {next} on are missing; send those first"
                )));
        };
        // What was taken before is not written again.
        let known = usize::try_from(known)
            .unwrap_or(usize::MAX)
            .min(request.bytes.len());
        let rest = request.bytes.slice(known..);
        if !rest.is_empty() {
            tokio::select! {
                written = state.write(&rest) => written.map_err(|taken| broken(&request.id, taken))?,
                () = ended => {
                    let taken = state.next > next;
                    return Err(broken(&request.id, taken));
                }
                () = ctx.cancel().cancelled() => {
                    return Err(Error::new(Verb::ProcStdin, ErrorKind::Cancelled)
                        .on(&request.id)
                        .expected(state.next)
                        .detail("the process does not read; repeating the call writes nothing twice"));
                }
                () = past(ctx) => {
                    return Err(Error::new(Verb::ProcStdin, ErrorKind::DeadlineExceeded)
                        .on(&request.id)
                        .expected(state.next)
                        .detail("the process does not read; repeating the call writes nothing twice"));
                }
            }
        }
        if request.close {
            state.close(self.terminal.is_some()).await;
        }
        Ok(StdinReceipt {
            next: state.next,
            closed: state.pipe.is_none(),
        })
    }
}

fn broken(id: &sandbox_core::ProcId, taken: bool) -> Error {
    let error = Error::refused(Verb::ProcStdin, ErrorKind::StdinClosed)
        .on(id)
        .detail("nobody reads it: it was closed, never opened, or the process has ended");
    if taken {
        error.with_effect(sandbox_core::Effect::Unknown)
    } else {
        error
    }
}

/// Resolves when the deadline of a call has passed; never, if there is none.
pub(super) async fn past(ctx: &Ctx) {
    match ctx.deadline() {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

impl State {
    /// Writes, counting what was taken as it is taken: whoever gives up half-way knows how far it
    /// got. The error says whether anything was taken.
    async fn write(&mut self, bytes: &Bytes) -> Result<(), bool> {
        let mut rest = bytes.clone();
        let mut taken = false;
        while !rest.is_empty() {
            let Some(pipe) = &mut self.pipe else {
                return Err(taken);
            };
            match pipe.write(&rest).await {
                Ok(length) => {
                    self.next += length as u64;
                    taken |= length > 0;
                    rest = rest.slice(length..);
                }
                Err(_) => {
                    self.pipe = None;
                    return Err(taken);
                }
            }
        }
        Ok(())
    }

    async fn close(&mut self, is_terminal: bool) {
        if let Some(mut pipe) = self.pipe.take()
            && is_terminal
        {
            let _ = pipe.write_all(terminal::END_OF_INPUT).await;
        }
    }
}

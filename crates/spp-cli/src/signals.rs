//! The signals that people and supervisors send to `spp`, as a stream.
//!
//! A signal that was ignored when `spp` was started stays ignored: `nohup` and a script's background
//! jobs count on it.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Result};

/// Interrupt, quit, terminate, hang up. From the moment this exists they no longer end the program.
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    quit: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-\.
    Quit,
    /// Somebody asks to end.
    Terminate,
    /// The terminal is gone.
    Hangup,
}

impl Arrived {
    /// Its number, the same on every system.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Hangup => 1,
            Self::Interrupt => 2,
            Self::Quit => 3,
            Self::Terminate => 15,
        }
    }

    /// What a shell calls an end by it.
    pub(crate) fn code(self) -> u8 {
        128 + self.number()
    }
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn listen() -> Result<Self> {
        let ignored = ignored();
        let listen = |kind: SignalKind| {
            if ignored & (1 << (kind.as_raw_value() - 1)) != 0 {
                return Ok(None);
            }
            signal(kind)
                .map(Some)
                .map_err(|error| Failure::io("listen for signals", error))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Arrived {
        tokio::select! {
            () = arrival(&mut self.interrupt) => Arrived::Interrupt,
            () = arrival(&mut self.quit) => Arrived::Quit,
            () = arrival(&mut self.terminate) => Arrived::Terminate,
            () = arrival(&mut self.hangup) => Arrived::Hangup,
        }
    }
}

async fn arrival(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// The signals that are ignored now, as the kernel tells them: bit N-1 for signal N. Systems that do
/// not tell have none here.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

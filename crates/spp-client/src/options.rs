//! How a connection is opened, how it ended, and what it counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sandbox_core::ErrorKind;
use spp_protocol::limits::Limits;

/// How a connection is opened.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The host's short name, as the provider will log it.
    pub host_name: String,
    /// The host's version.
    pub host_version: String,
    /// Where this is, as the caller named it; `None` takes the provider's own word for it.
    pub location: Option<String>,
    /// Least severity of what the provider logs: `error`, `warn`, `info`, `debug` or `trace`.
    pub log_level: Option<String>,
    /// What a line that is no message does.
    pub strictness: Strictness,
    /// How long the peer may take to answer `initialize`.
    pub start_timeout: Duration,
    /// What this side receives at most.
    pub limits: Limits,
    /// How long the pipe may be silent, while calls wait, before the peer is asked for a sign of
    /// life; see [`Liveness`].
    pub liveness: Liveness,
}

impl ConnectOptions {
    /// Options for a host of this name and version, with everything else at its default.
    pub fn new(host_name: impl Into<String>, host_version: impl Into<String>) -> Self {
        Self {
            host_name: host_name.into(),
            host_version: host_version.into(),
            location: None,
            log_level: None,
            strictness: Strictness::Provider,
            start_timeout: Duration::from_secs(30),
            limits: Limits::ours(),
            liveness: Liveness::default(),
        }
    }
}

impl Default for ConnectOptions {
    /// A host that does not name itself: this crate's name and version stand in.
    fn default() -> Self {
        Self::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }
}

/// What a line that is no message does to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It is dropped, counted and logged; more than a hundred within a minute end the connection.
    /// For providers, where many sandboxes share one pipe.
    Provider,
    /// It ends the connection, and what was behind it is [`ErrorKind::Lost`]. For engines, which
    /// run beside what nobody trusts.
    Engine,
}

/// When a silent peer counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Silence, while calls wait, before the first `ping`.
    pub silence: Duration,
    /// How long to wait for any line at all after a `ping`.
    pub patience: Duration,
    /// How many pings in a row may stay without any line.
    pub misses: u32,
}

impl Default for Liveness {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(15),
            patience: Duration::from_secs(10),
            misses: 3,
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionEnd {
    /// What calls that were under way fail with: [`ErrorKind::Disconnected`], or
    /// [`ErrorKind::Lost`] where an engine broke the protocol.
    pub kind: ErrorKind,
    /// The reason, in one sentence without a final stop.
    pub reason: String,
}

impl ConnectionEnd {
    pub(crate) fn disconnected(reason: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Disconnected,
            reason: reason.into(),
        }
    }

    pub(crate) fn lost(reason: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Lost,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// What a connection has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Lines that were no message of the protocol, and were dropped.
    pub bad_lines: u64,
    /// Answers to ids that nobody waited for, dropped.
    pub unasked_answers: u64,
    /// Answers whose form had to be repaired or failed their own call.
    pub repaired_answers: u64,
    /// Requests of the peer, refused: a provider sends none.
    pub refused_requests: u64,
    /// Stream data that was not covered by credit, did not follow, or had no stream.
    pub refused_data: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bad_lines: AtomicU64,
    pub(crate) unasked_answers: AtomicU64,
    pub(crate) repaired_answers: AtomicU64,
    pub(crate) refused_requests: AtomicU64,
    pub(crate) refused_data: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            bad_lines: get(&self.bad_lines),
            unasked_answers: get(&self.unasked_answers),
            repaired_answers: get(&self.repaired_answers),
            refused_requests: get(&self.refused_requests),
            refused_data: get(&self.refused_data),
        }
    }
}

/// Counts one more, and returns how many there were before.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

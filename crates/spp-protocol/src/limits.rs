//! How much each side takes, and what the two agree on.
//!
//! A line is as long as both sides allow, in both directions. Windows hold in one direction each:
//! what a side *advertises* bounds what the other may send it.

use crate::message::handshake::WireLimits;

/// Longest line if a side does not say, in bytes without its end.
pub const DEFAULT_LINE_BYTES: u64 = 1024 * 1024;
/// Longest line that may be agreed on, in bytes.
pub const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;
/// Shortest longest line: a data message of 32 KiB fits in any spelling.
pub const MIN_LINE_BYTES: u64 = 64 * 1024;
/// Credit of a stream if a side does not say, in bytes of cost.
pub const DEFAULT_STREAM_WINDOW_BYTES: u64 = 256 * 1024;
/// Credit of all streams of a direction together if a side does not say, in bytes of cost.
pub const DEFAULT_CONNECTION_WINDOW_BYTES: u64 = 8 * 1024 * 1024;
/// Smallest window: one data message of 32 KiB fits.
pub const MIN_WINDOW_BYTES: u64 = 64 * 1024;
/// What a data message costs beside its payload, in bytes.
pub const CHUNK_OVERHEAD_BYTES: u64 = 512;
/// Requests at once if a side does not say.
pub const DEFAULT_IN_FLIGHT: u32 = 256;

/// What one side takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, in bytes without its end.
    pub max_line_bytes: u64,
    /// Credit towards this side.
    pub window: Window,
    /// Requests at once.
    pub max_in_flight: u32,
}

/// Credit in one direction, in bytes of cost: payload and [`CHUNK_OVERHEAD_BYTES`] a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Of each stream.
    pub stream: u64,
    /// Of all streams together; at least that of one.
    pub connection: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self::from_wire(WireLimits::default())
    }
}

impl Limits {
    /// What our own host and provider advertise: lines of 8 MiB, everything else the default.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            max_line_bytes: 8 * 1024 * 1024,
            ..Self::default()
        }
    }

    /// Fills in defaults, and moves what is out of range to its nearest end, so that a peer
    /// cannot advertise itself into a standstill.
    #[must_use]
    pub fn from_wire(wire: WireLimits) -> Self {
        let stream = wire
            .stream_window_bytes
            .unwrap_or(DEFAULT_STREAM_WINDOW_BYTES)
            .max(MIN_WINDOW_BYTES);
        Self {
            max_line_bytes: wire
                .max_line_bytes
                .unwrap_or(DEFAULT_LINE_BYTES)
                .clamp(MIN_LINE_BYTES, MAX_LINE_BYTES),
            window: Window {
                stream,
                connection: wire
                    .connection_window_bytes
                    .unwrap_or(DEFAULT_CONNECTION_WINDOW_BYTES)
                    .max(stream),
            },
            max_in_flight: wire.max_in_flight.map_or(DEFAULT_IN_FLIGHT, |most| {
                u32::try_from(most).unwrap_or(u32::MAX).max(1)
            }),
        }
    }

    /// The same as members of `initialize`.
    #[must_use]
    pub fn to_wire(self) -> WireLimits {
        WireLimits {
            max_line_bytes: Some(self.max_line_bytes),
            stream_window_bytes: Some(self.window.stream),
            connection_window_bytes: Some(self.window.connection),
            max_in_flight: Some(self.max_in_flight.into()),
        }
    }

    /// What holds between this side and `theirs`.
    #[must_use]
    pub fn agree(self, theirs: Self) -> Agreed {
        Agreed {
            max_line_bytes: usize::try_from(self.max_line_bytes.min(theirs.max_line_bytes))
                .unwrap_or(usize::MAX),
            max_in_flight: self.max_in_flight.min(theirs.max_in_flight),
            sending: theirs.window,
            receiving: self.window,
        }
    }
}

/// What holds on a connection, seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Longest line in both directions, in bytes without its end.
    pub max_line_bytes: usize,
    /// Requests at once.
    pub max_in_flight: u32,
    /// Credit of what this side sends.
    pub sending: Window,
    /// Credit of what this side receives.
    pub receiving: Window,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_by_both_sides_and_windows_by_the_receiver() {
        let theirs = Limits::from_wire(WireLimits {
            max_line_bytes: Some(2 << 20),
            stream_window_bytes: Some(128 << 10),
            connection_window_bytes: None,
            max_in_flight: Some(4),
        });
        let agreed = Limits::ours().agree(theirs);
        assert_eq!(agreed.max_line_bytes, 2 << 20);
        assert_eq!(agreed.max_in_flight, 4);
        assert_eq!(agreed.sending, theirs.window);
        assert_eq!(agreed.receiving, Limits::ours().window);
        assert_eq!(theirs.agree(Limits::ours()).sending, agreed.receiving);
    }

    #[test]
    fn a_peer_cannot_advertise_itself_into_a_standstill() {
        let least = Limits::from_wire(WireLimits {
            max_line_bytes: Some(0),
            stream_window_bytes: Some(0),
            connection_window_bytes: Some(0),
            max_in_flight: Some(0),
        });
        assert_eq!(least.max_line_bytes, MIN_LINE_BYTES);
        assert_eq!(least.window.stream, MIN_WINDOW_BYTES);
        assert_eq!(least.window.connection, MIN_WINDOW_BYTES);
        assert_eq!(least.max_in_flight, 1);
        let most = Limits::from_wire(WireLimits {
            max_line_bytes: Some(u64::MAX),
            max_in_flight: Some(u64::MAX),
            ..WireLimits::default()
        });
        assert_eq!(most.max_in_flight, u32::MAX);
        assert_eq!(most.max_line_bytes, MAX_LINE_BYTES);
    }
}

//! Times of files, and when one is old enough to be relied on.
//!
//! A file that is written gets the time of the last tick of the kernel's clock. Two changes within
//! one tick leave the same time behind, so a time alone cannot show the second. A time that was
//! older than a tick when it was looked at can: whatever comes later carries a later one.

use std::time::Duration;

use rustix::time::{ClockId, clock_getres, clock_gettime};

/// Least distance that is relied on, whatever the clock says of itself: network file systems keep
/// coarser time than the kernel.
const LEAST: Duration = Duration::from_millis(20);
/// The same where a time has no fraction of a second, as on file systems that keep none.
const WHOLE_SECONDS: Duration = Duration::from_secs(2);

/// A time as a file system keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// Since 1970; may be negative.
    pub(super) seconds: i64,
    /// Below 1,000,000,000.
    pub(super) nanos: u32,
}

impl Moment {
    /// As an offset that can be added to, as far as that can be told.
    fn since_epoch(self) -> Option<Duration> {
        Some(Duration::new(u64::try_from(self.seconds).ok()?, self.nanos))
    }
}

/// The clock at the start of a look at a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    now: Option<Duration>,
    tick: Duration,
}

impl Clock {
    /// Reads it. To be done before the first entry is looked at.
    pub(super) fn read() -> Self {
        // The coarse clock is the one that files are stamped with.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let resolution = clock_getres(ClockId::RealtimeCoarse);
        let nanos = |time: rustix::time::Timespec| {
            Some(Duration::new(
                u64::try_from(time.tv_sec).ok()?,
                u32::try_from(time.tv_nsec).ok()?,
            ))
        };
        Self {
            now: nanos(now),
            tick: nanos(resolution)
                .map_or(LEAST, |tick| tick.saturating_mul(2))
                .max(LEAST),
        }
    }

    /// Whether every change after this clock was read leaves another time than `changed` behind.
    pub(super) fn settled(&self, changed: Moment) -> bool {
        let tick = if changed.nanos == 0 {
            WHOLE_SECONDS
        } else {
            self.tick
        };
        match (self.now, changed.since_epoch()) {
            (Some(now), Some(changed)) => changed + tick <= now,
            // Before 1970 on either side: nothing is relied on.
            _ => false,
        }
    }

    /// For tests: a clock that says `now`.
    #[cfg(test)]
    pub(super) fn at(now: Duration) -> Self {
        Self {
            now: Some(now),
            tick: LEAST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, millis: u32) -> Moment {
        Moment {
            seconds,
            nanos: millis * 1_000_000,
        }
    }

    #[test]
    fn a_change_just_now_is_not_relied_on_and_one_long_ago_is() {
        let clock = Clock::at(Duration::from_millis(100_500));
        assert!(clock.settled(at(100, 480)));
        assert!(!clock.settled(at(100, 481)));
        assert!(!clock.settled(at(100, 500)));
    }

    #[test]
    fn a_time_in_the_future_or_before_the_epoch_is_not_relied_on() {
        let clock = Clock::at(Duration::from_secs(100));
        assert!(!clock.settled(at(101, 1)));
        assert!(!clock.settled(at(-1, 1)));
    }

    #[test]
    fn a_time_without_a_fraction_has_to_be_older() {
        let clock = Clock::at(Duration::from_secs(100));
        assert!(!clock.settled(at(99, 0)));
        assert!(clock.settled(at(98, 0)));
        assert!(clock.settled(at(99, 1)));
    }

    #[test]
    fn what_is_written_now_is_not_settled() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let stat = rustix::fs::fstat(&file).expect("it is open");
        let changed = super::super::manifest::Identity::of(&stat).changed;
        assert!(!Clock::read().settled(changed));
    }
}

//! What is logged of lines that are dropped.
//!
//! Of a line only the problem and the length are logged: it may hold what nobody may log, the
//! values of variables or the content of files. The parser's own words are no better, because
//! they quote what is wrong.
//!
//! **Invariant:** however many lines are dropped, the log grows by one record a minute: the first
//! few lines are logged one by one, the others are counted.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines that are logged one by one.
const LOGGED: u32 = 10;
/// How often the count of the others is logged.
const PERIOD: Duration = Duration::from_secs(60);

/// The dropped lines of one connection.
#[derive(Debug, Default)]
pub(crate) struct Junk(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    logged: u32,
    /// Dropped and not yet logged.
    counted: u64,
    /// When a line of the log was last written.
    last: Option<Instant>,
}

/// What is logged of one dropped line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Say {
    ThisLine,
    /// That so many were dropped, this one included.
    Count(u64),
    Nothing,
}

impl Junk {
    /// A line, or a message of it, was dropped.
    ///
    /// - `bytes`: its length; of a line that is too long only how much is known of it.
    pub(crate) fn dropped(&self, problem: &'static str, bytes: usize) {
        match self.lock().see(Instant::now()) {
            Say::ThisLine => tracing::warn!(bytes, problem, "a line was dropped"),
            Say::Count(lines) => tracing::warn!(lines, "more lines were dropped"),
            Say::Nothing => {}
        }
    }

    /// The connection ends: what was only counted is logged.
    pub(crate) fn end(&self) {
        let lines = std::mem::take(&mut self.lock().counted);
        if lines > 0 {
            tracing::warn!(lines, "more lines were dropped");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Nothing under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn see(&mut self, now: Instant) -> Say {
        if self.logged < LOGGED {
            self.logged += 1;
            self.last = Some(now);
            return Say::ThisLine;
        }
        self.counted += 1;
        if self.last.is_some_and(|last| now - last < PERIOD) {
            return Say::Nothing;
        }
        self.last = Some(now);
        Say::Count(std::mem::take(&mut self.counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_logged_and_then_a_count_a_minute() {
        let mut seen = Seen::default();
        let start = Instant::now();
        for _ in 0..LOGGED {
            assert_eq!(seen.see(start), Say::ThisLine);
        }
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            assert_eq!(seen.see(now), Say::Nothing, "after {second} s");
        }
        assert_eq!(seen.see(start + PERIOD), Say::Count(61));
        assert_eq!(seen.see(start + PERIOD), Say::Nothing);
        // After a long silence too, only a count.
        assert_eq!(seen.see(start + 100 * PERIOD), Say::Count(2));
    }
}

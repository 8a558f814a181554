//! How a comparison is measured, so that its ratio means something on a machine that is not ours.
//!
//! - Ours and the peer run in *interleaved rounds*, and every second round in reversed order, so that
//!   a drift of the machine hits both alike.
//! - Each batch first waits for an *idle machine* (from `/proc/stat`), for a bounded time; how many
//!   batches did not get one is told.
//! - Nothing is deleted between repetitions: on ext4, creating files right after deleting many
//!   costs up to 200 us each, which makes everything look equal.
//! - The figure of a side is the median over rounds of the median of each round's batch.

use std::time::{Duration, Instant};

/// Rounds of a latency comparison.
pub(crate) const ROUNDS: usize = 16;
/// Longest wait for an idle machine before one batch.
const PATIENCE: Duration = Duration::from_secs(4);
/// Busy share of all processors below which the machine counts as idle.
const IDLE_BELOW: f64 = 0.06;

/// Durations of one side: one median per round.
#[derive(Debug, Default)]
pub(crate) struct Side(Vec<Duration>);

impl Side {
    /// Takes in the durations of one round.
    pub(crate) fn round(&mut self, mut batch: Vec<Duration>) {
        batch.sort_unstable();
        if let Some(&median) = batch.get(batch.len() / 2) {
            self.0.push(median);
        }
    }

    /// The median over the rounds.
    pub(crate) fn p50(&self) -> Duration {
        let mut rounds = self.0.clone();
        rounds.sort_unstable();
        rounds.get(rounds.len() / 2).copied().unwrap_or_default()
    }
}

/// Times one call.
pub(crate) async fn time<T>(call: impl Future<Output = T>) -> (Duration, T) {
    let start = Instant::now();
    let value = call.await;
    (start.elapsed(), value)
}

/// Whose turn comes first in `round`.
pub(crate) fn ours_first(round: usize) -> bool {
    round.is_multiple_of(2)
}

/// Waits until the machine is idle, at most [`PATIENCE`]; says whether it became so.
pub(crate) async fn quiet() -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut before = cpu_times();
    while Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let now = cpu_times();
        let total = now.1.saturating_sub(before.1);
        let idle = now.0.saturating_sub(before.0);
        #[expect(clippy::cast_precision_loss, reason = "a few ticks")]
        if total > 0 && 1.0 - idle as f64 / total as f64 <= IDLE_BELOW {
            return true;
        }
        before = now;
    }
    false
}

/// Idle and total ticks of all processors so far.
fn cpu_times() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is already in user.
    let idle = ticks.iter().skip(3).take(2).sum();
    (idle, ticks.iter().take(8).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_does_not_move_the_figure() {
        let mut side = Side::default();
        for millis in [10, 11, 900, 12, 9] {
            side.round(vec![Duration::from_millis(millis); 3]);
        }
        assert_eq!(side.p50(), Duration::from_millis(11));
    }

    #[test]
    fn the_order_is_reversed_every_second_round() {
        let turns: Vec<bool> = (0..4).map(ours_first).collect();
        assert_eq!(turns, [true, false, true, false]);
    }
}

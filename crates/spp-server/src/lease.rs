//! How long the host may be silent.
//!
//! A sandbox may be acquired with a lease: without a sign of life for that long it is to end by itself. The end of a pipe is
//! sign enough where there is one, but a pipe through a daemon or over a network can stay open when nobody is left at its
//! other end, and so can one whose other end was stopped. Any bytes at all count as a sign; a host that has nothing to say
//! sends `ping`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The leases of one connection, and when the host was last heard.
#[derive(Debug)]
pub(crate) struct Leases {
    opened: Instant,
    /// In milliseconds after `opened`.
    heard: AtomicU64,
    shortest: watch::Sender<Option<Duration>>,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            opened: Instant::now(),
            heard: AtomicU64::new(0),
            shortest: watch::Sender::new(None),
        }
    }
}

impl Leases {
    /// Something came.
    pub(crate) fn heard(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    /// Sets the shortest lease of the sandboxes that there are; `None` if none has one. A shorter one than before counts from
    /// now: the host may have waited for its sandbox longer than that.
    pub(crate) fn set(&self, shortest: Option<Duration>) {
        let before = *self.shortest.borrow();
        if shortest.is_some_and(|lease| before.is_none_or(|before| lease < before)) {
            self.heard();
        }
        self.shortest.send_if_modified(|known| {
            let changed = *known != shortest;
            *known = shortest;
            changed
        });
    }

    fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(heard)
    }

    /// Resolves when nothing was heard for as long as a lease, with how long that is.
    pub(crate) async fn lapsed(&self) -> Duration {
        let mut shortest = self.shortest.subscribe();
        loop {
            let lease = *shortest.borrow_and_update();
            let left = lease.map(|lease| lease.saturating_sub(self.silence()));
            if let (Some(lease), Some(Duration::ZERO)) = (lease, left) {
                return lease;
            }
            let pause = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => {}
                // The sender is here as long as this is asked.
                _ = shortest.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(200);
    /// Beyond what a lease takes, on a busy machine.
    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn silence_lapses_and_any_sign_puts_it_off() {
        let leases = Leases::default();
        let lapses = |within| tokio::time::timeout(within, leases.lapsed());
        assert!(lapses(LEASE).await.is_err(), "nobody has a lease");
        leases.heard();
        leases.set(Some(LONG));
        let began = Instant::now();
        assert!(lapses(LEASE).await.is_err(), "it is not over");
        leases.heard();
        leases.set(Some(LEASE));
        assert_eq!(lapses(LONG).await, Ok(LEASE));
        assert!(began.elapsed() >= 2 * LEASE, "it was heard");
        leases.set(None);
        assert!(lapses(LEASE).await.is_err(), "it was released");
    }

    #[tokio::test]
    async fn silence_before_there_was_a_lease_does_not_count() {
        let leases = Leases::default();
        tokio::time::sleep(LEASE * 2).await;
        leases.set(Some(LEASE));
        let began = Instant::now();
        assert_eq!(leases.lapsed().await, LEASE);
        assert!(began.elapsed() >= LEASE / 2, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_lease_that_comes_while_it_is_waited_counts() {
        let leases = Leases::default();
        let later = async {
            tokio::time::sleep(LEASE / 4).await;
            leases.heard();
            leases.set(Some(LEASE));
        };
        let waits = tokio::time::timeout(LONG, leases.lapsed());
        let (lapsed, ()) = tokio::join!(waits, later);
        assert_eq!(lapsed, Ok(LEASE));
    }
}

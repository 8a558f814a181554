//! Signs of life, both ways, once a sandbox was acquired with a lease.
//!
//! The peer ends such a sandbox by itself when it hears nothing for that long, so it is asked for a sign of life several times
//! within a lease, whatever else is said. And a peer that owes one, and says nothing at all for as long, is gone: its pipes may
//! stay open when it was stopped, or when what carries them is no longer there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::call::ping;
use crate::options::{ConnectionEnd, Strictness};
use crate::shared::Shared;

/// Signs of life within a lease.
const SIGNS: u32 = 4;

/// The shortest lease that anything on a connection was acquired with.
#[derive(Debug)]
pub(crate) struct Lease {
    /// In milliseconds; the largest number if there is none.
    shortest: AtomicU64,
    shorter: Notify,
}

impl Default for Lease {
    fn default() -> Self {
        Self {
            shortest: AtomicU64::new(u64::MAX),
            shorter: Notify::new(),
        }
    }
}

impl Lease {
    fn shortest(&self) -> Option<Duration> {
        match self.shortest.load(Ordering::Relaxed) {
            u64::MAX => None,
            millis => Some(Duration::from_millis(millis)),
        }
    }
}

/// A sandbox is about to be acquired with a lease: from now on there are signs of life at least as often as it needs them.
pub(crate) fn keep(shared: &Arc<Shared>, lease: Duration) {
    let millis = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX - 1);
    let before = shared.lease.shortest.fetch_min(millis, Ordering::Relaxed);
    match before {
        u64::MAX => drop(tokio::spawn(beat(Arc::downgrade(shared)))),
        before if before > millis => shared.lease.shorter.notify_one(),
        _ => {}
    }
}

async fn beat(shared: Weak<Shared>) {
    let mut asked: Option<tokio::task::JoinHandle<()>> = None;
    let mut last = Instant::now();
    loop {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let Some(lease) = shared.lease.shortest().filter(|_| shared.end().is_none()) else {
            return;
        };
        let pause = lease / SIGNS;
        // Whoever was stopped itself has heard nothing either, and what was said meanwhile is still to be read.
        let was_awake = last.elapsed() < 2 * pause;
        last = Instant::now();
        let owes = asked.as_ref().is_some_and(|asked| !asked.is_finished());
        if owes && was_awake && shared.silence() >= lease {
            shared.finish(gone(shared.strictness, lease));
            return;
        }
        if !owes {
            let shared = Arc::clone(&shared);
            asked = Some(tokio::spawn(async move { ping(&shared).await }));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.lease.shorter.notified() => {}
            _ = shared.ended() => return,
        }
    }
}

fn gone(strictness: Strictness, lease: Duration) -> ConnectionEnd {
    let silent = |who| {
        format!(
            "{who} gave no sign of life for its lease of {} ms",
            lease.as_millis()
        )
    };
    match strictness {
        Strictness::Engine => ConnectionEnd::lost(silent("the engine")),
        Strictness::Provider => ConnectionEnd::disconnected(silent("the provider")),
    }
}

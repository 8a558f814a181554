//! How much output all logs of a sandbox may hold together.
//!
//! When it is used up, the oldest log of a process that has ended is forgotten. Logs of running
//! processes are never taken away; where there are only those, a new byte is refused.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::log::Log;

/// Space for logs, in bytes. See the [module](self).
#[derive(Debug)]
pub(super) struct Budget {
    total: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Logs that may be forgotten, oldest first.
    finished: VecDeque<Weak<Log>>,
}

impl Budget {
    pub(super) fn new(total: u64) -> Self {
        Budget {
            total,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes space, from ended processes if need be. `false` if there is none to be had.
    pub(super) fn take(&self, bytes: u64) -> bool {
        loop {
            let oldest = {
                let mut state = self.state();
                if state.used.saturating_add(bytes) <= self.total {
                    state.used += bytes;
                    return true;
                }
                match state.finished.pop_front() {
                    Some(oldest) => oldest,
                    None => return false,
                }
            };
            // Outside the lock, because it gives its space back to us.
            if let Some(log) = oldest.upgrade() {
                log.discard();
            }
        }
    }

    /// Gives space back.
    pub(super) fn give_back(&self, bytes: u64) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(bytes);
    }

    /// Says that nothing more is added to this log, so that it may be forgotten.
    pub(super) fn finished(&self, log: &Arc<Log>) {
        self.state().finished.push_back(Arc::downgrade(log));
    }
}

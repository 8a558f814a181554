//! Providers are kept alive: started when they are needed, started again after a failure, and given
//! up when that does not help.
//!
//! A restart happens on the next acquire, never by itself: nobody may need it. It waits longer after
//! each failure, from one second to thirty, and after five failures within five minutes it is
//! refused until the oldest of them is that long ago.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sandbox_core::{Ctx, Error, ErrorKind, Verb};
use tokio::sync::Mutex;

use crate::config::{Pool, ProviderConfig};
use crate::error::StartError;
use crate::locate::SearchPath;
use crate::process::{End, Process, Stop, Timing};
use crate::spawn::Launch;

/// How many failures within [`WINDOW`] are too many.
const TOO_MANY: usize = 5;
/// How long a failure counts.
const WINDOW: Duration = Duration::from_secs(300);
/// The first wait; each further one is three times as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Keeps the processes of one provider configuration.
pub(crate) struct Supervisor {
    config: ProviderConfig,
    search: SearchPath,
    timing: Timing,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Every process that can be used; with a shared pool the last one is.
    processes: Vec<Arc<Process>>,
    /// Processes that cannot be used any more, and may not be gone yet.
    ending: Vec<Arc<Process>>,
    failures: Failures,
}

impl Supervisor {
    pub(crate) fn new(config: ProviderConfig, search: SearchPath, timing: Timing) -> Self {
        Self {
            config,
            search,
            timing,
            state: Mutex::default(),
        }
    }

    pub(crate) fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// A living process for one more sandbox.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub(crate) async fn process(&self, ctx: &Ctx) -> Result<Arc<Process>, StartError> {
        // Somebody else may be waiting for a start under the lock.
        let mut state = tokio::select! {
            state = self.state.lock() => state,
            () = ctx.cancel().cancelled() => {
                return Err(StartError::Stopped(
                    Error::refused(Verb::Acquire, ErrorKind::Cancelled).on(&self.config.name),
                ));
            }
        };
        state.bury();
        if self.config.pool == Pool::Shared
            && let Some(process) = state.processes.last()
        {
            return Ok(Arc::clone(process));
        }
        // Settled before any wait: a fault in the configuration does not pass by waiting, and
        // counts as no failure of the provider.
        let launch = Launch::new(&self.config, &self.search, std::env::vars_os())?;
        let wait = state
            .failures
            .wait(Instant::now())
            .map_err(|refusal| StartError::GaveUp {
                provider: self.config.name.clone(),
                failures: refusal.failures,
                within: WINDOW,
                retry_after: refusal.retry_after,
                last: refusal.last,
            })?;
        self.pause(wait, ctx).await?;
        match Process::start(&self.config.name, &launch, self.timing, ctx).await {
            Ok(process) => {
                let process = Arc::new(process);
                state.processes.push(Arc::clone(&process));
                Ok(process)
            }
            Err(error @ StartError::Stopped(_)) => Err(error),
            Err(error) => {
                state.failures.record(Instant::now(), error.to_string());
                Err(error)
            }
        }
    }

    /// Ends all processes, and waits until they are gone. Whoever gives up waiting may ask again.
    pub(crate) async fn stop(&self, how: Stop) {
        let processes = {
            let mut state = self.state.lock().await;
            let State {
                processes, ending, ..
            } = &mut *state;
            ending.append(processes);
            ending.clone()
        };
        join_all(processes.iter().map(|process| process.stop(how))).await;
    }

    async fn pause(&self, wait: Duration, ctx: &Ctx) -> Result<(), StartError> {
        if wait.is_zero() {
            return Ok(());
        }
        let refused = |kind| {
            StartError::Stopped(
                Error::refused(Verb::Acquire, kind)
                    .on(&self.config.name)
                    .detail("the provider failed before and is started again after a wait")
                    .retry_after_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            )
        };
        if ctx.remaining().is_some_and(|remaining| remaining < wait) {
            return Err(refused(ErrorKind::DeadlineExceeded));
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = ctx.cancel().cancelled() => Err(refused(ErrorKind::Cancelled)),
        }
    }
}

impl State {
    /// Sets aside processes that ended, and remembers those that failed.
    fn bury(&mut self) {
        let (failures, ending) = (&mut self.failures, &mut self.ending);
        self.processes.retain(|process| {
            let Some(end) = process.end() else {
                return true;
            };
            if let End::Failed { at, what } = end {
                failures.record(at, what);
            }
            ending.push(Arc::clone(process));
            false
        });
        ending.retain(|process| !process.is_gone());
    }
}

/// When a provider failed.
#[derive(Default)]
struct Failures {
    at: VecDeque<Instant>,
    last: String,
}

struct Refusal {
    failures: usize,
    retry_after: Duration,
    last: String,
}

impl Failures {
    fn record(&mut self, now: Instant, what: String) {
        self.at.push_back(now);
        self.last = what;
    }

    /// How long to wait from `now` before the next start.
    fn wait(&mut self, now: Instant) -> Result<Duration, Refusal> {
        self.at.retain(|&at| now.duration_since(at) < WINDOW);
        let Some(&last) = self.at.back() else {
            return Ok(Duration::ZERO);
        };
        let count = self.at.len();
        if count >= TOO_MANY {
            return Err(Refusal {
                failures: count,
                retry_after: (self.at[count - TOO_MANY] + WINDOW).duration_since(now),
                last: self.last.clone(),
            });
        }
        let wait = (1..count)
            .fold(FIRST_WAIT, |wait, _| wait * 3)
            .min(LONGEST_WAIT);
        Ok((last + wait).saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_until_it_is_given_up_and_old_failures_are_forgotten() {
        let mut failures = Failures::default();
        let mut now = Instant::now();
        assert_eq!(failures.wait(now).ok(), Some(Duration::ZERO));
        for seconds in [1, 3, 9, 27] {
            failures.record(now, format!("failure before {seconds}"));
            assert_eq!(failures.wait(now).ok(), Some(Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
            assert_eq!(failures.wait(now).ok(), Some(Duration::ZERO));
        }
        failures.record(now, "the fifth".into());
        let refusal = failures.wait(now).expect_err("five failures are too many");
        assert_eq!(
            (refusal.failures, refusal.last.as_str(), refusal.retry_after),
            (5, "the fifth", WINDOW - Duration::from_secs(40))
        );
        now += WINDOW - Duration::from_secs(40);
        assert!(
            failures.wait(now).is_ok(),
            "the oldest failure counts for ever"
        );
        now += WINDOW;
        assert_eq!(failures.wait(now).ok(), Some(Duration::ZERO));
    }
}

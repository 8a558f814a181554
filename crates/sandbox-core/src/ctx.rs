//! What accompanies every call: cancellation, a deadline, and where progress is told.
//!
//! A [`Ctx`] is cheap to clone. Cancelling is a wish that is always answered: the call still ends,
//! with its result if that won the race and with [`ErrorKind::Cancelled`](crate::ErrorKind)
//! otherwise. Dropping a call's future cancels it too.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Cancellation, deadline and progress of one call. See the [module](self).
#[derive(Clone, Default)]
pub struct Ctx {
    cancel: Cancel,
    deadline: Option<Instant>,
    progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
}

impl Ctx {
    /// No deadline, never cancelled, progress not told.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses `cancel` as the signal of this call.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = cancel;
        self
    }

    /// Ends the call with `DeadlineExceeded` after `timeout`.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.deadline = Instant::now().checked_add(timeout);
        self
    }

    /// Tells `listener` of long work, such as an image that is being pulled.
    #[must_use]
    pub fn with_progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(listener));
        self
    }

    /// The cancellation signal.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// When the call must have ended, if it must.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Time left until the deadline; zero once it passed.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Tells whoever listens about long work.
    pub fn report(&self, progress: Progress) {
        if let Some(listener) = &self.progress {
            listener(progress);
        }
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("cancelled", &self.cancel.is_cancelled())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// One step of long work, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// A stable short name of the step, such as `pull` or `place`.
    pub phase: String,
    /// A sentence about it.
    pub message: String,
}

/// A signal that is raised once and stays raised. Clones share it.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    raised: bool,
    next_key: u64,
    wakers: Vec<(u64, Waker)>,
}

impl Cancel {
    /// A signal that nobody raised yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the signal and wakes everybody who waits for it.
    pub fn cancel(&self) {
        let wakers = {
            let mut state = self.lock();
            state.raised = true;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Whether the signal was raised.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.lock().raised
    }

    /// Resolves once the signal is raised.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled {
            signal: self.clone(),
            key: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can panic half-way, so a poisoned state is a good one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancel({})", self.is_cancelled())
    }
}

/// The future of [`Cancel::cancelled`].
#[derive(Debug)]
pub struct Cancelled {
    signal: Cancel,
    key: Option<u64>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let signal = self.signal.clone();
        let mut state = signal.lock();
        if state.raised {
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            state.next_key += 1;
            state.next_key
        });
        match state.wakers.iter_mut().find(|(known, _)| *known == key) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => state.wakers.push((key, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.signal.lock().wakers.retain(|(known, _)| *known != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn everybody_who_waits_is_woken_once_and_late_comers_do_not_wait() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let cancel = Cancel::new();
        let mut first = Box::pin(cancel.cancelled());
        let mut second = Box::pin(cancel.cancelled());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());

        cancel.clone().cancel();

        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert!(first.as_mut().poll(&mut context).is_ready());
        assert!(
            Box::pin(cancel.cancelled())
                .as_mut()
                .poll(&mut context)
                .is_ready()
        );
    }

    #[test]
    fn a_dropped_wait_leaves_nothing_behind() {
        let waker = Waker::noop();
        let cancel = Cancel::new();
        let mut wait = Box::pin(cancel.cancelled());
        assert!(
            wait.as_mut()
                .poll(&mut Context::from_waker(waker))
                .is_pending()
        );
        drop(wait);
        assert!(cancel.lock().wakers.is_empty());
    }
}

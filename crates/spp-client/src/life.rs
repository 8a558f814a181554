//! Whether a sandbox that was given out still lives.
//!
//! **Invariant:** an end is final. A handle whose sandbox was lost stays lost, whatever the peer
//! says later, because a tree that comes back under the same name is another tree.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sandbox_core::{Cancel, Closed, Error, ErrorKind, Generation, Result, SandboxId, Verb};

/// One life of a sandbox, shared by its handles.
#[derive(Debug, Default)]
pub(crate) struct Life {
    closed: OnceLock<Closed>,
    signal: Cancel,
}

impl Life {
    pub(crate) fn end(&self, closed: Closed) {
        if self.closed.set(closed).is_ok() {
            self.signal.cancel();
        }
    }

    pub(crate) async fn ended(&self) -> Closed {
        loop {
            if let Some(closed) = self.closed.get() {
                return closed.clone();
            }
            self.signal.cancelled().await;
        }
    }

    /// Refuses a verb on a sandbox that has ended.
    pub(crate) fn check(&self, verb: Verb, id: &SandboxId) -> Result<()> {
        match self.closed.get() {
            None => Ok(()),
            Some(Closed::Lost { reason }) => {
                Err(Error::refused(verb, ErrorKind::Lost).on(id).detail(reason))
            }
            Some(Closed::Released) => Err(Error::refused(verb, ErrorKind::SandboxNotFound)
                .on(id)
                .detail("it was released")),
        }
    }
}

/// The lives that this connection knows of.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<HashMap<SandboxId, (Generation, Arc<Life>)>>);

impl Lives {
    /// The life of that generation. An older one that was known under the id is lost.
    pub(crate) fn of(&self, id: &SandboxId, generation: Generation) -> Arc<Life> {
        let mut lives = self.lock();
        if let Some((known, life)) = lives.get(id) {
            if *known == generation && life.closed.get().is_none() {
                return Arc::clone(life);
            }
            life.end(Closed::Lost {
                reason: format!("a newer sandbox has its id, generation {}", generation.0),
            });
        }
        let life = Arc::new(Life::default());
        lives.insert(id.clone(), (generation, Arc::clone(&life)));
        life
    }

    /// The peer says that a sandbox ended.
    pub(crate) fn end(&self, id: &SandboxId, generation: Option<Generation>, closed: Closed) {
        let mut lives = self.lock();
        let Some((known, life)) = lives.get(id) else {
            return;
        };
        if generation.is_none_or(|generation| generation == *known) {
            life.end(closed);
            lives.remove(id);
        }
    }

    /// The connection is gone, and every sandbox with it as far as its handles can tell.
    pub(crate) fn lose_all(&self, reason: &str) {
        for (_, (_, life)) in self.lock().drain() {
            life.end(Closed::Lost {
                reason: reason.to_owned(),
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, (Generation, Arc<Life>)>> {
        // Nothing that runs under the lock can panic half-way, so a poisoned state is a good one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

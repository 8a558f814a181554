//! One change of a name at a time.
//!
//! A name is known by its directory's device and inode and by itself, so that all paths which lead
//! there, through whichever sandbox of this process, meet at one lock. The locks are a fixed number
//! that names share: two names may wait for each other without need, but nothing has to be kept and
//! forgotten per name.
//!
//! Not here: anybody outside this process. What they can do is said at `content`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::root::Entry;

const STRIPES: usize = 64;
static LOCKS: [Mutex<()>; STRIPES] = [const { Mutex::new(()) }; STRIPES];

/// Names that are held. Threads that wait for them may wait: they are those of the blocking pool.
#[must_use]
pub(super) struct Held {
    _guards: Vec<MutexGuard<'static, ()>>,
}

/// Holds the names of these entries until dropped.
pub(super) fn hold<const N: usize>(entries: [&Entry<'_>; N]) -> Held {
    let mut stripes = entries.map(stripe);
    // Always in one order, and a shared lock once: nobody waits in a circle or for itself.
    stripes.sort_unstable();
    let mut guards = Vec::with_capacity(N);
    for (at, stripe) in stripes.iter().enumerate() {
        if at == 0 || stripes[at - 1] != *stripe {
            // The lock guards no data that a panic could have left half-made.
            guards.push(
                LOCKS[*stripe]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
    Held { _guards: guards }
}

fn stripe(entry: &Entry<'_>) -> usize {
    let mut hasher = DefaultHasher::new();
    (entry.dir_id, entry.name()).hash(&mut hasher);
    usize::try_from(hasher.finish() % STRIPES as u64).unwrap_or(0)
}

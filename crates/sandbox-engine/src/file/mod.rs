//! The file verbs: `read`, `read_many`, `write`, `remove`, `stat_many`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `read` | reading one file, parts of it, or several |
//! | `write` | a list of changes, and what became of each |
//! | `content` | giving a file new content: preconditions, edits, what was there before |
//! | `stage` | content that becomes visible all at once |
//! | `edit`, `hint` | replacing texts, and what to say when one is not there |
//! | `names` | directories, renames, links, permission bits |
//! | `remove` | removing entries and trees |
//! | `stat` | what entries are |
//! | `text` | lines, line ends, encodings |
//! | `lock` | one change of a name at a time |
//! | `call` | where work runs and how it is interrupted |
//!
//! **Invariants.**
//! - A reader sees the old content of a file or the new, never a mixture: content is written beside
//!   and renamed into place. What that costs is said at `stage`. A file that is mounted by itself is the one
//!   exception (`in_place`).
//! - Two changes of one file through this process never lose one of them (`lock`).
//! - Names are data. Nothing here builds a command line, a pattern or another path from one.
//!
//! Not here: containment (`root`).

pub(crate) mod call;
mod content;
mod edit;
mod hint;
mod in_place;
mod lock;
mod names;
mod read;
mod remove;
mod stage;
pub(crate) mod stat;
mod text;
mod write;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::root::Roots;

/// The file verbs over a table of roots. Clones share it.
#[derive(Clone, Debug)]
pub struct Files {
    roots: Arc<Roots>,
}

impl Files {
    /// The file verbs over `roots`. They run on the calling runtime and its pool of threads that may
    /// wait.
    #[must_use]
    pub fn new(roots: Arc<Roots>) -> Self {
        Self { roots }
    }
}

/// When the content changed last; `None` for a time that the clock cannot say.
fn modified(stat: &rustix::fs::Stat) -> Option<SystemTime> {
    #[expect(
        clippy::unnecessary_cast,
        reason = "the types differ between architectures"
    )]
    time(stat.st_mtime as i64, stat.st_mtime_nsec as u64)
}

/// When content or metadata changed last.
fn changed(stat: &rustix::fs::Stat) -> Option<SystemTime> {
    #[expect(
        clippy::unnecessary_cast,
        reason = "the types differ between architectures"
    )]
    time(stat.st_ctime as i64, stat.st_ctime_nsec as u64)
}

fn time(seconds: i64, nanos: u64) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    base?.checked_add(Duration::from_nanos(nanos))
}

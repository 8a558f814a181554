//! `glob`: entries by name.
//!
//! Each thread keeps what could still be part of the answer: the first so many in order, and of those no
//! more than fit one answer. So a limit of a hundred over a million names keeps hundreds, and the answer
//! is the same however many threads found it. Without an order, the walk ends when there is enough.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use bytes::Bytes;
use rustix::io::Errno;
use sandbox_core::file::{EntryKind, Stat};
use sandbox_core::path::MAX_PATH_BYTES;
use sandbox_core::search::{Completeness, FoundEntry, GlobRequest, GlobResult, Sort, WithStat};
use sandbox_core::{Ctx, Result, Verb};
use sandbox_tree::walk::{Entry, Place, Trouble, Visitor, Walk};

use super::answer::{self, BUDGET};
use super::{join, or, refuse_cancelled};
use crate::file::stat::describe;
use crate::root::{Fault, Roots};

/// Bytes that a [`Stat`] may take in an answer, but for the text of a link.
const STAT_BYTES: u64 = 260;
/// Bytes that are around an entry.
const ENTRY_BYTES: u64 = 24;
/// What a thread keeps before it looks what of it can still be part of the answer.
const SLACK: u64 = 3;

pub(super) fn glob(
    roots: &Roots,
    ctx: &Ctx,
    walk: &Walk,
    request: &GlobRequest,
) -> Result<GlobResult> {
    let root = &request.scope.root;
    let failed = |fault: Fault| fault.on(Verb::Glob, root);
    let place = roots.place(root).map_err(failed)?;
    let base = place.base();
    let start = Place::new(&base).below(&place.below);
    let shared = Shared {
        request,
        root_bytes: root.as_bytes().len() + 1,
        found: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    };
    let (visitors, summary) = walk
        .run(ctx, &start, || Collect {
            shared: &shared,
            kept: Vec::new(),
            kept_bytes: 0,
            more: false,
            too_long: 0,
            changed: Trouble::default(),
        })
        .map_err(|errno| failed(errno.into()))?;
    refuse_cancelled(Verb::Glob, &summary)?;

    let mut all = Vec::new();
    let (mut more, mut too_long) = (false, 0);
    let mut changed = Trouble::default();
    for visitor in visitors {
        all.extend(visitor.kept);
        more |= visitor.more;
        too_long += visitor.too_long;
        changed.merge(visitor.changed);
    }
    all.sort_unstable_by(|a, b| compare(request.sort, a, b));
    let (fitting, _) = fitting(&all, request.limit);
    more |= fitting < all.len();
    let by_limit = fitting as u64 >= request.limit;
    all.truncate(fitting);
    let mut summary = summary;
    summary.changed.merge(changed);
    let complete = if more && by_limit {
        answer::limited(format!(
            "there are more than the {} that were asked for; narrow the scope, or raise the limit",
            request.limit
        ))
    } else if more {
        answer::limited(format!(
            "only the first {} fit one answer; narrow the scope, or ask for its parts one by one",
            all.len()
        ))
    } else {
        or(summary.completeness(), || match too_long {
            0 => Completeness::Complete,
            some => answer::limited(format!(
                "{some} have a path of more than {MAX_PATH_BYTES} bytes, which cannot be named; start further in"
            )),
        })
    };
    let entries = all
        .into_iter()
        .filter_map(|found| {
            Some(FoundEntry {
                path: join(root, &found.path)?,
                stat: found.stat.filter(|_| request.stat == WithStat::Yes),
            })
        })
        .collect();
    Ok(GlobResult { entries, complete })
}

struct Found {
    path: Box<[u8]>,
    stat: Option<Stat>,
    bytes: u64,
}

/// How many from the first on are part of an answer, and their bytes.
fn fitting(found: &[Found], limit: u64) -> (usize, u64) {
    let mut bytes = 0;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    for (count, one) in found.iter().enumerate().take(most) {
        if bytes + one.bytes > BUDGET {
            return (count, bytes);
        }
        bytes += one.bytes;
    }
    (found.len().min(most), bytes)
}

fn compare(sort: Sort, a: &Found, b: &Found) -> Ordering {
    let modified = |found: &Found| found.stat.as_ref().and_then(|stat| stat.modified);
    match sort {
        // What was found by chance is shown in order, too.
        Sort::None | Sort::Path => a.path.cmp(&b.path),
        Sort::Modified => modified(b)
            .cmp(&modified(a))
            .then_with(|| a.path.cmp(&b.path)),
    }
}

struct Shared<'a> {
    request: &'a GlobRequest,
    root_bytes: usize,
    /// Entries and their bytes, counted where they come in no order.
    found: AtomicU64,
    bytes: AtomicU64,
}

struct Collect<'a> {
    shared: &'a Shared<'a>,
    kept: Vec<Found>,
    kept_bytes: u64,
    /// Something was left out.
    more: bool,
    too_long: u64,
    changed: Trouble,
}

impl Visitor for Collect<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
        let request = self.shared.request;
        if self.shared.root_bytes + entry.path().len() > MAX_PATH_BYTES {
            self.too_long += 1;
            return ControlFlow::Continue(());
        }
        let stat = if request.stat == WithStat::Yes || request.sort == Sort::Modified {
            match stat(entry) {
                Ok(stat) => Some(stat),
                Err(errno) => {
                    self.changed.add(entry.path(), errno);
                    return ControlFlow::Continue(());
                }
            }
        } else {
            None
        };
        let mut bytes = ENTRY_BYTES + answer::text(self.shared.root_bytes + entry.path().len());
        if let (Some(stat), WithStat::Yes) = (&stat, request.stat) {
            bytes += STAT_BYTES
                + stat
                    .target
                    .as_ref()
                    .map_or(0, |text| answer::text(text.len()));
        }
        if request.sort == Sort::None {
            let found = self.shared.found.fetch_add(1, Memory::Relaxed);
            let sum = self.shared.bytes.fetch_add(bytes, Memory::Relaxed);
            if found >= request.limit || sum + bytes > BUDGET {
                self.more = true;
                return ControlFlow::Break(());
            }
        }
        self.kept_bytes += bytes;
        self.kept.push(Found {
            path: entry.path().into(),
            stat,
            bytes,
        });
        if self.kept_bytes > SLACK * BUDGET
            || self.kept.len() as u64 > request.limit.saturating_mul(SLACK).saturating_add(1024)
        {
            self.prune();
        }
        ControlFlow::Continue(())
    }
}

impl Collect<'_> {
    fn prune(&mut self) {
        let request = self.shared.request;
        self.kept
            .sort_unstable_by(|a, b| compare(request.sort, a, b));
        let (count, bytes) = fitting(&self.kept, request.limit);
        self.more |= count < self.kept.len();
        self.kept.truncate(count);
        self.kept_bytes = bytes;
    }
}

fn stat(entry: &Entry<'_>) -> Result<Stat, Errno> {
    let stat = entry.stat()?;
    let mut described = describe(&stat, None);
    if described.kind == EntryKind::Link {
        let text = rustix::fs::readlinkat(entry.directory(), entry.name(), Vec::new())?;
        described.target = Some(Bytes::from(text.into_bytes()));
    }
    Ok(described)
}

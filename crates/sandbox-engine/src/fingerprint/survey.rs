//! One look at a tree: a parallel walk that notes what each entry is, and then reads the files whose
//! content has to be known.
//!
//! Which files those are is decided once all names are known and in order, beside the records of
//! earlier looks: one whose identity did not change since its content was read is not read again.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use sandbox_core::file::EntryKind;
use sandbox_core::search::FingerprintDepth;
use sandbox_core::{Ctx, Digest};
use sandbox_tree::walk::{End, Place, Summary, Walk};

use super::content::{self, Opener, Read};
use super::coverage::{Coverage, Cut};
use super::manifest::{Age, Body, Builder, Facts, Identity, Manifest};
use super::moment::Clock;
use super::notes::{self, Sorted};

/// Most bytes of files that are read although only metadata was asked for, because they had changed
/// just before.
const MAX_FRESH_BYTES: u64 = 64 << 20;

/// What is looked at, and how.
pub(super) struct Survey<'a> {
    pub(super) walk: &'a Walk,
    /// The scope's root, as a place.
    pub(super) root: &'a OwnedFd,
    pub(super) place: Place<'a>,
    pub(super) depth: FingerprintDepth,
    pub(super) limit: u64,
    pub(super) purpose: Purpose,
    /// Contents that are known from before.
    pub(super) known: Option<Arc<Manifest>>,
    /// What the result will be compared with.
    pub(super) against: Option<Arc<Manifest>>,
}

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Later ones are compared with it, so what its identities cannot show is read.
    Base,
    /// It is compared with an earlier one.
    Comparison,
}

impl Survey<'_> {
    /// Looks. An interruption by `ctx` ends it with what was seen until then.
    pub(super) fn run(&self, ctx: &Ctx) -> Result<Manifest, Errno> {
        // Before anything is looked at: what changes from here on carries a later time.
        let clock = Clock::read();
        let shared = notes::Shared::new(self.limit);
        let (mut notes, summary) = self.walk.run(ctx, &self.place, || shared.notes())?;
        let (sorted, mut coverage) = notes::sort(&mut notes);
        if let Some(cut) = shared.cut() {
            coverage.cut(cut);
        }
        let device = rustix::fs::fstat(self.root)?.st_dev;
        self.account(&summary, &sorted, device, &mut coverage);

        let plan = self.plan(&sorted, &clock);
        let path = |at: usize| sorted.path(plan.read[at]);
        let read = content::read_all(self.root.as_fd(), device, plan.read.len(), path, ctx);
        Ok(self.record(&sorted, &clock, &plan, &read, coverage))
    }

    /// Notes what the walk could not see.
    fn account(
        &self,
        summary: &Summary,
        sorted: &Sorted<'_>,
        device: u64,
        coverage: &mut Coverage,
    ) {
        match summary.end {
            End::Late | End::Cancelled => coverage.cut(Cut::Deadline),
            End::Complete | End::Stopped => {}
        }
        coverage.moving(summary.changed.count);
        if summary.unreadable.count == 0 {
            return;
        }
        // The walk counts them; which they are can be seen again.
        let mut opener = Opener::new(self.root.as_fd(), device);
        let mut named = 0;
        for at in 0..sorted.len() {
            let path = sorted.path(at);
            if sorted.item(at).kind == EntryKind::Directory && opener.is_closed(path) {
                coverage.hole(path);
                named += 1;
            }
        }
        let passing = summary.unreadable.count.saturating_sub(named);
        coverage.passing_holes(passing, summary.unreadable.first.clone());
    }

    /// Decides whose content is known and whose has to be read.
    fn plan(&self, sorted: &Sorted<'_>, clock: &Clock) -> Plan {
        let mut plan = Plan::default();
        let mut known = self.known.as_ref().map(|manifest| manifest.cursor());
        let mut against = self.against.as_ref().map(|manifest| manifest.cursor());
        let mut fresh_bytes = 0;
        for at in 0..sorted.len() {
            let item = sorted.item(at);
            if item.kind != EntryKind::File {
                continue;
            }
            let path = sorted.path(at);
            let same = |facts: &Facts<'_>| {
                facts.kind == EntryKind::File && facts.identity == item.identity
            };
            if let Some(Facts {
                age: Age::Settled,
                body: Body::Content(digest),
                ..
            }) = known
                .as_mut()
                .and_then(|cursor| cursor.seek(path))
                .filter(same)
            {
                plan.known.push((at, digest));
                continue;
            }
            let wanted = self.depth == FingerprintDepth::Content;
            let doubtful = (self.purpose == Purpose::Base && !clock.settled(item.identity.changed))
                || against
                    .as_mut()
                    .and_then(|cursor| cursor.seek(path))
                    .filter(same)
                    .is_some_and(|facts| facts.age == Age::Fresh);
            if doubtful && !wanted {
                fresh_bytes += item.identity.size;
            }
            if wanted || (doubtful && fresh_bytes <= MAX_FRESH_BYTES) {
                plan.read.push(at);
            }
        }
        plan
    }

    fn record(
        &self,
        sorted: &Sorted<'_>,
        clock: &Clock,
        plan: &Plan,
        read: &[Read],
        mut coverage: Coverage,
    ) -> Manifest {
        let mut builder = Builder::default();
        let mut known = plan.known.iter().peekable();
        let mut read = plan.read.iter().zip(read).peekable();
        for at in 0..sorted.len() {
            let (path, item) = (sorted.path(at), sorted.item(at));
            let mut facts = Facts {
                kind: item.kind,
                mode: item.mode,
                identity: item.identity,
                age: age(clock, item.identity),
                body: sorted.text(at).map_or(Body::Unknown, Body::Text),
            };
            if let Some((_, digest)) = known.next_if(|(known, _)| *known == at) {
                facts.body = Body::Content(*digest);
                // It was settled when it was read.
                facts.age = Age::Settled;
            }
            if let Some((_, read)) = read.next_if(|(read, _)| **read == at) {
                match *read {
                    Read::Content(digest, identity) => {
                        facts.body = Body::Content(digest);
                        facts.identity = identity;
                        facts.age = age(clock, identity);
                    }
                    Read::Gone => continue,
                    Read::Moving => {
                        facts.age = Age::Fresh;
                        coverage.moving(1);
                    }
                    Read::Unreadable if self.depth == FingerprintDepth::Content => {
                        coverage.unread(path);
                    }
                    Read::Unreadable => {}
                    Read::Stopped => coverage.cut(Cut::Deadline),
                }
            }
            builder.push(path, &facts);
        }
        builder.finish(coverage)
    }
}

fn age(clock: &Clock, identity: Identity) -> Age {
    if clock.settled(identity.changed) {
        Age::Settled
    } else {
        Age::Fresh
    }
}

/// What is to be done about contents, each by the place of its entry.
#[derive(Debug, Default)]
struct Plan {
    known: Vec<(usize, Digest)>,
    read: Vec<usize>,
}

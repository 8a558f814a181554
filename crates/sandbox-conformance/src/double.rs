//! Sandboxes that are wrong in exactly one way.
//!
//! A suite that everything passes proves nothing. For each check there is a [`Double`]: a provider
//! that does all as it should, except for one thing, and that one thing is what the check is
//! about. The matrix of all checks on all doubles shows that each check can fail, and that each
//! finds something that no other finds.
//!
//! A double wraps an honest provider and replaces one verb by a function, which is handed the
//! honest sandbox and may ask it for anything. Most are a few lines: change the request, or the answer.
//!
//! Doubles assume a workspace on this machine: some do outside it what an escape would do.

mod change;
mod containment;
mod edit;
mod entry;
mod exec;
mod fingerprint;
mod lifecycle;
mod live;
mod matches;
mod output;
mod read;
mod search;
mod spawn;
mod transfer;
mod tree;
mod wrapped;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sandbox_core::file::{
    Change, FileContent, ReadManyRequest, ReadManyResult, ReadRequest, RemoveReceipt,
    RemoveRequest, StatManyRequest, StatManyResult, WriteReceipt, WriteRequest, WriteResult,
};
use sandbox_core::process::{
    ExecRequest, Execution, Outcome, ProcChunk, ProcReadRequest, ProcStdinRequest, ProcStopRequest,
    ProcessSpec, SpawnReceipt, SpawnRequest, StdinReceipt, StopReceipt,
};
use sandbox_core::search::{
    Fingerprint, FingerprintRequest, GlobRequest, GlobResult, GrepRequest, GrepResult,
};
use sandbox_core::transfer::{Pull, PullRequest, PushReceipt, PushRequest};
use sandbox_core::{
    AcquireSpec, Closed, Ctx, Descriptor, Probe, Provider, ReleaseReceipt, Result, Sandbox,
    SandboxEntry, TemplateReceipt,
};

pub use wrapped::Calls;
use wrapped::{Honest, HonestProvider, Release};

/// A provider that is wrong in exactly one way.
#[derive(Clone, Copy)]
pub struct Double {
    /// The check that catches it, and that no other check is needed for.
    pub check: &'static str,
    /// What it does wrong, in one sentence.
    pub lie: &'static str,
    tamper: Tamper,
}

impl std::fmt::Debug for Double {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Double")
            .field("check", &self.check)
            .field("lie", &self.lie)
            .finish_non_exhaustive()
    }
}

impl Double {
    /// Every double, in the order of the checks that catch them.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        [
            read::DOUBLES,
            change::DOUBLES,
            edit::DOUBLES,
            entry::DOUBLES,
            containment::DOUBLES,
            search::DOUBLES,
            matches::DOUBLES,
            exec::DOUBLES,
            output::DOUBLES,
            live::DOUBLES,
            tree::DOUBLES,
            spawn::DOUBLES,
            fingerprint::DIGEST,
            fingerprint::CHANGES,
            fingerprint::TRACK,
            transfer::DOUBLES,
            lifecycle::DOUBLES,
        ]
        .into_iter()
        .flatten()
    }

    /// `provider`, made wrong.
    #[must_use]
    pub fn wrap(&'static self, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        wrapped::wrap(provider, Some(self), Calls::default())
    }

    /// What a check must call for this double to differ from an honest provider.
    #[must_use]
    pub fn touches(&self, calls: &Calls) -> bool {
        self.tamper.verbs().iter().any(|verb| calls.contains(*verb))
    }
}

/// `provider` as it is, with the verbs that are called noted in `calls`.
#[must_use]
pub fn counted(provider: Arc<dyn Provider>, calls: Calls) -> Arc<dyn Provider> {
    wrapped::wrap(provider, None, calls)
}

/// Takes the place of a verb.
type Verb<H, R, A> = fn(Arc<H>, Ctx, R) -> BoxFuture<'static, Result<A>>;

/// The one thing that is wrong.
#[derive(Clone, Copy)]
enum Tamper {
    Descriptor(fn(&mut Descriptor)),
    Closed(fn(Closed) -> Closed),
    Read(Verb<Honest, ReadRequest, FileContent>),
    ReadMany(Verb<Honest, ReadManyRequest, ReadManyResult>),
    Write(Verb<Honest, WriteRequest, WriteResult>),
    /// Each change of a `write` by itself.
    Change(Verb<Honest, Change, WriteReceipt>),
    Remove(Verb<Honest, RemoveRequest, RemoveReceipt>),
    StatMany(Verb<Honest, StatManyRequest, StatManyResult>),
    Fingerprint(Verb<Honest, FingerprintRequest, Fingerprint>),
    Glob(Verb<Honest, GlobRequest, GlobResult>),
    Grep(Verb<Honest, GrepRequest, GrepResult>),
    Exec(Verb<Honest, ExecRequest, Execution>),
    /// What `exec` and `spawn` are to run.
    Process(fn(&mut ProcessSpec)),
    /// What `exec` answers in the end.
    Outcome(fn(&ProcessSpec, Result<Outcome>) -> Result<Outcome>),
    Spawn(Verb<Honest, SpawnRequest, SpawnReceipt>),
    ProcRead(Verb<Honest, ProcReadRequest, ProcChunk>),
    ProcStdin(Verb<Honest, ProcStdinRequest, StdinReceipt>),
    ProcStop(Verb<Honest, ProcStopRequest, StopReceipt>),
    PushTree(Verb<Honest, PushRequest, PushReceipt>),
    PullTree(Verb<Honest, PullRequest, Pull>),
    Acquire(Verb<HonestProvider, AcquireSpec, Arc<dyn Sandbox>>),
    Release(Verb<HonestProvider, Release, ReleaseReceipt>),
    List(fn(Vec<SandboxEntry>) -> Vec<SandboxEntry>),
    Probe(fn(Probe) -> Probe),
    Prepare(fn() -> TemplateReceipt),
}

impl Tamper {
    /// The verbs that are not the honest ones.
    fn verbs(self) -> &'static [sandbox_core::Verb] {
        use sandbox_core::Verb as V;
        match self {
            // Every check opens a sandbox.
            Self::Descriptor(_) | Self::Closed(_) | Self::Acquire(_) | Self::Release(_) => {
                &[V::Acquire]
            }
            Self::Read(_) => &[V::Read],
            Self::ReadMany(_) => &[V::ReadMany],
            Self::Write(_) | Self::Change(_) => &[V::Write],
            Self::Remove(_) => &[V::Remove],
            Self::StatMany(_) => &[V::StatMany],
            Self::Glob(_) => &[V::Glob],
            Self::Grep(_) => &[V::Grep],
            Self::Exec(_) | Self::Outcome(_) => &[V::Exec],
            Self::Process(_) => &[V::Exec, V::Spawn],
            Self::Spawn(_) => &[V::Spawn],
            Self::Fingerprint(_) => &[V::Fingerprint],
            Self::ProcRead(_) => &[V::ProcRead],
            Self::ProcStdin(_) => &[V::ProcStdin],
            Self::ProcStop(_) => &[V::ProcStop],
            Self::PushTree(_) => &[V::PushTree],
            Self::PullTree(_) => &[V::PullTree],
            Self::List(_) => &[V::List],
            Self::Probe(_) => &[V::Probe],
            Self::Prepare(_) => &[V::Prepare],
        }
    }
}

/// A table of doubles. Each names the check that catches it, says what is wrong, and gives the
/// function that takes the place of a verb.
macro_rules! doubles {
    ($($check:ident: $lie:literal $kind:ident ($($argument:tt)*) $body:block)+) => {
        pub(in crate::double) const DOUBLES: &[crate::double::Double] = &[
            $(crate::double::Double {
                check: stringify!($check),
                lie: $lie,
                tamper: doubles!(@ $kind ($($argument)*) $body),
            }),+
        ];
    };
    (@ descriptor ($descriptor:ident) $body:block) => {
        crate::double::Tamper::Descriptor(|$descriptor| $body)
    };
    (@ closed ($closed:pat) $body:block) => { crate::double::Tamper::Closed(|$closed| $body) };
    (@ process ($process:ident) $body:block) => {
        crate::double::Tamper::Process(|$process| $body)
    };
    (@ outcome ($process:pat, $outcome:pat) $body:block) => {
        crate::double::Tamper::Outcome(|$process, $outcome| $body)
    };
    (@ list ($entries:pat) $body:block) => { crate::double::Tamper::List(|$entries| $body) };
    (@ probe ($probe:pat) $body:block) => { crate::double::Tamper::Probe(|$probe| $body) };
    (@ prepare () $body:block) => { crate::double::Tamper::Prepare(|| $body) };
    (@ read $arguments:tt $body:block) => { doubles!(@@ Read $arguments $body) };
    (@ read_many $arguments:tt $body:block) => { doubles!(@@ ReadMany $arguments $body) };
    (@ write $arguments:tt $body:block) => { doubles!(@@ Write $arguments $body) };
    (@ change $arguments:tt $body:block) => { doubles!(@@ Change $arguments $body) };
    (@ remove $arguments:tt $body:block) => { doubles!(@@ Remove $arguments $body) };
    (@ stat_many $arguments:tt $body:block) => { doubles!(@@ StatMany $arguments $body) };
    (@ fingerprint $arguments:tt $body:block) => { doubles!(@@ Fingerprint $arguments $body) };
    (@ glob $arguments:tt $body:block) => { doubles!(@@ Glob $arguments $body) };
    (@ grep $arguments:tt $body:block) => { doubles!(@@ Grep $arguments $body) };
    (@ exec $arguments:tt $body:block) => { doubles!(@@ Exec $arguments $body) };
    (@ spawn $arguments:tt $body:block) => { doubles!(@@ Spawn $arguments $body) };
    (@ proc_read $arguments:tt $body:block) => { doubles!(@@ ProcRead $arguments $body) };
    (@ proc_stdin $arguments:tt $body:block) => { doubles!(@@ ProcStdin $arguments $body) };
    (@ proc_stop $arguments:tt $body:block) => { doubles!(@@ ProcStop $arguments $body) };
    (@ push_tree $arguments:tt $body:block) => { doubles!(@@ PushTree $arguments $body) };
    (@ pull_tree $arguments:tt $body:block) => { doubles!(@@ PullTree $arguments $body) };
    (@ acquire $arguments:tt $body:block) => { doubles!(@@ Acquire $arguments $body) };
    (@ release $arguments:tt $body:block) => { doubles!(@@ Release $arguments $body) };
    (@@ $verb:ident ($honest:ident, $ctx:ident, $request:pat) $body:block) => {
        crate::double::Tamper::$verb(|$honest, $ctx, $request| Box::pin(async move { $body }))
    };
}
use doubles;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Double;
    use crate::CHECKS;

    #[test]
    fn every_check_has_a_double() {
        let caught: BTreeSet<_> = Double::all().map(|double| double.check).collect();
        let checks: BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(caught, checks);
    }
}

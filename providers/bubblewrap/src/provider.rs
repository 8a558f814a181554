//! Sandboxes that are namespaces of this machine.
//!
//! Each has an engine of its own, which is the first process of its namespaces. What is asked of the sandbox is asked
//! of that engine; this process only starts it, and ends it.
//!
//! **Invariants.**
//! - A release is not answered before everything inside is gone, and nothing takes the place of a sandbox before.
//! - A sandbox that ended by itself is lost, for good: its id can be acquired again, and is then another life.
//! - The workspace is the caller's. It is never removed, whatever a release asks for.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_cgroup::Group;
use sandbox_core::{
    AcquireSpec, Capabilities, Capability, Ctx, Descriptor, Disposition, Effect, Error, ErrorKind,
    Probe, Provider, ProviderInfo, ReleaseReceipt, Result, Sandbox, SandboxEntry, SandboxId,
    SandboxState, TemplateReceipt, TemplateSpec, Update, Verb,
};
use spp_client::place::{PlaceOptions, Placed, Spawner, StartFault, find_engine};

use crate::bwrap::{Finder, Program};
use crate::launch::{self, ARGUMENT, Item, Order, Starter};
use crate::limits;
use crate::lone::{self, Lone};
use crate::refusal::Refusal;
use crate::spec::Plan;
use crate::view::{self, HOME, NetworkView, TMP, View};
use crate::wait::{answered, within};

/// The name of this provider and of its location.
pub(crate) const NAME: &str = "bubblewrap";
/// How long an engine may take to answer, first and for its sandbox. It takes milliseconds; the rest is for a busy machine.
const START: Duration = Duration::from_secs(30);
/// How long what runs may be ended in order before the whole place is.
const RELEASE: Duration = Duration::from_secs(2);
/// This executable, whatever has its name by now.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// What this provider can do.
pub(crate) fn capabilities() -> Capabilities {
    let own = [Capability::Probe, Capability::List];
    spp_client::place::capabilities()
        .iter()
        .chain(own)
        .collect()
}

/// Gives out sandboxes. See the [module](self).
pub(crate) struct Bubblewrap {
    info: Arc<ProviderInfo>,
    finder: Finder,
    spawner: Spawner,
    slots: Mutex<HashMap<SandboxId, Arc<Slot>>>,
}

/// What has an id. Whoever makes or ends it holds the lock.
type Slot = tokio::sync::Mutex<Option<Living>>;

struct Living {
    /// Whether its release has begun: it is nobody's any more, and not gone yet.
    is_released: bool,
    spec: AcquireSpec,
    sandbox: Arc<dyn Sandbox>,
    place: Place,
}

/// An engine in a place of its own.
struct Place {
    engine: Placed,
    /// What its commands are limited by.
    group: Option<Arc<Group>>,
    /// Given back once the engine was ended.
    _user: Option<Lone>,
}

impl Bubblewrap {
    /// A provider without sandboxes.
    ///
    /// # Errors
    ///
    /// No thread can be made.
    pub(crate) fn new() -> Result<Self> {
        let spawner = Spawner::new().map_err(|error| {
            Error::refused(Verb::Initialize, ErrorKind::ProviderUnavailable)
                .detail("no thread can be made; see the limits of this user")
                .caused_by(error)
        })?;
        Ok(Self {
            info: Arc::new(ProviderInfo {
                name: NAME.into(),
                version: env!("CARGO_PKG_VERSION").into(),
                capabilities: capabilities(),
            }),
            finder: Finder::default(),
            spawner,
            slots: Mutex::default(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Slot>>> {
        // Nothing that runs under the lock leaves it half-changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &SandboxId) -> Arc<Slot> {
        Arc::clone(self.slots().entry(id.clone()).or_default())
    }

    /// Gives a slot back, and forgets it if it is empty and nobody else has it.
    fn give_back(&self, id: &SandboxId, slot: Arc<Slot>) {
        let mut slots = self.slots();
        drop(slot);
        // A clone is only made under the lock that is held here.
        if let Some(known) = slots.get_mut(id)
            && Arc::get_mut(known).is_some_and(|slot| slot.get_mut().is_none())
        {
            slots.remove(id);
        }
    }

    /// Starts an engine in a place of its own.
    async fn place(&self, ctx: &Ctx, plan: &Plan) -> std::result::Result<Place, Trouble> {
        let program = self.finder.find().await.map_err(Trouble::Refused)?;
        let no_engine = |why: String| {
            let remedy = "every provider of this kind needs the engine beside it";
            Trouble::Refused(Refusal::new(why, remedy))
        };
        let engine = find_engine().map_err(|fault| no_engine(fault.to_string()))?;
        // What is shown is opened by its real path, and whoever installs may have linked it.
        let engine = std::fs::canonicalize(&engine.path)
            .map_err(|error| no_engine(format!("{}: {error}", engine.path.display())))?;
        let (starter, user) = starter().map_err(Trouble::Refused)?;
        let view = View {
            network: plan.network,
            engine,
            shown: plan.shown.clone(),
            hidden: plan.hidden.clone(),
        };
        let group = limits::group(&plan.inside.policy).await;
        let mut items = view.items(Path::new("/"), claims(plan.network, &program));
        // The engine's arguments are the last.
        let doors = group.iter().flat_map(|group| group.doors());
        items.extend(doors.map(Item::Limit));
        let order = Order {
            starter,
            parent: std::process::id(),
            by_descriptor: program.by_descriptor,
            bwrap: program.path.clone().into_os_string(),
            items,
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "started by the one door for places, `Spawner`"
        )]
        let mut command = tokio::process::Command::new(OWN_EXECUTABLE);
        command.arg(ARGUMENT).env_clear();
        let options = PlaceOptions {
            ahead: launch::ahead(&order),
            provider: NAME.into(),
            version: self.info.version.clone(),
            capabilities: spp_client::place::capabilities(),
            start_timeout: START,
        };
        match Placed::start(ctx, &self.spawner, command, options).await {
            Ok(engine) => Ok(Place {
                engine,
                group,
                _user: user,
            }),
            Err(StartFault::Handshake { error, .. })
                if matches!(
                    error.kind(),
                    ErrorKind::Cancelled | ErrorKind::DeadlineExceeded
                ) =>
            {
                Err(Trouble::Failed(error))
            }
            Err(fault) => Err(Trouble::Refused(Refusal::of_start(&fault))),
        }
    }

    async fn make(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Living> {
        let plan = plan(ctx, spec).await?;
        let place = self
            .place(ctx, &plan)
            .await
            .map_err(|trouble| trouble.error(&spec.id))?;
        let inside = place.engine.connection();
        let acquired = answered(
            START,
            Verb::Acquire,
            inside.acquire_as(ctx, &plan.inside, |inside| self.describe(inside)),
        );
        match acquired.await {
            Ok(sandbox) => Ok(Living {
                is_released: false,
                spec: spec.clone(),
                sandbox,
                place,
            }),
            Err(error) => {
                place.end().await;
                // Whatever the engine had done is gone with it.
                Err(error.with_effect(Effect::None))
            }
        }
    }

    /// What [`acquire`](Provider::acquire) does once it has the slot.
    async fn acquire_in(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        living: &mut Option<Living>,
    ) -> Result<Arc<dyn Sandbox>> {
        if let Some(known) = &*living {
            if known.is_there() {
                if known.spec == *spec {
                    return Ok(Arc::clone(&known.sandbox));
                }
                return Err(Error::refused(Verb::Acquire, ErrorKind::Conflict)
                    .on(&spec.id)
                    .detail(
                        "the id is in use with another spec; release it first, or choose another id",
                    ));
            }
            // It stays here until it is gone, so that whoever gives up waiting leaves that to the next.
            within(ctx, Verb::Acquire, &spec.id, known.place.end()).await?;
            *living = None;
        }
        let made = self.make(ctx, spec).await?;
        Ok(Arc::clone(&living.insert(made).sandbox))
    }

    /// What [`release`](Provider::release) does once it has the slot; whether there was something.
    async fn release_in(&self, ctx: &Ctx, id: &SandboxId, living: &mut Option<Living>) -> bool {
        let Some(known) = living else {
            return false;
        };
        let existed = known.is_there();
        if existed {
            known.is_released = true;
            let left = ctx.remaining().map_or(RELEASE, |left| left.min(RELEASE));
            let ctx = ctx.clone().with_timeout(left);
            let inside = known.place.engine.connection();
            // So that what holds the sandbox learns that it was released. The place is ended in any case.
            if let Err(error) = inside.release(&ctx, id, Disposition::Keep).await {
                tracing::debug!(sandbox = %id, %error, "the engine did not release it");
            }
        }
        known.place.end().await;
        *living = None;
        existed
    }

    /// What the sandbox is, from what its engine says.
    fn describe(&self, inside: Descriptor) -> Descriptor {
        Descriptor {
            location: NAME.into(),
            provider: NAME.into(),
            capabilities: inside.capabilities.intersection(&self.info.capabilities),
            ..inside
        }
    }
}

impl Place {
    /// Ends it, and returns once nothing of it is left.
    async fn end(&self) {
        self.engine.end().await;
        if let Some(group) = &self.group {
            limits::remove(group).await;
        }
    }
}

impl Living {
    fn is_there(&self) -> bool {
        !self.is_released && self.place.engine.is_there()
    }
}

/// Why there is no place.
enum Trouble {
    /// It cannot be had here.
    Refused(Refusal),
    /// It was not waited for.
    Failed(Error),
}

impl Trouble {
    fn error(self, id: &SandboxId) -> Error {
        match self {
            Self::Refused(refusal) => refusal.error(id),
            Self::Failed(error) => error.on(id),
        }
    }
}

/// Decides what a spec asks for, beside everything else that goes on: it may name many paths, and disks may be slow.
async fn plan(ctx: &Ctx, spec: &AcquireSpec) -> Result<Plan> {
    let asked = spec.clone();
    let decided = tokio::task::spawn_blocking(move || Plan::of(&asked, std::env::vars_os()));
    match within(ctx, Verb::Acquire, &spec.id, decided).await? {
        Ok(plan) => plan,
        Err(error) => Err(Error::refused(Verb::Acquire, ErrorKind::Internal)
            .on(&spec.id)
            .detail(error)),
    }
}

/// Who starts places here, and the user that is taken for one.
fn starter() -> std::result::Result<(Starter, Option<Lone>), Refusal> {
    if !rustix::process::geteuid().is_root() {
        return Ok((Starter::User, None));
    }
    let user = lone::take()?;
    Ok((Starter::Root { becomes: user.id }, Some(user)))
}

/// What the engine is told of the place it is in.
fn claims(network: NetworkView, program: &Program) -> Vec<OsString> {
    let mut claims: Vec<OsString> = Vec::new();
    let mut claim = |name: &str, value: &str| claims.extend([name.into(), value.into()]);
    claim("--location", NAME);
    claim("--inherit", "nothing");
    claim("--guard", "always");
    // They are numbered anew in its user namespace.
    claim("--own-users", "yes");
    for directory in [TMP, HOME, "/dev/shm"] {
        claim("--writable", directory);
    }
    for directory in view::readable(Path::new("/")) {
        claim("--readable", directory);
    }
    claim("--kept-away", "write-contained");
    match network {
        NetworkView::None => {
            for restriction in ["network-denied", "process-contained", "secrets-hidden"] {
                claim("--kept-away", restriction);
            }
            claim("--note", "there is no network but a loopback of its own");
        }
        NetworkView::Machine => {
            const GAP: &str = "services of this machine that listen on its network, or on a socket without a file, can be \
                spoken to";
            for restriction in ["process-contained", "secrets-hidden"] {
                claim("--kept-partly", &format!("{restriction}={GAP}"));
            }
            claim("--note", "the network is this machine's");
        }
    }
    claim(
        "--note",
        &format!("{TMP} and {HOME} are in memory, and gone with the sandbox"),
    );
    // `connect` names what it wants by a path, which no namespace of networks and no filter of system calls sees.
    claim(
        "--note",
        "a socket that has a name in the workspace or in a mount can be connected to, and whoever listens on it be spoken \
         to: show nothing that holds one",
    );
    for note in program.notes() {
        claim("--note", &note);
    }
    claims
}

#[async_trait]
impl Provider for Bubblewrap {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::clone(&self.info)
    }

    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        let plan = match plan(ctx, spec).await {
            Ok(plan) => plan,
            Err(error) if !error.is_verdict() => return Err(error.with_verb(Verb::Probe)),
            Err(error) => {
                return Ok(Probe::Fails {
                    reason: format!("{} {}", error.subject(), error.kind())
                        .trim()
                        .to_owned(),
                    remedy: match error.detail_text() {
                        "" => "name a directory that is there and that you may enter".to_owned(),
                        detail => detail.to_owned(),
                    },
                });
            }
        };
        match self.place(ctx, &plan).await {
            Ok(place) => {
                let inside = place.engine.connection();
                let answer = answered(START, Verb::Probe, inside.probe(ctx, &plan.inside)).await;
                place.end().await;
                answer
            }
            Err(Trouble::Refused(refusal)) => Ok(refusal.probe()),
            Err(Trouble::Failed(error)) => Err(error.with_verb(Verb::Probe).on(&spec.id)),
        }
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        let slot = self.slot(&spec.id);
        let acquired = match within(ctx, Verb::Acquire, &spec.id, slot.lock()).await {
            Ok(mut living) => self.acquire_in(ctx, spec, &mut living).await,
            Err(error) => Err(error),
        };
        self.give_back(&spec.id, slot);
        acquired
    }

    async fn attach(&self, _ctx: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>> {
        Err(unsupported(
            Verb::Attach,
            "a sandbox here ends with its connection; acquire it again",
        )
        .on(&state.id))
    }

    async fn release(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        _disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        // One that is just being made is waited for, and then ended.
        let slot = self.slot(id);
        let released = match within(ctx, Verb::Release, id, slot.lock()).await {
            Ok(mut living) => Ok(self.release_in(ctx, id, &mut living).await),
            Err(error) => Err(error),
        };
        self.give_back(id, slot);
        let existed = released?;
        // The directory was there before, so that keeping it is all that is ever done.
        Ok(ReleaseReceipt {
            existed,
            disposition: Disposition::Keep,
        })
    }

    async fn list(&self, _ctx: &Ctx) -> Result<Vec<SandboxEntry>> {
        let entry = |(id, slot): (&SandboxId, &Arc<Slot>)| {
            // One that is just being made, or ended, is not there.
            let living = slot.try_lock().ok()?;
            let living = living.as_ref().filter(|living| living.is_there())?;
            Some(SandboxEntry {
                id: id.clone(),
                labels: living.spec.labels.clone(),
                running: true,
            })
        };
        let mut entries: Vec<_> = self.slots().iter().filter_map(entry).collect();
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(entries)
    }

    async fn prepare(&self, _ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        Err(unsupported(
            Verb::Prepare,
            "a sandbox here shows a directory that is there; name it as the root",
        )
        .on(&template.name))
    }

    async fn update(&self, _ctx: &Ctx, id: &SandboxId, _update: &Update) -> Result<()> {
        Err(unsupported(
            Verb::Update,
            "release the sandbox and acquire it with the new policy",
        )
        .on(id))
    }
}

fn unsupported(verb: Verb, instead: &str) -> Error {
    Error::refused(verb, ErrorKind::Unsupported).detail(instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_another_call_stops_at_the_deadline_or_when_cancelled_and_nothing_is_forgotten()
     {
        let provider = Bubblewrap::new().expect("a thread");
        let spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        let id = &spec.id;
        let slot = provider.slot(id);
        // As another call that is making the sandbox.
        let making = slot.lock().await;
        let late = Ctx::new().with_timeout(Duration::ZERO);
        let cancelled = Ctx::new();
        cancelled.cancel().cancel();
        for (ctx, kind) in [
            (late, ErrorKind::DeadlineExceeded),
            (cancelled, ErrorKind::Cancelled),
        ] {
            let acquired = provider.acquire(&ctx, &spec).await.map(drop);
            let released = provider.release(&ctx, id, Disposition::Keep).await;
            for (verb, error) in [
                (Verb::Acquire, acquired.expect_err("it is being made")),
                (Verb::Release, released.expect_err("it is being made")),
            ] {
                let found = (error.verb(), error.kind(), error.effect());
                assert_eq!(found, (verb, kind, Effect::None), "{error}");
            }
            assert!(
                provider.slots().contains_key(id),
                "what is being made cannot be released any more"
            );
        }
        drop(making);
        provider.give_back(id, slot);
        assert!(!provider.slots().contains_key(id), "an empty slot is kept");
    }

    #[tokio::test]
    async fn an_acquire_that_fails_and_a_release_of_nothing_leave_nothing_behind() {
        let provider = Bubblewrap::new().expect("a thread");
        let mut spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        spec.root = Some("/nothing/is/here".to_owned());
        let ctx = Ctx::new();
        let refused = provider.acquire(&ctx, &spec).await.map(drop);
        assert_eq!(refused.expect_err("no root").kind(), ErrorKind::NotFound);
        assert!(!provider.slots().contains_key(&spec.id));
        let receipt = provider.release(&ctx, &spec.id, Disposition::Keep).await;
        assert!(!receipt.expect("nothing to do").existed);
        assert!(!provider.slots().contains_key(&spec.id));
    }
}

//! Sandboxes on this machine, made of a directory that is already there.
//!
//! **Invariants.**
//! - What a policy requires and cannot be had is refused before anything exists (`policy`). What is said of a
//!   sandbox was tried by really doing it (`attest`), and where the guard of a process cannot be put on, that
//!   process does not run: so what held at the start holds at every launch.
//! - The directory is the caller's. It is never removed, whatever a release asks for.
//! - A sandbox that is acquired again under its id is another life of it, with a higher generation,
//!   even if this process was another one meanwhile.

mod attest;
mod guarded;
mod limits;
mod place;
mod policy;
mod temporary;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use sandbox_cgroup::{Group, Hierarchies, Wanted};
use sandbox_core::{
    AcquireSpec, Capabilities, Capability, Claim, Closed, Ctx, Descriptor, Disposition, EnvChange,
    Error, ErrorKind, Generation, Grade, MountAccess, Network, Platform, Probe, Provider,
    ProviderInfo, ReleaseReceipt, Restriction, Result, Sandbox, SandboxEntry, SandboxId,
    SandboxPath, SandboxState, TemplateReceipt, TemplateSpec, Update, Verb,
};

use self::guarded::Guarded;
pub use self::place::{GuardUse, Place};
use self::policy::Plan;
use self::temporary::TemporaryDirectory;
use crate::engine::{self, Engine};
use crate::file::call::{self, Interrupt};
use crate::process::Processes;
use crate::process::environment::Environment;
use crate::root::Roots;
use crate::supervisor::{Confinement, Pool, PoolOptions};

/// Variables that concern the provider's own start and are nobody else's business.
const OWN_VARIABLES: [&str; 3] = ["SPP_CHANNEL", "SPP_HOST", "SPP_HOST_PID"];
/// Whoever waits to become a command is in its group already, and counts there.
const FEW_WAITING: PoolOptions = PoolOptions {
    busy: 2,
    resting: 1,
};
/// Shells for command lines, best first.
const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"];

/// What a provider of these sandboxes can do.
#[must_use]
pub fn capabilities() -> Capabilities {
    let own = [Capability::Probe, Capability::List, Capability::Lease];
    engine::capabilities().iter().chain(own).collect()
}

/// Who a provider says it is, and its defaults.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// Its short name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it is.
    pub place: Place,
}

/// Gives out sandboxes on this machine. See the [module](self).
///
/// Belongs to the runtime on which the first sandbox is acquired.
#[derive(Debug)]
pub struct EngineProvider {
    info: Arc<ProviderInfo>,
    options: ProviderOptions,
    /// What whoever made the place has limited.
    given: Option<Arc<Group>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who starts what runs; made with the first sandbox.
    pool: Option<Pool>,
    living: HashMap<SandboxId, Living>,
    /// The last generation given out.
    generation: u64,
}

#[derive(Debug)]
struct Living {
    spec: AcquireSpec,
    engine: Arc<Engine>,
    /// Who starts what runs in it, if nobody else.
    own_pool: Option<Pool>,
    /// Removed when the sandbox is released.
    temporary: Option<TemporaryDirectory>,
}

impl EngineProvider {
    /// A provider without sandboxes.
    #[must_use]
    pub fn new(options: ProviderOptions) -> Self {
        let info = ProviderInfo {
            name: options.name.clone(),
            version: options.version.clone(),
            capabilities: capabilities(),
        };
        Self {
            info: Arc::new(info),
            options,
            given: None,
            state: Mutex::default(),
        }
    }

    /// The same in a place for one sandbox, whose group was made by whoever made the place: none is made here.
    #[must_use]
    pub fn limited_by(mut self, group: Group) -> Self {
        self.given = Some(Arc::new(group));
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock leaves it half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The living sandbox of this id, if it was made for an equal spec.
    fn living(&self, spec: &AcquireSpec) -> Result<Option<Arc<Engine>>> {
        match self.state().living.get(&spec.id) {
            None => Ok(None),
            Some(living) if living.spec == *spec => Ok(Some(Arc::clone(&living.engine))),
            Some(_) => Err(Error::refused(Verb::Acquire, ErrorKind::Conflict)
                .on(&spec.id)
                .detail(
                    "the id is in use with another spec; release it first, or choose another id",
                )),
        }
    }

    fn descriptor(&self, spec: &AcquireSpec, prepared: &Prepared, generation: u64) -> Descriptor {
        Descriptor {
            location: self.options.place.location.clone(),
            provider: self.info.name.clone(),
            id: spec.id.clone(),
            generation: Generation(generation),
            platform: Platform {
                os: std::env::consts::OS.into(),
                arch: std::env::consts::ARCH.into(),
            },
            root: prepared.roots.workspace().clone(),
            home: prepared.environment.get(b"HOME").and_then(absolute),
            shell: prepared.shell.clone(),
            network: prepared.network.clone(),
            guarantees: prepared.guarantees.clone(),
            limits: prepared.plan.limits.reports.clone(),
            capabilities: self.info.capabilities.clone(),
            notes: prepared.notes.clone(),
        }
    }

    /// Makes the sandbox that was prepared, unless somebody made one of this id meanwhile.
    fn make(&self, spec: &AcquireSpec, prepared: Prepared) -> Result<Arc<Engine>> {
        if let Some(engine) = self.living(spec)? {
            return Ok(engine);
        }
        let mut state = self.state();
        let confinement = Confinement {
            guard: prepared
                .guarded
                .as_ref()
                .map(|guarded| Arc::clone(&guarded.guard)),
            group: prepared.group.clone(),
        };
        let confined = confinement.guard.is_some() || confinement.group.is_some();
        let options = match confinement.group.is_some() || prepared.plan.limits.counts_processes {
            true => FEW_WAITING,
            false => PoolOptions::default(),
        };
        let pool = match &state.pool {
            // What starts the processes of one sandbox under something starts none of another.
            _ if confined => Pool::confined(options, confinement),
            Some(pool) => Ok(pool.clone()),
            None => Pool::new(options).inspect(|pool| state.pool = Some(pool.clone())),
        }
        .map_err(|error| {
            Error::refused(Verb::Acquire, ErrorKind::ProviderUnavailable)
                .on(&spec.id)
                .detail("no process can be made that would watch over commands; see the limits of this user")
                .caused_by(error)
        })?;
        // The clock makes a life of this process later than any of one before; counting makes two of
        // this process differ.
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_micros();
        let generation = u64::try_from(clock).unwrap_or(0).max(state.generation + 1);
        state.generation = generation;
        let descriptor = self.descriptor(spec, &prepared, generation);
        let own_pool = confined.then(|| pool.clone());
        let processes = Processes::new(pool, prepared.plan.limits.settings(prepared.environment));
        let engine = Arc::new(Engine::new(descriptor, prepared.roots, processes));
        let living = Living {
            spec: spec.clone(),
            engine: Arc::clone(&engine),
            own_pool,
            temporary: prepared.guarded.and_then(|guarded| guarded.temporary),
        };
        state.living.insert(spec.id.clone(), living);
        Ok(engine)
    }

    /// Everything that can fail about a spec, without making anything.
    async fn prepare_spec(&self, ctx: &Ctx, verb: Verb, spec: &AcquireSpec) -> Result<Prepared> {
        let mut plan =
            Plan::of(&self.options.place, spec).map_err(|error| error.with_verb(verb))?;
        let mut env = spec.policy.env.clone();
        env.changes
            .splice(0..0, OWN_VARIABLES.map(EnvChange::remove));
        let mut environment = Environment::of_policy(verb, &env, &self.options.place.inherit)?;
        let directory = PathBuf::from(spec.root.as_deref().unwrap_or("."));
        let (place, spec) = (self.options.place.clone(), spec.clone());
        let given = self.given.clone();
        // A disk that is asked may be slow, or a network away.
        call::blocking(ctx, verb, Interrupt::Abandon, move |_| {
            let as_asked = |error: Error| error.with_verb(verb);
            let roots = open_roots(&directory, &place, &plan.roots).map_err(as_asked)?;
            let guarded = plan
                .guard
                .map(|guard| Guarded::new(guard, &place, &roots, &plan.roots))
                .transpose()
                .map_err(|error| as_asked(error).on(&spec.id))?;
            let group = match plan.limits.group == Wanted::default() {
                true => None,
                false => given.or_else(|| {
                    let hierarchies = Hierarchies::of_this_process().ok()?;
                    let wanted = plan.limits.group;
                    Some(Arc::new(match place.own_group {
                        true => Group::around(&hierarchies, wanted),
                        false => Group::new(&hierarchies, wanted),
                    }))
                }),
            };
            plan.note_group(&place, &spec, group.as_deref());
            let guarantees = attest::guarantees(
                &place,
                guarded.as_ref().map(|guarded| guarded.tried),
                &inside(&place, &roots, &plan.roots),
            );
            let network = plan.settle(&place, &spec, &guarantees).map_err(as_asked)?;
            let mut notes = place.notes;
            if let Some(guarded) = &guarded {
                environment.change(verb, &guarded.environment(&env.changes))?;
                notes.extend(guarded.notes());
            }
            let shell = SHELLS
                .into_iter()
                .find(|shell| is_program(Path::new(shell)));
            let shell = shell.and_then(|shell| SandboxPath::parse(shell).ok());
            Ok(Prepared {
                plan,
                environment,
                roots,
                shell,
                guarded,
                group,
                guarantees,
                network,
                notes,
            })
        })
        .await
    }
}

/// A spec that would work.
struct Prepared {
    plan: Plan,
    environment: Environment,
    roots: Roots,
    shell: Option<SandboxPath>,
    guarded: Option<Guarded>,
    group: Option<Arc<Group>>,
    guarantees: BTreeMap<Restriction, Grade>,
    network: Network,
    notes: Vec<String>,
}

#[async_trait]
impl Provider for EngineProvider {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::clone(&self.info)
    }

    async fn probe(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        match self.prepare_spec(ctx, Verb::Probe, spec).await {
            Ok(prepared) => Ok(Probe::Works {
                notes: prepared.notes,
            }),
            Err(error) if error.is_verdict() => Ok(Probe::Fails {
                reason: format!("{} {}", error.subject(), error.kind())
                    .trim()
                    .to_owned(),
                remedy: error.detail_text().to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        if let Some(engine) = self.living(spec)? {
            return Ok(engine);
        }
        let prepared = self.prepare_spec(ctx, Verb::Acquire, spec).await?;
        Ok(self.make(spec, prepared)?)
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
        _ctx: &Ctx,
        id: &SandboxId,
        _disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        let living = self.state().living.remove(id);
        let existed = living.is_some();
        if let Some(Living {
            engine,
            own_pool,
            temporary,
            ..
        }) = living
        {
            engine.close(Closed::Released).await;
            // A disk that removes may take its time, and so does the end of who was waiting.
            let clear = move || {
                drop(temporary);
                let Some(pool) = own_pool else { return };
                pool.close();
                if let Some(group) = &pool.confinement().group
                    && let Err(error) = group.remove()
                {
                    tracing::warn!("the control group of a sandbox could not be removed: {error}");
                }
            };
            let _ = tokio::task::spawn_blocking(clear).await;
        }
        // The directory was there before, so that keeping it is all that is ever done.
        Ok(ReleaseReceipt {
            existed,
            disposition: Disposition::Keep,
        })
    }

    async fn list(&self, _ctx: &Ctx, _options: Option<&str>) -> Result<Vec<SandboxEntry>> {
        let entry = |(id, living): (&SandboxId, &Living)| SandboxEntry {
            id: id.clone(),
            labels: living.spec.labels.clone(),
            running: true,
            claim: Claim::Held,
            detail: String::new(),
        };
        let entries: BTreeMap<_, _> = self
            .state()
            .living
            .iter()
            .map(entry)
            .map(|entry| (entry.id.clone(), entry))
            .collect();
        Ok(entries.into_values().collect())
    }

    async fn prepare(&self, _ctx: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        Err(unsupported(
            Verb::Prepare,
            "a sandbox here is a directory that is there; name it as the root",
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

/// The workspace, what the place has for itself, and the mounts; the last that names a directory decides.
fn open_roots(directory: &Path, place: &Place, mounts: &[(PathBuf, MountAccess)]) -> Result<Roots> {
    let mut roots = Roots::new(directory, MountAccess::ReadWrite)?;
    for readable in &place.readable {
        roots.add(readable, MountAccess::ReadOnly)?;
    }
    for writable in &place.writable {
        roots.add(writable, MountAccess::ReadWrite)?;
    }
    for (mount, access) in mounts {
        roots
            .add(mount, *access)
            .map_err(|error| match error.kind() {
                ErrorKind::NotADirectory => Error::refused(Verb::Acquire, ErrorKind::PolicyUnmet)
                    .detail(format_args!(
                        "{} is no directory, and a single file cannot be mounted by itself here; mount the \
                         directory it is in, or choose a location that isolates",
                        mount.display()
                    )),
                _ => error,
            })?;
    }
    // Held as a place, which needs no right at all; what is wanted is to enter it.
    roots
        .open_dir(Verb::Acquire, &SandboxPath::root())
        .map_err(|error| error.on(directory.display()))?;
    Ok(roots)
}

/// Directories of the place that may be written.
fn inside(place: &Place, roots: &Roots, mounts: &[(PathBuf, MountAccess)]) -> Vec<PathBuf> {
    let workspace = PathBuf::from(OsStr::from_bytes(roots.workspace().as_bytes()));
    let mounts = mounts.iter().map(|(mount, _)| mount.clone());
    let own = place.writable.iter().cloned();
    std::iter::once(workspace)
        .chain(mounts)
        .chain(own)
        .collect()
}

fn absolute(path: &[u8]) -> Option<SandboxPath> {
    SandboxPath::parse(path)
        .ok()
        .filter(SandboxPath::is_absolute)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

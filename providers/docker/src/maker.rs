//! How a place is made and removed: a container, with an engine as its first process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{
    AcquireSpec, Ctx, Descriptor, Disposition, Error, ProviderInfo, ReleaseReceipt, Result,
    SandboxEntry, SandboxId, Verb,
};
use spp_client::place::{
    DialFault, Left, Maker, PlaceOptions, Placed, Purpose, Refusal, Spawner, Trouble,
    provider_capabilities, real_engine, within,
};

use crate::channel::{self, Channel, Channels};
use crate::cli::{Cli, Family};
use crate::container::{Container, Made, Tree};
use crate::mapped::{self, Mapped};
use crate::options::{Options, View};
use crate::plan::Plan;
use crate::store::Sent;
use crate::watched::Watched;
use crate::{container, left, limits, pull, refusal, store};

/// The name of this provider and of its location.
pub(crate) const NAME: &str = "docker";
/// How long an engine may take to answer. A container takes a third of a second; the rest is for a busy machine.
const START: Duration = Duration::from_secs(60);
/// How long who has given up waits for a container to be made and removed.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// Makes containers.
#[derive(Debug)]
pub(crate) struct Docker {
    info: Arc<ProviderInfo>,
    spawner: Arc<Spawner>,
    /// The daemons on which it was looked for what others have left.
    known: tokio::sync::Mutex<Vec<Cli>>,
    /// The daemons on which sandboxes were listed, whose ids can be released.
    listed: tokio::sync::Mutex<Vec<Cli>>,
    channels: Channels,
    /// The programs that were asked whose they are.
    families: tokio::sync::Mutex<Vec<(Cli, Family)>>,
    sent: Arc<Sent>,
}

impl Docker {
    /// A maker that has made none.
    ///
    /// # Errors
    ///
    /// No thread can be made.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            info: Arc::new(ProviderInfo {
                name: NAME.into(),
                version: env!("CARGO_PKG_VERSION").into(),
                capabilities: provider_capabilities(),
            }),
            spawner: Arc::new(Spawner::new()?),
            known: tokio::sync::Mutex::default(),
            listed: tokio::sync::Mutex::default(),
            channels: Channels::default(),
            families: tokio::sync::Mutex::default(),
            sent: Arc::default(),
        })
    }

    /// Whose program it is, which is asked once.
    async fn family(&self, cli: &Cli) -> Result<Family, Refusal> {
        let mut known = self.families.lock().await;
        if let Some((_, family)) = known.iter().find(|(asked, _)| asked == cli) {
            return Ok(*family);
        }
        let family = cli.family(&self.spawner).await;
        let family = family.map_err(|error| refusal::of_asking(cli, &error))?;
        known.push((cli.clone(), family));
        Ok(family)
    }

    /// Removes what providers have left that are gone, once for each daemon.
    async fn tidy(&self, cli: &Cli, options: &Options, engine: &Path) {
        let mut known = self.known.lock().await;
        if known.contains(cli) {
            return;
        }
        // The next place looks again.
        let Ok(found) = left::find(cli, &self.spawner).await else {
            return;
        };
        for found in found.iter().filter(|found| found.is_abandoned()) {
            tracing::info!(container = found.id, "removed: whoever made it is gone");
            if let Err(error) = left::remove(cli, &self.spawner, found).await {
                tracing::warn!(%error, "what another provider has left");
            }
        }
        channel::tidy(&std::env::temp_dir());
        mapped::tidy(&std::env::temp_dir());
        if options.workspace == View::Volume {
            self.sent.tidy(cli, &self.spawner, engine).await;
        }
        known.push(cli.clone());
    }

    /// Makes the container, which is not started.
    ///
    /// It is never interrupted: a program that is killed while it asks leaves a daemon that goes on, and a container that
    /// is there once nobody looks any more. Who no longer waits for it still waits until it is removed, and only where
    /// that takes long leaves it to a task.
    async fn create(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        container: &Container,
        plan: &Plan,
        engine: &Path,
        channel: &Channel,
    ) -> std::result::Result<Made, Trouble> {
        let family = self.family(&container.cli).await;
        let family = family.map_err(Trouble::Refused)?;
        if container.store.is_some() && family == Family::Podman {
            return Err(Trouble::Refused(store::not_by_podman()));
        }
        let arguments = container::create(container, id, plan, engine, channel, family);
        let limits = plan.limits.clone();
        let secret = channel.secret().map(str::to_owned);
        let (made, spawner) = (container.clone(), Arc::clone(&self.spawner));
        let unwanted = Unwanted::default();
        let seen = unwanted.clone();
        let (sent, engine, user) = (
            Arc::clone(&self.sent),
            engine.to_owned(),
            container.tree.user,
        );
        let of = id.clone();
        let mut making = tokio::spawn(async move {
            if let Some(store) = &made.store {
                let stored = sent
                    .store(&made.cli, &spawner, &engine, user, (store, &of))
                    .await;
                if let Err(refusal) = stored {
                    if let Err(left) = made.remove(&spawner).await {
                        tracing::debug!(%left, "a store that was refused");
                    }
                    return Err(refusal);
                }
            }
            let secret = secret.as_deref();
            let created = made.create(&spawner, &arguments, &limits, secret).await;
            if created.is_ok() && seen.is_raised() {
                let removed = made.remove(&spawner).await;
                if let Err(error) = removed {
                    tracing::warn!(%error, "an acquire that was given up");
                }
            }
            created
        });
        let ended = |_| Refusal::new("this provider is ending", "start it again");
        match within(ctx, Verb::Acquire, id, &mut making).await {
            Ok(created) => created.map_err(ended).flatten().map_err(Trouble::Refused),
            Err(error) => {
                unwanted.raise();
                let made = tokio::time::timeout(GIVEN_UP, &mut making).await;
                // It may have been made before the task could see that nobody wants it.
                if matches!(made, Ok(Ok(Ok(_))))
                    && let Err(left) = container.remove(&self.spawner).await
                {
                    return Err(Trouble::Failed(error.caused_by(left)));
                }
                Err(Trouble::Failed(error))
            }
        }
    }

    /// Makes a container that is reached by this channel.
    async fn place_at(
        &self,
        ctx: &Ctx,
        id: &SandboxId,
        plan: &Plan,
        cli: &Cli,
        engine: &Path,
        channel: Channel,
    ) -> std::result::Result<(Placed, Container), Missed> {
        let name = Self::name(id).map_err(Trouble::Refused)?;
        // A mount of it is there until the container has started and has its own.
        let (tree, mapped) = match plan.user {
            Some(user) => {
                let path = plan.root.path.clone();
                let tree = Tree {
                    path,
                    user,
                    _lone: None,
                };
                (tree, None)
            }
            None => {
                let made = Mapped::new(&self.spawner, &plan.root).await;
                let mapped = made.map_err(Trouble::Refused)?;
                (mapped.seen(), Some(mapped))
            }
        };
        let container = Container::new(cli.clone(), name, tree, plan.options.workspace);
        let about = channel.about();
        let made = self.create(ctx, id, &container, plan, engine, &channel);
        let container = match made.await {
            Ok(made) => container.made(made),
            Err(Trouble::Refused(refusal)) => {
                return Err(match about.fault(&refusal.reason) {
                    Some(why) => Missed::Socket(why),
                    None => Missed::Trouble(Trouble::Refused(refusal)),
                });
            }
            Err(trouble) => return Err(trouble.into()),
        };
        let watched = Arc::new(Watched::new(
            container.clone(),
            Arc::clone(&self.spawner),
            plan.limits.limits_memory(),
        ));
        let options = PlaceOptions {
            provider: NAME.into(),
            version: self.info.version.clone(),
            capabilities: spp_client::place::capabilities(),
            start_timeout: START,
            ahead: Vec::new(),
            why: Some(watched.why()),
        };
        let spawner = &self.spawner;
        let started = match channel {
            Channel::Socket(door) => {
                let command = cli.command(["start", "--attach", &container.name]);
                Placed::dialled(ctx, spawner, command, door, watched, options).await
            }
            Channel::Attached(_) => {
                let command = cli.command(["start", "--attach", "--interactive", &container.name]);
                let started = Placed::start(ctx, spawner, command, options).await;
                started.map_err(DialFault::Start)
            }
        };
        let fault = match started {
            Ok(engine) => {
                drop(mapped);
                return Ok((engine, container));
            }
            Err(fault) => fault,
        };
        let removed = container.remove(spawner).await;
        removed.map_err(Trouble::Failed)?;
        let fault = match fault {
            DialFault::NotReached(why) => return Err(Missed::Socket(why)),
            DialFault::Start(fault) => fault,
        };
        if let Some(why) = about.fault_of(&fault) {
            return Err(Missed::Socket(why));
        }
        Err(Trouble::of_start(fault, |fault| refusal::of_start(cli, fault)).into())
    }

    /// A name for a container that nobody else chooses, with the sandbox's for people.
    fn name(id: &SandboxId) -> std::result::Result<String, Refusal> {
        let id: String = id
            .as_str()
            .chars()
            .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
            .take(40)
            .collect();
        let drawn = getrandom::u64().map_err(|error| {
            Refusal::new(
                format!("the system gives no random numbers: {error}"),
                "see whether /dev/urandom can be read",
            )
        })?;
        Ok(format!("spp-{id}-{drawn:016x}"))
    }
}

/// Why a container could not be had.
enum Missed {
    /// Through a socket, and why.
    Socket(String),
    /// In any way.
    Trouble(Trouble),
}

impl From<Trouble> for Missed {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Says to a task that nobody wants any more what it does.
#[derive(Clone, Debug, Default)]
struct Unwanted(Arc<AtomicBool>);

impl Unwanted {
    fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Maker for Docker {
    type Plan = Plan;
    type Rest = Container;

    fn info(&self) -> &Arc<ProviderInfo> {
        &self.info
    }

    async fn plan(&self, _ctx: &Ctx, spec: &AcquireSpec) -> Result<Plan> {
        Plan::of(spec, std::env::vars_os())
    }

    fn inside(plan: &Plan) -> &AcquireSpec {
        &plan.inside
    }

    async fn place(
        &self,
        ctx: &Ctx,
        spec: &AcquireSpec,
        plan: &mut Plan,
        _purpose: Purpose,
    ) -> std::result::Result<(Placed, Container), Trouble> {
        let engine = real_engine().map_err(Trouble::Refused)?;
        let cli = Cli::of(&plan.options).map_err(|error| {
            Trouble::Refused(refusal::of_finding(&plan.options.program, &error))
        })?;
        let seen_to = async {
            pull::see_to(ctx, &cli, &self.spawner, &plan.options).await?;
            self.tidy(&cli, &plan.options, &engine).await;
            Ok(())
        };
        within(ctx, Verb::Acquire, &spec.id, seen_to)
            .await
            .map_err(Trouble::Failed)?
            .map_err(Trouble::Refused)?;
        let mut channel = self.channels.choose(&cli, &plan.options);
        loop {
            let reached = channel.map_err(Trouble::Refused)?;
            let placed = self.place_at(ctx, &spec.id, plan, &cli, &engine, reached);
            match placed.await {
                Ok(placed) => return Ok(placed),
                Err(Missed::Trouble(trouble)) => return Err(trouble),
                Err(Missed::Socket(why)) => {
                    channel = self.channels.give_up(&cli, &plan.options, why);
                }
            }
        }
    }

    fn describe(&self, container: &Container, mut descriptor: Descriptor) -> Descriptor {
        for kind in &container.weak {
            if let Some(report) = descriptor.limits.get_mut(kind) {
                limits::none(report);
            }
            let name = kind.name();
            let note = format!("the daemon says that it cannot keep the limit {name} in full");
            descriptor.notes.push(note);
        }
        descriptor
    }

    async fn lost(&self, container: &mut Container, _id: &SandboxId) -> Result<()> {
        // One that was paused, or cut off from its daemon, has not ended by itself.
        container.remove(&self.spawner).await
    }

    async fn clear(
        &self,
        container: &mut Container,
        _id: &SandboxId,
        _left: Left,
    ) -> Result<Disposition> {
        container.remove(&self.spawner).await?;
        Ok(match container.store {
            Some(_) => Disposition::Destroy,
            // The workspace is the caller's, and stays whatever is asked for.
            None => Disposition::Keep,
        })
    }

    async fn kept(&self, _ctx: &Ctx, options: Option<&str>) -> Result<Vec<SandboxEntry>> {
        // Without any it is not known which daemon is meant.
        let Some(options) = options else {
            return Ok(Vec::new());
        };
        let options = Options::of_daemon(options).map_err(|error| error.with_verb(Verb::List))?;
        let refused = |refusal: Refusal| {
            Error::refused(Verb::List, refusal.kind)
                .detail(format_args!("{}; {}", refusal.reason, refusal.remedy))
        };
        let cli = Cli::of(&options)
            .map_err(|error| refused(refusal::of_finding(&options.program, &error)))?;
        let found = left::find(&cli, &self.spawner).await.map_err(refused)?;
        let mut listed = self.listed.lock().await;
        if !listed.contains(&cli) {
            listed.push(cli);
        }
        Ok(left::entries(&found))
    }

    async fn release_kept(
        &self,
        id: &SandboxId,
        disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        let mut receipt = ReleaseReceipt {
            existed: false,
            disposition: Disposition::Keep,
        };
        if disposition == Disposition::Keep {
            return Ok(receipt);
        }
        let listed = self.listed.lock().await.clone();
        for cli in listed {
            let found = left::find(&cli, &self.spawner).await;
            let found = found.map_err(|refusal| {
                Error::refused(Verb::Release, refusal.kind)
                    .on(id)
                    .detail(format_args!("{}; {}", refusal.reason, refusal.remedy))
            })?;
            // Looked at once more: what has an owner by now is not removed.
            for found in left::abandoned(&found, id) {
                left::remove(&cli, &self.spawner, found)
                    .await
                    .map_err(|error| error.on(id))?;
                receipt = ReleaseReceipt {
                    existed: true,
                    disposition: Disposition::Destroy,
                };
            }
        }
        Ok(receipt)
    }

    fn instead(verb: Verb) -> &'static str {
        match verb {
            Verb::Attach => "a sandbox here ends with its connection; acquire it again",
            Verb::Prepare => "name an image in the options of `docker`",
            _ => "release the sandbox and acquire it with the new policy",
        }
    }
}

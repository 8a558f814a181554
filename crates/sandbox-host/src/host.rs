//! The caller's side as one value: a configuration in, sandboxes out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::{
    AcquireSpec, Ctx, Disposition, Policy, Provider, ReleaseReceipt, Sandbox, SandboxId,
};

use crate::admission::Admission;
use crate::config::{Config, Pool};
use crate::error::OpenError;
use crate::locate::SearchPath;
use crate::process::{Process, Stop, Timing};
use crate::supervise::Supervisor;

/// Opens locations. Providers are started when they are first needed and shared by all sandboxes.
///
/// End it with [`shutdown`](Self::shutdown). Without that, or after the program was killed, each
/// provider sees the end of its input and ends by itself.
pub struct Host {
    config: Config,
    search: SearchPath,
    timing: Timing,
    admission: Option<Arc<Admission>>,
    supervisors: Mutex<BTreeMap<String, Arc<Supervisor>>>,
}

/// What is wanted of a location, beside what is configured.
#[derive(Clone, Debug, Default)]
pub struct OpenRequest {
    /// The sandbox's id; drawn if absent.
    pub id: Option<SandboxId>,
    /// Marks for people and for clean-up.
    pub labels: BTreeMap<String, String>,
    /// The workspace root in the provider's own terms: at `local` a directory.
    pub root: Option<String>,
    /// The template to start from.
    pub template: Option<String>,
    /// What is asked of the place, in place of the configured policy.
    pub policy: Option<Policy>,
    /// Without a sign of life for this long the place ends itself.
    pub lease: Option<Duration>,
    /// How long the place waits for its owner after a connection ended.
    pub linger: Option<Duration>,
}

/// An open location.
pub struct Opened {
    /// The place.
    pub sandbox: Arc<dyn Sandbox>,
    id: SandboxId,
    process: Arc<Process>,
    pool: Pool,
}

impl Host {
    /// A host for a configuration. Starts nothing.
    ///
    /// - `search`: where installed providers are looked for.
    #[must_use]
    pub fn new(config: Config, search: SearchPath) -> Self {
        Self::with_timing(config, search, Timing::default())
    }

    /// As [`new`](Self::new), with other times than the protocol's.
    #[must_use]
    pub fn with_timing(config: Config, search: SearchPath, timing: Timing) -> Self {
        Self {
            admission: config.max_concurrent().map(|max| Admission::new(max.get())),
            config,
            search,
            timing,
            supervisors: Mutex::default(),
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens a location: starts its provider if need be, and acquires a sandbox there.
    ///
    /// - `location`: its name; `None` for the configured one.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. The provider of a sandbox that was refused stays up for the next one.
    pub async fn open(
        &self,
        ctx: &Ctx,
        location: Option<&str>,
        request: OpenRequest,
    ) -> Result<Opened, OpenError> {
        let name = match location {
            Some(name) => self.config.select(name, &self.search)?.name,
            None => self.config.location().name.clone(),
        };
        let supervisor = self.supervisor(&name);
        let id = match request.id {
            Some(id) => id,
            None => crate::id::draw_sandbox()?,
        };
        let spec = AcquireSpec {
            id: id.clone(),
            labels: request.labels,
            root: request.root,
            template: request.template,
            policy: request
                .policy
                .unwrap_or_else(|| self.config.policy().clone()),
            lease: request.lease,
            linger: request.linger,
            options: supervisor.config().options.clone(),
        };
        let process = supervisor.process(ctx).await?;
        let pool = supervisor.config().pool;
        match process.connection().acquire(ctx, &spec).await {
            Ok(sandbox) => Ok(Opened {
                sandbox: match &self.admission {
                    Some(admission) => admission.guard(sandbox),
                    None => sandbox,
                },
                id,
                process,
                pool,
            }),
            Err(error) => {
                if pool == Pool::PerSession {
                    process.stop(Stop::InOrder).await;
                }
                Err(error.into())
            }
        }
    }

    /// The provider of a location, started if need be.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub async fn provider(
        &self,
        ctx: &Ctx,
        location: &str,
    ) -> Result<Arc<dyn Provider>, OpenError> {
        let name = self.config.select(location, &self.search)?.name;
        let process = self.supervisor(&name).process(ctx).await?;
        Ok(Arc::clone(process.connection()) as Arc<dyn Provider>)
    }

    /// Ends all providers in order, and waits until they are gone.
    pub async fn shutdown(&self) {
        self.stop(Stop::InOrder).await;
    }

    /// Ends all providers at once, and waits until they are gone; also those that
    /// [`shutdown`](Self::shutdown) is still waiting for. What they would clean up is left.
    pub async fn kill(&self) {
        self.stop(Stop::AtOnce).await;
    }

    async fn stop(&self, how: Stop) {
        let supervisors: Vec<_> = self.supervisors().values().cloned().collect();
        futures_util::future::join_all(supervisors.iter().map(|one| one.stop(how))).await;
    }

    fn supervisor(&self, name: &str) -> Arc<Supervisor> {
        Arc::clone(
            self.supervisors()
                .entry(name.to_owned())
                .or_insert_with(|| {
                    Arc::new(Supervisor::new(
                        self.config.provider(name),
                        self.search.clone(),
                        self.timing,
                    ))
                }),
        )
    }

    fn supervisors(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Supervisor>>> {
        self.supervisors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    /// Gives the sandbox back, and ends its provider if that was its own.
    ///
    /// # Errors
    ///
    /// As [`Provider::release`].
    pub async fn release(
        self,
        ctx: &Ctx,
        disposition: Disposition,
    ) -> sandbox_core::Result<ReleaseReceipt> {
        let receipt = self
            .process
            .connection()
            .release(ctx, &self.id, disposition)
            .await;
        if self.pool == Pool::PerSession {
            self.process.stop(Stop::InOrder).await;
        }
        receipt
    }
}

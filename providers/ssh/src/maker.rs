//! How a place is made and removed: one connection, over which the engine is put there and then spoken to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{AcquireSpec, Ctx, Disposition, ProviderInfo, Result, SandboxId, Verb};
use spp_client::place::{
    Left, Maker, PlaceOptions, Placed, Purpose, Refusal, Spawner, Trouble, provider_capabilities,
    within,
};

use crate::bootstrap::Bootstrap;
use crate::engines::{self, Engine};
use crate::plan::Plan;
use crate::script::{self, Mark};
use crate::{client, refusal};

/// The name of this provider and of its location.
pub(crate) const NAME: &str = "ssh";
/// How long an engine that was started may take to answer.
const START: Duration = Duration::from_secs(60);

/// Makes connections.
#[derive(Debug)]
pub(crate) struct Ssh {
    info: Arc<ProviderInfo>,
    spawner: Spawner,
}

impl Ssh {
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
            spawner: Spawner::new()?,
        })
    }
}

/// What is needed for a connection.
struct Ready {
    program: PathBuf,
    engines: Vec<Engine>,
    mark: Mark,
}

/// Looks for it. Executables are read whole.
fn ready() -> std::result::Result<Ready, Refusal> {
    let mark = Mark::new().map_err(|error| {
        Refusal::new(
            format!("the system gives no random numbers: {error}"),
            "see whether /dev/urandom can be read",
        )
    })?;
    Ok(Ready {
        program: client::find().map_err(|error| refusal::of_finding(&error))?,
        engines: engines::all()?,
        mark,
    })
}

#[async_trait]
impl Maker for Ssh {
    type Plan = Plan;
    /// Over there is nothing but the engine, and what it started.
    type Rest = ();

    fn info(&self) -> &Arc<ProviderInfo> {
        &self.info
    }

    async fn plan(&self, _ctx: &Ctx, spec: &AcquireSpec) -> Result<Plan> {
        Plan::of(spec)
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
    ) -> std::result::Result<(Placed, ()), Trouble> {
        let looked = tokio::task::spawn_blocking(ready);
        let Ready {
            program,
            engines,
            mark,
        } = within(ctx, Verb::Acquire, &spec.id, looked)
            .await
            .map_err(Trouble::Failed)?
            .map_err(|_| Refusal::new("this provider is ending", "start it again"))
            .flatten()
            .map_err(Trouble::Refused)?;
        let options = &plan.options;
        let script = script::line(
            &mark,
            &engines,
            options.cache.as_deref(),
            &claims(&options.host),
        );
        let mut bootstrap = Bootstrap::new(ctx, &options.host, &mark, script, &engines);
        let command = client::command(&program, options, script::COMMAND);
        let start = PlaceOptions {
            provider: NAME.into(),
            version: self.info.version.clone(),
            capabilities: spp_client::place::capabilities(),
            start_timeout: START,
            ahead: Vec::new(),
            why: None,
        };
        let placed = Placed::introduced(ctx, &self.spawner, command, start, &mut bootstrap).await;
        placed.map(|placed| (placed, ())).map_err(|fault| {
            let known = bootstrap.refusal();
            let noise = bootstrap.noise();
            Trouble::of_start(fault, |fault| {
                known.unwrap_or_else(|| refusal::of_start(&options.host, &noise, fault))
            })
        })
    }

    async fn clear(&self, _: &mut (), _id: &SandboxId, _left: Left) -> Result<Disposition> {
        // The directory is the account's, and stays whatever is asked for.
        Ok(Disposition::Keep)
    }

    fn instead(verb: Verb) -> &'static str {
        match verb {
            Verb::Attach => "a sandbox here ends with its connection; acquire it again",
            Verb::Prepare => {
                "put what is needed into a directory over there, and name it as `root`"
            }
            _ => "release the sandbox and acquire it with the new policy",
        }
    }
}

/// What the engine is told of the place it is in.
fn claims(host: &str) -> Vec<String> {
    let note = format!(
        "this is {host}, with everything that the account there may do; it ends with the connection"
    );
    let claims = ["--location", NAME, "--inherit", "all", "--note", &note];
    claims.map(str::to_owned).to_vec()
}

//! An engine in a place of its own: its start, and what it is told of where it is.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandbox_cgroup::Group;
use sandbox_core::{Ctx, Result};
use spp_client::place::{Lone, PlaceOptions, Placed, Refusal, Spawner, Trouble, real_engine};

use crate::bwrap::{Finder, Program};
use crate::copies::PrivateCopy;
use crate::launch::{self, ARGUMENT, Item, Order, Starter};
use crate::limits;
use crate::provider::NAME;
use crate::refusal;
use crate::spec::Plan;
use crate::view::{self, HOME, NetworkView, TMP, View};

/// How long an engine may take to answer, first and for its sandbox. It takes milliseconds; the rest is for a busy machine.
const START: Duration = Duration::from_secs(30);
/// This executable, whatever has its name by now.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// Makes places.
pub(crate) struct Places {
    finder: Finder,
    spawner: Spawner,
}

/// What of a place is outside of its engine.
pub(crate) struct Rest {
    /// What its commands are limited by.
    pub(crate) group: Option<Arc<Group>>,
    /// The workspace, where it is a copy.
    pub(crate) copy: Option<PrivateCopy>,
    /// Given back once the engine was ended.
    _user: Option<Lone>,
}

impl Places {
    /// # Errors
    ///
    /// No thread can be made.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            finder: Finder::default(),
            spawner: Spawner::new()?,
        })
    }

    /// Starts an engine in a place of its own. The workspace is what the plan shows, a copy or not.
    pub(crate) async fn place(
        &self,
        ctx: &Ctx,
        plan: &Plan,
    ) -> std::result::Result<(Placed, Rest), Trouble> {
        let program = self.finder.find().await.map_err(Trouble::Refused)?;
        let engine = real_engine().map_err(Trouble::Refused)?;
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
            why: None,
            provider: NAME.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            capabilities: spp_client::place::capabilities(),
            start_timeout: START,
        };
        let placed = Placed::start(ctx, &self.spawner, command, options).await;
        let engine = placed.map_err(|fault| Trouble::of_start(fault, refusal::of_start))?;
        let rest = Rest {
            group,
            copy: None,
            _user: user,
        };
        Ok((engine, rest))
    }
}

/// Who starts places here, and the user that is taken for one.
fn starter() -> std::result::Result<(Starter, Option<Lone>), Refusal> {
    if !rustix::process::geteuid().is_root() {
        return Ok((Starter::User, None));
    }
    let user = Lone::take()?;
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

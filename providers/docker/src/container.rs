//! A container: what it is made with, and how it is made and removed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::{Error, ErrorKind, LimitKind, Result, SandboxId, Verb};
use spp_client::place::{Lone, Refusal, SECRET_VARIABLE, Spawner};

use crate::channel::{Channel, SOCKET};
use crate::cli::{ASK, Cli, Family};
use crate::limits::Kept;
use crate::options::{User, View};
use crate::plan::{HOME, NetworkView, Plan, TMP, WORKSPACE};
use crate::{owner, refusal, store};

/// Where the engine is seen.
pub(crate) const ENGINE: &str = "/run/spp/engine";
/// The label that says which sandbox a container is.
pub(crate) const SANDBOX: &str = "spp.sandbox";
/// What file verbs may read of an image, besides the workspace.
const READ: [&str; 11] = [
    "/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/srv", "/usr",
];
/// The most that each place to write may hold, in bytes. They are in memory.
const HOME_BYTES: u64 = 2 << 30;
const TMP_BYTES: u64 = 2 << 30;
const SHARED_MEMORY_BYTES: u64 = 512 << 20;

/// Variables that the program passes on of its own configuration, unless it is told that they are not set.
pub(crate) const PROXIES: [&str; 10] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "FTP_PROXY",
    "ftp_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
];
/// How long a container may take to go, and how often it is looked again.
const REMOVE: Duration = Duration::from_secs(30);
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// One that may be there.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) cli: Cli,
    pub(crate) name: String,
    /// Limits that were asked for as best effort, and that the daemon does not keep as they should be.
    pub(crate) weak: BTreeSet<LimitKind>,
    /// The one that holds its volumes, if it has any.
    pub(crate) store: Option<String>,
    /// The daemon's number of it; empty as long as it is not made.
    pub(crate) id: String,
    pub(crate) tree: Tree,
}

/// What is known of one that was just made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    id: String,
    weak: BTreeSet<LimitKind>,
}

impl Container {
    /// One that is not made yet.
    pub(crate) fn new(cli: Cli, name: String, tree: Tree, view: View) -> Self {
        let store = match view {
            View::Bound => None,
            View::Volume => Some(format!("{name}{}", store::SUFFIX)),
        };
        Self {
            cli,
            name,
            store,
            weak: BTreeSet::new(),
            id: String::new(),
            tree,
        }
    }

    /// The same, once it is made.
    pub(crate) fn made(self, made: Made) -> Self {
        let Made { id, weak } = made;
        Self { id, weak, ..self }
    }

    /// Makes it, with these arguments. It is not started. Its name is one that nobody else has.
    ///
    /// - `secret`: what its engine is told, and nobody who sees arguments
    ///
    /// # Errors
    ///
    /// Why there is none, and there is none.
    pub(crate) async fn create(
        &self,
        spawner: &Spawner,
        arguments: &[OsString],
        limits: &Kept,
        secret: Option<&str>,
    ) -> std::result::Result<Made, Refusal> {
        let mut command = self.cli.command(arguments);
        if let Some(secret) = secret {
            command.env(SECRET_VARIABLE, secret);
        }
        let answer = self.cli.answer(spawner, command, Vec::new(), ASK).await;
        let refusal = match answer {
            Ok(answer) if answer.status.success() => match limits.warned(&answer.words) {
                Ok(weak) => {
                    return Ok(Made {
                        id: answer.output.trim().to_owned(),
                        weak,
                    });
                }
                Err(line) => refusal::of_words("", &line),
            },
            Ok(answer) => refusal::of_words(&answer.status.to_string(), &answer.words),
            Err(error) => refusal::of_asking(&self.cli, &error),
        };
        // A daemon that was asked may have made it all the same.
        if let Err(left) = self.remove(spawner).await {
            tracing::debug!(%left, "a container that was refused");
        }
        Err(refusal)
    }

    /// Removes it, whatever it does, with its volumes, and waits until it is gone. One that is not there is no failure.
    ///
    /// # Errors
    ///
    /// It may be left; how to remove it by hand.
    pub(crate) async fn remove(&self, spawner: &Spawner) -> Result<()> {
        for name in std::iter::once(&self.name).chain(&self.store) {
            self.remove_one(spawner, name).await?;
        }
        Ok(())
    }

    async fn remove_one(&self, spawner: &Spawner, name: &str) -> Result<()> {
        let left = |why: &str| {
            let program = self.cli.name();
            Error::new(Verb::Release, ErrorKind::ProviderUnavailable).detail(format_args!(
                "the container {name} may be left: {why}; remove it with `{program} rm --force --volumes {name}`"
            ))
        };
        let started = Instant::now();
        loop {
            let remove = ["rm", "--force", "--volumes", name];
            let removed = self.cli.ask(spawner, &remove, ASK).await;
            let removed =
                removed.map_err(|error| left(&refusal::of_asking(&self.cli, &error).reason))?;
            if removed.status.success() || removed.says_missing() {
                return Ok(());
            }
            // The daemon removes what has ended by itself, and says so until it has.
            if !removed.words.contains("already in progress") || started.elapsed() > REMOVE {
                return Err(left(removed.words.trim()));
            }
            tokio::time::sleep(REMOVE_PAUSE).await;
        }
    }
}

/// The workspace as the daemon is shown it.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    /// Who runs there.
    pub(crate) user: User,
    /// If that is somebody who was found for it: held, so that nobody else is that as long as the container is there.
    pub(crate) _lone: Option<Arc<Lone>>,
}

/// The arguments of `create` that make a container of this plan, with the engine as its first process.
///
/// - `container`: what it will be called, and shown
/// - `engine`: its executable on this machine
/// - `channel`: how it will be reached
/// - `family`: whose program is asked
pub(crate) fn create(
    container: &Container,
    id: &SandboxId,
    plan: &Plan,
    engine: &Path,
    channel: &Channel,
    family: Family,
) -> Vec<OsString> {
    let Container { name, tree, .. } = container;
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |argument: &str| arguments.push(argument.into());
    add("create");
    // First: of what is said twice, the last holds.
    for extra in &plan.options.args {
        add(extra);
    }
    if let Some(runtime) = &plan.options.runtime {
        add(&format!("--runtime={runtime}"));
    }
    // It is removed by the daemon when its first process ends, whoever is left to see it.
    add("--rm");
    if let Channel::Attached(_) = channel {
        // Its input is open.
        add("--interactive");
    }
    add(&format!("--name={name}"));
    add(&format!("--label={SANDBOX}={id}"));
    add(&format!("--label={}={name}", owner::NAME_LABEL));
    if let Some(own) = owner::own() {
        add(&format!("--label={}={own}", owner::LABEL));
    }
    // The engine is the first process, and nothing runs beside it that is not under its guard.
    add("--init=false");
    add("--no-healthcheck");
    // It has no handler for what asks it to end, and would be waited for.
    add("--stop-signal=SIGKILL");
    // It was seen to before.
    add("--pull=never");
    // What goes over the pipes is the tools' own, and nobody else's to keep.
    add("--log-driver=none");
    add("--cap-drop=ALL");
    add("--security-opt=no-new-privileges");
    for limit in plan.limits.arguments() {
        add(&limit);
    }
    add("--ulimit=core=0");
    if plan.network == NetworkView::None {
        add("--network=none");
    }
    let user = tree.user;
    add(&format!("--user={user}"));
    // Theirs, and not only of a mode that lets them: runtimes take over the mode of what the image has there.
    let in_memory = |at: &str, bytes: u64, mode: &str| {
        let owned = match family {
            Family::Docker => format!("uid={},gid={}", user.user, user.group),
            Family::Podman => "U".to_owned(),
        };
        format!("--tmpfs={at}:rw,exec,nosuid,nodev,size={bytes},mode={mode},{owned}")
    };
    // Both are the user's: a directory of this name in the image may have a mode that wins over the one that is asked for.
    add(&in_memory(TMP, TMP_BYTES, "1777"));
    add(&in_memory(HOME, HOME_BYTES, "0700"));
    add(&format!("--shm-size={SHARED_MEMORY_BYTES}"));
    add(&format!("--workdir={WORKSPACE}"));
    // Told to the engine alone: without it, it explains itself.
    add("--env=SPP_HOST=1");
    if let Channel::Socket(door) = channel {
        // By name alone: its value would be seen by everybody on this machine.
        add(&format!("--env={SECRET_VARIABLE}"));
        arguments.push(bind(&door.socket(), SOCKET, true));
    }
    match &container.store {
        Some(store) => arguments.push(format!("--volumes-from={store}").into()),
        None => {
            arguments.push(bind(engine, ENGINE, true));
            arguments.push(bind(&tree.path, WORKSPACE, false));
        }
    }
    // Not what the program's own configuration would add: it may hold a password.
    for variable in PROXIES {
        arguments.push(format!("--env={variable}").into());
    }
    arguments.push(format!("--entrypoint={ENGINE}").into());
    arguments.push((&plan.options.image).into());
    if container.store.is_none() {
        let (device, inode) = plan.root.identity;
        arguments.push("--workspace".into());
        arguments.push(format!("{device}:{inode}:{WORKSPACE}").into());
    }
    if let Channel::Socket(_) = channel {
        arguments.extend(["--dial".into(), SOCKET.into()]);
    }
    arguments.extend(claims(plan.network, plan.options.workspace));
    arguments.extend(["--note".into(), channel.note().into()]);
    arguments
}

/// Shows something of this machine. Other than `--volume` it fails where there is nothing of that name.
fn bind(from: &Path, to: &str, is_read_only: bool) -> OsString {
    let mut argument = OsString::from("--mount=type=bind,source=");
    argument.push(from);
    argument.push(format!(",target={to}"));
    if is_read_only {
        argument.push(",readonly");
    }
    argument
}

/// What the engine is told of the place it is in.
fn claims(network: NetworkView, workspace: View) -> Vec<OsString> {
    let mut claims: Vec<OsString> = Vec::new();
    let mut claim = |name: &str, value: &str| claims.extend([name.into(), value.into()]);
    claim("--location", crate::maker::NAME);
    claim("--inherit", "all");
    claim("--guard", "always");
    claim("--own-group", "yes");
    for directory in [TMP, HOME, "/dev/shm"] {
        claim("--writable", directory);
    }
    // Whatever the image has of these. Its root is none of them: a link out of the workspace would lead into it.
    for directory in READ {
        claim("--readable-if-there", directory);
    }
    claim("--kept-away", "write-contained");
    match network {
        NetworkView::None => {
            for restriction in ["network-denied", "process-contained", "secrets-hidden"] {
                claim("--kept-away", restriction);
            }
            claim("--note", "there is no network but a loopback of its own");
        }
        NetworkView::Daemons => {
            const GAP: &str =
                "services that listen on the network of this machine can be spoken to";
            for restriction in ["process-contained", "secrets-hidden"] {
                claim("--kept-partly", &format!("{restriction}={GAP}"));
            }
            claim("--note", "the network is the daemon's usual one");
        }
    }
    claim(
        "--note",
        &format!(
            "{TMP} and {HOME} are in memory, and gone with the sandbox, as is everything outside of {WORKSPACE}"
        ),
    );
    if workspace == View::Volume {
        claim(
            "--note",
            "the workspace is a volume of the daemon's: it is empty at first, nothing of it is on this machine, and it is gone \
             with the sandbox; push a tree to it, and pull what is to be kept",
        );
    }
    claim(
        "--note",
        "a socket that has a name in the workspace can be connected to, and whoever listens on it be spoken to: show \
         nothing that holds one",
    );
    claims
}

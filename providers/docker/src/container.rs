//! A container: what it is made with, and how it is made and removed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sandbox_core::{Error, ErrorKind, LimitKind, Result, SandboxId, Verb};
use spp_client::place::{Refusal, Spawner};

use crate::cli::{ASK, Cli};
use crate::limits::Kept;
use crate::plan::{HOME, NetworkView, Plan, TMP, WORKSPACE};
use crate::{owner, refusal};

/// Where the engine is seen.
const ENGINE: &str = "/run/spp/engine";
/// The label that says which sandbox a container is.
const SANDBOX: &str = "spp.sandbox";
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
/// How long it may have been killed for its memory before its end was told.
const BEFORE_ITS_END: Duration = Duration::from_secs(5);
/// How long the daemon may take to say so.
const EVENTS: Duration = Duration::from_secs(2);
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
}

impl Container {
    /// Makes it, with these arguments. It is not started. Its name is one that nobody else has. Returns which limits are not
    /// kept as they should be.
    ///
    /// # Errors
    ///
    /// Why there is none, and there is none.
    pub(crate) async fn create(
        &self,
        spawner: &Spawner,
        arguments: &[OsString],
        limits: &Kept,
    ) -> std::result::Result<BTreeSet<LimitKind>, Refusal> {
        let answer = self.cli.ask(spawner, arguments, ASK).await;
        let refusal = match answer {
            Ok(answer) if answer.status.success() => match limits.warned(&answer.words) {
                Ok(weak) => return Ok(weak),
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

    /// Removes it, whatever it does, and waits until it is gone. One that is not there is no failure.
    ///
    /// # Errors
    ///
    /// It may be left; how to remove it by hand.
    pub(crate) async fn remove(&self, spawner: &Spawner) -> Result<()> {
        let left = |why: &str| {
            let (program, name) = (self.cli.name(), &self.name);
            Error::new(Verb::Release, ErrorKind::ProviderUnavailable).detail(format_args!(
                "the container {name} may be left: {why}; remove it with `{program} rm --force {name}`"
            ))
        };
        let started = Instant::now();
        loop {
            let remove = ["rm", "--force", "--volumes", &self.name];
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

    /// Whether the daemon saw a process of it killed for its memory, a moment before all of it ended.
    pub(crate) async fn ran_out_of_memory(&self, spawner: &Spawner) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs_f64();
        let since = now - BEFORE_ITS_END.as_secs_f64();
        let arguments = [
            "events".to_owned(),
            format!("--since={since:.6}"),
            // Not what is to come, for which it would wait.
            format!("--until={now:.6}"),
            format!("--filter=container={}", self.name),
            "--filter=event=oom".to_owned(),
            "--format={{.Status}}".to_owned(),
        ];
        let answer = self.cli.ask(spawner, &arguments, EVENTS).await;
        answer.is_ok_and(|answer| answer.output.trim_start().starts_with("oom"))
    }
}

/// The arguments of `create` that make a container of this plan, with the engine as its first process.
///
/// - `name`: what it will be called
/// - `engine`: its executable on this machine
pub(crate) fn create(name: &str, id: &SandboxId, plan: &Plan, engine: &Path) -> Vec<OsString> {
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
    // Its input is open, and it is removed by the daemon when its first process ends, whoever is left to see it.
    add("--interactive");
    add("--rm");
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
    let user = plan.user;
    add(&format!("--user={user}"));
    // Theirs, and not only of a mode that lets them: runtimes take over the mode of what the image has there.
    let in_memory = |at: &str, bytes: u64, mode: &str| {
        let (user, group) = (user.user, user.group);
        format!("--tmpfs={at}:rw,exec,nosuid,nodev,size={bytes},mode={mode},uid={user},gid={group}")
    };
    add(&in_memory(TMP, TMP_BYTES, "1777"));
    add(&in_memory(HOME, HOME_BYTES, "0700"));
    add(&format!("--shm-size={SHARED_MEMORY_BYTES}"));
    add(&format!("--workdir={WORKSPACE}"));
    // Told to the engine alone: without it, it explains itself.
    add("--env=SPP_HOST=1");
    arguments.push(bind(engine, ENGINE, true));
    // Not what the program's own configuration would add: it may hold a password.
    for variable in PROXIES {
        arguments.push(format!("--env={variable}").into());
    }
    arguments.push(bind(&plan.root.path, WORKSPACE, false));
    arguments.push(format!("--entrypoint={ENGINE}").into());
    arguments.push((&plan.options.image).into());
    let (device, inode) = plan.root.identity;
    arguments.push("--workspace".into());
    arguments.push(format!("{device}:{inode}:{WORKSPACE}").into());
    arguments.extend(claims(plan.network));
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
fn claims(network: NetworkView) -> Vec<OsString> {
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
    claim(
        "--note",
        "a socket that has a name in the workspace can be connected to, and whoever listens on it be spoken to: show \
         nothing that holds one",
    );
    claim(
        "--note",
        "the engine is reached through an attached client of the container program",
    );
    claims
}

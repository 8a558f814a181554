//! Columns that are a location, as a user of ours has it: configuration, host, provider, engine.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandbox_core::process::{Outcome, ProcessSpec, Status};
use sandbox_core::{Ctx, Sandbox, SandboxExt as _, SandboxPath};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, OpenRequest, Opened, SearchPath};

use super::Failure;
use super::column::Policy;
use super::daemon::{self, Daemon};
use super::outside::{Outside, hide};
use super::place::Ended;
use super::prepare::ORDINARY;
use super::{ANSWER, PATIENCE, is_root};
use crate::report::{Report, Told};

/// Where the hostile program and the read-only mount are seen in a place with names of its own.
const SEEN_HOSTILE: &str = "/hostile";
const SEEN_READONLY: &str = daemon::READONLY;

/// A location that is open on the column's workspace.
pub(super) struct Location {
    pub(super) host: Host,
    opened: Opened,
    hostile: Hostile,
}

/// The hostile program as it is seen in a place.
#[derive(Clone)]
struct Hostile(PathBuf);

/// A sandbox beside it, of the same provider.
pub(super) struct Neighbour(Opened);

impl Location {
    /// Opens it.
    ///
    /// - `limits`: lines of the configuration's table of that name
    pub(super) async fn open(
        name: &str,
        policy: Policy,
        limits: &str,
        outside: &Outside,
    ) -> Result<Self, Failure> {
        let directory = &outside.directory;
        let file = arrange(name, policy, limits, outside)?;
        let search = SearchPath {
            beside: Some(directory.join("bin")),
            path: vec!["/usr/bin".into(), "/bin".into()],
        };
        let sources = Sources {
            location: Some(name.into()),
            location_variable: None,
            directory: directory.clone(),
            user_file: UserFile::Named(file),
            search: search.clone(),
        };
        let host = Host::new(Config::load(&sources)?, search);
        match open(&host, &directory.join("workspace")).await {
            Ok(opened) => Ok(Self {
                host,
                opened,
                hostile: Hostile::seen(name, directory),
            }),
            Err(error) => {
                host.kill().await;
                Err(error)
            }
        }
    }

    /// Has one attempt made.
    pub(super) async fn attempt(&self, id: &str) -> Ended {
        let outcome = match self.run(&self.hostile.argv(id), PATIENCE).await {
            Ok(outcome) => outcome,
            Err(error) => return Ended::Broken(error.to_string()),
        };
        let status = outcome.exit.status;
        if status == Status::Lost {
            return Ended::Broken("how the command ended is lost".into());
        }
        let said = String::from_utf8_lossy(&outcome.stdout.head);
        if let Ok(report) = serde_json::from_str::<Report>(said.trim()) {
            return Ended::Told(report.told);
        }
        let words = String::from_utf8_lossy(&outcome.stderr.head);
        let how = format!("{status:?} {}", words.trim());
        Ended::Told(match status {
            Status::Exited(_) => Told::NotApplicable(how),
            _ => Told::Blocked(how),
        })
    }

    /// Runs an attempt with nothing between it and the engine.
    pub(super) async fn alone(&self, id: &str, timeout: Duration) -> sandbox_core::Result<Outcome> {
        self.run(&self.hostile.alone(id), timeout).await
    }

    async fn run(&self, argv: &[Vec<u8>], timeout: Duration) -> sandbox_core::Result<Outcome> {
        let mut process = ProcessSpec::new(argv);
        process.timeout = Some(timeout);
        process.grace = Duration::from_millis(200);
        let ctx = Ctx::new().with_timeout(timeout + ANSWER);
        self.opened.sandbox.run(&ctx, process).await
    }

    /// Whether it still does what it is for.
    pub(super) async fn answers(&self) -> bool {
        answers(self.opened.sandbox.as_ref()).await
    }

    /// Reads a file of the workspace, as whoever uses the sandbox does: how many bytes came.
    pub(super) async fn read(&self, name: &str) -> sandbox_core::Result<usize> {
        let ctx = Ctx::new().with_timeout(ANSWER);
        let path = SandboxPath::parse(name).map_err(|_| {
            sandbox_core::Error::refused(
                sandbox_core::Verb::Read,
                sandbox_core::ErrorKind::InvalidArgument,
            )
        })?;
        let content = self.opened.sandbox.read_file(&ctx, path).await?;
        Ok(content.bytes.len())
    }

    /// Opens a sandbox beside it.
    pub(super) async fn neighbour(&self, outside: &Outside) -> Result<Neighbour, Failure> {
        let root = outside.directory.join("neighbour");
        std::fs::write(root.join("ground.json"), "{}")?;
        hide(&root, "")?;
        Ok(Neighbour(open(&self.host, &root).await?))
    }
}

impl Neighbour {
    /// Whether it does what it is for.
    pub(super) async fn answers(&self) -> bool {
        answers(self.0.sandbox.as_ref()).await
    }
}

impl Hostile {
    fn seen(location: &str, directory: &Path) -> Self {
        let at = match location {
            "bubblewrap" | "docker" => SEEN_HOSTILE.into(),
            _ => directory.join("hostile"),
        };
        Self(at.join("spp-escape"))
    }

    /// One attempt, in a process of its own.
    fn argv(&self, id: &str) -> [Vec<u8>; 3] {
        [self.0.to_string_lossy().as_ref(), "ground.json", id].map(|word| word.as_bytes().to_vec())
    }

    /// One attempt, in the process that is started.
    fn alone(&self, id: &str) -> [Vec<u8>; 4] {
        [
            self.0.to_string_lossy().as_ref(),
            "ground.json",
            "--one",
            id,
        ]
        .map(|word| word.as_bytes().to_vec())
    }
}

/// The command line's way of running an attempt: `spp`, for a host of its own that can be killed.
pub(super) fn by_command_line(
    name: &str,
    policy: Policy,
    id: &str,
    outside: &Outside,
) -> Result<Command, Failure> {
    let directory = &outside.directory;
    let file = arrange(name, policy, "", outside)?;
    let mut start = crate::hostile::command(directory.join("bin/spp"));
    start
        .arg("--config")
        .arg(file)
        .args(["--location", name, "run", "--"]);
    for word in Hostile::seen(name, directory).alone(id) {
        start.arg(std::ffi::OsStr::from_bytes(&word));
    }
    start.current_dir(directory.join("workspace"));
    Ok(start)
}

async fn open(host: &Host, root: &Path) -> Result<Opened, Failure> {
    let request = OpenRequest {
        root: root.to_str().map(str::to_owned),
        ..OpenRequest::default()
    };
    let ctx = Ctx::new().with_timeout(PATIENCE * 3);
    Ok(host.open(&ctx, None, request).await?)
}

async fn answers(sandbox: &dyn Sandbox) -> bool {
    let ctx = Ctx::new().with_timeout(ANSWER);
    let ran = sandbox.run(&ctx, ProcessSpec::new(["true"])).await;
    let Ok(path) = SandboxPath::parse("ground.json") else {
        return false;
    };
    let read = sandbox.read_file(&ctx, path).await;
    ran.is_ok_and(|outcome| outcome.exit.status.is_success()) && read.is_ok()
}

/// Tells the hostile program what it may know, and writes the configuration; its file.
fn arrange(
    name: &str,
    policy: Policy,
    limits: &str,
    outside: &Outside,
) -> Result<PathBuf, Failure> {
    let directory = &outside.directory;
    let mut ground = outside.ground.clone();
    ground.everybody = policy == Policy::Strongest;
    let engine = match name {
        "bubblewrap" | "docker" => {
            ground.readonly = SEEN_READONLY.into();
            "spp-engine"
        }
        _ => "spp-provider-local",
    };
    ground.engine = directory.join("bin").join(engine);
    ground.write(&directory.join("workspace/ground.json"))?;
    let file = directory.join("config.toml");
    let limits = match (policy, limits) {
        (Policy::None, _) | (_, "") => String::new(),
        (Policy::Strongest, limits) => format!("[sandbox.limits]\n{limits}\n"),
    };
    std::fs::write(&file, settings(name, policy, directory)? + &limits)?;
    Ok(file)
}

/// What a user would write who wants as much as the location takes.
fn settings(location: &str, policy: Policy, directory: &Path) -> Result<String, Failure> {
    let readonly = directory.join("readonly");
    let hostile = directory.join("hostile");
    let (readonly, hostile) = (readonly.display(), hostile.display());
    Ok(match (location, policy) {
        (_, Policy::None) => String::new(),
        ("local", _) => format!(
            "[sandbox.policy]\nnetwork = 'none'\nrequire = ['network-denied']\n\
             prefer = ['write-contained', 'process-contained', 'secrets-hidden']\n\
             [sandbox.policy.env]\ninherit = ['PATH']\n\
             [sandbox.policy.mounts]\n'{readonly}' = '{readonly}'\n"
        ),
        ("docker", _) => {
            let Daemon { address, image } = Daemon::told()?;
            // Where root asks, nobody in a container is root.
            let user = match is_root() {
                true => format!("user = '{ORDINARY}:{ORDINARY}'\n"),
                false => String::new(),
            };
            format!(
                "[sandbox.policy]\nnetwork = 'none'\n\
                 require = ['network-denied', 'write-contained', 'process-contained', 'secrets-hidden']\n\
                 [sandbox.providers.docker.options]\nhost = '{address}'\nimage = '{image}'\n{user}"
            )
        }
        _ => format!(
            "[sandbox.policy]\nnetwork = 'none'\n\
             require = ['network-denied', 'write-contained', 'process-contained', 'secrets-hidden']\n\
             hide = ['/workspace/hidden', '/workspace/hidden-file']\n\
             [sandbox.policy.mounts]\n'{SEEN_READONLY}' = '{readonly}'\n'{SEEN_HOSTILE}' = '{hostile}'\n"
        ),
    })
}

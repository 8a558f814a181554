//! Running one attempt in a column.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use sandbox_core::process::{ProcessSpec, Status};
use sandbox_core::{Ctx, SandboxExt as _, SandboxPath};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, OpenRequest, Opened, SearchPath};

use super::Failure;
use super::column::{By, Policy};
use super::outside::Outside;
use crate::ground::Ground;
use crate::hostile::{ENDED, NAIVE_ENGINE, command};
use crate::report::{Report, Told};

/// How long an attempt may take, and a bit.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a healthy place takes to answer, at most, on a busy machine.
const ANSWER: Duration = Duration::from_secs(5);
/// Where the hostile program and the read-only mount are seen in a place with names of its own.
const SEEN_HOSTILE: &str = "/hostile";
const SEEN_READONLY: &str = "/readonly";

/// What became of an attempt, as far as the place tells.
pub(super) enum Ended {
    /// The hostile program told.
    Told(Told),
    /// The place is no longer what it was.
    Broken(String),
}

/// A column that is ready for attempts.
pub(super) enum Place {
    Naive(Naive),
    Location(Box<Location>),
}

impl Place {
    /// Starts what runs the hostile program in this column.
    pub(super) async fn open(by: By, outside: &Outside) -> Result<Self, Failure> {
        match by {
            By::Nothing | By::NaiveBwrap => Ok(Self::Naive(Naive::start(by, outside)?)),
            By::Location(name, policy) => {
                let location = Location::open(name, policy, outside).await?;
                Ok(Self::Location(Box::new(location)))
            }
        }
    }

    /// Has one attempt made.
    pub(super) async fn attempt(&mut self, id: &str) -> Ended {
        match self {
            Self::Naive(naive) => naive.attempt(id),
            Self::Location(location) => location.attempt(id).await,
        }
    }

    /// Whether it still does what it is for.
    pub(super) async fn answers(&self) -> bool {
        match self {
            // It is seen by the next attempt, which ends as broken.
            Self::Naive(_) => true,
            Self::Location(location) => location.answers().await,
        }
    }

    /// Ends it, and everything that it started.
    pub(super) async fn close(self) {
        match self {
            Self::Naive(naive) => drop(naive),
            Self::Location(location) => location.host.kill().await,
        }
    }
}

/// An engine that protects itself from nothing.
pub(super) struct Naive {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Naive {
    fn start(by: By, outside: &Outside) -> Result<Self, Failure> {
        let directory = &outside.directory;
        let workspace = directory.join("workspace");
        let hostile = directory.join("hostile/spp-escape");
        let told = workspace.join("ground.json");
        outside.ground.write(&told)?;
        let mut start = if by == By::NaiveBwrap {
            in_bwrap(&workspace)
        } else {
            command(&hostile)
        };
        if by == By::NaiveBwrap {
            start.arg(&hostile);
        }
        start.arg(&told).arg(NAIVE_ENGINE).current_dir(&workspace);
        let mut child = start
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err("it has no pipes".into());
        };
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    break;
                }
            }
        });
        let mut naive = Self {
            child,
            input,
            lines,
        };
        // One that changes nothing, to see whether the place can be had.
        match naive.attempt("K15") {
            Ended::Told(_) => Ok(naive),
            Ended::Broken(how) => {
                let words = naive.words();
                Err(format!("it cannot be had here: {how}; {words}").into())
            }
        }
    }

    fn attempt(&mut self, id: &str) -> Ended {
        if writeln!(self.input, "{id}").is_err() {
            return Ended::Broken("the engine no longer reads".into());
        }
        let mut said = None;
        loop {
            // One that has been told of ends at once, unless it is what stopped the engine.
            let patience = if said.is_some() { ANSWER } else { PATIENCE };
            match self.lines.recv_timeout(patience) {
                Ok(line) if line == ENDED => {
                    let nothing = || Told::Blocked("it said nothing".into());
                    return Ended::Told(said.unwrap_or_else(nothing));
                }
                Ok(line) => said = serde_json::from_str(&line).ok().map(|it: Report| it.told),
                Err(RecvTimeoutError::Timeout) => {
                    return Ended::Broken("the engine no longer answers".into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Ended::Broken("the engine is gone".into());
                }
            }
        }
    }

    /// What it said last on standard error, once it has ended.
    fn words(&mut self) -> String {
        let _ = self.child.kill();
        let mut words = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut errors, &mut words);
        }
        words.trim().to_owned()
    }
}

impl Drop for Naive {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// bwrap as root of namespaces that go with it, with what one writes first: everything shown read-only, devices,
/// processes, and the workspace.
fn in_bwrap(workspace: &Path) -> Command {
    let mut start = command("unshare");
    start.args(["--user", "--map-root-user", "--mount", "--net", "--uts"]);
    start.args([
        "bwrap",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
    ]);
    start
        .arg(workspace)
        .arg(workspace)
        .arg("--chdir")
        .arg(workspace);
    start
}

/// A location, as a user of ours has it.
pub(super) struct Location {
    host: Host,
    opened: Opened,
    hostile: PathBuf,
}

impl Location {
    async fn open(name: &'static str, policy: Policy, outside: &Outside) -> Result<Self, Failure> {
        let directory = &outside.directory;
        let isolated = name == "bubblewrap";
        let mut ground = outside.ground.clone();
        if isolated {
            ground.readonly = SEEN_READONLY.into();
        }
        ground.engine = directory.join("bin").join(if isolated {
            "spp-engine"
        } else {
            "spp-provider-local"
        });
        write_ground(&ground, directory)?;
        let file = directory.join("config.toml");
        std::fs::write(&file, settings(name, policy, directory))?;
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
        let root = directory.join("workspace").to_str().map(str::to_owned);
        let request = OpenRequest {
            root,
            ..OpenRequest::default()
        };
        let ctx = Ctx::new().with_timeout(PATIENCE * 3);
        let opened = match host.open(&ctx, None, request).await {
            Ok(opened) => opened,
            Err(error) => {
                host.kill().await;
                return Err(error.into());
            }
        };
        let hostile = if isolated {
            SEEN_HOSTILE.into()
        } else {
            directory.join("hostile")
        };
        Ok(Self {
            host,
            opened,
            hostile: hostile.join("spp-escape"),
        })
    }

    async fn attempt(&self, id: &str) -> Ended {
        let mut process = ProcessSpec::new([
            self.hostile.as_os_str().as_encoded_bytes(),
            b"ground.json",
            id.as_bytes(),
        ]);
        process.timeout = Some(PATIENCE);
        let ctx = Ctx::new().with_timeout(PATIENCE + ANSWER);
        let outcome = match self.opened.sandbox.run(&ctx, process).await {
            Ok(outcome) => outcome,
            Err(error) => return Ended::Broken(error.to_string()),
        };
        if outcome.exit.status == Status::Lost {
            return Ended::Broken("how the command ended is lost".into());
        }
        let said = String::from_utf8_lossy(&outcome.stdout.head);
        match serde_json::from_str::<Report>(said.trim()) {
            Ok(report) => Ended::Told(report.told),
            Err(_) => {
                let words = String::from_utf8_lossy(&outcome.stderr.head);
                Ended::Told(Told::NotApplicable(format!(
                    "{:?}: {}",
                    outcome.exit.status,
                    words.trim()
                )))
            }
        }
    }

    async fn answers(&self) -> bool {
        let ctx = Ctx::new().with_timeout(ANSWER);
        let ran = self
            .opened
            .sandbox
            .run(&ctx, ProcessSpec::new(["true"]))
            .await;
        let Ok(path) = SandboxPath::parse("ground.json") else {
            return false;
        };
        let read = self.opened.sandbox.read_file(&ctx, path).await;
        ran.is_ok_and(|outcome| outcome.exit.status.is_success()) && read.is_ok()
    }
}

/// Tells the hostile program what it may know.
fn write_ground(ground: &Ground, directory: &Path) -> std::io::Result<()> {
    ground.write(&directory.join("workspace/ground.json"))
}

/// What a user would write who wants as much as the location takes.
fn settings(location: &str, policy: Policy, directory: &Path) -> String {
    let readonly = directory.join("readonly");
    let hostile = directory.join("hostile");
    let (readonly, hostile) = (readonly.display(), hostile.display());
    match (location, policy) {
        (_, Policy::None) => String::new(),
        ("local", _) => format!(
            "[sandbox.policy]\nnetwork = 'none'\nrequire = ['network-denied']\n\
             prefer = ['write-contained', 'process-contained', 'secrets-hidden']\n\
             [sandbox.policy.env]\ninherit = ['PATH']\n\
             [sandbox.policy.mounts]\n'{readonly}' = '{readonly}'\n"
        ),
        _ => format!(
            "[sandbox.policy]\nnetwork = 'none'\n\
             require = ['network-denied', 'write-contained', 'process-contained', 'secrets-hidden']\n\
             [sandbox.policy.mounts]\n'{SEEN_READONLY}' = '{readonly}'\n'{SEEN_HOSTILE}' = '{hostile}'\n"
        ),
    }
}

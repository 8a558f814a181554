//! A host against a provider that lies to it: it survives each lie, and says what it saw.
//!
//! The lies are the modes of `spp-chaos-provider`. The table (`lies`) has a line for each: what is asked, and
//! what the host makes of the answer. In every case the host does not panic, does not hang and does
//! not grow; and unless the table says that the provider is given up, the next call on the same
//! sandbox works. A provider that is given up is started anew by the next one who needs it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use sandbox_core::file::{ReadManyRequest, ReadRequest, StatManyRequest};
use sandbox_core::process::{
    Delivery, ExecRequest, OutputStream, ProcReadRequest, ProcessSpec, SpawnRequest, Status,
};
use sandbox_core::search::{
    Case, FingerprintDepth, FingerprintRequest, FingerprintScope, GlobRequest, GrepRequest, Lines,
    Pattern, PatternSyntax, Scope, Sort, WithStat,
};
use sandbox_core::{Ctx, Error, ProcId, Result, Sandbox, SandboxPath, collect};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::error::visible;
use sandbox_host::{Host, OpenRequest, Opened, SearchPath, Timing};

use crate::lies::After::{self, Lives};
use crate::lies::Ask::{
    self, Fingerprint, Glob, Grep, List, Live, LiveLater, Log, Open, Read, ReadInTime, ReadMany,
    Run, Spawn, Stat, Two,
};
use crate::lies::Made::{self, Fails, Fine};
use crate::lies::table;

/// Longest that anything may take; the longest wait that is asked for is some eight seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const TIMING: Timing = Timing {
    handshake: Duration::from_secs(15),
    grace: Duration::from_millis(500),
};
/// Lies at once.
const AT_ONCE: usize = 8;
/// How much more memory this process may have at its highest than before the first lie, in KiB: some
/// of the longest lines at once.
const MEMORY_KIB: u64 = 160 * 1024;

/// What was logged.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Record {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics here").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Record {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("nobody panics here").clone();
        String::from_utf8(bytes).expect("logs are text")
    }
}

/// A host whose location is the lying provider, under a name by which the log tells it from others.
fn host(mode: &str) -> (tempfile::TempDir, Host) {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let file = directory.path().join("config.toml");
    let config = format!(
        "[sandbox]\nlocation = 'chaos-{mode}'\n[sandbox.providers.chaos-{mode}]\ncommand = '{}'\nargs = ['{mode}']\n",
        env!("CARGO_BIN_EXE_spp-chaos-provider")
    );
    std::fs::write(&file, config).expect("a scratch file");
    let config = Config::load(&Sources {
        location: None,
        location_variable: None,
        directory: directory.path().to_owned(),
        user_file: UserFile::Named(file),
        search: SearchPath::default(),
    })
    .expect("the configuration is good");
    (
        directory,
        Host::with_timing(config, SearchPath::default(), TIMING),
    )
}

async fn open(host: &Host) -> Result<Opened> {
    let opened = host.open(&Ctx::new(), None, OpenRequest::default()).await;
    opened.map_err(Error::from)
}

fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect("a good path")
}

async fn read(sandbox: &dyn Sandbox, ctx: &Ctx) -> Result<()> {
    let mut request = ReadRequest::new(path("file"));
    request.max = 1000;
    let content = sandbox.read(ctx, request).await?;
    assert_eq!(&content.bytes[..], b"fine");
    Ok(())
}

/// When the output of a run is read.
#[derive(Clone, Copy)]
enum Reading {
    While,
    After,
}

async fn live(sandbox: &dyn Sandbox, ctx: &Ctx, read: Reading) -> Result<()> {
    let request = ExecRequest::new(ProcessSpec::new(["x"])).delivery(Delivery::Live);
    let execution = sandbox.exec(ctx, request).await?;
    let verb = sandbox_core::Verb::Exec;
    let stdout = collect(verb, execution.stdout, u64::MAX);
    let (outcome, stdout) = match read {
        Reading::While => futures_util::join!(execution.outcome, stdout),
        Reading::After => (execution.outcome.await, stdout.await),
    };
    // Either may know more, and neither may be taken for the whole if the other failed.
    let outcome = outcome.inspect_err(|_| {
        assert!(
            !matches!(&stdout, Ok(bytes) if &bytes[..] == b"fine\n"),
            "the output ended in order"
        );
    })?;
    assert_eq!(&stdout?[..], b"fine\n");
    assert_eq!(outcome.exit.status, Status::Exited(0));
    Ok(())
}

fn scope() -> Scope {
    Scope::new(SandboxPath::root())
}

async fn ask(ask: Ask, host: &Host, opened: &Opened) -> Result<()> {
    let sandbox = &*opened.sandbox;
    let ctx = Ctx::new();
    let id = ProcId::new("p").expect("a good id");
    let two = || vec![path("a"), path("b")];
    match ask {
        Open => {}
        Read => read(sandbox, &ctx).await?,
        ReadInTime => read(sandbox, &ctx.with_timeout(Duration::from_millis(300))).await?,
        ReadMany => {
            let request = ReadManyRequest {
                paths: two(),
                total_max: 1000,
            };
            sandbox.read_many(&ctx, request).await?;
        }
        Stat => {
            let request = StatManyRequest { paths: two() };
            sandbox.stat_many(&ctx, request).await?;
        }
        Glob => {
            let request = GlobRequest {
                scope: scope(),
                sort: Sort::None,
                limit: 100,
                stat: WithStat::No,
            };
            sandbox.glob(&ctx, request).await?;
        }
        Grep => {
            let request = GrepRequest {
                scope: scope(),
                pattern: Pattern {
                    text: "x".into(),
                    syntax: PatternSyntax::Literal,
                    case: Case::Sensitive,
                    lines: Lines::Single,
                },
                before: 0,
                after: 0,
                max_per_file: None,
                limit: 10,
                max_line_bytes: 1000,
            };
            sandbox.grep(&ctx, request).await?;
        }
        Fingerprint => {
            let request = FingerprintRequest {
                scope: FingerprintScope {
                    scope: scope(),
                    depth: FingerprintDepth::Metadata,
                    limit: 1000,
                },
                base: None,
            };
            sandbox.fingerprint(&ctx, request).await?;
        }
        Live => live(sandbox, &ctx, Reading::While).await?,
        LiveLater => live(sandbox, &ctx, Reading::After).await?,
        Run => {
            let mut process = ProcessSpec::new(["x"]);
            (process.output.head, process.output.tail) = (500, 500);
            let execution = sandbox.exec(&ctx, ExecRequest::new(process)).await?;
            let outcome = execution.outcome.await?;
            // How it ended is not known, and that is said.
            assert_eq!(outcome.exit.status, Status::Lost);
        }
        Spawn => {
            let request = SpawnRequest::new(id, ProcessSpec::new(["x"]));
            sandbox.spawn(&ctx, request).await?;
        }
        Log => {
            let request = ProcReadRequest {
                id,
                stream: OutputStream::Stdout,
                from: 10,
                max: 1000,
                wait: Duration::ZERO,
            };
            sandbox.proc_read(&ctx, request).await?;
        }
        List => {
            let name = &host.config().location().name;
            let provider = host.provider(&ctx, name).await?;
            provider.list(&ctx, None).await?;
        }
        Two => {
            let (one, two) = futures_util::join!(read(sandbox, &ctx), read(sandbox, &ctx));
            one.and(two)?;
        }
    }
    Ok(())
}

/// Everything that a failure says, as a terminal gets it.
fn text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    let shown = visible(&text);
    assert!(!shown.chars().any(char::is_control), "{shown}");
    shown
}

/// Asks, and says what is wrong with what the host made of it.
async fn hold(mode: &str, what: Ask, made: &Made, after: After) -> std::result::Result<(), String> {
    let (_directory, host) = host(mode);
    let opened = open(&host).await;
    let asked = match &opened {
        Ok(opened) => ask(what, &host, opened).await,
        Err(_) => Ok(()),
    };
    let failure = match (&opened, asked) {
        (Err(error), _) => Some(text(error)).zip(Some((error.kind(), error.effect()))),
        (_, Err(error)) => Some(text(&error)).zip(Some((error.kind(), error.effect()))),
        _ => None,
    };
    match (made, failure) {
        (Fine, None) => {}
        (Fails(kind, effect, says), Some((text, (found, had)))) => {
            if (found, had) != (*kind, *effect) || !text.contains(says) {
                return Err(format!("{found:?}, {had:?}: {text:.600}"));
            }
        }
        (Fine, Some((text, kind))) => return Err(format!("{kind:?}: {text:.600}")),
        (Fails(..), None) => return Err("nobody noticed".into()),
    }
    if let Ok(opened) = &opened {
        let next = read(&*opened.sandbox, &Ctx::new()).await;
        if next.is_ok() != (after == Lives) {
            return Err(format!("and then: {next:?}"));
        }
    }
    if after == Lives || opened.is_ok() {
        // Lied once in its life.
        let again = open(&host).await.map_err(|error| text(&error));
        if let Err(error) = again
            && !matches!(what, Open)
        {
            return Err(format!("and opened again: {error}"));
        }
    }
    host.shutdown().await;
    Ok(())
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|it| it.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_host_survives_every_lie_and_says_what_it_saw() {
    let record = Record::default();
    let log = {
        let record = record.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
            .with_writer(move || record.clone())
            .finish()
    };
    // The runtime has this thread only, so everything is logged here.
    let _logging = tracing_subscriber::util::SubscriberInitExt::set_default(log);
    let before = peak_kib();

    let table = table();
    let wrong: Vec<String> = futures_util::stream::iter(&table)
        .map(|(mode, what, made, after, _)| async move {
            let held = tokio::time::timeout(PATIENCE, hold(mode, *what, made, *after)).await;
            match held {
                Ok(Ok(())) => None,
                Ok(Err(wrong)) => Some(format!("{mode}: {wrong}")),
                Err(_) => Some(format!("{mode}: it hangs")),
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let log = record.text();
    let raw = log
        .chars()
        .find(|it| it.is_control() && *it != '\n' && *it != '\t');
    assert_eq!(raw, None, "a lie reached the log as it was");
    for (mode, _, _, _, says) in &table {
        let names = [
            format!("provider=\"chaos-{mode}\""),
            format!("provider=chaos-{mode}"),
        ];
        let named = |line: &&str| {
            line.split_whitespace()
                .any(|word| names.iter().any(|it| it == word))
        };
        let lines: Vec<&str> = log.lines().filter(named).collect();
        assert!(
            says.is_empty() || lines.iter().any(|line| line.contains(says)),
            "{mode}: nothing logged says {says:?}, but: {:.2000}",
            lines.join("\n")
        );
    }
    let grown = peak_kib() - before;
    assert!(grown < MEMORY_KIB, "the host grew by {grown} KiB");
}

#[tokio::test]
async fn every_lie_is_in_the_table() {
    #[expect(
        clippy::disallowed_methods,
        reason = "it only prints a list here; providers are started through the host"
    )]
    let list = tokio::process::Command::new(env!("CARGO_BIN_EXE_spp-chaos-provider"))
        .arg("--list")
        .output()
        .await
        .expect("it runs");
    let list = String::from_utf8(list.stdout).expect("a list is text");
    let lies: BTreeSet<&str> = list
        .lines()
        .filter_map(|line| Some(line.split_once('\t')?.0))
        .collect();
    let table = table();
    let held: BTreeSet<&str> = table.iter().map(|(mode, ..)| *mode).collect();
    assert_eq!(held.len(), table.len(), "a lie is in the table twice");
    assert_eq!(lies, held);
}

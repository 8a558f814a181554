//! One call of each verb, and what is seen of it in the workspace.
//!
//! Each call is as large as it has to be for its bytes to travel on streams, in both directions where
//! the verb has both.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, join};
use sandbox_conformance::relay::{How, Way};
use sandbox_core::file::{
    Change, Precondition, ReadManyRequest, ReadRequest, Recursion, RemoveRequest, StatManyRequest,
    WriteRequest,
};
use sandbox_core::process::{
    Delivery, ExecRequest, OutputStream, ProcReadRequest, ProcStdinRequest, ProcStopRequest,
    ProcessSpec, SpawnRequest, SpawnStdin, Status, Stdin, Stop,
};
use sandbox_core::search::{
    Case, FingerprintDepth, FingerprintRequest, FingerprintScope, GlobRequest, GrepRequest, Lines,
    Pattern, PatternSyntax, Scope, Sort, WithStat,
};
use sandbox_core::transfer::{Compression, PullRequest, PushRequest};
use sandbox_core::{
    AcquireSpec, ByteStream, Ctx, Disposition, Error, ErrorKind, ProcId, Provider, Result, Sandbox,
    SandboxId, SandboxPath, TemplateSpec, Update, Verb, collect,
};

use crate::wired::Wired;

/// More than fits the line of a message, and than one piece of a stream.
pub(crate) const LARGE: usize = 100_000;

/// What large files contain.
pub(crate) fn large() -> Bytes {
    let line = |number: usize| format!("line {number} of a file that is not small\n");
    let text: String = (0..).map(line).take(LARGE / 30).collect();
    text.into_bytes().into()
}

pub(crate) fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect("a good path")
}

fn process() -> ProcId {
    ProcId::new("running").expect("a good id")
}

fn sh(line: &str) -> ProcessSpec {
    ProcessSpec::new(["/bin/sh", "-c", line])
}

fn scope() -> Scope {
    Scope::new(SandboxPath::root())
}

/// Puts into the workspace what the verb is called on, and starts it.
pub(crate) async fn prepare(verb: Verb, wired: &Wired) {
    let workspace = wired.left.workspace();
    std::fs::write(workspace.join("large"), large()).expect("a scratch file");
    std::fs::write(workspace.join("small"), "needle\n").expect("a scratch file");
    if verb == Verb::Remove {
        for name in ["doomed/a/b", "doomed/c"] {
            let file = workspace.join(name);
            std::fs::create_dir_all(file.parent().expect("it has one")).expect("a directory");
            std::fs::write(file, "x").expect("a scratch file");
        }
    }
    let line = match verb {
        Verb::ProcRead => "cat large; echo ready > ready; exec sleep 1000",
        Verb::ProcStdin => "echo ready > ready; exec cat > input",
        Verb::ProcStop => "echo ready > ready; exec sleep 1000",
        _ => return,
    };
    let request = SpawnRequest {
        stdin: SpawnStdin::Open,
        ..SpawnRequest::new(process(), sh(line))
    };
    wired
        .sandbox
        .spawn(&Ctx::new(), request)
        .await
        .expect("it starts");
    while !workspace.join("ready").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What is done: a verb, in the one way that it is called here, or another that has messages of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The verb.
    Of(Verb),
    /// `exec`, and what the command changed is told with its outcome.
    TrackedRun,
}

impl Act {
    pub(crate) fn verb(self) -> Verb {
        match self {
            Self::Of(verb) => verb,
            Self::TrackedRun => Verb::Exec,
        }
    }
}

/// Does it once.
pub(crate) async fn act(act: Act, wired: &Wired) -> Result<()> {
    match act {
        Act::Of(verb) => call(verb, wired).await,
        Act::TrackedRun => run(wired, &Ctx::new(), Tracking::On).await,
    }
}

/// Calls the verb once.
async fn call(verb: Verb, wired: &Wired) -> Result<()> {
    let Wired {
        connection,
        sandbox,
        spec,
        ..
    } = wired;
    let ctx = &Ctx::new();
    match verb {
        // The handshake is done when anything can be called.
        Verb::Initialize => {}
        Verb::Shutdown => connection.shutdown(Disposition::Keep).await?,
        Verb::Probe => drop(connection.probe(ctx, spec).await?),
        Verb::Acquire => {
            let id = SandboxId::new("second").expect("a good id");
            let mut second = AcquireSpec::new(id);
            second.root.clone_from(&spec.root);
            drop(connection.acquire(ctx, &second).await?);
        }
        Verb::Attach => {
            let state = sandbox_core::SandboxState {
                provider: "local".into(),
                id: spec.id.clone(),
                generation: sandbox.descriptor().generation,
                data: "{}".into(),
            };
            drop(connection.attach(ctx, &state).await?);
        }
        Verb::Release => {
            connection.release(ctx, &spec.id, Disposition::Keep).await?;
        }
        Verb::List => drop(connection.list(ctx, None).await?),
        Verb::Prepare => {
            let template = TemplateSpec {
                name: "plain".into(),
                options: None,
            };
            connection.prepare(ctx, &template).await?;
        }
        Verb::Update => {
            connection.update(ctx, &spec.id, &Update::default()).await?;
        }
        Verb::CaptureState => drop(sandbox.capture_state(ctx).await?),
        Verb::Read
        | Verb::ReadMany
        | Verb::Write
        | Verb::Remove
        | Verb::StatMany
        | Verb::Glob
        | Verb::Grep
        | Verb::Fingerprint => on_files(verb, &**sandbox, ctx).await?,
        Verb::Exec | Verb::Spawn | Verb::ProcRead | Verb::ProcStdin | Verb::ProcStop => {
            on_processes(verb, wired, ctx).await?;
        }
        Verb::PushTree | Verb::PullTree => on_trees(verb, &**sandbox, ctx).await?,
    }
    Ok(())
}

async fn on_files(verb: Verb, sandbox: &dyn Sandbox, ctx: &Ctx) -> Result<()> {
    match verb {
        Verb::Read => {
            let content = sandbox.read(ctx, ReadRequest::new(path("large"))).await?;
            assert!(content.bytes == large(), "another content");
        }
        Verb::ReadMany => {
            let request = ReadManyRequest {
                paths: vec![path("large"), path("small"), path("nowhere")],
                total_max: 1 << 20,
            };
            let found = sandbox.read_many(ctx, request).await?;
            let bytes = |at: usize| found[at].as_ref().map(|content| content.bytes.clone());
            assert!(bytes(0).ok() == Some(large()), "another content");
            assert_eq!(bytes(1).ok().as_deref(), Some(&b"needle\n"[..]));
            assert!(bytes(2).is_err());
        }
        Verb::Write => {
            let put = Change::Put {
                path: path("written"),
                content: large(),
                mode: None,
                precondition: Precondition::Absent,
            };
            let directory = Change::MakeDirectory {
                path: path("made"),
                mode: None,
            };
            let request = WriteRequest::new([put, directory]);
            for receipt in sandbox.write(ctx, request).await? {
                receipt?;
            }
        }
        Verb::Remove => {
            let request = RemoveRequest {
                path: path("doomed"),
                recursion: Recursion::Yes,
            };
            sandbox.remove(ctx, request).await?;
        }
        Verb::StatMany => {
            let request = StatManyRequest {
                paths: vec![path("large"), path("nowhere")],
            };
            assert_eq!(sandbox.stat_many(ctx, request).await?.len(), 2);
        }
        Verb::Glob => {
            let request = GlobRequest {
                scope: scope(),
                sort: Sort::Path,
                limit: 100,
                stat: WithStat::Yes,
            };
            sandbox.glob(ctx, request).await?;
        }
        Verb::Grep => {
            let request = GrepRequest {
                scope: scope(),
                pattern: Pattern {
                    text: "needle".into(),
                    syntax: PatternSyntax::Literal,
                    case: Case::Sensitive,
                    lines: Lines::Single,
                },
                before: 0,
                after: 0,
                max_per_file: None,
                limit: 100,
                max_line_bytes: 1000,
            };
            sandbox.grep(ctx, request).await?;
        }
        _ => {
            let request = FingerprintRequest {
                scope: tracked(),
                base: None,
            };
            sandbox.fingerprint(ctx, request).await?;
        }
    }
    Ok(())
}

fn tracked() -> FingerprintScope {
    FingerprintScope {
        scope: scope(),
        depth: FingerprintDepth::Metadata,
        limit: 1000,
    }
}

async fn on_processes(verb: Verb, wired: &Wired, ctx: &Ctx) -> Result<()> {
    let sandbox = &wired.sandbox;
    match verb {
        Verb::Exec => run(wired, ctx, Tracking::Off).await?,
        Verb::Spawn => {
            let line = "echo run >> runs; exec sleep 1000";
            let request = SpawnRequest::new(process(), sh(line));
            sandbox.spawn(ctx, request).await?;
        }
        Verb::ProcRead => {
            let request = ProcReadRequest {
                id: process(),
                stream: OutputStream::Stdout,
                from: 0,
                max: 1 << 20,
                wait: Duration::ZERO,
            };
            let chunk = sandbox.proc_read(ctx, request).await?;
            assert!(chunk.bytes == large(), "another output");
        }
        Verb::ProcStdin => {
            let request = ProcStdinRequest {
                id: process(),
                offset: 0,
                bytes: large(),
                close: true,
                resize: None,
            };
            sandbox.proc_stdin(ctx, request).await?;
        }
        _ => {
            let request = ProcStopRequest {
                id: process(),
                stop: Stop::Graceful {
                    grace: Duration::from_millis(500),
                },
            };
            sandbox.proc_stop(ctx, request).await?;
        }
    }
    Ok(())
}

/// Whether a run tells what it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracking {
    On,
    Off,
}

/// A run that takes its input from a stream and gives it back on one.
async fn run(wired: &Wired, ctx: &Ctx, tracking: Tracking) -> Result<()> {
    let mut request = ExecRequest::new(sh("echo run >> runs; cat; echo done >> runs"))
        .stdin(Stdin::Stream(pieces(&large())))
        .delivery(Delivery::Live);
    request.track = (tracking == Tracking::On).then(tracked);
    let execution = wired.sandbox.exec(ctx, request).await?;
    let (stdout, stderr, outcome) = join!(
        collect(Verb::Exec, execution.stdout, u64::MAX),
        collect(Verb::Exec, execution.stderr, u64::MAX),
        execution.outcome,
    );
    // A provider that lost its host ends the run, and may yet say so: it was cancelled, and what came is
    // all that was written.
    let cut = wired.tap.cut();
    let host_was_lost = cut.is_some_and(|cut| (cut.way, cut.how) == (Way::ToProvider, How::OneWay));
    match (&outcome, &stdout) {
        (Ok(outcome), Ok(stdout)) if outcome.exit.status.is_success() => {
            assert!(*stdout == large(), "the output is not the input");
            // Nothing in between: what was looked at whole holds what the run made, and nothing else.
            let created = outcome.changes.as_ref().map(|changes| &*changes.created);
            let expected = [path("runs")];
            let expected = (tracking == Tracking::On).then_some(&expected[..]);
            assert_eq!(created, expected, "{cut:?}");
        }
        (Ok(outcome), Ok(_)) => {
            let status = &outcome.exit.status;
            assert!(
                host_was_lost && *status == Status::Cancelled,
                "{cut:?}: {status}"
            );
        }
        (Ok(outcome), Err(error)) if host_was_lost => {
            // Given up by the provider, which says so.
            let given_up = outcome.exit.status == Status::Cancelled && !error.is_verdict();
            assert!(given_up, "{cut:?}: {error}");
        }
        (Ok(outcome), Err(error)) => {
            panic!("{cut:?}: {outcome:?} is known and its output is not: {error}")
        }
        // A reader must not take a part for the whole.
        (Err(_), Ok(stdout)) => {
            let whole = stdout.is_empty() || *stdout == large() || host_was_lost;
            assert!(whole, "{cut:?}: a part ended in order");
        }
        (Err(_), Err(_)) => {}
    }
    outcome?;
    stderr.map(drop)
}

async fn on_trees(verb: Verb, sandbox: &dyn Sandbox, ctx: &Ctx) -> Result<()> {
    if verb == Verb::PushTree {
        let request = PushRequest {
            destination: path("pushed"),
            archive: pieces(&archive()),
            compression: Compression::None,
            base: None,
            removed: Vec::new(),
        };
        sandbox.push_tree(ctx, request).await?;
        return Ok(());
    }
    let request = PullRequest {
        scopes: vec![scope()],
        compression: Compression::None,
        base: None,
    };
    let pull = sandbox.pull_tree(ctx, request).await?;
    let (archive, receipt) = join!(
        collect(Verb::PullTree, pull.archive, u64::MAX),
        pull.receipt
    );
    receipt?;
    // Two files with their headers, and the end.
    assert!(archive?.len() > LARGE, "a part of the archive");
    Ok(())
}

/// Bytes that come a piece at a time.
fn pieces(bytes: &Bytes) -> ByteStream {
    let chunks: Vec<Bytes> = bytes.chunks(7_000).map(Bytes::copy_from_slice).collect();
    Box::pin(futures_util::stream::iter(chunks).map(Ok::<_, Error>))
}

/// A tar archive of one large file.
fn archive() -> Bytes {
    let content = large();
    let mut header = [0u8; 512];
    let mut field = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    field(0, "file");
    field(100, "0000644");
    field(108, "0000000");
    field(116, "0000000");
    field(124, &format!("{:011o}", content.len()));
    field(136, "00000000000");
    field(148, "        ");
    field(156, "0");
    field(257, "ustar");
    field(263, "00");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    header[154] = 0;
    let mut archive = header.to_vec();
    archive.extend_from_slice(&content);
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    archive.into()
}

/// Whether what the verb does is seen in the workspace; `None` where it cannot be.
pub(crate) fn happened(verb: Verb, workspace: &Path) -> Option<bool> {
    let is_there = |name: &str| workspace.join(name).exists();
    match verb {
        Verb::Write => Some(is_there("written") || is_there("made")),
        Verb::Remove => Some(!(is_there("doomed/a/b") && is_there("doomed/c"))),
        Verb::Exec => Some(is_there("runs")),
        // A start, and an input that was taken, are answered before the process has come to do anything, and it ends
        // with its provider: that nothing is seen says nothing.
        Verb::Spawn => is_there("runs").then_some(true),
        Verb::ProcStdin => std::fs::metadata(workspace.join("input"))
            .is_ok_and(|it| it.len() > 0)
            .then_some(true),
        Verb::PushTree => Some(is_there("pushed")),
        // A process that is stopped is gone with its provider all the same.
        Verb::ProcStop => None,
        // The lifecycle leaves nothing in a workspace, and the others change nothing.
        _ => None,
    }
}

/// What is wrong with what is left: half of something, or something twice.
pub(crate) fn left_wrong(verb: Verb, workspace: &Path) -> Option<&'static str> {
    let content = |name: &str| std::fs::read(workspace.join(name)).ok();
    match verb {
        Verb::Write => content("written")
            .is_some_and(|written| written != large())
            .then_some("half a file was written"),
        Verb::Exec | Verb::Spawn => {
            let runs = content("runs").unwrap_or_default();
            let starts = runs
                .split(|&byte| byte == b'\n')
                .filter(|&line| line == b"run");
            (starts.count() > 1).then_some("it ran twice")
        }
        Verb::ProcStdin => content("input")
            .is_some_and(|input| !large().starts_with(&input))
            .then_some("the input came twice, or torn"),
        Verb::PushTree => content("pushed/file")
            .is_some_and(|file| file != large())
            .then_some("half a file was put there"),
        _ => None,
    }
}

/// Whether a failure is one of the way to the place, or one that the place gives without any cut.
pub(crate) fn is_of_the_way(error: &Error, uncut: Option<ErrorKind>) -> bool {
    !error.is_verdict() || Some(error.kind()) == uncut
}

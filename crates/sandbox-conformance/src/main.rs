//! `spp-conformance COMMAND...`: every check on any executable that offers sandboxes.
//!
//! **Invariants.** Standard output carries the report alone. Whatever ends a run, nothing that it
//! started is left, nor anything in the directory for temporary files.
//!
//! Not here: the checks, and how they are run.

mod args;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use sandbox_conformance::catalogue::Item;
use sandbox_conformance::report::{About, Report};
use sandbox_conformance::runner::{RunOptions, Runner};
use sandbox_host::direct::{DirectCommand, DirectProvider};
use sandbox_host::{SearchPath, StartError, Timing};
use tokio::signal::unix::{SignalKind, signal};

use args::{Args, Failure, Json};

const PASSED: u8 = 0;
const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_STARTED: u8 = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    match start(&args) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // Nobody is left to tell if standard error is closed.
            let _ = writeln!(std::io::stderr(), "spp-conformance: {failure}");
            ExitCode::from(match failure {
                Failure::Usage(_) => USAGE,
                Failure::NotStarted(_) => NOT_STARTED,
            })
        }
    }
}

fn start(args: &Args) -> Result<u8, Failure> {
    let items = args.items()?;
    if args.list {
        let mut text = String::new();
        for item in &items {
            text.push_str(&format!("{}  [{}]\n", item.id(), item.clauses().join(", ")));
        }
        print(&text);
        return Ok(PASSED);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::NotStarted(format!("failed to start: {error}")))?;
    let code = runtime.block_on(run(args, &items));
    runtime.shutdown_background();
    code
}

async fn run(args: &Args, items: &[Item]) -> Result<u8, Failure> {
    let scratch = tempfile::Builder::new()
        .prefix("spp-conformance-")
        .tempdir()
        .map_err(|error| Failure::NotStarted(format!("no directory for workspaces: {error}")))?;
    // The kernel's spelling: a workspace that is reached through a link has two names.
    let real = scratch
        .path()
        .canonicalize()
        .map_err(|error| Failure::NotStarted(format!("no directory for workspaces: {error}")))?;
    let options = RunOptions {
        workspaces: args.workspaces.into(),
        scratch: real,
        options: args.provider_options()?,
        limit: args.limit(),
        expected: args.expected()?,
    };
    let mut json = args.json_file()?;
    let command = DirectCommand {
        name: args.name(),
        program: args.program()?,
        args: args.command.iter().skip(1).cloned().collect(),
        env: args.env()?,
    };
    let not_started = |error: StartError| Failure::NotStarted(args::start_failure(args, &error));
    let provider = DirectProvider::new(command, &SearchPath::of_process(), Timing::default())
        .map_err(not_started)?;
    let mut runner = Runner::new(provider, options);
    let show = |text: &str| match args.json {
        Some(Json::Stdout) => complain(text),
        _ => print(text),
    };
    let ended = tokio::select! {
        signal = stopped() => Err(signal),
        report = all(&mut runner, args, items, show) => Ok(report),
    };
    runner.finish().await;
    let left = scratch.path().to_owned();
    if let Err(error) = scratch.close() {
        complain(&format!(
            "spp-conformance: cannot remove {}: {error}\n",
            left.display()
        ));
    }
    let report = match ended {
        Ok(report) => report.map_err(not_started)?,
        Err(signal) => {
            complain("spp-conformance: interrupted; nothing is said of the provider\n");
            return Ok(128 + signal);
        }
    };
    show(&report.summary());
    if let Some(json) = &mut json {
        json.write(&report.json())?;
    }
    Ok(if report.passed() { PASSED } else { FAILED })
}

async fn all(
    runner: &mut Runner,
    args: &Args,
    items: &[Item],
    show: impl Fn(&str),
) -> Result<Report, StartError> {
    let about = runner.meet(args.command.clone()).await?;
    show(&heading(&about));
    let mut report = Report {
        about,
        findings: Vec::new(),
        all: Item::all().count(),
    };
    let mut group = "";
    for item in items {
        if item.group() != group {
            group = item.group();
            show(&format!("\n{group}\n"));
        }
        let finding = runner.run(*item).await;
        show(&finding.text());
        report.findings.push(finding);
    }
    Ok(report)
}

fn heading(about: &About) -> String {
    let declared = if about.capabilities.is_empty() {
        "nothing beyond what is mandatory".to_owned()
    } else {
        about.capabilities.join(", ")
    };
    sandbox_host::error::visible(&format!("{} {}", about.name, about.version))
        + &format!("\ndeclares: {declared}\n")
}

/// The number of the signal that asks this program to end.
async fn stopped() -> u8 {
    let listen = |kind: SignalKind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Then it ends the program as it always did.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = listen(SignalKind::interrupt()) => 2,
        () = listen(SignalKind::terminate()) => 15,
        () = listen(SignalKind::hangup()) => 1,
    }
}

fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    // Whoever closed it does not want to know; the exit status still says how it went.
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
}

fn complain(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

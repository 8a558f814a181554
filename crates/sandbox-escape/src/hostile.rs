//! The hostile program: its modes, and the processes that it makes.
//!
//! Each attempt is made by a process of its own, so that one that dies, stops or gives everything away ends
//! nothing else.

use std::ffi::OsStr;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::attempt::{self, Attempt};
use crate::ground::Ground;
use crate::report::{Report, Told};

/// The argument by which a process says that it is nobody's target but P14's.
pub const BYSTANDER: &str = "--bystander";
/// The argument that makes it an engine as one would write it that thinks of nobody hostile.
pub const NAIVE_ENGINE: &str = "--naive-engine";
/// What the naive engine says when a command has ended.
pub const ENDED: &str = "ended";

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);

const HELP: &str = "\
Tries to get out of a sandbox. For sandboxes that are there to be tried.

Usage: spp-escape GROUND ID...             try these, one JSON line each
       spp-escape GROUND --one ID          try this one in this very process
       spp-escape GROUND --naive-engine    run an id for each line of standard input
       spp-escape --bystander ...          wait to be killed
       spp-escape --who                    say the real and the effective user";

/// Is the hostile program.
///
/// - `arguments`: without the program's own name
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [BYSTANDER, ..] => loop {
            std::thread::park();
        },
        ["--who"] => {
            let real = rustix::process::getuid().as_raw();
            let effective = rustix::process::geteuid().as_raw();
            say(&format!("{real} {effective}"));
            ExitCode::SUCCESS
        }
        // Whoever runs it with another's rights gets nothing else of it.
        _ if rustix::process::getuid() != rustix::process::geteuid() => ExitCode::FAILURE,
        [ground, NAIVE_ENGINE] => naive_engine(ground),
        [ground, "--one", id] => match (Ground::read(Path::new(ground)), attempt::named(id)) {
            (Ok(ground), Some(attempt)) => {
                tell(id, attempt.make(&ground));
                ExitCode::SUCCESS
            }
            (Err(error), _) => refuse(&format!("{ground}: {error}")),
            (_, None) => refuse(&format!("there is no attempt `{id}`")),
        },
        [ground, ref ids @ ..] if !ids.is_empty() => {
            for id in ids {
                let Some(attempt) = attempt::named(id) else {
                    return refuse(&format!("there is no attempt `{id}`"));
                };
                tell(id, apart(ground, attempt));
            }
            ExitCode::SUCCESS
        }
        _ => refuse(HELP),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("spp-escape: {why}");
    ExitCode::from(64)
}

#[expect(clippy::print_stdout, reason = "what is tried is told there")]
fn say(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}

fn tell(id: &str, told: Told) {
    let report = Report {
        id: id.to_owned(),
        told,
    };
    say(&serde_json::to_string(&report).unwrap_or_default());
}

/// A program, which is started as everything of this program is.
#[expect(
    clippy::disallowed_methods,
    reason = "a hostile program starts what it likes"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Tries one in a process of its own.
fn apart(ground: &str, attempt: &Attempt) -> Told {
    match one(ground, attempt.id) {
        Ok(told) => told,
        Err(error) => Told::NotApplicable(format!("it could not be started: {error}")),
    }
}

fn one(ground: &str, id: &str) -> std::io::Result<Told> {
    let mut child = command("/proc/self/exe")
        .args([ground, "--one", id])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Told::Blocked("it came to no end".into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut said = String::new();
    if let Some(mut output) = child.stdout.take() {
        std::io::Read::read_to_string(&mut output, &mut said)?;
    }
    match serde_json::from_str::<Report>(said.trim()) {
        Ok(report) => Ok(report.told),
        Err(_) => Ok(Told::Blocked(match status.signal() {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("it said nothing ({status})"),
        })),
    }
}

/// Runs an attempt for each line, as an engine runs commands: a child, whose output is passed on.
///
/// It protects itself from nothing, and has a secret in its environment.
fn naive_engine(ground: &str) -> ExitCode {
    for line in std::io::stdin().lock().lines() {
        let Ok(id) = line else { break };
        let child = command("/proc/self/exe")
            .args([ground, id.as_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::inherit())
            .status();
        if let Err(error) = child {
            return refuse(&error.to_string());
        }
        say(ENDED);
    }
    ExitCode::SUCCESS
}

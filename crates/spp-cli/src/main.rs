//! `spp`: run, read and write at a location.
//!
//! One command opens a location, does one thing there, and gives it back. What a command of the user
//! prints passes through untouched; what `spp` itself has to say goes to standard error behind
//! `spp:`, or with `--json` as one object to standard output.
//!
//! **Invariants.** A command's non-zero exit is no failure of `spp`. Nothing panics because somebody
//! closed standard output or standard error. The terminal is left as it was found.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `args` | the command line and its help |
//! | `session` | a location, open for one command |
//! | `run`, `shell`, `read`, `write`, `push`, `pull`, `search`, `doctor`, `gc` | the commands |
//! | `output`, `input`, `progress`, `signals`, `terminal` | what comes from and goes to the caller |
//! | `report` | outcomes as JSON, and as exit statuses |
//! | `failure` | how a failure is told |

mod args;
mod doctor;
mod failure;
mod gc;
mod input;
mod output;
mod progress;
mod pull;
mod push;
mod read;
mod report;
mod run;
mod search;
mod session;
mod shell;
mod signals;
mod terminal;
mod write;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use failure::{Failure, OWN_FAILURE, Result};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    log(cli.global.verbose);
    let code = match start(&cli) {
        Ok(code) => code,
        Err(failure) => {
            if cli.global.json {
                // With nowhere to print to, the sentence on standard error is what is left.
                let _ = output::print_last(report::line(&failure.json()).as_bytes());
            }
            failure.say();
            failure.code_or(default_code(&cli.command))
        }
    };
    ExitCode::from(code)
}

fn start(cli: &Cli) -> Result<u8> {
    // One thread is quickest for one command at a time, and never more than one is under way.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start", error))?;
    let code = runtime.block_on(async {
        match &cli.command {
            Command::Run(run) => run::run(&cli.global, run).await,
            Command::Shell(shell) => shell::shell(&cli.global, shell).await,
            Command::Read(read) => read::read(&cli.global, read).await,
            Command::Write(write) => write::write(&cli.global, write).await,
            Command::Push(push) => push::push(&cli.global, push).await,
            Command::Pull(pull) => pull::pull(&cli.global, pull).await,
            Command::Glob(glob) => search::glob(&cli.global, glob).await,
            Command::Grep(grep) => search::grep(&cli.global, grep).await,
            Command::Doctor => doctor::doctor(&cli.global).await,
            Command::Gc(gc) => gc::gc(&cli.global, gc).await,
        }
    });
    runtime.shutdown_background();
    code
}

/// What a failure of `spp` itself exits with: for commands whose own status is passed on, a number
/// of its own.
fn default_code(command: &Command) -> u8 {
    match command {
        Command::Run(_) | Command::Shell(_) => OWN_FAILURE,
        Command::Glob(_) | Command::Grep(_) => 2,
        Command::Push(_)
        | Command::Pull(_)
        | Command::Read(_)
        | Command::Write(_)
        | Command::Doctor
        | Command::Gc(_) => 1,
    }
}

/// Shows help, or says what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if !error.use_stderr() {
        return match printed {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Failure::io("write standard output", error).say();
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        };
    }
    // The command line could not be understood, so what it says is looked for in its words.
    let has = |wanted: &[&str]| {
        std::env::args_os()
            .skip(1)
            .take_while(|argument| argument != "--")
            .any(|argument| wanted.iter().any(|wanted| argument == *wanted))
    };
    if has(&["--json"]) {
        let text = error.render().to_string();
        let sentence = text.trim_start_matches("error: ").trim_end();
        let _ = output::print_last(report::line(&Failure::new(sentence).json()).as_bytes());
    }
    let passes_status_on = has(&["run", "shell"]);
    ExitCode::from(if passes_status_on { OWN_FAILURE } else { 2 })
}

fn log(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    // The message library logs whole messages, and with them the values of variables, which may be
    // secrets.
    let filter = format!("{level},jsonrpsee=warn");
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .log_internal_errors(false)
        .init();
}

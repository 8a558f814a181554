//! The tasks of this workspace: `cargo xtask TASK`.
//!
//! One module a task; each has its help beside its code. The tasks run tools and look at files;
//! they link to no other crate of the workspace, so that they still work when those do not compile.
//!
//! Arguments are read by hand: there are few, and this program is built, in silence, before anything
//! else that a newcomer asks for.

mod arguments;
mod bench;
mod daemon;
mod dist;
mod environment;
mod error;
mod escape;
mod executables;
mod fuzz;
mod install;
mod process;
mod spp;
mod sshd;
mod test;
mod tidy;
mod workspace;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use arguments::Arguments;
use error::{Failure, Result};

const HELP: &str = "\
The tasks of this workspace.

Usage: cargo xtask TASK [ARGS...]

  test      run every check and every test, with what they need brought up
  tidy      check the rules that hold across the whole workspace
  spp       build every executable and run spp (also: cargo spp ARGS...)
  install   put the executables onto PATH
  dist      make stripped static executables and their checksums
  bench     measure speed and memory against peers in the same run
  escape    run a hostile program in every location
  fuzz      fuzz what reads the bytes of others
  sshd      run a command beside an ssh server for tests

`cargo xtask TASK --help` explains a task.";

/// A task: its name, its help, and what it does with the arguments behind its name.
struct Task {
    name: &'static str,
    help: &'static str,
    run: fn(Vec<OsString>) -> Result<()>,
}

const TASKS: [Task; 9] = [
    Task {
        name: "test",
        help: test::HELP,
        run: |args| {
            let mut args = Arguments::new("test", args);
            let options = test::Options {
                long: args.flag("--all"),
                keep_going: args.flag("--keep-going"),
                nextest: args.rest(),
            };
            args.finish()?;
            test::run(&options)
        },
    },
    Task {
        name: "tidy",
        help: tidy::HELP,
        run: |args| {
            let mut args = Arguments::new("tidy", args);
            let root = args.path("--root")?;
            args.finish()?;
            tidy::run(root.as_deref())
        },
    },
    Task {
        name: "spp",
        help: spp::HELP,
        run: |mut args| {
            // `cargo xtask spp -- ARGS` and `cargo spp ARGS` are the same; a `--` is spp's own
            // only behind something of spp's.
            if args.first().is_some_and(|first| first == "--") {
                args.remove(0);
            }
            spp::run(&args)
        },
    },
    Task {
        name: "install",
        help: install::HELP,
        run: |args| {
            let mut args = Arguments::new("install", args);
            let root = args.path("--root")?;
            args.finish()?;
            install::run(root)
        },
    },
    Task {
        name: "dist",
        help: dist::HELP,
        run: |args| {
            let mut args = Arguments::new("dist", args);
            let out = args.path("--out")?;
            args.finish()?;
            dist::run(out)
        },
    },
    Task {
        name: "bench",
        help: bench::HELP,
        run: |args| bench::run(&args),
    },
    Task {
        name: "escape",
        help: escape::HELP,
        run: |args| escape::run(&args),
    },
    Task {
        name: "fuzz",
        help: fuzz::HELP,
        run: fuzz::run,
    },
    Task {
        name: "sshd",
        help: sshd::HELP,
        run: |args| sshd::run(&args),
    },
];

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: Vec<OsString>) -> Result<()> {
    if args.is_empty() {
        return Err(Failure::new(format!("no task was given\n\n{HELP}")));
    }
    let name = args.remove(0);
    if name == "--help" || name == "-h" || name == "help" {
        return print(HELP);
    }
    let Some(task) = TASKS.iter().find(|task| name == task.name) else {
        return Err(Failure::new(format!(
            "there is no task `{}`\n\n{HELP}",
            name.to_string_lossy()
        )));
    };
    // `cargo spp --help` is spp's help, not ours.
    let wants_help = args.first().is_some_and(|it| it == "--help" || it == "-h");
    if wants_help && task.name != "spp" {
        return print(task.help);
    }
    (task.run)(args)
}

/// Prints `text` to stdout; a reader that went away is no failure.
fn print(text: &str) -> Result<()> {
    drop(writeln!(std::io::stdout(), "{text}"));
    Ok(())
}

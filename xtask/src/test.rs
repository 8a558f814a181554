//! `cargo xtask test`: every check and every test, in one go.
//!
//! What is missing on this machine is said first, with how to install it, and fails the run: a
//! check that cannot be made is not skipped. The steps go from quick and telling to slow, and the
//! tests come last, so that the run closes with their summary.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::daemon::Daemon;
use crate::error::{Failure, Result};
use crate::executables::{self, Profile};
use crate::process;
use crate::sshd::Server;
use crate::tidy;
use crate::workspace;

pub(crate) const HELP: &str = "\
Run every check and every test, with what they need brought up.

Usage: cargo xtask test [--all] [--keep-going] [-- NEXTEST-ARGS...]

  --all          also the long tests, and the time that real work takes
  --keep-going   go on behind a step that failed
  NEXTEST-ARGS   choose tests: `cargo xtask test -- -p sandbox-engine edit`

Steps: tidy, executables, clippy, licences and sources, documentation, documentation tests, container daemon, ssh server,
tests.";

/// Where the tests find the executables, for those that run them.
const BIN_DIR: &str = "SPP_TEST_BIN_DIR";

/// What to run.
#[derive(Debug)]
pub(crate) struct Options {
    /// Also the tests that are ignored because they take long.
    pub(crate) long: bool,
    /// Run the steps behind one that failed.
    pub(crate) keep_going: bool,
    /// Arguments for `cargo nextest run`.
    pub(crate) nextest: Vec<OsString>,
}

/// Runs all steps.
///
/// # Errors
///
/// When something is missing on this machine, or a step failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    require(&PREREQUISITES)?;
    let mut steps = Steps::new(options.keep_going);
    steps.step("tidy", || tidy::run(None));
    let mut directory = None;
    steps.step("executables", || {
        directory = Some(executables_for_tests()?);
        Ok(())
    });
    steps.step("clippy", || process::run(&mut clippy()));
    steps.step("licences and sources", || process::run(&mut deny()));
    steps.step("documentation", || process::run(&mut documentation()));
    steps.step("documentation tests", || {
        process::run(cargo(&["test", "--doc", "--workspace"]).envs(bin_dir(&directory)))
    });
    if options.long {
        steps.step("time of real work", || {
            process::run(&mut cargo(&["xtask", "bench", "work", "--check"]))
        });
    }
    let mut daemon = None;
    steps.step("container daemon", || {
        daemon = Some(Daemon::start()?);
        Ok(())
    });
    let address = daemon.as_ref().map(Daemon::variable);
    let mut server = None;
    steps.step("ssh server", || {
        server = Some(Server::start()?);
        Ok(())
    });
    let config = server.as_ref().map(Server::variable);
    steps.step("tests", || {
        let mut tests = tests(options);
        tests.envs(bin_dir(&directory)).envs(address).envs(config);
        process::run(&mut tests)
    });
    steps.finish()
}

fn cargo(args: &[&str]) -> Command {
    let mut command = process::cargo();
    command.current_dir(workspace::root()).args(args);
    command
}

fn bin_dir(directory: &Option<PathBuf>) -> Option<(&'static str, &PathBuf)> {
    directory.as_ref().map(|directory| (BIN_DIR, directory))
}

/// Builds what the tests run, and returns the directory it is in.
fn executables_for_tests() -> Result<PathBuf> {
    executables::build_all(workspace::root(), Profile::Dev)?
        .first()
        .and_then(|executable| executable.path.parent())
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new("cargo built no executable for the tests"))
}

fn clippy() -> Command {
    cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

/// Advisories are left out: they need the network, and change without a change of ours.
fn deny() -> Command {
    cargo(&["deny", "check", "bans", "licenses", "sources"])
}

fn documentation() -> Command {
    let mut command = cargo(&["doc", "--no-deps", "--workspace"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

fn tests(options: &Options) -> Command {
    let mut command = cargo(&["nextest", "run", "--workspace"]);
    if options.long {
        command.args(["--run-ignored", "all"]);
    }
    command.args(&options.nextest);
    command
}

/// A program that a step or a test needs.
struct Prerequisite {
    /// How to find out whether it is there: a command that then succeeds.
    probe: &'static [&'static str],
    /// What it is for.
    purpose: &'static str,
    /// How one gets it.
    install: &'static str,
}

const PREREQUISITES: [Prerequisite; 13] = [
    Prerequisite {
        probe: &["cargo", "fmt", "--version"],
        purpose: "the sources' format",
        install: "rustup component add rustfmt",
    },
    Prerequisite {
        probe: &["cargo", "clippy", "--version"],
        purpose: "the lints",
        install: "rustup component add clippy",
    },
    Prerequisite {
        probe: &["cargo", "nextest", "--version"],
        purpose: "running the tests",
        install: "cargo install cargo-nextest --locked",
    },
    Prerequisite {
        probe: &["cargo", "deny", "--version"],
        purpose: "licences and sources of dependencies",
        install: "cargo install cargo-deny --locked",
    },
    Prerequisite {
        probe: &["cc", "--version"],
        purpose: "linking",
        install: "apt-get install build-essential",
    },
    Prerequisite {
        probe: &["git", "--version"],
        purpose: "trees under version control, in the tests",
        install: "apt-get install git",
    },
    #[cfg(target_os = "linux")]
    Prerequisite {
        probe: &["setpriv", "--version"],
        purpose: "tests as an ordinary user, when started by root",
        install: "apt-get install util-linux",
    },
    #[cfg(target_os = "linux")]
    Prerequisite {
        probe: &["bwrap", "--version"],
        purpose: "the location bubblewrap, whose tests are never skipped",
        install: "apt-get install bubblewrap",
    },
    #[cfg(target_os = "linux")]
    Prerequisite {
        probe: &["docker", "--version"],
        purpose: "the location docker, whose tests are never skipped",
        install: "apt-get install docker.io",
    },
    #[cfg(target_os = "linux")]
    Prerequisite {
        probe: &["busybox", "true"],
        purpose: "the image of the tests' containers",
        install: "apt-get install busybox-static",
    },
    #[cfg(target_os = "linux")]
    Prerequisite {
        probe: &["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; command -v sshd"],
        purpose: "the location ssh, whose tests are never skipped",
        install: "apt-get install openssh-server",
    },
    #[cfg(target_os = "linux")]
    Prerequisite {
        probe: &["csh", "-c", "true"],
        purpose: "an account with that shell, at the location ssh",
        install: "apt-get install tcsh",
    },
    #[cfg(target_os = "linux")]
    Prerequisite {
        probe: &["fish", "-c", "true"],
        purpose: "an account with that shell, at the location ssh",
        install: "apt-get install fish",
    },
];

/// Fails with everything that is missing, each with how to get it.
fn require(prerequisites: &[Prerequisite]) -> Result<()> {
    let missing: Vec<String> = prerequisites
        .iter()
        .filter(|it| !is_there(it))
        .map(|it| {
            format!(
                "  `{}` does not work, needed for {}; install it: {}",
                it.probe.join(" "),
                it.purpose,
                it.install
            )
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the tests cannot all run on this machine:\n{}",
        missing.join("\n")
    )))
}

fn is_there(prerequisite: &Prerequisite) -> bool {
    let (program, args) = prerequisite
        .probe
        .split_first()
        .expect("a probe has a program");
    let mut command = match *program {
        "cargo" => process::cargo(),
        other => process::command(other),
    };
    process::capture(command.args(args)).is_ok()
}

/// The steps so far: what each took and how it ended.
struct Steps {
    keep_going: bool,
    done: Vec<(&'static str, Duration, Result<()>)>,
}

impl Steps {
    fn new(keep_going: bool) -> Self {
        Self {
            keep_going,
            done: Vec::new(),
        }
    }

    /// Does a step, unless one before it failed and that ends the run.
    fn step(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) {
        if !self.keep_going && self.done.iter().any(|(_, _, result)| result.is_err()) {
            return;
        }
        eprintln!("==> {name}");
        let start = Instant::now();
        let result = step();
        if let Err(failure) = &result {
            eprintln!("error: {failure}");
        }
        self.done.push((name, start.elapsed(), result));
    }

    /// Lists the steps with their durations, and fails if one did.
    fn finish(self) -> Result<()> {
        eprintln!("\nsteps:");
        let mut failed = Vec::new();
        for (name, took, result) in &self.done {
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            eprintln!("  {:>6.1} s  {name}: {verdict}", took.as_secs_f64());
            if result.is_err() {
                failed.push(*name);
            }
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Failure::new(format!("failed: {}", failed.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_cure_and_fails() {
        let missing = Prerequisite {
            probe: &["no-such-program-here", "--version"],
            purpose: "this test",
            install: "apt-get install nothing",
        };
        let there = Prerequisite {
            probe: &["true"],
            purpose: "this test",
            install: "not needed",
        };
        let failure = require(&[missing, there])
            .expect_err("a missing program was not missed")
            .to_string();
        for part in [
            "`no-such-program-here --version`",
            "this test",
            "apt-get install nothing",
        ] {
            assert!(failure.contains(part), "{failure}");
        }
        assert!(!failure.contains("not needed"), "{failure}");
    }

    fn run_three(keep_going: bool) -> (Vec<&'static str>, Result<()>) {
        let mut steps = Steps::new(keep_going);
        let mut ran = Vec::new();
        steps.step("first", || {
            ran.push("first");
            Ok(())
        });
        steps.step("second", || {
            ran.push("second");
            Err(Failure::new("it broke"))
        });
        steps.step("third", || {
            ran.push("third");
            Ok(())
        });
        (ran, steps.finish())
    }

    #[test]
    fn nothing_runs_behind_a_failed_step_and_the_run_fails() {
        let (ran, result) = run_three(false);
        assert_eq!(ran, ["first", "second"]);
        assert!(
            result
                .expect_err("a step failed")
                .to_string()
                .contains("second")
        );
    }

    #[test]
    fn keeping_going_runs_everything_and_fails_all_the_same() {
        let (ran, result) = run_three(true);
        assert_eq!(ran, ["first", "second", "third"]);
        assert!(result.is_err(), "a failed step was forgotten");
    }

    #[test]
    fn long_tests_join_the_others_in_one_run_with_one_summary() {
        let options = Options {
            long: true,
            keep_going: false,
            nextest: vec!["-p".into(), "xtask".into()],
        };
        let shown = process::shown(&tests(&options));
        assert!(
            shown.ends_with("nextest run --workspace --run-ignored all -p xtask"),
            "{shown}"
        );
    }
}

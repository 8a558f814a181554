//! `cargo xtask fuzz`: libFuzzer on the targets of `fuzz/`, for a while each.
//!
//! Not here: what is fuzzed, which is `crates/spp-fuzz`. That crate's test tries a little of it in every run.

use std::ffi::OsString;

use crate::error::{Context as _, Failure, Result};
use crate::process;
use crate::workspace;

pub(crate) const HELP: &str = "\
Fuzz what reads the bytes of others: lines, messages, configuration, archives.

Usage: cargo xtask fuzz [TARGET...] [--seconds N]

  --seconds N   how long each target is fuzzed; default: 60

Needs cargo-fuzz and a C++ compiler. What is found is written to fuzz/artifacts/TARGET; fuzz/README.md says what to
do with it.

Example: cargo xtask fuzz archive --seconds 3600";

/// The sanitizer's library is dynamic, as is what it is linked into, so the target is named and `RUSTFLAGS`, which
/// cargo-fuzz sets, replaces the flags for our static executables.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Fuzzes each target that `args` names, or all; what one finds ends it.
///
/// # Errors
///
/// A program is missing, an argument makes no sense, or a target found something.
pub(crate) fn run(args: Vec<OsString>) -> Result<()> {
    let known = targets()?;
    let Plan { targets, seconds } = plan(args, &known)?;
    process::capture(process::cargo().args(["fuzz", "--version"])).map_err(|_| {
        Failure::new("cargo-fuzz is missing; install it with `cargo install cargo-fuzz --locked`")
    })?;
    for target in targets {
        let seeds = workspace::root().join("fuzz/seeds").join(&target);
        let corpus = workspace::root().join("fuzz/corpus").join(&target);
        std::fs::create_dir_all(&corpus).context(|| format!("make {}", corpus.display()))?;
        let mut command = process::cargo();
        command
            .current_dir(workspace::root().join("fuzz"))
            // The sanitizer's flags are not stable.
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["fuzz", "run", "--target", TRIPLE, &target])
            .arg(corpus);
        if seeds.is_dir() {
            command.arg(seeds);
        }
        if target != "config" && target != "archive" {
            command.arg(workspace::root().join("crates/spp-protocol/golden"));
        }
        command.args(["--", &format!("-max_total_time={seconds}"), "-timeout=20"]);
        process::run(&mut command)?;
    }
    Ok(())
}

/// What to fuzz.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    targets: Vec<String>,
    /// For each.
    seconds: u32,
}

/// Reads the arguments.
fn plan(args: Vec<OsString>, known: &[String]) -> Result<Plan> {
    let mut targets = Vec::new();
    let mut seconds = 60;
    let mut args = args.into_iter().map(|it| it.to_string_lossy().into_owned());
    while let Some(arg) = args.next() {
        let value = match arg.strip_prefix("--seconds") {
            Some("") => args.next(),
            Some(glued) => glued.strip_prefix('=').map(str::to_owned),
            None if known.contains(&arg) => {
                targets.push(arg);
                continue;
            }
            None => {
                return Err(Failure::new(format!(
                    "there is no target `{arg}`; there are: {}",
                    known.join(", ")
                )));
            }
        };
        seconds = value
            .and_then(|value| value.parse().ok())
            .filter(|seconds| *seconds > 0)
            .ok_or_else(|| Failure::new("--seconds needs a whole number above 0 behind it"))?;
    }
    if targets.is_empty() {
        targets = known.to_vec();
    }
    Ok(Plan { targets, seconds })
}

/// The names of the targets: of their files.
fn targets() -> Result<Vec<String>> {
    let directory = workspace::root().join("fuzz/fuzz_targets");
    let entries =
        std::fs::read_dir(&directory).context(|| format!("read {}", directory.display()))?;
    let mut names: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some(path.file_stem()?.to_str()?.to_owned())
        })
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(args: &[&str]) -> Result<Plan, String> {
        let known = ["archive", "config"].map(str::to_owned);
        plan(args.iter().map(OsString::from).collect(), &known)
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_target_is_fuzzed_for_a_minute_unless_told_otherwise() {
        let all = planned(&[]).expect("nothing is wrong");
        assert_eq!((all.targets.len(), all.seconds), (2, 60));
        for args in [["config", "--seconds", "5"], ["--seconds", "5", "config"]] {
            let one = planned(&args).expect("nothing is wrong");
            assert_eq!((one.targets, one.seconds), (vec!["config".to_owned()], 5));
        }
        assert_eq!(planned(&["--seconds=7"]).map(|plan| plan.seconds), Ok(7));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (args, said) in [
            (&["archives"][..], "archive, config"),
            (&["--second"], "no target"),
            (&["--seconds"], "whole number"),
            (&["--seconds", "soon"], "whole number"),
            (&["--seconds=0"], "whole number"),
        ] {
            let failure = planned(args).expect_err("it makes no sense");
            assert!(failure.contains(said), "{args:?}: {failure}");
        }
    }
}

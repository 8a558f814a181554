//! `cargo xtask bench`: build everything as users get it, then measure.
//!
//! The rows are in the package `spp-bench`, which may depend on the host; this crate may not.

use std::ffi::OsString;

use crate::daemon::Daemon;
use crate::error::{Failure, Result};
use crate::executables::{self, Profile};
use crate::process;
use crate::sshd::Server;
use crate::workspace::{self, Workspace};

pub(crate) const HELP: &str = "\
Measure speed and memory: ratios against a peer, or the floor, in the same run.

Usage: cargo xtask bench [ROW...] [--json] [--check]

  --json    print a list of {row, ours, peer, ratio, bar, holds}
  --check   exit with 1 if a row misses its bar

Close what else runs first: a busy machine is waited for, a while, before each batch.

Example: cargo xtask bench exec read";

/// Builds, and runs the bench with `args`.
///
/// # Errors
///
/// When the build fails, the bench cannot be executed, or it fails.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let workspace = Workspace::load(workspace::root())?;
    executables::build_shipped(&workspace, Profile::Release)?;
    let built = executables::build_package(&workspace, "spp-bench", Profile::Release)?;
    let bench = built
        .first()
        .ok_or_else(|| Failure::new("cargo built no executable in the package `spp-bench`"))?;
    let mut measure = process::command(&bench.path);
    measure.args(args);
    // Without what a row needs the others are measured all the same, and that one says what it misses.
    let daemon = wants("docker", args).then(Daemon::start);
    match &daemon {
        Some(Ok(daemon)) => {
            let (name, address) = daemon.variable();
            measure.env(name, address);
        }
        Some(Err(failure)) => eprintln!("bench: no container daemon: {failure}"),
        None => {}
    }
    let wants_server = wants("ssh", args) || wants("ssh-far", args);
    let server = wants_server.then(Server::start);
    match &server {
        Some(Ok(server)) => {
            let (name, config) = server.variable();
            measure.env(name, config);
        }
        Some(Err(failure)) => eprintln!("bench: no ssh server: {failure}"),
        None => {}
    }
    if daemon.is_none() && server.is_none() {
        return Err(process::replace(&mut measure));
    }
    process::run(&mut measure)
}

/// Whether a row that begins so, and needs something brought up, is among those that are to be measured.
fn wants(row: &str, args: &[OsString]) -> bool {
    let asks = |what: &str| args.iter().any(|arg| arg == what);
    let names_row = args
        .iter()
        .any(|arg| !arg.as_encoded_bytes().starts_with(b"-"));
    let asks_one = args
        .iter()
        .any(|arg| arg.as_encoded_bytes().starts_with(row.as_bytes()));
    !asks("--help") && (asks_one || !names_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_row_needs_is_started_for_that_alone() {
        let wants = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(OsString::from).collect();
            wants("docker", &args)
        };
        assert!(wants(&[]) && wants(&["--json"]) && wants(&["exec", "docker"]));
        assert!(wants(&["docker-idle"]));
        assert!(!wants(&["exec"]) && !wants(&["--help"]) && !wants(&["read", "--check"]));
    }
}

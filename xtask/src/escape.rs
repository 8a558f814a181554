//! `cargo xtask escape`: build everything, then try to get out of every location.
//!
//! What is tried, and where, is in the package `sandbox-escape`, which may depend on the host; this crate may not.

use std::ffi::OsString;

use crate::daemon::Daemon;
use crate::error::{Failure, Result};
use crate::executables::{self, Profile};
use crate::process;
use crate::workspace::{self, Workspace};

pub(crate) const HELP: &str = "\
Run a hostile program in every location, and say what it got away with.

Usage: cargo xtask escape [ID...] [--json]

  ID       what to try, such as F01; everything if nothing is named
  --json   print one JSON object in place of the table

A row counts only where it works in a column that is there as a control. Started by root, every column
but one is an ordinary user's. Exits with 1 where something is not kept away that a location promises
to keep away, or where something is that is said not to be.

Example: cargo xtask escape P01 P02";

/// Builds, and runs the suite with `args`.
///
/// # Errors
///
/// When the build fails, the suite cannot be executed, or something gets out.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let workspace = Workspace::load(workspace::root())?;
    executables::build_shipped(&workspace, Profile::Dev)?;
    let built = executables::build_package(&workspace, "sandbox-escape", Profile::Dev)?;
    let suite = built
        .iter()
        .find(|executable| executable.name == "spp-escape-suite")
        .ok_or_else(|| Failure::new("cargo built no executable `spp-escape-suite`"))?;
    let mut suite = process::command(&suite.path);
    suite.args(args);
    // Without one, the table says which columns are left out.
    let daemon = Daemon::start();
    match &daemon {
        Ok(daemon) => {
            let (name, address) = daemon.variable();
            suite.env(name, address);
        }
        Err(failure) => eprintln!("escape: no container daemon: {failure}"),
    }
    process::run(&mut suite)
}

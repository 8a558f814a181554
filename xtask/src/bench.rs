//! `cargo xtask bench`: build everything as users get it, then measure.
//!
//! The rows are in the package `spp-bench`, which may depend on the host; this crate may not.

use std::ffi::OsString;

use crate::error::{Failure, Result};
use crate::executables::{self, Profile};
use crate::process;
use crate::workspace::{self, Workspace};

pub(crate) const HELP: &str = "\
Measure speed and memory: ratios against a peer, or the floor, in the same run.

Usage: cargo xtask bench [ROW...] [--json] [--check]

  --json    print a list of {row, ours, peer, ratio, bar, holds}
  --check   exit with 1 if a row misses its bar

Close what else runs first: a busy machine is waited for, a while, before each batch.

Example: cargo xtask bench exec read";

/// Builds, and becomes the bench with `args`.
///
/// # Errors
///
/// When the build fails or the bench cannot be executed. On success this does not return.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let workspace = Workspace::load(workspace::root())?;
    executables::build_shipped(&workspace, Profile::Release)?;
    let built = executables::build_package(&workspace, "spp-bench", Profile::Release)?;
    let bench = built
        .first()
        .ok_or_else(|| Failure::new("cargo built no executable in the package `spp-bench`"))?;
    Err(process::replace(process::command(&bench.path).args(args)))
}

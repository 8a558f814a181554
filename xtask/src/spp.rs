//! `cargo spp`: build everything, then be `spp`.
//!
//! The executables lie side by side in cargo's directory, where `spp` finds its providers. `spp`
//! replaces this process, so that signals, the terminal and the exit status are its own, and gets
//! the environment that the person had before cargo added to it.

use std::ffi::OsString;

use crate::environment;
use crate::error::{Context as _, Failure, Result};
use crate::executables::{self, Profile};
use crate::process;
use crate::workspace::{self, Workspace};

pub(crate) const HELP: &str = "\
Build every executable (release) and run spp with ARGS in this directory.

Usage: cargo spp ARGS...
       cargo xtask spp [--] ARGS...

Example: cargo spp run -- make test";

/// Builds, and becomes `spp` with `args`.
///
/// # Errors
///
/// When the build fails or `spp` cannot be executed. On success this does not return.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let workspace = Workspace::load(workspace::root())?;
    let built = executables::build_shipped(&workspace, Profile::Release)?;
    let spp = built
        .iter()
        .find(|executable| executable.name == "spp")
        .ok_or_else(|| Failure::new("cargo built no executable named `spp`"))?;
    let task = std::env::current_exe().context(|| "find the executable of this task".into())?;
    Err(process::replace(
        process::command(&spp.path)
            .args(args)
            .env_clear()
            .envs(environment::without_cargos_own(std::env::vars_os(), &task)),
    ))
}

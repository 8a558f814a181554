//! The one door through which the tasks start programs.
//!
//! Everything started here is a tool of the build (cargo, git, rustc) or `spp` itself. What runs
//! in a sandbox is started by the engine and never from here.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::error::{Context as _, Failure, Result};

/// A command for `program`, with our environment and our working directory.
#[expect(
    clippy::disallowed_methods,
    reason = "the tasks' own door: they run build tools, and no sandbox is involved"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// A command for the cargo that runs this task, so that toolchains are never mixed.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command` with our stdout and stderr and no stdin, until it ends.
///
/// # Errors
///
/// When it cannot be started or ends with anything but success.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .context(|| format!("start `{}`", shown(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "`{}` failed ({status}); its output above says why",
            shown(command)
        )))
    }
}

/// Runs `command` and returns what it wrote to stdout.
///
/// # Errors
///
/// When it cannot be started or fails; the error holds what it wrote to stderr.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(|| format!("start `{}`", shown(command)))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::new(format!(
        "`{}` failed ({}): {}",
        shown(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

/// Becomes `command`: same process id, same stdin, stdout, stderr and terminal.
///
/// Returns only when that was impossible, with the reason.
pub(crate) fn replace(command: &mut Command) -> Failure {
    let cause = command.exec();
    Failure::new(format!("failed to execute `{}`: {cause}", shown(command)))
}

/// `command` as one would type it, for messages; the directories before the program's name, which
/// say nothing to a reader, are left out.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut text = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_says_what_was_run_and_what_it_complained_about() {
        let failure = capture(command("/bin/sh").args(["-c", "echo the cause >&2; exit 3"]))
            .expect_err("exit status 3 was taken for success")
            .to_string();
        assert!(failure.contains("`sh -c"), "{failure}");
        assert!(failure.contains("exit status: 3"), "{failure}");
        assert!(failure.contains("the cause"), "{failure}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let failure = run(&mut command("no-such-program-here"))
            .expect_err("a missing program was started")
            .to_string();
        assert!(failure.contains("no-such-program-here"), "{failure}");
    }
}

//! Builds executables and says where cargo put them.
//!
//! The paths come from cargo's own messages, so a target directory, triple or profile directory
//! that somebody configured differently is never guessed at. Cargo's progress is passed on as it
//! comes, except the line that says it is finished: with nothing to build, nothing is printed.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::error::{Context as _, Failure, Result};
use crate::process;
use crate::workspace::{Target, Workspace};

/// How to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quickly; what the tests run.
    Dev,
    /// Optimised; what `cargo spp` and `cargo xtask install` use.
    Release,
    /// Optimised and stripped; what is given to others.
    Dist,
}

/// An executable that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    /// Its file name.
    pub(crate) name: String,
    /// Where it is, absolute.
    pub(crate) path: PathBuf,
}

/// Builds the executables that a person gets.
///
/// # Errors
///
/// When the build fails; cargo has then said why on stderr.
pub(crate) fn build_shipped(workspace: &Workspace, profile: Profile) -> Result<Vec<Executable>> {
    let mut command = command(&workspace.workspace_root, profile);
    for (package, executable) in workspace.shipped() {
        command.args(["--package", package, "--bin", executable]);
    }
    build(&mut command)
}

/// Builds every executable of the workspace, those that only the tests use included.
///
/// # Errors
///
/// When the build fails; cargo has then said why on stderr.
pub(crate) fn build_all(root: &Path, profile: Profile) -> Result<Vec<Executable>> {
    build(command(root, profile).args(["--workspace", "--bins"]))
}

/// Builds the executables of one package.
///
/// # Errors
///
/// When the build fails; cargo has then said why on stderr.
pub(crate) fn build_package(
    workspace: &Workspace,
    package: &str,
    profile: Profile,
) -> Result<Vec<Executable>> {
    build(command(&workspace.workspace_root, profile).args(["--package", package, "--bins"]))
}

fn command(root: &Path, profile: Profile) -> Command {
    let mut command = process::cargo();
    // Cargo reads its configuration from the working directory upwards: static linking is
    // configured in the workspace, whatever directory the caller stands in.
    command.current_dir(root).arg("build").args([
        "--profile",
        match profile {
            Profile::Dev => "dev",
            Profile::Release => "release",
            Profile::Dist => "dist",
        },
    ]);
    command
}

fn build(command: &mut Command) -> Result<Vec<Executable>> {
    command
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if std::io::stderr().is_terminal() {
        // Through our pipe cargo no longer sees the terminal it is in the end writing to.
        for (variable, value) in [
            ("CARGO_TERM_COLOR", "always"),
            ("CARGO_TERM_PROGRESS_WHEN", "always"),
            ("CARGO_TERM_PROGRESS_WIDTH", "80"),
        ] {
            if std::env::var_os(variable).is_none() {
                command.env(variable, value);
            }
        }
    }
    let mut child = command
        .spawn()
        .context(|| format!("start `{}`", process::shown(command)))?;
    let progress = child.stderr.take().expect("stderr was piped above");
    let passing_on = std::thread::spawn(move || pass_progress_on(progress, &mut std::io::stderr()));
    let messages = child.stdout.take().expect("stdout was piped above");
    let built = executables(messages);
    let status = child
        .wait()
        .context(|| format!("wait for `{}`", process::shown(command)))?;
    // A progress line that could not be shown is no reason to fail a build that went well.
    drop(passing_on.join());
    if status.success() {
        built
    } else {
        Err(Failure::new(format!(
            "`{}` failed ({status}); its output above says why",
            process::shown(command)
        )))
    }
}

/// Reads cargo's messages to their end and keeps the executables.
fn executables(messages: impl Read) -> Result<Vec<Executable>> {
    #[derive(Deserialize)]
    struct Message {
        target: Option<Target>,
        executable: Option<PathBuf>,
    }

    let mut found = Vec::new();
    for line in BufReader::new(messages).lines() {
        let line = line.context(|| "read cargo's messages".into())?;
        let message: Message = serde_json::from_str(&line)
            .context(|| format!("understand cargo's message `{line}`"))?;
        if let Message {
            target: Some(target),
            executable: Some(path),
        } = message
            && target.is("bin")
        {
            found.push(Executable {
                name: target.name,
                path,
            });
        }
    }
    // They come in the order in which they were done, which changes from build to build.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Copies cargo's progress, piece by piece, and leaves out the closing "Finished" line.
///
/// A progress bar ends in a carriage return, everything else in a newline.
fn pass_progress_on(progress: impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut reader = BufReader::new(progress);
    let mut piece = Vec::new();
    loop {
        let available = reader.fill_buf()?;
        let ended = available.is_empty();
        let end = available
            .iter()
            .position(|byte| matches!(byte, b'\n' | b'\r'));
        let taken = end.map_or(available.len(), |at| at + 1);
        piece.extend_from_slice(&available[..taken]);
        reader.consume(taken);
        if ended || end.is_some() {
            let text = String::from_utf8_lossy(&piece);
            if !(text.contains("Finished") && text.contains("profile [")) {
                to.write_all(&piece)?;
                to.flush()?;
            }
            piece.clear();
        }
        if ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_where_cargo_says_and_libraries_are_none() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"core","kind":["lib"],"src_path":"/s/lib.rs"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"spp","kind":["bin"],"src_path":"/s/main.rs"},"executable":"/t/release/spp"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        let found = executables(messages.as_bytes()).expect("these are cargo's messages");
        assert_eq!(
            found,
            [Executable {
                name: "spp".into(),
                path: "/t/release/spp".into()
            }]
        );
    }

    #[test]
    fn a_build_with_nothing_to_do_prints_nothing() {
        let mut shown = Vec::new();
        let finished =
            "\u{1b}[32m    Finished\u{1b}[0m `release` profile [optimized] target(s) in 0.05s\n";
        pass_progress_on(finished.as_bytes(), &mut shown).expect("a vector takes everything");
        assert_eq!(String::from_utf8_lossy(&shown), "");
    }

    #[test]
    fn progress_and_warnings_are_passed_on_unchanged() {
        let mut shown = Vec::new();
        let work = "   Compiling a v1\n Building [==> ] 1/2\rwarning: unused\n";
        let all = format!("{work}    Finished `dev` profile [unoptimized] target(s) in 1s\n");
        pass_progress_on(all.as_bytes(), &mut shown).expect("a vector takes everything");
        assert_eq!(String::from_utf8_lossy(&shown), work);
    }
}

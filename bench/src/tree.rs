//! A tree that is large enough to measure verbs on that look at many entries.
//!
//! It is made of the sources of published crates as cargo keeps them, copied until there are enough
//! files. They lie on every machine that built this workspace, and look like what people work on.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::rows::Result;

/// Files that the tree has at least.
pub(crate) const FILES: usize = 50_000;

/// Fills `to`, which is made, and returns how many files there are.
pub(crate) async fn build(to: &Path) -> Result<usize> {
    let sources = sources_of("strsim").await?;
    let all = sources.parent().ok_or("the sources lie in no directory")?;
    std::fs::create_dir(to)?;
    let mut files = 0;
    for number in 0.. {
        let copied = copy(all, &to.join(format!("copy-{number}")))?;
        if copied == 0 {
            return Err("cargo keeps no sources".into());
        }
        files += copied;
        if files >= FILES {
            break;
        }
    }
    Ok(files)
}

/// Fills `to`, which is made, with `files` short texts in directories of twenty.
pub(crate) fn small(to: &Path, files: usize) -> std::io::Result<()> {
    const IN_ONE: usize = 20;
    const LINE: &str = "a line as people write them, of about fifty bytes\n";
    std::fs::create_dir(to)?;
    for number in 0..files {
        let directory = to.join(format!("{:04}", number / IN_ONE));
        if number.is_multiple_of(IN_ONE) {
            std::fs::create_dir(&directory)?;
        }
        // Up to 4 KiB, and no two alike.
        let text = format!("{number}\n{}", LINE.repeat(number % 80));
        std::fs::write(directory.join(format!("{number:05}.txt")), text)?;
    }
    Ok(())
}

/// Makes `tree` a repository that has all of it committed, and is packed as a clone is.
pub(crate) async fn commit(tree: &Path) -> Result<()> {
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "--all"],
        &[
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@localhost",
            "commit",
            "--quiet",
            "--message=all of it",
        ],
    ] {
        let mut git = command("git");
        git.args(arguments).current_dir(tree).stdin(Stdio::null());
        let output = git.output().await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("`git {}` failed: {said}", arguments.join(" ")).into());
        }
    }
    Ok(())
}

/// Where cargo keeps the sources of a dependency of this workspace.
pub(crate) async fn sources_of(name: &str) -> Result<PathBuf> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = command("cargo")
        .args([
            "metadata",
            "--format-version=1",
            "--offline",
            // What other systems need is not on this machine, and cargo would want to look at it.
            "--filter-platform=host-tuple",
            "--manifest-path",
            manifest,
        ])
        .output()
        .await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`cargo metadata` failed: {said}").into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == name)
        .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .map(Path::to_owned)
        .ok_or_else(|| format!("cargo knows no sources of `{name}`").into())
}

/// Copies a tree of files and directories, and returns how many files there were.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<usize> {
    std::fs::create_dir(to)?;
    let mut files = 0;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files += copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
            files += 1;
        }
    }
    Ok(files)
}

/// A program that is measured, or needed for measuring.
pub(crate) fn command(program: &str) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "this starts what is measured, both sides alike"
    )]
    Command::new(program)
}

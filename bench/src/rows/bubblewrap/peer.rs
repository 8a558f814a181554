//! The peer: the bwrap command that the provider executed, around one program instead of an engine.

use std::path::Path;
use std::process::Stdio;

use super::super::{Place, Result};
use crate::memory;

/// The user that runs it where root measures, as bwrap is no sandbox of root's.
const ORDINARY: u32 = 42_421;

/// A bwrap command with the flags of a place.
#[derive(Debug)]
pub(super) struct Peer {
    arguments: Vec<String>,
}

impl Peer {
    /// With the flags of this place, as its bwrap was executed. What comes by descriptors is named by paths; small files
    /// that come by descriptors are left out, to the peer's advantage.
    pub(super) fn of(place: &Place) -> Result<Self> {
        let bwrap = memory::children_of(place.provider)
            .into_iter()
            .find(|pid| comm(*pid) == "bwrap")
            .ok_or("the provider has no bwrap")?;
        let words = std::fs::read(format!("/proc/{bwrap}/cmdline"))?;
        let words = String::from_utf8(words)?;
        let mut words = words.split_terminator('\0').skip(1).map(str::to_owned);
        // Owned by whoever runs the peer, as ours is by whoever runs that.
        let root = place.root.join("peer");
        std::fs::create_dir_all(&root)?;
        if memory::is_root() {
            std::os::unix::fs::chown(&root, Some(ORDINARY), Some(ORDINARY))?;
        }
        let mut arguments: Vec<String> = Vec::new();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or("an option of bwrap has no value");
            match word.as_str() {
                "--" => break,
                "--bind" | "--ro-bind" | "--bind-fd" | "--ro-bind-fd" => {
                    let (from, at) = (value()?, value()?);
                    let from = match at.as_str() {
                        "/workspace" => path(&root)?,
                        // The engine's executable; any file will do.
                        "/run/spp/engine" => "/usr/bin/true".to_owned(),
                        _ => from,
                    };
                    arguments.extend([word.replace("-fd", ""), from, at]);
                }
                "--file" => {
                    value()?;
                    value()?;
                    // With the mode that it would have.
                    arguments.truncate(arguments.len().saturating_sub(2));
                }
                "--info-fd" | "--block-fd" => drop(value()?),
                _ => arguments.push(word),
            }
        }
        Ok(Self { arguments })
    }

    /// Runs `/bin/true` in a place of its own.
    pub(super) async fn run(&self) -> Result<()> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the peer that is measured"
        )]
        let mut command = tokio::process::Command::new("/usr/bin/bwrap");
        if memory::is_root() {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        command
            .args(&self.arguments)
            .arg("--")
            .arg("/bin/true")
            .current_dir("/")
            .stdin(Stdio::null());
        let output = command.output().await?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(format!("/bin/true failed in a bwrap of its own: {words}").into());
        }
        Ok(())
    }
}

fn comm(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

fn path(path: &Path) -> Result<String> {
    Ok(path
        .to_str()
        .ok_or("the scratch directory is not UTF-8")?
        .to_owned())
}

//! Processes that a provider leaves behind.
//!
//! A process whose parent ends becomes a child of the nearest ancestor that asked for it, and
//! this one asks. So whatever a provider started and did not end is found here, however it
//! detached itself, and can be ended.
//!
//! **Invariant:** only children of this process that are no provider's are counted and killed.
//!
//! Not here: systems without a process table to read. There nothing is found.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Finds and ends what is left behind.
#[derive(Debug, Default)]
pub struct Orphans(());

/// How long what cleans up by itself is left to it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the sweep may take.
const SWEEP: Duration = Duration::from_secs(5);

impl Orphans {
    /// Asks for the orphans of everything that is started from now on.
    #[must_use]
    pub fn adopt() -> Self {
        #[cfg(target_os = "linux")]
        {
            // A kernel that refuses gives them to another ancestor, and none is found here.
            let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        }
        Self(())
    }

    /// The children of this process except `known`, as `PID (NAME)`; none where there is no telling.
    pub(crate) fn besides(&self, known: &[Option<u32>]) -> Vec<String> {
        let known: BTreeSet<u32> = known.iter().flatten().copied().collect();
        children()
            .into_iter()
            .filter(|child| !known.contains(&child.pid) && child.lives)
            .map(|child| format!("{} ({})", child.pid, child.name))
            .collect()
    }

    /// Ends every child of this process that does not end by itself. Only for when no provider is meant
    /// to run.
    pub async fn sweep(&self) {
        let start = Instant::now();
        loop {
            let children = children();
            if children.is_empty() || start.elapsed() > SWEEP {
                return;
            }
            for child in children {
                if !child.lives {
                    reap(child.pid);
                } else if start.elapsed() > PATIENCE {
                    kill(child.pid);
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

struct ChildProcess {
    pid: u32,
    name: String,
    lives: bool,
}

#[cfg(target_os = "linux")]
fn reap(pid: u32) {
    use rustix::process::{WaitOptions, waitpid};

    let _ = waitpid(pid_of(pid), WaitOptions::NOHANG);
}

#[cfg(target_os = "linux")]
fn kill(pid: u32) {
    use rustix::process::{Signal, kill_process};

    if let Some(pid) = pid_of(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(target_os = "linux")]
fn pid_of(pid: u32) -> Option<rustix::process::Pid> {
    i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
}

#[cfg(target_os = "linux")]
fn children() -> Vec<ChildProcess> {
    let me = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name stands in parentheses and may contain any.
            let (before, after) = stat.rsplit_once(')')?;
            let mut fields = after.split_whitespace();
            let state = fields.next()?;
            let parent: u32 = fields.next()?.parse().ok()?;
            (parent == me).then(|| ChildProcess {
                pid,
                name: before
                    .split_once('(')
                    .map_or("", |(_, name)| name)
                    .to_owned(),
                lives: !matches!(state, "Z" | "X"),
            })
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn reap(_: u32) {}

#[cfg(not(target_os = "linux"))]
fn kill(_: u32) {}

#[cfg(not(target_os = "linux"))]
fn children() -> Vec<ChildProcess> {
    Vec::new()
}

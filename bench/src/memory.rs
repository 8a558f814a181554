//! Memory: of a process, from `/proc`, and of many, by a control group.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Resident set of a process in bytes; 0 if there is no such process.
pub(crate) fn resident(pid: u32) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Whether root measures.
pub(crate) fn is_root() -> bool {
    // The first number is the real user's, the second one's rights count.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
}

/// Pids of the direct children of this process.
pub(crate) fn children() -> Vec<u32> {
    children_of(std::process::id())
}

/// Pids of the direct children of a process.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let own = parent.to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
            // The name in brackets may hold anything; the parent is the second field after it.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
            (parent == own).then_some(pid)
        })
        .collect()
}

/// A control group that counts memory, of either version.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    /// The file that says how much there is.
    file: &'static str,
}

impl Group {
    /// Makes one, with a name that nobody else has; `None` where this process may make none.
    pub(crate) fn new(name: &str) -> Option<Self> {
        const MOUNTS: [(&str, &str); 2] = [
            ("/sys/fs/cgroup/memory", "memory.usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.current"),
        ];
        MOUNTS.iter().find_map(|(mount, file)| {
            let directory = Path::new(mount).join(format!("{name}-{}", std::process::id()));
            std::fs::create_dir(&directory).ok()?;
            let group = Self { directory, file };
            if group.bytes().is_ok() {
                return Some(group);
            }
            group.remove();
            None
        })
    }

    /// Moves a process into it: what it starts and takes from now on is counted here.
    pub(crate) fn take(&self, pid: u32) -> std::io::Result<()> {
        std::fs::write(self.directory.join("cgroup.procs"), pid.to_string())
    }

    /// Bytes in use, those of the kernel for its processes included.
    pub(crate) fn bytes(&self) -> std::io::Result<u64> {
        let text = std::fs::read_to_string(self.directory.join(self.file))?;
        text.trim().parse().map_err(std::io::Error::other)
    }

    /// Removes it, after everything in it has ended.
    pub(crate) fn remove(&self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("  {} could not be removed", self.directory.display());
    }
}

/// Bytes as mebibytes.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

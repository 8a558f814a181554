//! Resident memory, from `/proc`.

/// Resident set of a process in bytes; 0 if there is no such process.
pub(crate) fn resident(pid: u32) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Pids of the direct children of this process.
pub(crate) fn children() -> Vec<u32> {
    let own = std::process::id().to_string();
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

/// Bytes as mebibytes.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

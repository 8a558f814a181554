//! Where groups can be made in the hierarchy of version 2.
//!
//! There a group has processes or hands controllers on, never both; only the first of all has both. So
//! a process that shares its group with a shell can make nothing beneath it. What it can use is the nearest group above
//! that has no processes and that this user may change: root finds the slice of its session, an ordinary user what a service
//! manager delegated. `docs/decisions` says why, and what is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::hierarchy::Controller;

/// Files by which a group limits, and what they say when it does not.
const LIMITS: [(&str, &str); 8] = [
    ("memory.max", "max"),
    ("memory.high", "max"),
    ("memory.swap.max", "max"),
    ("pids.max", "max"),
    ("cpu.max", "max"),
    ("cpuset.cpus", ""),
    ("cpuset.mems", ""),
    ("io.max", ""),
];

/// The controllers of this process's group, and of the groups that it can make, with where those are made.
///
/// - `own`: the group of this process
/// - `top`: the highest group that is shown
pub(crate) fn controllers(own: &Path, top: &Path) -> BTreeMap<Controller, Option<PathBuf>> {
    let mut found: BTreeMap<_, _> = listed(own, "cgroup.controllers")
        .into_iter()
        .map(|controller| (controller, None))
        .collect();
    if let Some((base, handed_on)) = base(own, top) {
        for controller in handed_on {
            found.insert(controller, Some(base.clone()));
        }
    }
    found
}

/// The nearest group, from this process's own upwards, that groups can be made in, and what they can limit. None is
/// looked for above one that limits: its limits would be left behind.
fn base(own: &Path, top: &Path) -> Option<(PathBuf, Vec<Controller>)> {
    let mut candidate = own;
    loop {
        let handed_on = handed_on(candidate);
        if !handed_on.is_empty() {
            return Some((candidate.to_owned(), handed_on));
        }
        if candidate == top || limits(candidate) {
            return None;
        }
        candidate = candidate.parent()?;
    }
}

/// Whether groups in `directory` would be ordinary ones: not where threads are distributed, nor where a parent already
/// has processes.
pub(crate) fn is_ordinary(directory: &Path) -> bool {
    // The first of all has no type.
    read(directory, "cgroup.type").is_none_or(|kind| kind.trim() == "domain")
}

/// The controllers that groups in this one have, or can be given.
fn handed_on(directory: &Path) -> Vec<Controller> {
    let first = !directory.join("cgroup.type").exists();
    let empty = read(directory, "cgroup.procs").is_some_and(|inside| inside.is_empty());
    let usable = (first || empty)
        && is_ordinary(directory)
        && may_write(directory)
        && may_write(&directory.join("cgroup.procs"));
    if !usable {
        return Vec::new();
    }
    let file = if may_write(&directory.join("cgroup.subtree_control")) {
        "cgroup.controllers"
    } else {
        "cgroup.subtree_control"
    };
    listed(directory, file)
}

/// The controllers that a file names.
fn listed(directory: &Path, file: &str) -> Vec<Controller> {
    let names = read(directory, file).unwrap_or_default();
    names
        .split_whitespace()
        .filter_map(Controller::of_name)
        .collect()
}

/// Whether what is in this group has less than what is beside it.
fn limits(directory: &Path) -> bool {
    LIMITS.iter().any(|(file, without)| {
        // What is not there limits nothing.
        read(directory, file)
            .is_some_and(|said| said.split_whitespace().next().unwrap_or("") != *without)
    })
}

fn read(directory: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(file)).ok()
}

fn may_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with the files of a group.
    fn group(directory: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(directory).expect("made");
        let usual = [
            ("cgroup.type", "domain\n"),
            ("cgroup.procs", ""),
            ("cgroup.controllers", "cpu memory pids\n"),
            ("cgroup.subtree_control", "memory pids\n"),
            ("memory.max", "max\n"),
            ("cpu.max", "max 100000\n"),
            ("cpuset.cpus", "\n"),
        ];
        for (name, text) in usual.iter().chain(files) {
            std::fs::write(directory.join(name), text).expect("written");
        }
    }

    const POPULATED: (&str, &str) = ("cgroup.procs", "17\n");

    #[test]
    fn the_nearest_group_without_processes_is_found() {
        let top = tempfile::tempdir().expect("made");
        let slice = top.path().join("user.slice");
        let own = slice.join("session.scope");
        group(top.path(), &[]);
        group(&slice, &[]);
        group(&own, &[POPULATED]);
        assert_eq!(
            base(&own, top.path()),
            Some((
                slice,
                vec![Controller::Cpu, Controller::Memory, Controller::Processes]
            ))
        );
    }

    #[test]
    fn the_first_group_of_all_may_have_processes() {
        let top = tempfile::tempdir().expect("made");
        group(top.path(), &[POPULATED]);
        assert_eq!(base(top.path(), top.path()), None);
        std::fs::remove_file(top.path().join("cgroup.type")).expect("removed");
        assert!(base(top.path(), top.path()).is_some());
    }

    #[test]
    fn limits_are_never_left_behind() {
        for limit in [
            ("memory.max", "1073741824\n"),
            ("pids.max", "100\n"),
            ("cpu.max", "50000 100000\n"),
            ("cpuset.cpus", "0-1\n"),
        ] {
            let top = tempfile::tempdir().expect("made");
            let own = top.path().join("service");
            group(top.path(), &[]);
            group(&own, &[POPULATED, limit]);
            assert_eq!(base(&own, top.path()), None, "{limit:?}");
            // Beneath it they still hold.
            group(&own, &[("cgroup.procs", ""), limit]);
            assert!(base(&own, top.path()).is_some(), "{limit:?}");
        }
    }

    #[test]
    fn a_group_of_threads_is_none_to_make_groups_in() {
        let top = tempfile::tempdir().expect("made");
        for kind in ["domain threaded\n", "domain invalid\n", "threaded\n"] {
            group(top.path(), &[("cgroup.type", kind)]);
            assert_eq!(base(top.path(), top.path()), None, "{kind:?}");
        }
    }
}

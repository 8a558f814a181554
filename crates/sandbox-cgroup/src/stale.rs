//! Groups that were left behind, told from those in use by their names.
//!
//! A name says which process made the group: its number, where that number counts, and when it began, which
//! together are never given again while a machine runs.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hierarchy::Hierarchies;

/// What the names of groups begin with.
const PREFIX: &str = "spp";

/// A name for a new group of this process.
pub(crate) fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let own = std::process::id();
    let began = began(own).unwrap_or(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}-{}-{own}-{began}-{count}", namespace())
}

/// Removes the groups, where this process would make some, whose makers are gone, as far as nothing is in them.
pub fn sweep(hierarchies: &Hierarchies) {
    for directory in hierarchies.directories() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_stale) {
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}

fn is_stale(name: &str) -> bool {
    let mut parts = name.split('-');
    let [Some(PREFIX), Some(within), Some(pid), Some(then), Some(_)] =
        [(); 5].map(|()| parts.next())
    else {
        return false;
    };
    // A number of another namespace says nothing here.
    within == namespace()
        && pid
            .parse()
            .is_ok_and(|pid| began(pid).is_none_or(|began| began.to_string() != then))
}

/// The namespace in which numbers of processes count.
fn namespace() -> String {
    let link = std::fs::read_link(Path::new("/proc/self/ns/pid")).unwrap_or_default();
    let digits = |character: &char| character.is_ascii_digit();
    link.to_string_lossy().chars().filter(digits).collect()
}

/// When a process began, in ticks since the machine did.
fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&stat).into_owned();
    // After the name, which may hold anything, comes the third field.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_process_of_here_left_is_stale() {
        assert!(!is_stale(&name()), "its maker lives");
        let namespace = namespace();
        assert!(is_stale(&format!(
            "spp-{namespace}-{}-1-0",
            std::process::id()
        )));
        assert!(is_stale(&format!("spp-{namespace}-4194305-1-0")));
        assert!(!is_stale("spp-1-4194305-1-0"), "it is of another namespace");
        for other in ["", "spp", "user.slice", "spp-x", "other-1-2-3-4"] {
            assert!(!is_stale(other), "{other:?}");
        }
    }
}

//! Whose container it is, and whether they still live.
//!
//! A label names the process that made it: by the start of its machine, the namespaces that its number and its times are of,
//! the number, and the moment it began, since numbers are given out again. What another machine made, or one that was
//! restarted since, is nobody's business here, and what cannot be read is left alone.

use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The label that says who made a container.
pub(crate) const LABEL: &str = "spp.owner";
/// The label that says what it was called. An image that is made of a container passes its labels on, but not its name.
pub(crate) const NAME_LABEL: &str = "spp.name";

/// The field of `/proc/PID/stat` that holds the moment of its start, counted behind the name.
const START_FIELD: usize = 19;

/// This process, as the value of [`LABEL`]; `None` where it cannot be told, and then nothing is ever taken for stale.
pub(crate) fn own() -> Option<String> {
    let pid = std::process::id();
    Some(format!("{}/{pid}/{}", here()?, start(pid)?))
}

/// What is known of whoever a label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// They lived here since the machine's start, and are gone.
    Gone,
    /// They live here.
    There,
    /// Nothing can be told here.
    Elsewhere,
}

/// Whether who is named by a label lived here since the machine's start, and is gone.
pub(crate) fn is_gone(label: &str) -> bool {
    judge(label) == Owner::Gone
}

/// What is known of whoever a label names.
pub(crate) fn judge(label: &str) -> Owner {
    let mut parts = label.rsplitn(3, '/');
    let (Some(began), Some(pid), Some(lived)) = (parts.next(), parts.next(), parts.next()) else {
        return Owner::Elsewhere;
    };
    let (Ok(pid), Ok(began)) = (pid.parse::<u32>(), began.parse::<u64>()) else {
        return Owner::Elsewhere;
    };
    if here().as_deref() != Some(lived) {
        return Owner::Elsewhere;
    }
    let is_gone = match start(pid) {
        Some(start) => start != began,
        // The table may hide others' processes; the kernel does not hide that they are there.
        None => i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)),
    };
    match is_gone {
        true => Owner::Gone,
        false => Owner::There,
    }
}

/// This start of the machine, and the namespaces that process numbers and times are of.
fn here() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = |name: &str| -> Option<String> {
        let link = fs::read_link(format!("/proc/self/ns/{name}"));
        // A kernel without namespaces of time has one time.
        let link = match link {
            Err(error) if name == "time" && error.kind() == io::ErrorKind::NotFound => {
                return Some("0".to_owned());
            }
            link => link.ok()?,
        };
        let number = link.to_str()?.chars().filter(char::is_ascii_digit);
        Some(number.collect())
    };
    let (numbers, times) = (namespace("pid")?, namespace("time")?);
    Some(format!("{}/{numbers}/{times}", boot.trim()))
}

/// When a process began, in ticks since the machine did.
fn start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, but what follows the last bracket is the kernel's.
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(START_FIELD)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn who_lives_is_not_gone_and_who_ended_is() {
        let own = own().expect("there is a process table");
        assert!(judge(&own) == Owner::There);
        let (rest, began) = own.rsplit_once('/').expect("three parts");
        let began: u64 = began.parse().expect("a number");
        assert!(
            judge(&format!("{rest}/{}", began + 1)) == Owner::Gone,
            "another process of this number"
        );
        let (lived, _) = rest.rsplit_once('/').expect("four parts");
        assert!(
            judge(&format!("{lived}/4194305/1")) == Owner::Gone,
            "no process has this number"
        );
    }

    #[test]
    fn what_is_of_another_machine_or_makes_no_sense_is_left_alone() {
        for label in [
            "",
            "<no value>",
            "00000000-0000-0000-0000-000000000000/1/1/4194305/1",
            "x/y/z",
            "1/2",
            "a/1/1/1",
        ] {
            assert_eq!(judge(label), Owner::Elsewhere, "{label}");
        }
        let elsewhere = own()
            .expect("there is a process table")
            .replacen('/', "/1", 1);
        assert_eq!(
            judge(&elsewhere),
            Owner::Elsewhere,
            "its number is of another namespace"
        );
    }
}

//! What the group that this process is in is limited to.
//!
//! Only its own limits are looked at. Those of the groups around it may be smaller, and cannot be seen from inside of a
//! container.

use std::fs;

use crate::hierarchy::{Controller, Hierarchy, Version};

/// The limit of a controller, in its unit of [`Wanted`](crate::Wanted); `None` if there is none, or none that can be seen.
pub(crate) fn limit(hierarchy: &Hierarchy, controller: Controller) -> Option<u64> {
    of(controller, hierarchy.version, |file| {
        fs::read_to_string(hierarchy.own.join(file)).ok()
    })
}

fn of(
    controller: Controller,
    version: Version,
    read: impl Fn(&str) -> Option<String>,
) -> Option<u64> {
    // `max`, and the -1 of version 1, are no numbers.
    let number = |file: &str| read(file)?.trim().parse().ok();
    match (controller, version) {
        (Controller::Memory, Version::One) => number("memory.limit_in_bytes"),
        (Controller::Memory, Version::Two) => number("memory.max"),
        (Controller::Processes, _) => number("pids.max"),
        (Controller::Cpu, Version::One) => {
            share(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        }
        (Controller::Cpu, Version::Two) => {
            let text = read("cpu.max")?;
            let mut words = text.split_whitespace().map(|word| word.parse().ok());
            share(words.next()??, words.next()??)
        }
    }
}

/// Thousandths of one processor. What is not whole is rounded up: it is more than the smaller number.
fn share(quota: u64, period: u64) -> Option<u64> {
    (period > 0).then(|| quota.saturating_mul(1000).div_ceil(period))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(controller: Controller, version: Version, files: &[(&str, &str)]) -> Option<u64> {
        of(controller, version, |file| {
            let (_, text) = files.iter().find(|(name, _)| *name == file)?;
            Some((*text).to_owned())
        })
    }

    #[test]
    fn limits_of_both_versions_are_read_in_one_unit() {
        use Controller::{Cpu, Memory, Processes};
        use Version::{One, Two};
        let memory = [
            ("memory.limit_in_bytes", "67108864\n"),
            ("memory.max", "4096\n"),
        ];
        assert_eq!(found(Memory, One, &memory), Some(64 << 20));
        assert_eq!(found(Memory, Two, &memory), Some(4096));
        assert_eq!(found(Processes, One, &[("pids.max", "50\n")]), Some(50));
        let cpu = [
            ("cpu.cfs_quota_us", "50001\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(found(Cpu, One, &cpu), Some(501));
        assert_eq!(
            found(Cpu, Two, &[("cpu.max", "150000 100000\n")]),
            Some(1500)
        );
    }

    #[test]
    fn what_is_no_limit_or_not_there_is_none() {
        use Controller::{Cpu, Memory, Processes};
        use Version::{One, Two};
        let unlimited = [
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(found(Cpu, One, &unlimited), None);
        for text in ["max 100000\n", "5", "5 0", ""] {
            assert_eq!(found(Cpu, Two, &[("cpu.max", text)]), None, "{text}");
        }
        assert_eq!(found(Memory, Two, &[("memory.max", "max\n")]), None);
        assert_eq!(found(Processes, Two, &[("pids.max", "max\n")]), None);
        assert_eq!(found(Processes, One, &[]), None);
    }
}

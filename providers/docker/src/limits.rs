//! Limits that the daemon keeps: what they are called among the arguments of `create`, and what it says of those that it
//! does not keep.
//!
//! The engine looks into the container's control group by itself, and reports what it finds there. What is here is the
//! other half: a daemon that can hold a limit in part only, such as memory without swap, says so once, when the container
//! is made.

use std::collections::BTreeSet;

use sandbox_core::{EnforcedBy, Limit, LimitKind, LimitReport, Limits, Strength};

/// Most processes and threads at once, where nothing else is asked for, so that no fork bomb is the machine's.
const PROCESSES: u64 = 4096;
/// The most processes and threads that the kernel can have (`PID_MAX_LIMIT`).
const MOST_PROCESSES: u64 = 1 << 22;
/// Least processes with which an engine can do anything: it counts itself, and so does what watches over commands.
const LEAST_PROCESSES: u64 = 16;
/// Least bytes of memory with which it can.
const LEAST_MEMORY: u64 = 16 << 20;
/// Length of the periods in which time on processors is given out, in microseconds.
const PERIOD: u64 = 100_000;
/// Least thousandths of a processor that the kernel gives out.
const LEAST_CPU: u64 = 10;

/// What may be too little to start with.
const LEAST: [(LimitKind, u64); 3] = [
    (LimitKind::Memory, LEAST_MEMORY),
    (LimitKind::Processes, LEAST_PROCESSES),
    (LimitKind::Cpu, LEAST_CPU),
];

/// What the daemon is to keep, of what is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    limits: Limits,
}

impl Kept {
    /// Decides what is asked of the daemon.
    ///
    /// - `unmet`: gets what is required and too little to start with. As best effort it is left to nobody.
    pub(crate) fn of(asked: &Limits, unmet: &mut Vec<String>) -> Self {
        let mut limits = Limits::new();
        for (kind, least) in LEAST {
            let Some(limit) = asked.get(&kind) else {
                continue;
            };
            if limit.value >= least {
                limits.insert(kind, *limit);
            } else if limit.strength == Strength::Required {
                unmet.push(format!(
                    "the limit {} is {}, and the engine, which counts too, needs {least} or more; ask for that",
                    kind.name(),
                    limit.value
                ));
            }
        }
        Self { limits }
    }

    /// The arguments of `create`.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let of = |kind| self.limits.get(&kind).map(|limit: &Limit| limit.value);
        let processes = of(LimitKind::Processes).unwrap_or(PROCESSES);
        // The kernel takes no more, which is kept anyway.
        let processes = processes.min(MOST_PROCESSES);
        let mut arguments = vec![format!("--pids-limit={processes}")];
        if let Some(memory) = of(LimitKind::Memory) {
            // Both: what is beyond memory would go to the disk otherwise.
            arguments.push(format!("--memory={memory}b"));
            arguments.push(format!("--memory-swap={memory}b"));
        }
        if let Some(cpu) = of(LimitKind::Cpu) {
            // Not `--cpus`, which refuses more than the machine has: that is a limit which is kept anyway.
            arguments.push(format!("--cpu-period={PERIOD}"));
            arguments.push(format!("--cpu-quota={}", cpu.saturating_mul(PERIOD / 1000)));
        }
        arguments
    }

    /// Whether memory is limited.
    pub(crate) fn limits_memory(&self) -> bool {
        self.limits.contains_key(&LimitKind::Memory)
    }

    /// What follows from what the program wrote as it made a container: the limits that are not kept as they should be.
    ///
    /// # Errors
    ///
    /// The line that tells of one that was required, or of something else that was asked for and is not had.
    pub(crate) fn warned(&self, words: &str) -> Result<BTreeSet<LimitKind>, String> {
        let mut weak = BTreeSet::new();
        for line in words.lines() {
            let text = line.to_ascii_lowercase();
            if !["not support", "discarded"]
                .iter()
                .any(|says| text.contains(says))
            {
                continue;
            }
            let told = of_words(&text);
            for kind in &told {
                let is_asked = self.limits.get(kind);
                let is_required = match is_asked {
                    Some(limit) => limit.strength == Strength::Required,
                    // There is always one of processes.
                    None => *kind == LimitKind::Processes,
                };
                if is_required {
                    return Err(line.trim().to_owned());
                }
                weak.extend(is_asked.map(|_| *kind));
            }
            if told.is_empty() {
                return Err(line.trim().to_owned());
            }
        }
        Ok(weak)
    }
}

/// What a warning is about.
fn of_words(text: &str) -> Vec<LimitKind> {
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // Of all limits at once, as podman does.
    if says(&["resource limits"]) {
        return LEAST.map(|(kind, _)| kind).to_vec();
    }
    // Of the kernel's own memory and of what is given up first, nothing is asked for here.
    if says(&["kernel memory", "oom", "swappiness", "cpu shares", "cpuset"]) {
        return Vec::new();
    }
    let kinds = [
        (LimitKind::Memory, &["memory", "swap"][..]),
        (LimitKind::Processes, &["pids"]),
        (LimitKind::Cpu, &["cpu", "cfs"]),
    ];
    let about = kinds.into_iter().filter(|(_, words)| says(words));
    about.map(|(kind, _)| kind).collect()
}

/// That nothing holds a limit as it should be held.
pub(crate) fn none(report: &mut LimitReport) {
    report.enforced_by = EnforcedBy::None;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWAP: &str = "WARNING: Your kernel does not support swap limit capabilities or the cgroup is not mounted. Memory limited without swap.";
    const PIDS: &str = "WARNING: Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs limit discarded.";
    const CFS: &str =
        "WARNING: Your kernel does not support CPU CFS scheduler. CPU period/quota discarded.";
    const ALL: &str =
        "Resource limits are not supported and ignored on cgroups V1 rootless systems";
    const WEIGHT: &str = "WARNING: Your kernel does not support Block I/O weight or the cgroup is not mounted. Weight discarded.";

    fn kept(asked: &[(LimitKind, u64, Strength)]) -> (Kept, Vec<String>) {
        let mut unmet = Vec::new();
        let limits = asked.iter().map(|(kind, value, strength)| {
            let (value, strength) = (*value, *strength);
            (*kind, Limit { value, strength })
        });
        let kept = Kept::of(&limits.collect(), &mut unmet);
        (kept, unmet)
    }

    #[test]
    fn every_limit_is_an_argument_and_processes_are_always_limited() {
        use Strength::{BestEffort, Required};
        let (all, unmet) = kept(&[
            (LimitKind::Memory, 64 << 20, Required),
            (LimitKind::Processes, 60, BestEffort),
            (LimitKind::Cpu, 2500, Required),
            (LimitKind::OpenFiles, 1, Required),
        ]);
        assert_eq!(unmet, Vec::<String>::new());
        let expected = [
            "--pids-limit=60",
            "--memory=67108864b",
            "--memory-swap=67108864b",
            "--cpu-period=100000",
            "--cpu-quota=250000",
        ];
        assert_eq!(all.arguments(), expected);
        assert_eq!(kept(&[]).0.arguments(), ["--pids-limit=4096"]);
        let (many, _) = kept(&[(LimitKind::Processes, 1 << 30, Required)]);
        assert_eq!(many.arguments(), ["--pids-limit=4194304"]);
    }

    #[test]
    fn what_no_engine_could_start_with_is_refused_or_is_no_limit() {
        let (none, unmet) = kept(&[(LimitKind::Processes, 3, Strength::BestEffort)]);
        assert_eq!(none.arguments(), ["--pids-limit=4096"]);
        assert!(unmet.is_empty());
        let (_, unmet) = kept(&[(LimitKind::Memory, 1 << 20, Strength::Required)]);
        assert!(unmet.concat().contains("16777216 or more"), "{unmet:?}");
    }

    #[test]
    fn what_a_daemon_warns_of_is_refused_if_it_was_required_and_told_otherwise() {
        use Strength::{BestEffort, Required};
        let warned = |strength, words: &str| {
            let asked = [LimitKind::Memory, LimitKind::Cpu].map(|kind| (kind, 64 << 20, strength));
            kept(&asked).0.warned(words)
        };
        for (words, kind) in [(SWAP, LimitKind::Memory), (CFS, LimitKind::Cpu)] {
            assert_eq!(warned(Required, words), Err(words.to_owned()));
            assert_eq!(warned(BestEffort, words), Ok([kind].into()));
            assert_eq!(kept(&[]).0.warned(words), Ok([].into()), "nobody asked");
        }
        // Nobody may be without a limit of processes, whoever asked for it.
        for words in [PIDS, ALL, WEIGHT] {
            assert_eq!(warned(BestEffort, words), Err(words.to_owned()));
        }
        let processes = kept(&[(LimitKind::Processes, 60, BestEffort)]).0;
        assert_eq!(processes.warned(PIDS), Ok([LimitKind::Processes].into()));
        let other = "WARNING: IPv4 forwarding is disabled. Networking will not work.";
        assert_eq!(warned(Required, other), Ok([].into()));
    }
}

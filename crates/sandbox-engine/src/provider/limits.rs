//! The limits that a policy asks for: what each is kept by, and what of them each process is given.
//!
//! It is decided in two steps, as the rest of a policy is (`policy`): first what needs no trial, then what a group
//! keeps, once it is there.

use std::collections::BTreeMap;
use std::time::Duration;

use sandbox_cgroup::{Controller, Group, Version, Wanted};
use sandbox_core::{EnforcedBy, Limit, LimitKind, LimitReport, Policy, Strength};

use super::place::Place;
use crate::process::Settings;
use crate::process::environment::Environment;
use crate::supervisor::RlimitSpec;

/// What becomes of limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// What keeps each.
    pub(super) reports: BTreeMap<LimitKind, LimitReport>,
    /// What is to be limited for all processes together.
    pub(super) group: Wanted,
    /// Whether every process of the place counts for what a command may start, whoever waits to be one included.
    pub(super) counts_processes: bool,
    rlimits: Vec<RlimitSpec>,
    wall_time: Option<Duration>,
    concurrency: Option<usize>,
}

impl Limits {
    /// Decides what needs no trial.
    ///
    /// - `unmet`: gets what is required and cannot be had
    pub(super) fn of(policy: &Policy, unmet: &mut Vec<String>) -> Self {
        let mut limits = Self::default();
        for (&kind, limit) in &policy.limits {
            if let Some(enforced_by) = limits.limit(kind, *limit) {
                let remedy = "cannot be enforced; ask for it as best effort";
                limits.report(kind, *limit, enforced_by, remedy, unmet);
            }
        }
        limits
    }

    /// Takes note of what a group limits, of what it was asked to.
    ///
    /// - `unmet`: as of [`of`](Self::of)
    pub(super) fn note_group(
        &mut self,
        place: &Place,
        policy: &Policy,
        group: Option<&Group>,
        unmet: &mut Vec<String>,
    ) {
        for (controller, kind) in [
            (Controller::Memory, LimitKind::Memory),
            (Controller::Processes, LimitKind::Processes),
            (Controller::Cpu, LimitKind::Cpu),
        ] {
            let Some(limit) = policy.limits.get(&kind).copied() else {
                continue;
            };
            let mut enforced = group.iter().flat_map(|group| group.enforced());
            let enforced_by = match enforced.find(|(of, _)| *of == controller) {
                Some(_) if place.own_group => EnforcedBy::Container,
                Some((_, Version::One)) => EnforcedBy::Cgroup1,
                Some((_, Version::Two)) => EnforcedBy::Cgroup2,
                None if kind == LimitKind::Processes && place.counts_processes() => {
                    self.counts_processes = true;
                    self.rlimit(
                        libc::RLIMIT_NPROC,
                        rustix::process::Resource::Nproc,
                        limit.value,
                    )
                }
                None => EnforcedBy::None,
            };
            let remedy = match place.own_group {
                true => {
                    "is none of the container's control group as the engine sees it (`/sys/fs/cgroup`); see what its \
                     daemon can limit (`docker info`), or ask for it as best effort"
                }
                false => {
                    "needs a control group that this user may make, and there is none; start it as root or in a group \
                     that was handed over to this user (`systemd-run --user --scope` does that), or ask for it as best effort"
                }
            };
            self.report(kind, limit, enforced_by, remedy, unmet);
        }
    }

    /// What everything that runs is subject to.
    pub(super) fn settings(&self, environment: Environment) -> Settings {
        let mut settings = Settings::new(environment);
        settings.limits.clone_from(&self.rlimits);
        settings.wall_time = self.wall_time;
        if let Some(concurrency) = self.concurrency {
            settings.concurrency = concurrency;
        }
        settings
    }

    /// Takes note of what keeps a limit, and of one that is required and that nothing does.
    fn report(
        &mut self,
        kind: LimitKind,
        limit: Limit,
        enforced_by: EnforcedBy,
        remedy: &str,
        unmet: &mut Vec<String>,
    ) {
        if enforced_by == EnforcedBy::None && limit.strength == Strength::Required {
            unmet.push(format!("the limit {} {remedy}", kind.name()));
        }
        let report = LimitReport {
            value: limit.value,
            enforced_by,
        };
        self.reports.insert(kind, report);
    }

    /// Sees to one limit. `None`: what a group does of it shows once there is one.
    fn limit(&mut self, kind: LimitKind, limit: Limit) -> Option<EnforcedBy> {
        Some(match kind {
            LimitKind::OpenFiles => self.rlimit(
                libc::RLIMIT_NOFILE,
                rustix::process::Resource::Nofile,
                limit.value,
            ),
            LimitKind::FileSize => self.rlimit(
                libc::RLIMIT_FSIZE,
                rustix::process::Resource::Fsize,
                limit.value,
            ),
            LimitKind::WallTime => {
                self.wall_time = Some(Duration::from_millis(limit.value));
                EnforcedBy::Engine
            }
            LimitKind::Concurrency => {
                // More than the engine's own number is not a limit that anything could reach.
                let most = usize::try_from(limit.value).unwrap_or(usize::MAX);
                self.concurrency = Some(most.min(crate::process::DEFAULT_CONCURRENCY));
                EnforcedBy::Engine
            }
            LimitKind::Memory => {
                self.group.memory = Some(limit.value);
                return None;
            }
            LimitKind::Processes => {
                self.group.processes = Some(limit.value);
                return None;
            }
            LimitKind::Cpu => {
                self.group.cpu = Some(limit.value);
                return None;
            }
            LimitKind::Disk => EnforcedBy::None,
        })
    }

    fn rlimit(
        &mut self,
        number: libc::__rlimit_resource_t,
        resource: rustix::process::Resource,
        value: u64,
    ) -> EnforcedBy {
        // An ordinary user cannot go above its own limit, which then is the smaller one anyway.
        let most = rustix::process::getrlimit(resource)
            .maximum
            .unwrap_or(u64::MAX);
        let value = value.min(most);
        self.rlimits.push(RlimitSpec {
            resource: number,
            soft: value,
            hard: value,
        });
        EnforcedBy::Rlimit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of limits that are asked for as best effort, where no group can be made.
    fn without_group(place: &Place, kinds: &[LimitKind]) -> Limits {
        let limit = Limit {
            value: 8,
            strength: Strength::BestEffort,
        };
        let policy = Policy {
            limits: kinds.iter().map(|kind| (*kind, limit)).collect(),
            ..Policy::default()
        };
        let mut unmet = Vec::new();
        let mut limits = Limits::of(&policy, &mut unmet);
        limits.note_group(place, &policy, None, &mut unmet);
        assert_eq!(unmet, Vec::<String>::new(), "best effort is always had");
        limits
    }

    #[test]
    fn limits_say_who_enforces_them_and_best_effort_may_be_nobody() {
        let kinds = [
            LimitKind::Memory,
            LimitKind::OpenFiles,
            LimitKind::WallTime,
            LimitKind::Concurrency,
        ];
        let limits = without_group(&Place::open("local"), &kinds);
        assert_eq!(
            kinds.map(|kind| limits.reports[&kind].enforced_by),
            [
                EnforcedBy::None,
                EnforcedBy::Rlimit,
                EnforcedBy::Engine,
                EnforcedBy::Engine
            ]
        );
        let settings = limits.settings(Environment::default());
        assert_eq!(
            (settings.concurrency, settings.wall_time),
            (8, Some(Duration::from_millis(8)))
        );
    }

    #[test]
    fn processes_of_a_user_are_limited_only_where_the_user_is_the_places_own() {
        let mut place = Place::open("here");
        for (own_users, by) in [(false, EnforcedBy::None), (true, EnforcedBy::Rlimit)] {
            place.own_users = own_users;
            let limits = without_group(&place, &[LimitKind::Processes]);
            let found = limits.reports[&LimitKind::Processes].enforced_by;
            // Kernels before 5.14 count everything of the user.
            assert!(found == by || (own_users && !place.counts_processes()));
            assert_eq!(limits.counts_processes, found == EnforcedBy::Rlimit);
        }
    }
}

//! What a policy asks for, and what of it can be had without isolation.
//!
//! A sandbox here shares the machine: its network, its files, its processes. So a policy that keeps
//! something away is refused, all of it at once and with what to do about it. What each process can
//! be given by the kernel, or the engine can see to by itself, is granted.

use std::path::PathBuf;
use std::time::Duration;

use sandbox_core::{
    AcquireSpec, EnforcedBy, Error, ErrorKind, Grade, Limit, LimitKind, LimitReport, Mount,
    MountAccess, Network, Restriction, Result, SandboxPath, Strength, Verb,
};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use super::place::Place;
use crate::process::Settings;
use crate::process::environment::Environment;
use crate::supervisor::RlimitSpec;

/// A policy that can be kept.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Directories that are roots beside the workspace.
    pub(super) roots: Vec<PathBuf>,
    /// What became of the limits.
    pub(super) reports: BTreeMap<LimitKind, LimitReport>,
    /// The network that there is.
    pub(super) network: Network,
    /// How well each restriction holds.
    pub(super) guarantees: BTreeMap<Restriction, Grade>,
    rlimits: Vec<RlimitSpec>,
    wall_time: Option<Duration>,
    concurrency: Option<usize>,
}

impl Plan {
    /// Decides what a spec asks for, at this place.
    pub(super) fn of(place: &Place, spec: &AcquireSpec) -> Result<Self> {
        let location = &place.location;
        let refused = |kind, detail: String| {
            Err(Error::refused(Verb::Acquire, kind)
                .on(&spec.id)
                .detail(detail))
        };
        if let Some(template) = &spec.template {
            return refused(
                ErrorKind::UnsupportedSpec,
                format!(
                    "{location} has no templates, and {template:?} is asked for; name a directory as the root"
                ),
            );
        }
        if spec.linger.is_some() || spec.lease.is_some() {
            return refused(
                ErrorKind::UnsupportedSpec,
                format!(
                    "a sandbox of {location} lives exactly as long as its connection; leave lease and linger out"
                ),
            );
        }
        if let Some(options) = &spec.options
            && !matches!(
                options.split_whitespace().collect::<String>().as_str(),
                "{}" | "null"
            )
        {
            return refused(
                ErrorKind::UnsupportedSpec,
                format!("{location} has no options; remove them"),
            );
        }
        let mut plan = Self::without_policy(place);
        let mut unmet = Vec::new();
        match (&spec.policy.network, &plan.network) {
            (None, _)
            | (Some(Network::None), Network::None)
            | (Some(Network::Open), Network::Open) => {}
            (Some(Network::Open), _) => {
                unmet.push("there is no network here; ask for none".to_owned());
            }
            (Some(Network::None | Network::Allow(_)), _) => {
                unmet.push("the network cannot be kept away; ask for an open one".to_owned());
            }
        }
        for restriction in &spec.policy.require {
            match plan.guarantees.get(restriction) {
                Some(Grade::Full) => {}
                Some(Grade::Partial { gaps }) => unmet.push(format!(
                    "{} cannot be had in full ({})",
                    restriction.name(),
                    gaps.join("; ")
                )),
                Some(Grade::Unavailable) | None => {
                    unmet.push(format!("{} cannot be had", restriction.name()));
                }
            }
        }
        for mount in &spec.policy.mounts {
            match root_of(mount) {
                Ok(root) => plan.roots.push(root),
                Err(reason) => unmet.push(reason),
            }
        }
        for (&kind, limit) in &spec.policy.limits {
            let enforced_by = plan.limit(kind, *limit);
            if enforced_by == EnforcedBy::None && limit.strength == Strength::Required {
                unmet.push(format!(
                    "the limit {} cannot be enforced; ask for it as best effort",
                    kind.name()
                ));
            }
            plan.reports.insert(
                kind,
                LimitReport {
                    value: limit.value,
                    enforced_by,
                },
            );
        }
        if unmet.is_empty() {
            return Ok(plan);
        }
        let unmet = unmet.join("; ");
        refused(
            ErrorKind::PolicyUnmet,
            format!(
                "{unmet}; {location} keeps no more away than that: choose a location that isolates, or ask for less"
            ),
        )
    }

    /// What there is without any policy.
    fn without_policy(place: &Place) -> Self {
        let guarantees: BTreeMap<_, _> = Restriction::ALL
            .map(|restriction| (restriction, place.grade(restriction)))
            .into();
        Self {
            roots: Vec::new(),
            reports: BTreeMap::new(),
            network: match place.grade(Restriction::NetworkDenied) {
                Grade::Full => Network::None,
                Grade::Partial { .. } | Grade::Unavailable => Network::Open,
            },
            guarantees,
            rlimits: Vec::new(),
            wall_time: None,
            concurrency: None,
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

    fn limit(&mut self, kind: LimitKind, limit: Limit) -> EnforcedBy {
        match kind {
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
            LimitKind::Memory | LimitKind::Processes | LimitKind::Cpu | LimitKind::Disk => {
                EnforcedBy::None
            }
        }
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

/// The directory that a mount adds, where it is seen as what it is.
fn root_of(mount: &Mount) -> Result<PathBuf, String> {
    let host = mount.host.display();
    if SandboxPath::parse(mount.host.as_os_str().as_bytes()).as_ref() != Ok(&mount.sandbox) {
        return Err(format!(
            "{host} cannot be shown as {}; show it as itself",
            mount.sandbox
        ));
    }
    match mount.access {
        MountAccess::ReadWrite => Ok(mount.host.clone()),
        MountAccess::ReadOnly => Err(format!(
            "{host} cannot be kept from being written; ask for it read-write"
        )),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::{Effect, SandboxId};

    use super::*;

    fn spec(change: impl FnOnce(&mut AcquireSpec)) -> AcquireSpec {
        let mut spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        change(&mut spec);
        spec
    }

    fn check(change: impl FnOnce(&mut AcquireSpec), kind: ErrorKind, says: &[&str]) {
        let error = Plan::of(&Place::open("local"), &spec(change)).expect_err("it cannot be had");
        assert_eq!(
            (error.kind(), error.effect()),
            (kind, Effect::None),
            "{error}"
        );
        for text in says {
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn what_would_need_isolation_is_refused_all_at_once_with_what_to_do() {
        check(
            |spec| {
                spec.policy.network = Some(Network::None);
                spec.policy.require.insert(Restriction::WriteContained);
                let limit = Limit {
                    value: 1,
                    strength: Strength::Required,
                };
                spec.policy.limits.insert(LimitKind::Memory, limit);
                spec.policy.limits.insert(LimitKind::OpenFiles, limit);
            },
            ErrorKind::PolicyUnmet,
            &[
                "network",
                "write-contained",
                "memory",
                "choose a location that isolates",
            ],
        );
    }

    #[test]
    fn a_mount_is_shown_as_itself_and_writable_or_not_at_all() {
        let mount = |sandbox: &str, access| Mount {
            host: "/srv/cache".into(),
            sandbox: SandboxPath::parse(sandbox).expect("valid"),
            access,
        };
        check(
            |spec| {
                spec.policy
                    .mounts
                    .push(mount("/elsewhere", MountAccess::ReadWrite));
            },
            ErrorKind::PolicyUnmet,
            &["/srv/cache", "/elsewhere"],
        );
        check(
            |spec| {
                spec.policy
                    .mounts
                    .push(mount("/srv/cache", MountAccess::ReadOnly));
            },
            ErrorKind::PolicyUnmet,
            &["read-write"],
        );
        let plan = Plan::of(
            &Place::open("local"),
            &spec(|spec| {
                spec.policy
                    .mounts
                    .push(mount("/srv/cache", MountAccess::ReadWrite));
            }),
        );
        assert_eq!(
            plan.expect("it can be had").roots,
            [PathBuf::from("/srv/cache")]
        );
    }

    #[test]
    fn limits_say_who_enforces_them_and_best_effort_may_be_nobody() {
        let limits = [
            LimitKind::Memory,
            LimitKind::OpenFiles,
            LimitKind::WallTime,
            LimitKind::Concurrency,
        ];
        let plan = Plan::of(
            &Place::open("local"),
            &spec(|spec| {
                for kind in limits {
                    spec.policy.limits.insert(
                        kind,
                        Limit {
                            value: 8,
                            strength: Strength::BestEffort,
                        },
                    );
                }
            }),
        )
        .expect("best effort is always had");
        let enforced = limits.map(|kind| plan.reports[&kind].enforced_by);
        assert_eq!(
            enforced,
            [
                EnforcedBy::None,
                EnforcedBy::Rlimit,
                EnforcedBy::Engine,
                EnforcedBy::Engine
            ]
        );
        let settings = plan.settings(Environment::default());
        assert_eq!(
            (settings.concurrency, settings.wall_time),
            (8, Some(Duration::from_millis(8)))
        );
    }

    #[test]
    fn what_this_place_does_not_have_is_named() {
        check(
            |spec| spec.template = Some("rust".into()),
            ErrorKind::UnsupportedSpec,
            &["rust"],
        );
        check(
            |spec| spec.linger = Some(Duration::from_secs(1)),
            ErrorKind::UnsupportedSpec,
            &["linger"],
        );
        check(
            |spec| spec.options = Some("{\"image\":1}".into()),
            ErrorKind::UnsupportedSpec,
            &["options"],
        );
        for empty in ["{}", " { } ", "null"] {
            assert!(
                Plan::of(
                    &Place::open("local"),
                    &spec(|spec| spec.options = Some(empty.into()))
                )
                .is_ok()
            );
        }
    }
}

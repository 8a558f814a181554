//! What a policy asks for, and what of it can be had at a place.
//!
//! It is decided in two steps. First what the policy alone says: which limits can be had, and whether there
//! has to be a guard ([`Plan::of`]). Then, once that guard was tried, whether everything that is required
//! holds ([`Plan::settle`]); if not, it is refused, all of it at once and with what to do about it.

use std::path::PathBuf;

use sandbox_cgroup::Group;
use sandbox_core::{
    AcquireSpec, Error, ErrorKind, Grade, Mount, MountAccess, Network, Policy, Restriction, Result,
    SandboxPath, Verb,
};
use sandbox_guard::{GuardSpec, Neighbours, NetworkUse, Writes};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use super::limits::Limits;
use super::place::{GuardUse, Place};

/// Most mounts. Each is a root: a descriptor that is held, and something that every path is compared with.
const MOST_MOUNTS: usize = 256;

/// What is to be made for a policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Directories that are roots beside the workspace.
    pub(super) roots: Vec<(PathBuf, MountAccess)>,
    /// The limits.
    pub(super) limits: Limits,
    /// The guard that there has to be.
    pub(super) guard: Option<GuardSpec>,
    /// What cannot be had in any case, each with its reason.
    unmet: Vec<String>,
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
        if spec.linger.is_some() {
            return refused(
                ErrorKind::UnsupportedSpec,
                format!(
                    "a sandbox of {location} lives no longer than its connection; leave linger out"
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
        let mut plan = Self {
            guard: guard_for(place, &spec.policy),
            ..Self::default()
        };
        let mounts = spec.policy.mounts.len();
        if mounts > MOST_MOUNTS {
            plan.unmet.push(format!(
                "{mounts} mounts are asked for, and at most {MOST_MOUNTS} can be had; mount directories that hold \
                 several of them"
            ));
        }
        for mount in spec.policy.mounts.iter().take(MOST_MOUNTS) {
            match root_of(mount) {
                Ok(root) => plan.roots.push((root, mount.access)),
                Err(reason) => plan.unmet.push(reason),
            }
        }
        if let Some(hidden) = spec.policy.hidden.first() {
            plan.unmet.push(format!(
                "{hidden} cannot be hidden, because what runs reads what it can name; keep it elsewhere"
            ));
        }
        plan.limits = Limits::of(&spec.policy, &mut plan.unmet);
        Ok(plan)
    }

    /// Takes note of what a group limits, of what it was asked to.
    pub(super) fn note_group(&mut self, place: &Place, spec: &AcquireSpec, group: Option<&Group>) {
        self.limits
            .note_group(place, &spec.policy, group, &mut self.unmet);
    }

    /// Decides whether what is asked for holds, and returns the network that there is.
    ///
    /// - `guarantees`: how well each restriction holds
    pub(super) fn settle(
        &self,
        place: &Place,
        spec: &AcquireSpec,
        guarantees: &BTreeMap<Restriction, Grade>,
    ) -> Result<Network> {
        let mut unmet = self.unmet.clone();
        let short_of = |restriction: Restriction| match guarantees.get(&restriction) {
            Some(Grade::Full) => None,
            Some(Grade::Partial { gaps }) => Some(format!(
                "{} cannot be had in full: {}",
                restriction.name(),
                gaps.join(", and ")
            )),
            Some(Grade::Unavailable) | None => {
                Some(format!("{} cannot be had", restriction.name()))
            }
        };
        let denied = short_of(Restriction::NetworkDenied);
        match (&spec.policy.network, &denied) {
            (None, _) | (Some(Network::None), None) | (Some(Network::Open), Some(_)) => {}
            (Some(Network::None), Some(reason)) => {
                unmet.push(format!("the network cannot be kept away ({reason})"));
            }
            (Some(Network::Open), None) => {
                unmet.push("there is no network here, and an open one is asked for".to_owned());
            }
            (Some(Network::Allow(_)), _) => unmet.push(
                "no network of some origins only can be had; ask for none, or an open one"
                    .to_owned(),
            ),
        }
        unmet.extend(spec.policy.require.iter().copied().filter_map(short_of));
        if unmet.is_empty() {
            return Ok(match denied {
                None => Network::None,
                Some(_) => Network::Open,
            });
        }
        Err(Error::refused(Verb::Acquire, ErrorKind::PolicyUnmet)
            .on(&spec.id)
            .detail(format_args!(
                "{}; {} keeps no more away than that: choose a location that isolates, or ask for less \
                 (what holds in part only can be had as `prefer`)",
                unmet.join("; "),
                place.location
            )))
    }
}

/// The guard that there has to be at a place, for a policy.
fn guard_for(place: &Place, policy: &Policy) -> Option<GuardSpec> {
    let kept = |restriction| place.grade(restriction) == Grade::Full;
    let wanted = |restriction: Restriction| {
        let preferred = policy.prefer.contains(&restriction);
        !kept(restriction) && (policy.require.contains(&restriction) || preferred)
    };
    let writes = match kept(Restriction::WriteContained) {
        true => Writes::Unguarded,
        false => Writes::Contained,
    };
    let no_network = match &policy.network {
        Some(Network::None) => !kept(Restriction::NetworkDenied),
        Some(Network::Open) => false,
        Some(Network::Allow(_)) | None => wanted(Restriction::NetworkDenied),
    };
    let read_only = policy
        .mounts
        .iter()
        .any(|mount| mount.access == MountAccess::ReadOnly);
    let needed = no_network
        || (read_only && writes == Writes::Contained)
        || wanted(Restriction::WriteContained)
        || wanted(Restriction::ProcessContained);
    (needed || place.guard == GuardUse::Always).then_some(GuardSpec {
        writes,
        network: match no_network {
            true => NetworkUse::Denied,
            false => NetworkUse::Open,
        },
        neighbours: match place.grade(Restriction::ProcessContained) {
            Grade::Unavailable => Neighbours::Shared,
            // A gap is somewhere else: whoever keeps processes apart begins with what they share.
            Grade::Full | Grade::Partial { .. } => Neighbours::Own,
        },
    })
}

/// The directory that a mount adds, where it is seen as what it is.
fn root_of(mount: &Mount) -> Result<PathBuf, String> {
    if SandboxPath::parse(mount.host.as_os_str().as_bytes()).as_ref() == Ok(&mount.sandbox) {
        return Ok(mount.host.clone());
    }
    Err(format!(
        "{} cannot be shown as {}; show it as itself",
        mount.host.display(),
        mount.sandbox
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbox_core::{Effect, Limit, LimitKind, SandboxId, Strength};

    use super::*;

    fn spec(change: impl FnOnce(&mut AcquireSpec)) -> AcquireSpec {
        let mut spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        change(&mut spec);
        spec
    }

    /// What becomes of a spec where every restriction has this grade.
    fn settled(spec: &AcquireSpec, grade: &Grade) -> Result<Network> {
        let place = Place::open("local");
        let guarantees = Restriction::ALL.map(|restriction| (restriction, grade.clone()));
        let mut plan = Plan::of(&place, spec)?;
        plan.note_group(&place, spec, None);
        plan.settle(&place, spec, &guarantees.into())
    }

    fn check(change: impl FnOnce(&mut AcquireSpec), kind: ErrorKind, says: &[&str]) {
        let error = settled(&spec(change), &Grade::Unavailable).expect_err("it cannot be had");
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
    fn what_cannot_be_had_is_refused_all_at_once_with_what_to_do() {
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
                spec.policy
                    .mounts
                    .push(mount("/elsewhere", MountAccess::ReadOnly));
            },
            ErrorKind::PolicyUnmet,
            &[
                "network",
                "write-contained",
                "memory",
                "/srv/cache cannot be shown as /elsewhere",
                "choose a location that isolates",
            ],
        );
    }

    fn mount(sandbox: &str, access: MountAccess) -> Mount {
        Mount {
            host: "/srv/cache".into(),
            sandbox: SandboxPath::parse(sandbox).expect("valid"),
            access,
        }
    }

    #[test]
    fn what_holds_in_part_is_refused_with_its_gaps_and_had_as_preferred() {
        let gaps = vec!["modes can be changed".to_owned()];
        let partly = Grade::Partial { gaps };
        let required = spec(|spec| {
            spec.policy.require.insert(Restriction::WriteContained);
        });
        let error = settled(&required, &partly).expect_err("it does not hold in full");
        let text = error.to_string();
        assert!(
            text.contains("modes can be changed") && text.contains("prefer"),
            "{text}"
        );
        let preferred = spec(|spec| {
            spec.policy.prefer.insert(Restriction::WriteContained);
        });
        let network = |grade| settled(&preferred, grade).expect("it may hold in part");
        assert_eq!(network(&partly), Network::Open);
        assert_eq!(network(&Grade::Full), Network::None);
    }

    #[test]
    fn a_network_that_is_denied_and_open_is_refused() {
        let both = spec(|spec| {
            spec.policy.network = Some(Network::Open);
            spec.policy.require.insert(Restriction::NetworkDenied);
        });
        for grade in [Grade::Full, Grade::Unavailable] {
            let error = settled(&both, &grade).expect_err("both cannot be");
            assert_eq!(error.kind(), ErrorKind::PolicyUnmet);
        }
    }

    #[test]
    fn there_is_a_guard_where_something_is_asked_for_that_the_place_does_not_keep_away() {
        let guard = |place: &Place, change: &dyn Fn(&mut Policy)| {
            let mut policy = Policy::default();
            change(&mut policy);
            guard_for(place, &policy)
        };
        let mut place = Place::open("local");
        assert_eq!(guard(&place, &|_| {}), None);
        let open_network = |policy: &mut Policy| policy.network = Some(Network::Open);
        assert_eq!(guard(&place, &open_network), None);
        let no_network = |policy: &mut Policy| policy.network = Some(Network::None);
        let read_only = |policy: &mut Policy| {
            policy
                .mounts
                .push(mount("/srv/cache", MountAccess::ReadOnly));
        };
        let everything = GuardSpec {
            writes: Writes::Contained,
            network: NetworkUse::Denied,
            neighbours: Neighbours::Shared,
        };
        let with_network = GuardSpec {
            network: NetworkUse::Open,
            ..everything
        };
        assert_eq!(guard(&place, &no_network), Some(everything));
        assert_eq!(guard(&place, &read_only), Some(with_network));
        for (restriction, expected) in [
            (Restriction::NetworkDenied, Some(everything)),
            (Restriction::WriteContained, Some(with_network)),
            (Restriction::ProcessContained, Some(with_network)),
            (Restriction::SecretsHidden, None),
        ] {
            let required = |policy: &mut Policy| policy.require = [restriction].into();
            let preferred = |policy: &mut Policy| policy.prefer = [restriction].into();
            assert_eq!(guard(&place, &required), expected, "{restriction:?}");
            assert_eq!(guard(&place, &preferred), expected, "{restriction:?}");
            let mut kept = place.clone();
            kept.kept_away.insert(restriction, Grade::Full);
            assert_eq!(guard(&kept, &required), None, "{restriction:?}");
        }
        for restriction in Restriction::ALL {
            place.kept_away.insert(restriction, Grade::Full);
        }
        assert_eq!(guard(&place, &no_network), None);
        assert_eq!(guard(&place, &read_only), None);
        place.guard = GuardUse::Always;
        let least = GuardSpec {
            writes: Writes::Unguarded,
            network: NetworkUse::Open,
            neighbours: Neighbours::Own,
        };
        assert_eq!(guard(&place, &|_| {}), Some(least));
    }

    #[test]
    fn a_mount_is_shown_as_itself_or_not_at_all() {
        let plan = Plan::of(
            &Place::open("local"),
            &spec(|spec| {
                for access in [MountAccess::ReadWrite, MountAccess::ReadOnly] {
                    spec.policy.mounts.push(mount("/srv/cache", access));
                }
            }),
        );
        let cache = PathBuf::from("/srv/cache");
        assert_eq!(
            plan.expect("it can be had").roots,
            [
                (cache.clone(), MountAccess::ReadWrite),
                (cache, MountAccess::ReadOnly)
            ]
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

//! How well each restriction holds: what the surroundings keep away, what a guard was seen to keep away, and
//! what contradicts either.
//!
//! **Invariant:** a grade is never better than what was tried. What cannot be tried, because only whoever
//! made the place knows it, is their claim; what can be seen to be otherwise is a gap in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use sandbox_core::{Grade, Restriction};
use sandbox_guard::{GuardSpec, Landlock, NetworkUse, Proof, Writes};

use super::place::Place;

/// A guard, and what came of trying it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    pub(super) spec: GuardSpec,
    pub(super) proof: Proof,
    pub(super) landlock: Landlock,
}

/// The grade of every restriction, at a place with or without a guard.
///
/// - `inside`: directories that belong to the place and may be written
pub(super) fn guarantees(
    place: &Place,
    tried: Option<Tried>,
    inside: &[PathBuf],
) -> BTreeMap<Restriction, Grade> {
    Restriction::ALL
        .map(|restriction| {
            let claimed = with_gaps(
                place.grade(restriction),
                contradictions(restriction, inside),
            );
            let guarded = tried.map_or(Grade::Unavailable, |tried| by_guard(restriction, tried));
            (restriction, better(claimed, guarded))
        })
        .into()
}

/// What a guard gives where nothing else does.
fn by_guard(restriction: Restriction, tried: Tried) -> Grade {
    let Tried {
        proof, landlock, ..
    } = tried;
    let mut gaps = Vec::new();
    let mut gap = |open: bool, text: &str| {
        if open {
            gaps.push(text.to_owned());
        }
    };
    match restriction {
        Restriction::NetworkDenied => {
            if tried.spec.network == NetworkUse::Open || !proof.calls || !proof.network {
                return Grade::Unavailable;
            }
            let others = "another process of this user, which has a network, can be made to use it";
            gap(!proof.tracing, others);
            let later = "files elsewhere can be written that others execute";
            gap(!proof.writes, later);
        }
        Restriction::WriteContained => {
            if tried.spec.writes == Writes::Unguarded || !proof.calls || !proof.writes {
                return Grade::Unavailable;
            }
            gap(
                true,
                "modes, owners, times and attributes of this user's files elsewhere can be changed, \
                 though not what is in them",
            );
            gap(true, "other terminals of this user can be written to");
            gap(
                !landlock.contains_truncation(),
                "files elsewhere can be shortened, which needs Linux 6.2 to be kept away",
            );
            gap(
                !landlock.contains_devices(),
                "devices that can be read can be controlled, which needs Linux 6.10 to be kept away",
            );
            gap(
                tried.spec.network == NetworkUse::Open,
                "services of this machine can be asked over sockets to write elsewhere",
            );
        }
        Restriction::ProcessContained => {
            if !proof.calls || !proof.tracing {
                return Grade::Unavailable;
            }
            gap(
                true,
                "which processes there are, and their arguments, can be seen, though they cannot be \
                 looked into",
            );
            gap(
                true,
                "on which processors processes of this user run can be changed",
            );
            gap(
                !proof.signals,
                "processes of this user can be signalled, which needs Linux 6.12 to be kept away",
            );
        }
        Restriction::SecretsHidden => return Grade::Unavailable,
    }
    match gaps.as_slice() {
        [] => Grade::Full,
        _ => Grade::Partial { gaps },
    }
}

/// What is seen here that a claim of the surroundings denies.
fn contradictions(restriction: Restriction, inside: &[PathBuf]) -> Vec<String> {
    let seen = match restriction {
        Restriction::NetworkDenied => route()
            .map(|interface| format!("there is a route by the network interface {interface}")),
        Restriction::WriteContained => {
            writable(inside).map(|path| format!("{} can be written", path.display()))
        }
        Restriction::ProcessContained | Restriction::SecretsHidden => None,
    };
    seen.into_iter().collect()
}

/// An interface that leads out of this network, if there is one.
fn route() -> Option<String> {
    let table = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let first = table("/proc/self/net/route");
    let fourth = first
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let second = table("/proc/self/net/ipv6_route");
    let sixth = second
        .lines()
        .filter_map(|line| line.split_whitespace().next_back());
    fourth
        .chain(sixth)
        .find(|interface| *interface != "lo")
        .map(str::to_owned)
}

/// A directory at the top that this process could write to, and that is not the place's to be written.
fn writable(inside: &[PathBuf]) -> Option<PathBuf> {
    let top = Path::new("/");
    let own = |path: &Path| {
        inside.iter().any(|inside| inside.starts_with(path))
            || ["/proc", "/dev", "/sys"]
                .iter()
                .any(|kernel| path == Path::new(kernel))
    };
    let entries = std::fs::read_dir(top).into_iter().flatten().flatten();
    std::iter::once(top.to_owned())
        .chain(entries.map(|entry| entry.path()))
        .filter(|path| path == top || !own(path))
        .find(|path| {
            let directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
            directory && rustix::fs::access(path, Access::WRITE_OK).is_ok()
        })
}

fn with_gaps(claimed: Grade, seen: Vec<String>) -> Grade {
    match claimed {
        Grade::Unavailable => Grade::Unavailable,
        claimed if seen.is_empty() => claimed,
        Grade::Full => Grade::Partial { gaps: seen },
        Grade::Partial { mut gaps } => {
            gaps.extend(seen);
            Grade::Partial { gaps }
        }
    }
}

/// The better of two; of two that have gaps the one with fewer.
fn better(one: Grade, other: Grade) -> Grade {
    match (&one, &other) {
        (Grade::Full, _) | (_, Grade::Unavailable) => one,
        (_, Grade::Full) | (Grade::Unavailable, _) => other,
        (Grade::Partial { gaps: of_one }, Grade::Partial { gaps: of_other }) => {
            if of_one.len() <= of_other.len() {
                one
            } else {
                other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sandbox_guard::Neighbours;

    use super::*;

    fn tried(proof: Proof, network: NetworkUse) -> Tried {
        Tried {
            spec: GuardSpec {
                writes: Writes::Contained,
                network,
                neighbours: Neighbours::Shared,
            },
            proof,
            landlock: Landlock::of_kernel(),
        }
    }

    const ALL: Proof = Proof {
        calls: true,
        network: true,
        writes: true,
        signals: true,
        tracing: true,
    };

    fn gaps(grade: &Grade) -> usize {
        match grade {
            Grade::Partial { gaps } => gaps.len(),
            Grade::Full | Grade::Unavailable => panic!("{grade:?} has no gaps"),
        }
    }

    #[test]
    fn a_guard_that_holds_denies_the_network_and_is_honest_about_the_rest() {
        let held = guarantees(
            &Place::open("here"),
            Some(tried(ALL, NetworkUse::Denied)),
            &[],
        );
        assert_eq!(held[&Restriction::NetworkDenied], Grade::Full);
        assert_eq!(held[&Restriction::SecretsHidden], Grade::Unavailable);
        let open = guarantees(
            &Place::open("here"),
            Some(tried(ALL, NetworkUse::Open)),
            &[],
        );
        assert_eq!(open[&Restriction::NetworkDenied], Grade::Unavailable);
        let of = |held: &BTreeMap<_, _>, restriction| gaps(&held[&restriction]);
        assert_eq!(
            of(&open, Restriction::WriteContained),
            of(&held, Restriction::WriteContained) + 1,
            "a socket leads to who may write"
        );
        assert!(of(&held, Restriction::ProcessContained) >= 1);
    }

    #[test]
    fn what_was_tried_and_did_not_hold_is_no_guarantee() {
        let grade = |proof, restriction| by_guard(restriction, tried(proof, NetworkUse::Denied));
        for (restriction, proof) in [
            (
                Restriction::NetworkDenied,
                Proof {
                    network: false,
                    ..ALL
                },
            ),
            (
                Restriction::WriteContained,
                Proof {
                    writes: false,
                    ..ALL
                },
            ),
            (
                Restriction::ProcessContained,
                Proof {
                    tracing: false,
                    ..ALL
                },
            ),
        ] {
            assert_eq!(
                grade(proof, restriction),
                Grade::Unavailable,
                "{restriction:?}"
            );
            let no_calls = Proof {
                calls: false,
                ..ALL
            };
            assert_eq!(
                grade(no_calls, restriction),
                Grade::Unavailable,
                "{restriction:?}"
            );
        }
        // Whoever can trace another process or write what it executes has its network.
        for proof in [
            Proof {
                tracing: false,
                ..ALL
            },
            Proof {
                writes: false,
                ..ALL
            },
        ] {
            assert_eq!(
                gaps(&grade(proof, Restriction::NetworkDenied)),
                1,
                "{proof:?}"
            );
        }
    }

    #[test]
    fn a_claim_is_believed_until_something_else_is_seen() {
        let mut place = Place::open("box");
        place
            .kept_away
            .insert(Restriction::SecretsHidden, Grade::Full);
        place
            .kept_away
            .insert(Restriction::WriteContained, Grade::Full);
        let held = guarantees(&place, None, &[]);
        assert_eq!(held[&Restriction::SecretsHidden], Grade::Full);
        // Somewhere at the top something can be written here, or there would be no place for this test.
        assert_eq!(gaps(&held[&Restriction::WriteContained]), 1);
        let everything: Vec<_> = std::fs::read_dir("/")
            .expect("there is one")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        let seen = writable(&everything);
        assert!(seen.is_none_or(|path| path == Path::new("/")));
    }
}

//! The guard of one sandbox: prepared, tried, judged, and with the temporary directory that goes with it.
//!
//! **Invariant:** what nobody graded, because it was not required by name, is refused where the trial did not
//! show it: a mount that is read-only, and an engine out of reach of what it starts. What is only said in
//! words ([`Guarded::notes`]) was shown too.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_core::{EnvChange, Error, ErrorKind, MountAccess, Result, Verb};
use sandbox_guard::{Guard, GuardError, GuardSpec, Landlock, Writes};

use super::attest::Tried;
use super::place::{GuardUse, Place};
use super::temporary::TemporaryDirectory;
use crate::root::Roots;

/// Variables that name a directory for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// The guard of one sandbox.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) guard: Arc<Guard>,
    pub(super) tried: Tried,
    pub(super) temporary: Option<TemporaryDirectory>,
}

impl Guarded {
    /// Prepares and tries a guard under which the writable ones of these roots can be written.
    ///
    /// - `mounts`: those of the roots that the policy asks for
    pub(super) fn new(
        spec: GuardSpec,
        place: &Place,
        roots: &Roots,
        mounts: &[(PathBuf, MountAccess)],
    ) -> Result<Self> {
        let contained = spec.writes == Writes::Contained;
        if contained && let Some((inner, outer)) = roots.exception(&place.writable) {
            return Err(unmet(format!(
                "{inner} cannot be kept from being written, because it lies beneath {outer}, which can be; \
                 mount it read-write, or elsewhere"
            )));
        }
        let shared = std::env::temp_dir();
        let temporary = match contained && !place.has(&shared) && !roots.has_writable(&shared) {
            true => Some(TemporaryDirectory::new(&shared).map_err(|error| {
                unmet(format!(
                    "no temporary directory can be made in {}; set TMPDIR to one that can be written",
                    shared.display()
                ))
                .caused_by(error)
            })?),
            false => None,
        };
        let mut writable: Vec<_> = roots.writable().collect();
        writable.extend(
            temporary
                .as_ref()
                .map(|temporary| temporary.handle().as_fd()),
        );
        let guard = Guard::prepare(spec, &writable).map_err(refusal)?;
        let tried = Tried {
            spec,
            proof: guard.prove().map_err(refusal)?,
            landlock: Landlock::of_kernel(),
        };
        judge(tried, place.guard, mounts)?;
        Ok(Guarded {
            guard: Arc::new(guard),
            tried,
            temporary,
        })
    }

    /// What to know about what runs under it.
    pub(super) fn notes(&self) -> Vec<String> {
        notes(self.tried)
    }

    /// What the temporary directory changes of the environment, where nobody asked for something else.
    pub(super) fn environment(&self, asked: &[EnvChange]) -> Vec<EnvChange> {
        use std::os::unix::ffi::OsStrExt;
        let Some(temporary) = &self.temporary else {
            return Vec::new();
        };
        let path = temporary.path().as_os_str().as_bytes();
        TEMPORARY
            .iter()
            .filter(|name| !asked.iter().any(|change| change.name == name.as_bytes()))
            .map(|name| EnvChange::set(name, path))
            .collect()
    }
}

impl Place {
    /// Whether a directory is one that the place has for itself.
    fn has(&self, directory: &Path) -> bool {
        self.writable.iter().any(|own| directory.starts_with(own))
    }
}

/// Refuses a guard under which something is open that is not graded.
fn judge(tried: Tried, guard: GuardUse, mounts: &[(PathBuf, MountAccess)]) -> Result<()> {
    let Tried {
        spec,
        proof,
        landlock,
    } = tried;
    let mut open = Vec::new();
    let read_only = mounts
        .iter()
        .find(|(_, access)| *access == MountAccess::ReadOnly);
    if let Some((mount, _)) = read_only
        && spec.writes == Writes::Contained
        && !(proof.calls && proof.writes && landlock.contains_truncation())
    {
        open.push(format!(
            "{}, which is mounted read-only, cannot be kept from being written, which needs Landlock of \
             Linux 6.2; mount it read-write, or choose a location that isolates",
            mount.display()
        ));
    }
    if guard == GuardUse::Always {
        if !proof.calls {
            open.push(
                "system calls that no command may make are not refused here, which needs seccomp; choose \
                 another location"
                    .to_owned(),
            );
        }
        if !proof.tracing {
            open.push(
                "the engine cannot be kept from being looked into by what it starts, which needs Landlock \
                 (Linux 5.13, and not turned off) and a /proc of its own processes; choose another location"
                    .to_owned(),
            );
        }
    }
    match open.as_slice() {
        [] => Ok(()),
        _ => Err(unmet(open.join("; "))),
    }
}

/// What is known of a guard by its trial, in words.
fn notes(tried: Tried) -> Vec<String> {
    let Tried {
        spec,
        proof,
        landlock,
    } = tried;
    let others = match (proof.tracing, proof.signals) {
        (true, true) => {
            "each command is guarded: it can neither signal nor trace what is not its own, other commands of \
             the sandbox included"
        }
        (true, false) => {
            "each command is guarded: it cannot trace what is not its own, other commands of the sandbox \
             included, but it can signal it, which needs Linux 6.12 to be kept away"
        }
        (false, _) => {
            "each command is guarded by filters of system calls alone: it can trace other processes of its \
             user, which needs Landlock to be kept away"
        }
    };
    let writes = match (proof.writes, landlock.contains_truncation()) {
        (true, true) => {
            "commands write in the sandbox's roots and in their temporary directory, TMPDIR, and nowhere else"
        }
        (true, false) => {
            "commands write in the sandbox's roots and in their temporary directory, TMPDIR, but can shorten \
             files elsewhere, which needs Linux 6.2 to be kept away"
        }
        (false, _) => {
            "commands can write outside the sandbox's roots, which needs Landlock to be kept away"
        }
    };
    std::iter::once(others)
        .chain((spec.writes == Writes::Contained).then_some(writes))
        .map(str::to_owned)
        .collect()
}

fn unmet(detail: String) -> Error {
    Error::refused(Verb::Acquire, ErrorKind::PolicyUnmet).detail(detail)
}

fn refusal(error: GuardError) -> Error {
    let what_to_do = match &error {
        GuardError::TooManyRules(_) => "ask for fewer mounts",
        GuardError::Processor(_)
        | GuardError::Filter(_)
        | GuardError::Domain(_)
        | GuardError::Refused { .. } => {
            "choose a location that isolates, or ask for less: without a guard nothing is kept away"
        }
        GuardError::Trial(_) => "see the limits of this user (`ulimit -a`)",
    };
    unmet(format!("{error}; {what_to_do}")).caused_by(error)
}

#[cfg(test)]
mod tests {
    use sandbox_core::Effect;
    use sandbox_guard::{Neighbours, NetworkUse, Proof};

    use super::*;

    const HELD: Tried = Tried {
        spec: GuardSpec {
            writes: Writes::Contained,
            network: NetworkUse::Open,
            neighbours: Neighbours::Shared,
        },
        proof: Proof {
            calls: true,
            network: false,
            writes: true,
            signals: true,
            tracing: true,
        },
        landlock: Landlock::of_version(6),
    };

    /// What held where a trial showed otherwise.
    fn held_but(change: impl FnOnce(&mut Tried)) -> Tried {
        let mut tried = HELD;
        change(&mut tried);
        tried
    }

    fn mounts(access: MountAccess) -> [(PathBuf, MountAccess); 1] {
        [("/srv/cache".into(), access)]
    }

    fn refused(judged: Result<()>, says: &str) {
        let error = judged.expect_err("something is open");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::PolicyUnmet, Effect::None)
        );
        assert!(error.to_string().contains(says), "{error}");
    }

    #[test]
    fn a_read_only_mount_is_had_only_where_it_was_seen_to_be_kept_from_writing() {
        let read_only = mounts(MountAccess::ReadOnly);
        judge(HELD, GuardUse::ByPolicy, &read_only).expect("it held");
        for open in [
            held_but(|tried| tried.proof.writes = false),
            held_but(|tried| tried.proof.calls = false),
            held_but(|tried| tried.landlock = Landlock::of_version(2)),
        ] {
            refused(judge(open, GuardUse::ByPolicy, &read_only), "/srv/cache");
            let writable = mounts(MountAccess::ReadWrite);
            judge(open, GuardUse::ByPolicy, &writable).expect("it may be written");
            let claimed = held_but(|tried| {
                *tried = open;
                tried.spec.writes = Writes::Unguarded;
            });
            judge(claimed, GuardUse::ByPolicy, &read_only).expect("the place keeps it");
        }
    }

    #[test]
    fn an_engine_inside_its_place_is_had_only_where_it_was_seen_to_be_out_of_reach() {
        judge(HELD, GuardUse::Always, &[]).expect("it held");
        for (open, says) in [
            (held_but(|tried| tried.proof.calls = false), "system calls"),
            (held_but(|tried| tried.proof.tracing = false), "looked into"),
        ] {
            refused(judge(open, GuardUse::Always, &[]), says);
            judge(open, GuardUse::ByPolicy, &[]).expect("it is graded instead");
        }
    }

    #[test]
    fn notes_claim_nothing_that_was_not_shown() {
        let claims = [
            ("neither signal nor trace", HELD),
            ("can signal", held_but(|tried| tried.proof.signals = false)),
            ("can trace", held_but(|tried| tried.proof.tracing = false)),
            ("nowhere else", HELD),
            (
                "can shorten",
                held_but(|tried| tried.landlock = Landlock::of_version(2)),
            ),
            (
                "can write outside",
                held_but(|tried| tried.proof.writes = false),
            ),
        ];
        for (claim, tried) in claims {
            let said = notes(tried).join("; ");
            assert!(said.contains(claim), "{said}");
            if tried.proof != HELD.proof || tried.landlock != HELD.landlock {
                let all = notes(HELD).join("; ");
                assert!(!all.contains(claim), "{all}");
                assert_ne!(said, all);
            }
        }
        let unguarded = held_but(|tried| tried.spec.writes = Writes::Unguarded);
        assert_eq!(notes(unguarded).len(), 1);
    }
}

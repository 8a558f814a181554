//! The guard of one sandbox: prepared, tried, and with the temporary directory that goes with it.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use sandbox_core::{EnvChange, Error, ErrorKind, Result, Verb};
use sandbox_guard::{Guard, GuardError, GuardSpec, Landlock, Writes};

use super::attest::Tried;
use super::place::Place;
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
    pub(super) fn new(spec: GuardSpec, place: &Place, roots: &Roots) -> Result<Self> {
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
        let proof = guard.prove().map_err(refusal)?;
        Ok(Guarded {
            guard: Arc::new(guard),
            tried: Tried {
                spec,
                proof,
                landlock: Landlock::of_kernel(),
            },
            temporary,
        })
    }

    /// What to know about what runs under it.
    pub(super) fn notes(&self) -> Vec<String> {
        let alone = "each command is guarded: it can neither signal nor trace what is not its own, other \
                     commands of the sandbox included";
        let contained = "commands write in the sandbox's roots and in their temporary directory, TMPDIR, and \
                         nowhere else";
        let is_contained = self.tried.spec.writes == Writes::Contained;
        std::iter::once(alone)
            .chain(is_contained.then_some(contained))
            .map(str::to_owned)
            .collect()
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

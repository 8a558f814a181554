//! Why a place could not be made, and the one thing to do about it.

use std::path::PathBuf;

use sandbox_core::{Error, ErrorKind, Probe, SandboxId, Verb};

use super::executable::find_engine;
use super::start::StartFault;

/// Why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose fault it is: of what is installed here (`ProviderUnavailable`), or of what was asked for
    /// (`UnsupportedSpec`).
    pub kind: ErrorKind,
    /// What stands in the way, in one sentence without its full stop.
    pub reason: String,
    /// What to do about it, in the same form.
    pub remedy: String,
}

impl Refusal {
    /// Something is not as it has to be here.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::ProviderUnavailable,
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }

    /// The same, where it is what was asked for that is not there.
    #[must_use]
    pub fn of_what_was_asked(self) -> Self {
        Self {
            kind: ErrorKind::UnsupportedSpec,
            ..self
        }
    }

    /// As the failure of `acquire`, without effect.
    #[must_use]
    pub fn error(&self, id: &SandboxId) -> Error {
        Error::refused(Verb::Acquire, self.kind)
            .on(id)
            .detail(format_args!("{}; {}", self.reason, self.remedy))
    }

    /// As the answer of `probe`.
    #[must_use]
    pub fn probe(self) -> Probe {
        Probe::Fails {
            reason: self.reason,
            remedy: self.remedy,
        }
    }

    /// As the answer of `probe`, for a spec that makes no sense.
    #[must_use]
    pub fn of_spec(error: &Error) -> Self {
        let reason = format!("{} {}", error.subject(), error.kind());
        let remedy = match error.detail_text() {
            "" => "name a directory that is there and that you may enter",
            detail => detail,
        };
        Self::new(reason.trim(), remedy)
    }
}

/// Why there is no place.
#[derive(Debug)]
pub enum Trouble {
    /// It cannot be had here.
    Refused(Refusal),
    /// It was not waited for, or something failed that is nobody's setting.
    Failed(Error),
}

impl Trouble {
    /// That a start came to nothing.
    ///
    /// - `meaning`: what it means, unless it was only not waited for
    #[must_use]
    pub fn of_start(fault: StartFault, meaning: impl FnOnce(&StartFault) -> Refusal) -> Self {
        match fault {
            StartFault::Handshake { error, .. }
                if matches!(
                    error.kind(),
                    ErrorKind::Cancelled | ErrorKind::DeadlineExceeded
                ) =>
            {
                Self::Failed(error)
            }
            fault => Self::Refused(meaning(&fault)),
        }
    }

    /// As the failure of `acquire`.
    #[must_use]
    pub fn error(self, id: &SandboxId) -> Error {
        match self {
            Self::Refused(refusal) => refusal.error(id),
            Self::Failed(error) if error.subject().is_empty() => error.on(id),
            Self::Failed(error) => error,
        }
    }

    /// As the answer of `probe`.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn probe(self, id: &SandboxId) -> Result<Probe, Error> {
        match self {
            Self::Refused(refusal) => Ok(refusal.probe()),
            failed @ Self::Failed(_) => Err(failed.error(id).with_verb(Verb::Probe)),
        }
    }
}

/// The engine's executable by its real path: what is shown in a place is opened by that, and whoever installs may have
/// linked it.
///
/// # Errors
///
/// Why there is none that could be placed.
pub fn real_engine() -> Result<PathBuf, Refusal> {
    let no_engine = |why: String| {
        Refusal::new(
            why,
            "every provider of this kind needs the engine beside it",
        )
    };
    let engine = find_engine().map_err(|fault| no_engine(fault.to_string()))?;
    std::fs::canonicalize(&engine.path)
        .map_err(|error| no_engine(format!("{}: {error}", engine.path.display())))
}

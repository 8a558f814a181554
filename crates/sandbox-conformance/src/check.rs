//! What a check is, and how one is run.
//!
//! A check is a function from a fresh [`Place`] to a [`Verdict`]. It never panics on what a sandbox
//! did: a verdict is a value, so that the same check can be run a hundred times in one process on
//! sandboxes that are wrong on purpose.
//!
//! **Invariant:** a check that does not end is a failed check, after [`PATIENCE`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use sandbox_core::{Capability, Error};

use crate::harness::{Harness, Place};
use crate::{CHECKS, undeclared};

/// How long one check may take, opening and closing its sandbox included. Far more than any needs;
/// what does not end before is taken to hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a check found.
pub type Verdict = Result<(), Failure>;

/// A [`Verdict`] that is on its way.
pub type VerdictFuture<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One promise of the port, and how to see whether it is kept.
#[derive(Clone, Copy)]
pub struct Check {
    /// What it is about, in one word: the first module it is in.
    pub group: &'static str,
    /// The promise as a sentence; the name of the test.
    pub name: &'static str,
    /// Without which the promise is not made, or cannot be looked at.
    pub needs: &'static [Need],
    /// The part of the contract that makes the promise.
    pub clause: &'static str,
    /// Looks.
    pub run: for<'a> fn(&'a Place) -> VerdictFuture<'a>,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("needs", &self.needs)
            .field("clause", &self.clause)
            .finish_non_exhaustive()
    }
}

/// Without which a check does not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The provider declares this; otherwise it must answer `Unsupported`.
    Declared(Capability),
    /// The harness can look beside the workspace.
    Outside,
}

/// How a check was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The promise is kept.
    Kept,
    /// The promise is not made, because this is not declared, and the verb says so.
    NotDeclared(Capability),
    /// The promise is about what lies beside the workspace, and the harness cannot look there.
    OutOfSight,
}

/// Why a check failed, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

/// Longest sentence kept: values that differ may be large.
const LONGEST_FAILURE: usize = 2000;

impl Failure {
    /// Says what is the matter.
    pub fn new(sentence: impl fmt::Display) -> Self {
        let mut text = sentence.to_string();
        if text.len() > LONGEST_FAILURE {
            let cut = text.floor_char_boundary(LONGEST_FAILURE);
            text.truncate(cut);
            text.push_str(" [...]");
        }
        Self(text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// What must work for a check to look at all, and did not.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let effect = error.effect();
        let mut text = format!("{error} (effect {effect:?})");
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self::new(text)
    }
}

impl Check {
    /// The check of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        CHECKS.iter().find(|check| check.name == name)
    }

    /// Opens a sandbox, looks, and closes it.
    ///
    /// # Errors
    ///
    /// The promise is not kept, the sandbox could not be opened or closed, or one of these did not
    /// end within `patience`.
    pub async fn run(&self, harness: &dyn Harness, patience: Duration) -> Result<Passed, Failure> {
        let place = within(patience, "opening the sandbox", harness.open()).await?;
        let verdict = within(patience, "the check", self.look(&place)).await;
        let closed = within(patience, "closing the sandbox", harness.close(place)).await;
        let passed = verdict?;
        closed?;
        Ok(passed)
    }

    async fn look(&self, place: &Place) -> Result<Passed, Failure> {
        let declared = &place.provider.info().capabilities;
        for &need in self.needs {
            match need {
                Need::Declared(capability) if !declared.has(capability) => {
                    undeclared::answers_unsupported(place, capability).await?;
                    return Ok(Passed::NotDeclared(capability));
                }
                Need::Outside if place.outside.is_none() => return Ok(Passed::OutOfSight),
                Need::Declared(_) | Need::Outside => {}
            }
        }
        (self.run)(place).await.map(|()| Passed::Kept)
    }
}

async fn within<T>(
    patience: Duration,
    what: &str,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(patience, future).await {
        Ok(result) => result,
        Err(_) => Err(Failure::new(format_args!(
            "{what} did not end within {} s",
            patience.as_secs()
        ))),
    }
}

/// Runs one check as a test does: what [`suite!`](crate::suite!) expands to.
///
/// # Panics
///
/// If there is no such check, if the harness cannot be made, and if the check fails.
pub fn run_by_name<F, H>(name: &str, factory: F)
where
    F: FnOnce() -> H,
    H: Future<Output = Result<Box<dyn Harness>, Failure>>,
{
    let check = Check::by_name(name).expect("the suite lists every check by its name");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the test");
    let result = runtime.block_on(async {
        let harness = factory().await?;
        check.run(&*harness, PATIENCE).await
    });
    // What a lost check left behind must not keep the test from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        Ok(Passed::Kept | Passed::NotDeclared(_)) => {}
        // Said aloud; a harness at this machine always can look.
        Ok(Passed::OutOfSight) => {
            #[expect(
                clippy::print_stdout,
                reason = "the output of a test is where a reader looks for what was not looked at"
            )]
            {
                println!("{name}: not looked at: the harness cannot look outside the sandbox");
            }
        }
        Err(failure) => panic!("{name} does not hold: {failure}\nclause: {}", check.clause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_short_even_when_what_differs_is_not() {
        let failure = Failure::new("ä".repeat(LONGEST_FAILURE)).to_string();
        assert!(failure.len() < LONGEST_FAILURE + 10, "{}", failure.len());
        assert!(failure.ends_with("[...]"));
    }
}

//! Ids that nobody else has: the host chooses them, so that repeating a call is safe.

use std::fmt::Write as _;

use sandbox_core::{Error, ErrorKind, ProcId, Result, SandboxId, Verb};

/// An id for a new sandbox.
///
/// # Errors
///
/// `Internal` if the operating system gives no random numbers.
pub fn draw_sandbox() -> Result<SandboxId> {
    draw(Verb::Acquire, "s-", SandboxId::new)
}

/// An id for a new process, on behalf of `exec` or `spawn`.
///
/// # Errors
///
/// `Internal` if the operating system gives no random numbers.
pub fn draw_process(verb: Verb) -> Result<ProcId> {
    draw(verb, "p-", ProcId::new)
}

fn draw<I, E>(verb: Verb, prefix: &str, id: impl Fn(String) -> Result<I, E>) -> Result<I>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let failed = || Error::refused(verb, ErrorKind::Internal).detail("no id could be drawn");
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|error| failed().detail(error))?;
    let mut text = prefix.to_owned();
    for byte in random {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    id(text).map_err(|error| failed().caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        let one = draw_process(Verb::Exec).expect("random numbers");
        let two = draw_process(Verb::Exec).expect("random numbers");
        assert_ne!(one, two);
    }
}

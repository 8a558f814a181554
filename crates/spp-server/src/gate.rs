//! What the provider did not declare is refused here, before its code is asked.
//!
//! So a provider cannot half-support a verb by accident, a host sees the same refusal from every
//! provider, and the declared capabilities are the truth.

use std::time::Duration;

use sandbox_core::file::{Change, Durability, Precondition, WriteRequest};
use sandbox_core::process::{ExecRequest, SpawnRequest, Stdin};
use sandbox_core::{AcquireSpec, Capabilities, Capability, Error, ErrorKind, Result, Verb};

/// Refuses a verb that is not declared.
pub(crate) fn verb(capabilities: &Capabilities, verb: Verb) -> Result<()> {
    match Capability::of(verb) {
        Some(capability) => require(capabilities, verb, capability, "this verb"),
        None => Ok(()),
    }
}

/// The shortest lease: below it a busy machine would be taken for a dead one.
const SHORTEST_LEASE: Duration = Duration::from_millis(200);

pub(crate) fn acquire(capabilities: &Capabilities, spec: &AcquireSpec) -> Result<()> {
    if let Some(lease) = spec.lease {
        require(
            capabilities,
            Verb::Acquire,
            Capability::Lease,
            "a sandbox that ends when nothing is heard from its owner",
        )?;
        if lease < SHORTEST_LEASE {
            return Err(
                Error::refused(Verb::Acquire, ErrorKind::InvalidArgument).detail(format_args!(
                    "a lease of {} ms is too short to tell a dead host from a busy one; make it {} ms or more",
                    lease.as_millis(),
                    SHORTEST_LEASE.as_millis()
                )),
            );
        }
    }
    if spec.linger.is_some() {
        require(
            capabilities,
            Verb::Acquire,
            Capability::Linger,
            "a sandbox that outlives its connection",
        )?;
    }
    Ok(())
}

pub(crate) fn write(capabilities: &Capabilities, request: &WriteRequest) -> Result<()> {
    let require = |capability, what| require(capabilities, Verb::Write, capability, what);
    if request.durability == Durability::Durable {
        require(Capability::Durable, "a write that waits for the disk")?;
    }
    for change in &request.changes {
        let precondition = match change {
            Change::Put { precondition, .. } => precondition,
            Change::Edit { precondition, .. } => {
                require(Capability::Edit, "an edit")?;
                precondition
            }
            Change::MakeDirectory { .. } => {
                require(Capability::MakeDirectory, "making a directory")?;
                &Precondition::None
            }
            Change::Rename { .. } => {
                require(Capability::Rename, "a rename")?;
                &Precondition::None
            }
            Change::SetMode { .. } => {
                require(Capability::SetMode, "setting a mode")?;
                &Precondition::None
            }
            Change::Link { .. } => {
                require(Capability::Link, "making a link")?;
                &Precondition::None
            }
        };
        if *precondition != Precondition::None {
            require(Capability::Precondition, "a write with a precondition")?;
        }
    }
    Ok(())
}

pub(crate) fn exec(capabilities: &Capabilities, request: &ExecRequest) -> Result<()> {
    let require = |capability, what| require(capabilities, Verb::Exec, capability, what);
    if !matches!(request.stdin, Stdin::Null) {
        require(Capability::Stdin, "standard input")?;
    }
    if request.process.pty.is_some() {
        require(Capability::Pty, "a terminal")?;
    }
    if request.track.is_some() {
        require(Capability::Track, "tracking changes")?;
    }
    Ok(())
}

pub(crate) fn spawn(capabilities: &Capabilities, request: &SpawnRequest) -> Result<()> {
    if request.process.pty.is_some() {
        require(capabilities, Verb::Spawn, Capability::Pty, "a terminal")?;
    }
    Ok(())
}

fn require(
    capabilities: &Capabilities,
    verb: Verb,
    capability: Capability,
    what: &str,
) -> Result<()> {
    if capabilities.has(capability) {
        return Ok(());
    }
    Err(Error::refused(verb, ErrorKind::Unsupported)
        .detail(format_args!("{what} is not among its capabilities")))
}

#[cfg(test)]
mod tests {
    use sandbox_core::SandboxPath;
    use sandbox_core::process::{ProcessSpec, PtySize};

    use super::*;

    fn refused(result: &Result<()>) -> bool {
        result
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Unsupported)
    }

    #[test]
    fn mandatory_verbs_pass_and_every_other_needs_its_capability() {
        let none = Capabilities::mandatory();
        for each in Verb::ALL {
            let mandatory = Capability::of(each).is_none();
            assert_eq!(verb(&none, each).is_ok(), mandatory, "{each}");
            let all: Capabilities = Capability::ALL.into_iter().collect();
            assert!(verb(&all, each).is_ok(), "{each}");
        }
    }

    #[test]
    fn parts_of_a_request_need_their_capability_too() {
        let none = Capabilities::mandatory();
        let path = SandboxPath::parse("a").expect("valid");
        let put = Change::put(path.clone(), &b"x"[..]);
        assert!(write(&none, &WriteRequest::new([put.clone()])).is_ok());
        let edit = Change::edit(path, &b"a"[..], &b"b"[..]);
        assert!(refused(&write(&none, &WriteRequest::new([put, edit]))));

        let mut process = ProcessSpec::new(["true"]);
        assert!(exec(&none, &ExecRequest::new(process.clone())).is_ok());
        process.pty = Some(PtySize {
            rows: 1,
            columns: 1,
        });
        assert!(refused(&exec(&none, &ExecRequest::new(process))));
    }
}

//! What a spec asks for, as what an engine over there is asked.
//!
//! Only what concerns another machine is decided here. The rest of the policy is the engine's to grant or to refuse,
//! once for all locations, by what the kernel over there can do.

use std::time::Duration;

use sandbox_core::{AcquireSpec, Error, ErrorKind, Result, Verb};

use crate::options::{Options, RootOption};

/// Without a sign of life for this long either side of an engine takes the other for gone, where nothing else is asked for.
const LEASE: Duration = Duration::from_secs(20);

/// A spec that can be tried.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) options: Options,
    /// What the engine is asked.
    pub(crate) inside: AcquireSpec,
}

impl Plan {
    /// Decides what a spec asks for.
    ///
    /// # Errors
    ///
    /// `UnsupportedSpec` for the options, `InvalidArgument` for the root, `PolicyUnmet` with what cannot be had.
    pub(crate) fn of(spec: &AcquireSpec) -> Result<Self> {
        let options = Options::read(spec.options.as_deref())?;
        if !spec.policy.mounts.is_empty() {
            return Err(Error::refused(Verb::Acquire, ErrorKind::PolicyUnmet)
                .on(&spec.id)
                .detail(
                    "directories of this machine cannot be shown on another one; put what is needed there, beneath the root",
                ));
        }
        let mut inside = spec.clone();
        inside.root = Some(root(&options, spec.root.as_deref())?);
        inside.options = None;
        // A server does not notice by itself that what lies between drops everything.
        inside.lease = Some(spec.lease.unwrap_or(LEASE));
        Ok(Self { options, inside })
    }
}

/// The directory, from the home of the account on.
fn root(options: &Options, callers: Option<&str>) -> Result<String> {
    match (&options.root, callers) {
        (RootOption::At(root), _) => Ok(root.clone()),
        // Not an absolute path, whatever follows the tilde.
        (RootOption::BeneathHome(beneath), _) => Ok(format!("./{beneath}")),
        (RootOption::Callers, Some(root)) if root.starts_with('/') => Ok(root.to_owned()),
        (RootOption::Callers, root) => Err(Error::refused(
            Verb::Acquire,
            ErrorKind::InvalidArgument,
        )
        .on(root.unwrap_or("the caller's directory"))
        .detail(
            "no absolute directory was named, and there is no other way to tell which one is meant over there; name one by \
             `root` in the options of `ssh`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::{Effect, Mount, MountAccess, SandboxId, SandboxPath};

    use super::*;

    fn spec(options: &str, root: Option<&str>) -> AcquireSpec {
        let mut spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
        spec.root = root.map(str::to_owned);
        spec.options = Some(format!(r#"{{"host": "box", {options}}}"#));
        spec
    }

    fn root_of(options: &str, root: Option<&str>) -> Option<String> {
        Plan::of(&spec(options, root)).ok()?.inside.root
    }

    #[test]
    fn the_directory_is_the_one_that_is_named_over_there() {
        let here = Some("/home/me/here");
        assert_eq!(root_of(r#""root": "/srv""#, here).as_deref(), Some("/srv"));
        assert_eq!(root_of(r#""root": "~""#, here).as_deref(), Some("./"));
        assert_eq!(
            root_of(r#""root": "~//etc""#, here).as_deref(),
            Some(".//etc")
        );
        assert_eq!(root_of(r#""root": "caller""#, here).as_deref(), here);
        for none in [None, Some("."), Some("sub")] {
            let error = Plan::of(&spec(r#""root": "caller""#, none)).expect_err("none is named");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert_eq!(error.effect(), Effect::None);
        }
    }

    #[test]
    fn an_engine_has_a_lease_whoever_asks() {
        let mut asked = spec(r#""root": "/srv""#, None);
        let lease = |spec: &AcquireSpec| Plan::of(spec).expect("it can be had").inside.lease;
        assert_eq!(lease(&asked), Some(LEASE));
        asked.lease = Some(Duration::from_secs(5));
        assert_eq!(lease(&asked), asked.lease);
    }

    #[test]
    fn nothing_of_this_machine_is_shown_on_another() {
        let mut asked = spec(r#""root": "/srv""#, None);
        asked.policy.mounts.push(Mount {
            host: "/srv".into(),
            sandbox: SandboxPath::parse("/srv").expect("valid"),
            access: MountAccess::ReadOnly,
        });
        let error = Plan::of(&asked).expect_err("it is here");
        assert_eq!(error.kind(), ErrorKind::PolicyUnmet);
        assert_eq!(error.effect(), Effect::None);
    }
}

//! The environment of what runs: what is inherited, the sandbox's changes, the call's changes.
//!
//! Nothing reaches a process that was not named by one of the three.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use sandbox_core::{EnvChange, EnvInherit, EnvPolicy, Error, ErrorKind, Result, Verb};

/// Where programs are looked for if there is no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The variable that names the terminal.
const TERM: &[u8] = b"TERM";
/// The terminal that we are, if nobody says otherwise.
const TERMINAL: &[u8] = b"xterm-256color";

/// Variables by name, each as `NAME=VALUE`. Clones share them until one is changed, because most
/// calls change none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(Arc<BTreeMap<Vec<u8>, CString>>);

impl Environment {
    /// What the policy of a sandbox makes of this process's environment.
    ///
    /// - `default`: what is inherited where the policy leaves it to the location
    ///
    /// # Errors
    ///
    /// `InvalidArgument` naming `verb` and the variable, if a change is not one that a process can
    /// be given.
    pub fn of_policy(verb: Verb, policy: &EnvPolicy, default: &EnvInherit) -> Result<Self> {
        let inherit = policy.inherit.as_ref().unwrap_or(default);
        let wanted = |name: &[u8]| match inherit {
            EnvInherit::All => true,
            EnvInherit::Nothing => false,
            EnvInherit::Names(names) => names.iter().any(|known| known.as_bytes() == name),
        };
        let inherited = std::env::vars_os()
            .map(|(name, value)| (name.into_vec(), value.into_vec()))
            .filter(|(name, _)| wanted(name))
            .filter_map(|(name, value)| Some((entry(&name, &value)?, name)))
            .map(|(entry, name)| (name, entry));
        let mut environment = Environment(Arc::new(inherited.collect()));
        environment.change(verb, &policy.changes)?;
        Ok(environment)
    }

    /// Applies changes in order.
    ///
    /// # Errors
    ///
    /// As [`of_policy`](Self::of_policy).
    pub fn change(&mut self, verb: Verb, changes: &[EnvChange]) -> Result<()> {
        for change in changes {
            let invalid = || {
                Error::refused(verb, ErrorKind::InvalidArgument)
                    .on(String::from_utf8_lossy(&change.name))
                    .detail("a variable needs a name without `=`, and neither may hold a NUL")
            };
            if !change.is_valid() {
                return Err(invalid());
            }
            let variables = Arc::make_mut(&mut self.0);
            match &change.value {
                Some(value) => {
                    let entry = entry(&change.name, value).ok_or_else(invalid)?;
                    variables.insert(change.name.clone(), entry);
                }
                None => drop(variables.remove(&change.name)),
            }
        }
        Ok(())
    }

    /// Makes sure that `TERM` says what kind of terminal this is.
    pub(super) fn name_terminal(&mut self) {
        if self.get(TERM).is_none()
            && let Some(entry) = entry(TERM, TERMINAL)
        {
            Arc::make_mut(&mut self.0).insert(TERM.to_vec(), entry);
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        // Behind the name and its `=`.
        self.0.get(name)?.as_bytes().get(name.len() + 1..)
    }

    /// Where programs are looked for.
    pub(super) fn path(&self) -> &[u8] {
        self.get(b"PATH").unwrap_or(DEFAULT_PATH)
    }

    /// `NAME=VALUE`, as a process gets it.
    pub(super) fn entries(&self) -> impl Iterator<Item = &CStr> {
        self.0.values().map(CString::as_c_str)
    }
}

/// `NAME=VALUE`; `None` if there is a NUL in it.
fn entry(name: &[u8], value: &[u8]) -> Option<CString> {
    let mut entry = Vec::with_capacity(name.len() + value.len() + 2);
    entry.extend_from_slice(name);
    entry.push(b'=');
    entry.extend_from_slice(value);
    CString::new(entry).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(inherit: EnvInherit, changes: Vec<EnvChange>) -> Environment {
        let policy = EnvPolicy {
            inherit: Some(inherit),
            changes,
        };
        Environment::of_policy(Verb::Acquire, &policy, &EnvInherit::Nothing).expect("valid")
    }

    #[test]
    fn only_what_is_named_is_inherited() {
        assert_eq!(
            policy(EnvInherit::Nothing, Vec::new()),
            Environment::default()
        );
        let named = policy(
            EnvInherit::Names(vec!["PATH".into(), "NOBODY_SETS_THIS".into()]),
            Vec::new(),
        );
        assert_eq!(named.0.len(), 1);
        assert!(policy(EnvInherit::All, Vec::new()).0.len() >= named.0.len());
    }

    #[test]
    fn changes_apply_in_order_and_may_remove() {
        let changes = vec![
            EnvChange::set("A", "1"),
            EnvChange::set("B", "="),
            EnvChange::remove("A"),
            EnvChange::set("B", "2"),
        ];
        let environment = policy(EnvInherit::Nothing, changes);
        assert_eq!(environment.entries().collect::<Vec<_>>(), [c"B=2"]);
    }

    #[test]
    fn a_variable_that_no_process_can_have_is_refused() {
        for change in [
            EnvChange::set("A=B", "1"),
            EnvChange::set("", "1"),
            EnvChange::set("A", "\0"),
        ] {
            let error = Environment::default()
                .change(Verb::Exec, &[change])
                .expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
}

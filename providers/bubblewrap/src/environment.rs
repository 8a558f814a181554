//! The variables of what runs in a sandbox: what a place of its own needs, and of this process's what is named.
//!
//! They go to the engine in the request that acquires the sandbox. None is ever an argument of a program, where
//! everybody on the machine could read it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use sandbox_core::{EnvChange, EnvInherit, EnvPolicy};

use crate::view::{HOME, Shown, TMP, is_searched};

/// What is inherited where the policy does not say, besides all that begin with `LC_`.
const INHERITED: [&str; 4] = ["COLORTERM", "LANG", "TERM", "TZ"];
/// Variables that concern the provider's own start.
const OWN: [&str; 2] = ["SPP_HOST", "SPP_HOST_PID"];
/// Where programs are that any system has.
const USUAL_PATH: [&str; 7] = [
    "/run/current-system/sw/bin",
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The policy that makes the engine give exactly these variables.
///
/// What is inherited is overruled by what this place needs, unless the policy names it; the policy's changes come
/// last.
///
/// - `own`: the variables of this process
/// - `shown`: what the sandbox sees of this machine beside what all see
pub(crate) fn policy(
    asked: &EnvPolicy,
    own: impl IntoIterator<Item = (OsString, OsString)>,
    shown: &[Shown],
) -> EnvPolicy {
    let own: Vec<_> = own
        .into_iter()
        .filter(|(name, _)| !OWN.iter().any(|known| name == known))
        .collect();
    let is_named =
        |name: &OsStr, names: &[String]| names.iter().any(|known| name == known.as_str());
    let mut changes = vec![
        EnvChange::set("LANG", "C.UTF-8"),
        EnvChange::set("TERM", "xterm-256color"),
    ];
    let inherit = |wanted: &dyn Fn(&OsStr) -> bool| -> Vec<EnvChange> {
        own.iter()
            .filter(|(name, _)| wanted(name))
            .map(|(name, value)| EnvChange::set(name.as_bytes(), value.as_bytes()))
            .collect()
    };
    match &asked.inherit {
        None => changes.extend(inherit(&|name| {
            INHERITED.iter().any(|known| name == *known) || name.as_bytes().starts_with(b"LC_")
        })),
        Some(EnvInherit::All) => changes.extend(inherit(&|_| true)),
        Some(EnvInherit::Nothing | EnvInherit::Names(_)) => {}
    }
    let path = own.iter().find(|(name, _)| name == "PATH");
    changes.extend(of_the_place(
        path.map(|(_, value)| value.as_os_str()),
        shown,
    ));
    if let Some(EnvInherit::Names(names)) = &asked.inherit {
        changes.extend(inherit(&|name| is_named(name, names)));
    }
    changes.extend(asked.changes.iter().cloned());
    EnvPolicy {
        inherit: Some(EnvInherit::Nothing),
        changes,
    }
}

/// What this place needs.
fn of_the_place(path: Option<&OsStr>, shown: &[Shown]) -> Vec<EnvChange> {
    let beneath = |name: &str| format!("{HOME}/{name}");
    let mut changes = vec![
        EnvChange::set("HOME", HOME),
        EnvChange::set("USER", "sandbox"),
        EnvChange::set("LOGNAME", "sandbox"),
        EnvChange::set("SHELL", "/bin/sh"),
        EnvChange::set("TMPDIR", TMP),
        EnvChange::set("XDG_CACHE_HOME", beneath(".cache")),
        EnvChange::set("XDG_CONFIG_HOME", beneath(".config")),
        EnvChange::set("XDG_DATA_HOME", beneath(".local/share")),
        EnvChange::set("XDG_STATE_HOME", beneath(".local/state")),
        EnvChange::remove("XDG_RUNTIME_DIR"),
    ];
    changes.push(EnvChange::set("PATH", search_path(path, shown).into_vec()));
    changes
}

/// This process's search path without what a sandbox does not see, and the usual directories.
fn search_path(path: Option<&OsStr>, shown: &[Shown]) -> OsString {
    let mut directories: Vec<PathBuf> = Vec::new();
    let own = path.map(std::env::split_paths).into_iter().flatten();
    let own = own.filter(|directory| is_searched(directory, shown));
    for directory in own.chain(USUAL_PATH.iter().map(PathBuf::from)) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    // They were split from such a text, or have no separator.
    std::env::join_paths(directories).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The variables that come of it.
    fn variables(asked: &EnvPolicy, own: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = own.iter().map(|(name, value)| (name.into(), value.into()));
        let policy = policy(asked, own, &[]);
        assert_eq!(policy.inherit, Some(EnvInherit::Nothing));
        let mut variables = BTreeMap::new();
        for change in policy.changes {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("these are UTF-8");
            match change.value {
                Some(value) => drop(variables.insert(text(change.name), text(value))),
                None => drop(variables.remove(&text(change.name))),
            }
        }
        variables
    }

    const OWN_ENVIRONMENT: [(&str, &str); 7] = [
        ("HOME", "/root"),
        ("PATH", "/root/.cargo/bin:/usr/bin:bin:/nix/p/bin"),
        ("SPP_HOST", "1"),
        ("LC_TIME", "de_DE.UTF-8"),
        ("TOKEN", "secret"),
        ("TZ", "Europe/Berlin"),
        ("XDG_RUNTIME_DIR", "/run/user/0"),
    ];

    #[test]
    fn nothing_but_language_time_and_terminal_is_inherited_unasked() {
        let variables = variables(&EnvPolicy::default(), &OWN_ENVIRONMENT);
        assert_eq!(variables["LC_TIME"], "de_DE.UTF-8");
        assert_eq!(variables["TZ"], "Europe/Berlin");
        assert_eq!(variables["HOME"], HOME);
        assert!(variables["PATH"].starts_with("/usr/bin:/nix/p/bin:/run/current-system"));
        assert!(!variables["PATH"].contains(".cargo"));
        for absent in ["TOKEN", "SPP_HOST", "XDG_RUNTIME_DIR"] {
            assert!(!variables.contains_key(absent), "{absent}");
        }
    }

    #[test]
    fn all_is_all_but_what_the_place_needs_and_a_name_is_what_it_says() {
        let inherit = |inherit| EnvPolicy {
            inherit: Some(inherit),
            changes: Vec::new(),
        };
        let all = variables(&inherit(EnvInherit::All), &OWN_ENVIRONMENT);
        assert_eq!((&*all["TOKEN"], &*all["HOME"]), ("secret", HOME));
        assert!(!all.contains_key("SPP_HOST") && !all.contains_key("XDG_RUNTIME_DIR"));
        let named = inherit(EnvInherit::Names(vec!["HOME".into(), "SPP_HOST".into()]));
        let named = variables(&named, &OWN_ENVIRONMENT);
        assert_eq!(named["HOME"], "/root");
        assert!(!named.contains_key("TOKEN") && !named.contains_key("SPP_HOST"));
        let nothing = variables(&inherit(EnvInherit::Nothing), &OWN_ENVIRONMENT);
        assert!(!nothing.contains_key("TZ") && nothing.contains_key("PATH"));
    }

    #[test]
    fn the_policys_changes_come_last() {
        let asked = EnvPolicy {
            inherit: None,
            changes: vec![
                EnvChange::set("HOME", "/elsewhere"),
                EnvChange::remove("PATH"),
            ],
        };
        let variables = variables(&asked, &OWN_ENVIRONMENT);
        assert_eq!(variables["HOME"], "/elsewhere");
        assert!(!variables.contains_key("PATH"));
    }
}

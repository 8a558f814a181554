//! Takes out of the environment what `cargo run` and rustup put into it.
//!
//! `cargo spp run -- cargo test` must do what `spp run -- cargo test` does. But between the two
//! stand rustup's proxy and `cargo run`, which describe *our* package, *our* toolchain and *our*
//! library directories in variables that the command would take for its own. What the person set
//! themselves (`CARGO_HOME`, `CARGO_TARGET_DIR`, `RUSTFLAGS`, ...) stays.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that cargo sets for what it runs. `CARGO_PKG_*` and `CARGO_BIN_EXE_*` are families.
const BY_CARGO: [&str; 8] = [
    "CARGO",
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_MANIFEST_PATH",
    "CARGO_PRIMARY_PACKAGE",
    "OUT_DIR",
];
const FAMILIES_BY_CARGO: [&str; 2] = ["CARGO_PKG_", "CARGO_BIN_EXE_"];

/// Where the loader of this platform is told to search first, which cargo prepends to.
const LIBRARY_PATH: &str = if cfg!(target_os = "macos") {
    "DYLD_FALLBACK_LIBRARY_PATH"
} else {
    "LD_LIBRARY_PATH"
};

/// `given`, as it was before rustup and `cargo run` added to it.
///
/// - `task`: the executable that cargo ran, beside which it looks for libraries.
pub(crate) fn without_cargos_own(
    given: impl IntoIterator<Item = (OsString, OsString)>,
    task: &Path,
) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<OsString, OsString> = given.into_iter().collect();
    let added = library_directories(all.get(OsStr::new("CARGO")).map(Path::new), task);

    all.retain(|name, _| {
        let name = name.to_string_lossy();
        !BY_CARGO.contains(&&*name) && !FAMILIES_BY_CARGO.iter().any(|it| name.starts_with(it))
    });

    if let Some(path) = all.remove(OsStr::new(LIBRARY_PATH)) {
        // Cargo puts its own in front; the person's begin with the first that is not cargo's.
        let kept: Vec<PathBuf> = std::env::split_paths(&path)
            .skip_while(|directory| added.iter().any(|it| directory.starts_with(it)))
            .collect();
        if !kept.is_empty() {
            let joined = std::env::join_paths(kept).expect("the parts were split from a path");
            all.insert(LIBRARY_PATH.into(), joined);
        }
    }

    // The proxy counts itself, and pins the toolchain it chose; `env` says the person chose it.
    if all.remove(OsStr::new("RUST_RECURSION_COUNT")).is_some() {
        let chosen_by = all.remove(OsStr::new("RUSTUP_TOOLCHAIN_SOURCE"));
        if chosen_by.as_deref() != Some(OsStr::new("env")) {
            all.remove(OsStr::new("RUSTUP_TOOLCHAIN"));
        }
    }
    all
}

/// The directories under which everything lies that cargo adds to the library path: where it
/// builds to, and its toolchain's libraries.
fn library_directories(cargo: Option<&Path>, task: &Path) -> Vec<PathBuf> {
    let built = task.parent().map(Path::to_owned);
    let toolchain = cargo
        .and_then(Path::parent)
        .and_then(Path::parent)
        .map(|toolchain| toolchain.join("lib"));
    built.into_iter().chain(toolchain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "/tree/target/x86_64-unknown-linux-gnu/debug/xtask";
    const CARGO: &str = "/home/me/.rustup/toolchains/stable/bin/cargo";

    fn check(given: &[(&str, &str)], expected: &[(&str, &str)]) {
        let own = |pairs: &[(&str, &str)]| -> BTreeMap<OsString, OsString> {
            pairs
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        };
        let left = without_cargos_own(own(given), Path::new(TASK));
        assert_eq!(left, own(expected));
    }

    #[test]
    fn what_describes_our_package_goes_and_what_the_person_set_stays() {
        check(
            &[
                ("CARGO", CARGO),
                ("CARGO_MANIFEST_DIR", "/tree/xtask"),
                ("CARGO_PKG_NAME", "xtask"),
                ("CARGO_HOME", "/home/me/.cargo"),
                ("CARGO_TARGET_DIR", "/fast"),
                ("RUSTFLAGS", "-Cdebuginfo=0"),
                ("HOME", "/home/me"),
            ],
            &[
                ("CARGO_HOME", "/home/me/.cargo"),
                ("CARGO_TARGET_DIR", "/fast"),
                ("RUSTFLAGS", "-Cdebuginfo=0"),
                ("HOME", "/home/me"),
            ],
        );
    }

    #[test]
    fn a_library_path_that_only_cargo_made_disappears() {
        let path = format!(
            "/tree/target/x86_64-unknown-linux-gnu/debug:{}",
            "/home/me/.rustup/toolchains/stable/lib"
        );
        check(&[("CARGO", CARGO), (LIBRARY_PATH, &path)], &[]);
    }

    #[test]
    fn library_directories_of_the_person_survive_behind_cargos() {
        let path = "/tree/target/x86_64-unknown-linux-gnu/debug/deps:/opt/lib:/opt/more";
        check(
            &[("CARGO", CARGO), (LIBRARY_PATH, path)],
            &[(LIBRARY_PATH, "/opt/lib:/opt/more")],
        );
    }

    #[test]
    fn a_toolchain_that_rustup_pinned_is_free_again() {
        let pinned = [
            ("RUST_RECURSION_COUNT", "1"),
            ("RUSTUP_TOOLCHAIN", "stable"),
            ("RUSTUP_TOOLCHAIN_SOURCE", "default"),
        ];
        check(&pinned, &[]);
    }

    #[test]
    fn a_toolchain_that_the_person_exported_stays() {
        let exported = [
            ("RUST_RECURSION_COUNT", "1"),
            ("RUSTUP_TOOLCHAIN", "nightly"),
            ("RUSTUP_TOOLCHAIN_SOURCE", "env"),
        ];
        check(&exported, &[("RUSTUP_TOOLCHAIN", "nightly")]);
        check(
            &[("RUSTUP_TOOLCHAIN", "nightly")],
            &[("RUSTUP_TOOLCHAIN", "nightly")],
        );
    }
}

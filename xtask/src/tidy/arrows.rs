//! Which of our crates may depend on which.
//!
//! The table is the architecture: what is not in it is forbidden, and a crate that is not in it
//! cannot be added unnoticed. Forbidden are above all host -> engine (the default location would be
//! privileged over others'), engine -> protocol (verbs would know their wire form) and provider ->
//! provider (what two share goes into a crate). Dev-dependencies are exempt: tests may see all.

use super::Problem;
use super::tree::Tree;
use crate::workspace::Package;

const CORE: &str = "sandbox-core";
const PROTOCOL: &str = "spp-protocol";
const LINK: &str = "spp-link";
const CLIENT: &str = "spp-client";
const SERVER: &str = "spp-server";
const ENGINE: &str = "sandbox-engine";
const CGROUP: &str = "sandbox-cgroup";
const GUARD: &str = "sandbox-guard";
const TREE: &str = "sandbox-tree";
const HOST: &str = "sandbox-host";
const CONFORMANCE: &str = "sandbox-conformance";

/// A crate, and those of ours that it may depend on.
const ARROWS: [(&str, &[&str]); 18] = [
    (CORE, &[]),
    ("xtask", &[]),
    (PROTOCOL, &[CORE]),
    (CGROUP, &[]),
    (GUARD, &[]),
    (TREE, &[CORE]),
    (ENGINE, &[CORE, CGROUP, GUARD, TREE]),
    (LINK, &[CORE, PROTOCOL]),
    (CLIENT, &[CORE, PROTOCOL, LINK]),
    (SERVER, &[CORE, PROTOCOL, LINK]),
    ("spp-engine", &[CORE, ENGINE, SERVER]),
    ("spp-provider-local", &[CORE, ENGINE, SERVER]),
    (HOST, &[CORE, PROTOCOL, CLIENT, TREE]),
    // The server is for its provider that lies, which must speak below what the client sends.
    (CONFORMANCE, &[CORE, PROTOCOL, CLIENT, HOST, SERVER]),
    // It runs a hostile program the way that an embedder runs commands.
    ("sandbox-escape", &[CORE, CGROUP, HOST]),
    ("spp-cli", &[CORE, HOST, SERVER, CONFORMANCE, TREE]),
    // It fuzzes what reads the bytes of others.
    ("spp-fuzz", &[CORE, PROTOCOL, LINK, HOST, TREE]),
    // It measures what an embedder gets, so it may use what an embedder uses.
    ("spp-bench", &[CORE, HOST, TREE]),
];

/// What every provider may depend on that has no row of its own: it is a client of the engine that
/// it placed, and serves the host. What limits a place as a whole has to be made outside of it, where its
/// provider is; and what a provider keeps on a disk it copies and removes as others do.
const PROVIDERS: (&str, &[&str]) = ("providers", &[CORE, CGROUP, CLIENT, SERVER, TREE]);

/// Reports every forbidden arrow, and every crate that the table does not know.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let ours = &tree.workspace.packages;
    let mut problems = Vec::new();
    for package in ours {
        let manifest = tree.manifest_of(package);
        let in_table = ARROWS.iter().find(|(name, _)| *name == package.name);
        let allowed = match in_table {
            Some((_, allowed)) => *allowed,
            None if manifest.starts_with(PROVIDERS.0) => PROVIDERS.1,
            None => {
                problems.push(Problem::new(
                    manifest,
                    format!("the crate `{}` is not in the table of arrows", package.name),
                    "decide what it may depend on and add its row to xtask/src/tidy/arrows.rs",
                ));
                continue;
            }
        };
        for arrow in arrows_of(package, ours) {
            if !allowed.contains(&arrow) {
                problems.push(Problem::new(
                    &manifest,
                    format!("`{}` may not depend on `{arrow}`", package.name),
                    format!("remove the dependency: allowed are {}", listed(allowed)),
                ));
            }
        }
    }
    problems
}

/// The crates of ours that `package` depends on, tests apart.
fn arrows_of<'all>(
    package: &'all Package,
    ours: &'all [Package],
) -> impl Iterator<Item = &'all str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
        .map(|dependency| dependency.name.as_str())
        .filter(|name| ours.iter().any(|it| it.name == *name))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "none of ours".into()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\nversion = \"1.2.3\"\nedition = \"2024\"\n{rest}")
    }

    #[test]
    fn an_arrow_against_the_table_is_reported_with_what_is_allowed() {
        Planted::tidy()
            .file(
                "crates/protocol/Cargo.toml",
                &manifest(
                    "spp-protocol",
                    "[dependencies]\nengine = { package = \"sandbox-engine\", path = \"../engine\" }\n",
                ),
            )
            .file("crates/protocol/src/lib.rs", "//! The wire.\n")
            .expect_one(&[
                "crates/protocol/Cargo.toml",
                "`spp-protocol` may not depend on `sandbox-engine`",
                "allowed are sandbox-core",
                "[arrows]",
            ]);
    }

    #[test]
    fn a_build_dependency_is_an_arrow_too() {
        Planted::tidy()
            .append(
                "crates/core/Cargo.toml",
                "[build-dependencies]\nspp-protocol = { path = \"../protocol\" }\n",
            )
            .file("crates/protocol/Cargo.toml", &manifest("spp-protocol", ""))
            .file("crates/protocol/src/lib.rs", "//! The wire.\n")
            .expect_one(&["crates/core/Cargo.toml", "none of ours", "[arrows]"]);
    }

    #[test]
    fn tests_may_depend_on_anything() {
        Planted::tidy()
            .append(
                "crates/core/Cargo.toml",
                "[dev-dependencies]\nsandbox-engine = { path = \"../engine\" }\n",
            )
            .expect_tidy();
    }

    #[test]
    fn a_crate_without_a_row_is_reported() {
        Planted::tidy()
            .file("crates/new/Cargo.toml", &manifest("sandbox-new", ""))
            .file("crates/new/src/lib.rs", "//! New.\n")
            .expect_one(&[
                "crates/new/Cargo.toml",
                "`sandbox-new`",
                "add its row",
                "[arrows]",
            ]);
    }

    #[test]
    fn any_provider_may_place_an_engine_but_not_be_one() {
        let workspace = Planted::tidy().file(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\", \"providers/*\"]\n\
             [workspace.package]\nversion = \"1.2.3\"\n",
        );
        let workspace = workspace
            .file(
                "providers/far/Cargo.toml",
                &manifest("spp-provider-far", ""),
            )
            .file("providers/far/src/lib.rs", "//! Far away.\n");
        workspace.expect_tidy();
        workspace
            .append(
                "providers/far/Cargo.toml",
                "[dependencies]\nsandbox-engine = { path = \"../../crates/engine\" }\n",
            )
            .expect_one(&["providers/far/Cargo.toml", "`sandbox-engine`", "[arrows]"]);
    }
}

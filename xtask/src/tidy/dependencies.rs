//! Every dependency has its reason in ARCHITECTURE.md.
//!
//! That a reason is good only a reader can judge; that the dependency is named, in backticks, can
//! be checked. Ours, which have a path, need none.

use super::Problem;
use super::tree::Tree;

const FILE: &str = "ARCHITECTURE.md";
const MANIFEST: &str = "Cargo.toml";

/// Reports each external dependency of the workspace that ARCHITECTURE.md does not name.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let Some(architecture) = tree.text(FILE) else {
        return vec![Problem::new(
            FILE,
            "there is no such file",
            "write it, with the reason for every dependency",
        )];
    };
    external(tree.text(MANIFEST).unwrap_or_default())
        .into_iter()
        .filter(|name| !architecture.contains(&format!("`{name}`")))
        .map(|name| {
            Problem::new(
                FILE,
                format!("it does not say why the workspace depends on `{name}`"),
                format!("add `{name}`, in backticks, with the reason"),
            )
        })
        .collect()
}

/// The names under `[workspace.dependencies]` that have no path. A manifest that is not TOML has
/// been refused by cargo before.
fn external(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap_or_default();
    let dependencies = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(toml::Value::as_table);
    dependencies
        .into_iter()
        .flatten()
        .filter(|(_, dependency)| dependency.get("path").is_none())
        .map(|(name, _)| name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;

    #[test]
    fn a_dependency_without_a_reason_is_reported() {
        Planted::tidy()
            .append("Cargo.toml", "memchr = { version = \"2\" }\n")
            .append("ARCHITECTURE.md", "memchr is only mentioned\n")
            .expect_one(&[
                "ARCHITECTURE.md",
                "`memchr`",
                "with the reason",
                "[dependencies]",
            ]);
    }

    #[test]
    fn a_crate_of_the_workspace_needs_no_reason() {
        Planted::tidy()
            .append("Cargo.toml", "sandbox-core = { path = \"crates/core\" }\n")
            .expect_tidy();
    }

    #[test]
    fn a_missing_architecture_is_reported() {
        Planted::tidy().without("ARCHITECTURE.md").expect_one(&[
            "ARCHITECTURE.md",
            "write it",
            "[dependencies]",
        ]);
    }
}

//! Every dependency has its reason in ARCHITECTURE.md.
//!
//! That a reason is good only a reader can judge; that the section on dependencies names each, as
//! a whole word, can be checked. Ours, which have a path, need none.

use std::collections::BTreeSet;

use super::Problem;
use super::tree::Tree;

const FILE: &str = "ARCHITECTURE.md";
const SECTION: &str = "## Dependencies";
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
    let named: BTreeSet<&str> = section(architecture)
        .flat_map(|line| line.split(|it: char| !is_part_of_name(it)))
        .collect();
    external(tree.text(MANIFEST).unwrap_or_default())
        .into_iter()
        .filter(|name| !named.contains(name.as_str()))
        .map(|name| {
            Problem::new(
                FILE,
                format!("`{SECTION}` does not say why the workspace depends on `{name}`"),
                format!("add `{name}` there, with the reason"),
            )
        })
        .collect()
}

/// The lines of the section on dependencies, up to the next section.
fn section(architecture: &str) -> impl Iterator<Item = &str> {
    architecture
        .lines()
        .skip_while(|line| line.trim_end() != SECTION)
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
}

fn is_part_of_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '-' | '_')
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
            .append(
                "ARCHITECTURE.md",
                "| memchr-like | another |\n\n## Map\n\nmemchr elsewhere\n",
            )
            .expect_one(&[
                "ARCHITECTURE.md",
                "`memchr`",
                "with the reason",
                "[dependencies]",
            ]);
    }

    #[test]
    fn several_dependencies_may_share_a_reason() {
        Planted::tidy()
            .append("Cargo.toml", "serde = \"1\"\nserde_json = \"1\"\n")
            .append("ARCHITECTURE.md", "| serde, serde_json | the wire |\n")
            .expect_tidy();
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

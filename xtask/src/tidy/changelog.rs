//! The newest section of CHANGELOG.md is about the version that the workspace has.

use super::Problem;
use super::tree::Tree;

const FILE: &str = "CHANGELOG.md";

/// Reports a changelog that is missing, or whose first section names no or another version.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.text(FILE) else {
        return vec![Problem::new(
            FILE,
            "there is no changelog",
            "write one whose first section is about the workspace's version",
        )];
    };
    let heading = text
        .lines()
        .enumerate()
        .find_map(|(at, line)| Some((at + 1, line.strip_prefix("## ")?)));
    let Some((line, heading)) = heading else {
        return vec![Problem::new(
            FILE,
            "it has no section",
            "add a heading `## VERSION (unreleased)`",
        )];
    };
    let named = heading.split_whitespace().next().unwrap_or_default();
    tree.workspace
        .packages
        .iter()
        .filter(|package| package.version != named)
        .map(|package| {
            Problem::new(
                FILE,
                format!(
                    "its first section is about `{named}`, but `{}` has the version {}",
                    package.name, package.version
                ),
                "add a section for that version, or inherit the workspace's version",
            )
            .at_line(line)
        })
        .take(1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;

    #[test]
    fn a_changelog_that_is_a_version_behind_is_reported() {
        Planted::tidy()
            .file("CHANGELOG.md", "# Changelog\n\n## 1.2.2\n\n## 1.2.3\n")
            .expect_one(&["CHANGELOG.md:3", "`1.2.2`", "version 1.2.3", "[changelog]"]);
    }

    #[test]
    fn a_missing_or_empty_changelog_is_reported() {
        let workspace = Planted::tidy().file("CHANGELOG.md", "# Changelog\n");
        workspace.expect_one(&["CHANGELOG.md", "no section", "[changelog]"]);
        workspace.without("CHANGELOG.md").expect_one(&[
            "CHANGELOG.md",
            "no changelog",
            "[changelog]",
        ]);
    }
}

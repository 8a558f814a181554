//! `docs/what-holds-here.md` names tests that exist.
//!
//! A page that says which test holds what is worth something for as long as it is so: a test that is renamed or removed
//! takes its rows with it.

use std::collections::BTreeSet;

use super::Problem;
use super::tree::Tree;

const FILE: &str = "docs/what-holds-here.md";
/// Words in code of the last column that begin so are names of tests; shorter ones are anything.
const SHORTEST: usize = 16;

/// Reports each row of the page that names a test nobody has, or nothing that would hold it.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.text(FILE) else {
        return Vec::new();
    };
    let tests = tests(tree);
    let mut problems = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(row) = line
            .strip_prefix("| ")
            .and_then(|row| row.strip_suffix(" |"))
        else {
            continue;
        };
        let held_by = row.rsplit(" | ").next().unwrap_or_default();
        if matches!(held_by, "held by" | "---") {
            continue;
        }
        let names: Vec<_> = held_by.split('`').skip(1).step_by(2).collect();
        let missing = names
            .iter()
            .filter(|name| name.len() >= SHORTEST && !tests.contains(**name));
        problems.extend(missing.map(|name| {
            Problem::new(
                FILE,
                format!("there is no test `{name}`"),
                "name the test that holds it now, or write one",
            )
            .at_line(at + 1)
        }));
        if names.is_empty() && !held_by.contains("](") {
            problems.push(
                Problem::new(
                    FILE,
                    "nothing holds this row",
                    "name a test, or the record that says why it is not offered",
                )
                .at_line(at + 1),
            );
        }
    }
    problems
}

/// The names of all tests.
fn tests(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for (path, text) in &tree.files {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
                is_test = true;
            }
            let rest = line.strip_prefix("async ").unwrap_or(line);
            if let Some(rest) = rest.strip_prefix("fn ")
                && std::mem::take(&mut is_test)
            {
                names.extend(rest.split('(').next());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;

    const ROWS: &str = "| the point | here | held by |\n| --- | --- | --- |\n";

    fn page(row: &str) -> Planted {
        Planted::tidy().file(
            "docs/what-holds-here.md",
            &format!("# Page\n\n{ROWS}{row}\n"),
        )
    }

    #[test]
    fn a_test_that_is_not_there_and_a_row_that_nothing_holds_are_reported() {
        page("| a | b | `this_is_held_by_nobody_at_all` |").expect_one(&[
            "docs/what-holds-here.md:5",
            "`this_is_held_by_nobody_at_all`",
            "[holds]",
        ]);
        page("| a | b | nobody |").expect_one(&["docs/what-holds-here.md:5", "nothing holds"]);
    }

    #[test]
    fn tests_of_either_kind_and_records_hold_a_row() {
        let code = "//! Tests.\n\n#[test]\nfn this_is_held_by_somebody() {}\n\n#[tokio::test]\nasync fn this_is_held_by_somebody_else() {}\n";
        page("| a | b | `this_is_held_by_somebody`, `this_is_held_by_somebody_else` |")
            .file("crates/core/src/lib.rs", code)
            .expect_tidy();
        page("| a | b | [1](decisions/0001-x.md) |").expect_tidy();
    }
}

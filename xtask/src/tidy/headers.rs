//! Every source file starts by saying what it is about.
//!
//! The first line is `//!`. What it should say (the idea, the invariants, what is not here) only a
//! reader can judge; that it is there can be checked.

use std::path::Path;

use super::Problem;
use super::tree::Tree;

/// Reports each `.rs` file under a package's `src` that does not start with `//!`.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let sources: Vec<_> = tree
        .workspace
        .packages
        .iter()
        .map(|package| tree.directory_of(package).join("src"))
        .collect();
    tree.files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|it| it == "rs"))
        .filter(|(path, _)| sources.iter().any(|source| path.starts_with(source)))
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| headless(path))
        .collect()
}

fn headless(path: &Path) -> Problem {
    Problem::new(
        path,
        "the file does not start with a `//!` header",
        "say first what the module is, what holds in it, and what is not in it",
    )
    .at_line(1)
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;

    #[test]
    fn a_module_that_starts_with_code_is_reported() {
        Planted::tidy()
            .file("crates/core/src/lib.rs", "//! The port.\n\nmod inner;\n")
            .file("crates/core/src/inner.rs", "fn f() {}\n")
            .expect_one(&["crates/core/src/inner.rs:1", "say first", "[headers]"]);
    }

    #[test]
    fn a_comment_that_is_no_documentation_is_no_header() {
        Planted::tidy()
            .file("crates/core/src/lib.rs", "// The port.\n")
            .expect_one(&["crates/core/src/lib.rs:1", "[headers]"]);
    }

    #[test]
    fn sources_outside_of_src_are_free() {
        Planted::tidy()
            .file("crates/core/examples/e.rs", "fn main() {}\n")
            .expect_tidy();
    }
}

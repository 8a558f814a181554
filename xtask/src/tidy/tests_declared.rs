//! Every file under a package's `tests/` is compiled, into one executable.
//!
//! A forgotten `mod` line makes tests disappear in silence, so each file must be reachable from a
//! test target by `mod` lines. And each further test executable is one more to link, so a package
//! has at most one.
//!
//! The `mod` lines are found by their text: one line each, `#[path]` on the line before. A `mod`
//! inside an inline module is looked up as if it stood outside.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Problem;
use super::tree::{Tree, relative};
use crate::workspace::Package;

/// Reports every unreachable test file and every package with more than one test executable.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in &tree.workspace.packages {
        let roots: Vec<PathBuf> = package
            .targets
            .iter()
            .filter(|target| target.is("test"))
            .map(|target| relative(&target.src_path, &tree.root).to_owned())
            .collect();
        problems.extend(one_executable(tree, package, &roots));
        problems.extend(forgotten(tree, package, &roots));
    }
    problems
}

fn one_executable(tree: &Tree, package: &Package, roots: &[PathBuf]) -> Option<Problem> {
    (roots.len() > 1).then(|| {
        Problem::new(
            tree.manifest_of(package),
            format!("`{}` has {} test executables", package.name, roots.len()),
            "make the others modules of `tests/it/main.rs`",
        )
    })
}

fn forgotten(tree: &Tree, package: &Package, roots: &[PathBuf]) -> Vec<Problem> {
    let mut reached = BTreeSet::new();
    for root in roots {
        // A root's modules lie beside it, whatever its name.
        let beside = root.parent().unwrap_or(Path::new("")).to_owned();
        reach(tree, root, &beside, &mut reached);
    }
    let tests = tree.directory_of(package).join("tests");
    tree.files
        .keys()
        .filter(|path| path.starts_with(&tests))
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .filter(|path| !reached.contains(*path))
        .map(|path| {
            Problem::new(
                path,
                "no test executable contains this file, so its tests never run",
                "declare it with `mod` in `tests/it/main.rs`, or remove it",
            )
        })
        .collect()
}

/// Adds `file` and everything that its `mod` lines lead to; its modules lie in `directory`.
fn reach(tree: &Tree, file: &Path, directory: &Path, reached: &mut BTreeSet<PathBuf>) {
    let Some(text) = tree.text(file) else { return };
    if !reached.insert(file.to_owned()) {
        return;
    }
    for module in modules(text) {
        let candidates = match &module {
            Module::At(path) => vec![normal(&file.with_file_name("").join(path))],
            Module::Named(name) => vec![
                directory.join(format!("{name}.rs")),
                directory.join(name).join("mod.rs"),
            ],
        };
        for candidate in candidates {
            let inside = if candidate.ends_with("mod.rs") || matches!(module, Module::At(_)) {
                candidate.with_file_name("")
            } else {
                candidate.with_extension("")
            };
            reach(tree, &candidate, &inside, reached);
        }
    }
}

/// Where a `mod` line says its file is.
#[derive(Debug, PartialEq, Eq)]
enum Module<'text> {
    Named(&'text str),
    At(&'text str),
}

fn modules(text: &str) -> Vec<Module<'_>> {
    let mut found = Vec::new();
    let mut path = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(rest) = line.strip_prefix("#[path") {
            path = rest.split('"').nth(1);
        }
        // Whatever stands before (attributes, visibility), a declaration ends in `mod NAME;`.
        let Some(declared) = line.strip_suffix(';') else {
            continue;
        };
        let mut words = declared.split_whitespace().rev();
        let name = words.next().unwrap_or_default();
        if words.next() == Some("mod") {
            found.push(match path.take() {
                Some(path) => Module::At(path),
                None => Module::Named(name.trim_start_matches("r#")),
            });
        }
    }
    found
}

/// `path` with its `..` resolved by text.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;
    use super::{Module, modules};

    const TEST: &str = "#[test]\nfn t() {}\n";

    #[test]
    fn a_test_file_that_nothing_declares_is_reported() {
        Planted::tidy()
            .file("crates/core/tests/it/main.rs", "mod seen;\n")
            .file("crates/core/tests/it/seen.rs", "mod deeper;\n")
            .file("crates/core/tests/it/seen/deeper.rs", TEST)
            .file("crates/core/tests/it/forgotten.rs", TEST)
            .expect_one(&[
                "crates/core/tests/it/forgotten.rs",
                "never run",
                "`mod`",
                "[tests]",
            ]);
    }

    #[test]
    fn a_test_file_without_any_target_is_reported() {
        Planted::tidy()
            .append("crates/core/Cargo.toml", "autotests = false\n")
            .file("crates/core/tests/lonely.rs", TEST)
            .expect_one(&["crates/core/tests/lonely.rs", "[tests]"]);
    }

    #[test]
    fn a_second_test_executable_is_reported() {
        Planted::tidy()
            .file("crates/core/tests/one.rs", TEST)
            .file("crates/core/tests/two.rs", TEST)
            .expect_one(&["crates/core/Cargo.toml", "2 test executables", "[tests]"]);
    }

    #[test]
    fn modules_in_directories_and_at_paths_are_found() {
        Planted::tidy()
            .file(
                "crates/core/tests/it/main.rs",
                "#[path = \"../common/help.rs\"]\nmod help;\nmod inner;\n",
            )
            .file("crates/core/tests/it/inner/mod.rs", "mod deeper;\n")
            .file("crates/core/tests/it/inner/deeper.rs", TEST)
            .file("crates/core/tests/common/help.rs", TEST)
            .expect_tidy();
    }

    #[test]
    fn a_declaration_in_a_comment_declares_nothing() {
        let text =
            "// mod no;\npub(crate) mod yes; // because\nmod inline {}\n#[cfg(x)] mod too;\n";
        assert_eq!(modules(text), [Module::Named("yes"), Module::Named("too")]);
    }
}

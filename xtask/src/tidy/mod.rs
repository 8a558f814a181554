//! `cargo xtask tidy`: what the compiler does not check and a reviewer should not have to.
//!
//! Each rule is a pure function from the [`Tree`] (texts and cargo's view of them, read once) to
//! the problems it sees, in a module of its own. A problem names the file and says what to do.
//! `cargo nextest run -p xtask` applies all of them to this workspace, and to small ones in which
//! each rule's violation is planted.
//!
//! To add a rule: a module with a `check`, a line in [`RULES`], and tests that plant it.
//!
//! Not here: what one crate can check by itself, such as the protocol's document against its code.

mod arrows;
mod changelog;
mod dependencies;
mod format;
mod headers;
mod holds;
mod tests_declared;
mod tree;
mod vendors;
mod workplace;

#[cfg(test)]
mod planted;

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use crate::error::{Failure, Result};
use crate::workspace;
use tree::Tree;

pub(crate) const HELP: &str = "\
Check the rules that hold across the whole workspace.

Usage: cargo xtask tidy [--root DIR]

  --root DIR   the workspace to check; default: this one

Rules: vendors (no vendor's name or SDK in a manifest or the lock file), arrows (which crate may
depend on which), headers (every source file starts with its idea), tests (every test file is
compiled, one test executable a package), changelog (it has the version), dependencies (each has
its reason in ARCHITECTURE.md), holds (the tests that docs/what-holds-here.md names are there),
workplace (no text about where it was written), format (rustfmt).";

/// A rule's name and the rule.
type Rule = (&'static str, fn(&Tree) -> Vec<Problem>);

/// Every rule.
const RULES: [Rule; 9] = [
    ("vendors", vendors::check),
    ("arrows", arrows::check),
    ("headers", headers::check),
    ("tests", tests_declared::check),
    ("changelog", changelog::check),
    ("dependencies", dependencies::check),
    ("holds", holds::check),
    ("workplace", workplace::check),
    ("format", format::check),
];

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where, relative to the root of the workspace.
    file: PathBuf,
    /// The line, from 1, where one is to blame.
    line: Option<usize>,
    /// What is wrong, as a clause.
    what: String,
    /// What to do about it, as an imperative.
    fix: String,
}

impl Problem {
    fn new(file: impl Into<PathBuf>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: None,
            what: what.into(),
            fix: fix.into(),
        }
    }

    fn at_line(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}; {}", self.what, self.fix)
    }
}

/// Checks the workspace at `root`, or this one.
///
/// # Errors
///
/// Names every problem that was found, one a line.
pub(crate) fn run(root: Option<&Path>) -> Result<()> {
    let problems = problems(root.unwrap_or(workspace::root()))?;
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems
        .iter()
        .map(|(rule, problem)| format!("{problem} [{rule}]"))
        .collect();
    Err(Failure::new(format!(
        "the workspace is not tidy ({} found):\n{}",
        problems.len(),
        lines.join("\n")
    )))
}

/// Every problem of the workspace at `root`, with its rule.
fn problems(root: &Path) -> Result<Vec<(&'static str, Problem)>> {
    let tree = Tree::load(root)?;
    let mut problems = Vec::new();
    for (rule, check) in RULES {
        problems.extend(check(&tree).into_iter().map(|problem| (rule, problem)));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_tidy() {
        if let Err(untidy) = run(None) {
            panic!("{untidy}");
        }
    }

    #[test]
    fn a_problem_reads_as_place_cause_and_cure() {
        let problem = Problem::new("a/b.rs", "it has no header", "say what it is").at_line(1);
        assert_eq!(
            problem.to_string(),
            "a/b.rs:1: it has no header; say what it is"
        );
    }
}

//! The text speaks of the project, not of where it was written.
//!
//! A path of somebody's machine, or the name of a note that is not in the tree, tells a reader
//! nothing and cannot be followed. The patterns are kept in halves so that this file has none.

use super::Problem;
use super::tree::Tree;

/// What must not appear, as two halves, and what it would be.
const PATTERNS: [(&str, &str, &str); 13] = [
    ("/wor", "k/", "a path of one machine"),
    ("/tmp/bri", "ef", "a path of one machine"),
    ("bash_", "jobs", "a path of one machine"),
    ("issu", "es show", "a command that readers do not have"),
    ("requirem", "ents.md", "a note that is not in the tree"),
    ("shared/des", "ign.md", "a note that is not in the tree"),
    ("`desi", "gn.md", "a note that is not in the tree"),
    ("escape-su", "ite.md", "a note that is not in the tree"),
    ("repor", "ts.md", "a note that is not in the tree"),
    ("performa", "nce.md", "a note that is not in the tree"),
    ("styl", "e.md", "a note that is not in the tree"),
    ("pee", "rs.md", "a note that is not in the tree"),
    ("secur", "ity.md", "a note that is not in the tree"),
];

/// Reports each line that has such a text.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let patterns = PATTERNS.map(|(start, end, what)| (format!("{start}{end}"), what));
    let mut problems = Vec::new();
    for (path, text) in &tree.files {
        for (at, line) in text.lines().enumerate() {
            for (pattern, what) in &patterns {
                if line.contains(pattern) {
                    let problem = Problem::new(
                        path,
                        format!("`{pattern}` is {what}"),
                        "say it in the project's own terms, or leave it out",
                    );
                    problems.push(problem.at_line(at + 1));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;
    use super::PATTERNS;

    #[test]
    fn each_text_of_a_workplace_is_reported_with_its_line() {
        for (start, end, _) in PATTERNS {
            let text = format!("# Notes\n\nas in {start}{end}\n");
            Planted::tidy().file("docs/notes.md", &text).expect_one(&[
                "docs/notes.md:3",
                "own terms",
                "[workplace]",
            ]);
        }
    }

    #[test]
    fn a_workspace_and_its_documents_are_no_workplace() {
        Planted::tidy()
            .file(
                "docs/notes.md",
                "/workspace/a, docs/protocol.md, SECURITY.md\n",
            )
            .expect_tidy();
    }
}

//! The sources are formatted as rustfmt formats them.
//!
//! The one rule that runs a tool: it looks at the files on disk, not at those that were read.

use super::Problem;
use super::tree::{Tree, relative};
use crate::process;

/// Reports each file that rustfmt would change, or why it cannot tell.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut command = process::cargo();
    command
        .args(["fmt", "--all", "--", "--check", "--files-with-diff"])
        .current_dir(&tree.root);
    let cause = match command.output() {
        Ok(output) => {
            let listed = String::from_utf8_lossy(&output.stdout);
            let problems: Vec<Problem> = listed
                .lines()
                .map(|path| {
                    Problem::new(
                        relative(path.as_ref(), &tree.root),
                        "the file is not formatted",
                        "run `cargo fmt --all`",
                    )
                })
                .collect();
            if output.status.success() || !problems.is_empty() {
                return problems;
            }
            String::from_utf8_lossy(&output.stderr).trim().to_owned()
        }
        Err(cause) => cause.to_string(),
    };
    vec![Problem::new(
        "Cargo.toml",
        format!("`cargo fmt` could not check the sources: {cause}"),
        "make it work",
    )]
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;

    #[test]
    fn a_file_that_rustfmt_would_change_is_reported() {
        Planted::tidy()
            .file("crates/core/src/lib.rs", "//! The port.\nfn  f( ){}\n")
            .expect_one(&["crates/core/src/lib.rs: ", "cargo fmt --all", "[format]"]);
    }

    #[test]
    fn sources_that_rustfmt_cannot_read_are_reported_with_its_words() {
        Planted::tidy()
            .file("crates/core/src/lib.rs", "//! The port.\nfn fn\n")
            .expect_one(&["could not check", "expected identifier", "[format]"]);
    }
}

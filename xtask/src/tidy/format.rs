//! The sources are formatted as rustfmt formats them.

use super::Problem;
use super::tree::{Tree, relative};
use crate::error::{Context as _, Failure, Result};
use crate::process;

/// Reports each file that rustfmt would change.
///
/// # Errors
///
/// When rustfmt cannot be run or understands a source no better than the compiler would.
pub(crate) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let mut command = process::cargo();
    command
        .args(["fmt", "--all", "--", "--check", "--files-with-diff"])
        .current_dir(&tree.root);
    let output = command
        .output()
        .context(|| format!("start `{}`", process::shown(&command)))?;
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
    if problems.is_empty() && !output.status.success() {
        return Err(Failure::new(format!(
            "`{}` failed ({}): {}",
            process::shown(&command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    Ok(problems)
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
    fn a_source_that_is_no_rust_fails_with_its_cause() {
        let planted = Planted::tidy().file("crates/core/src/lib.rs", "//! The port.\nfn fn\n");
        let failure = super::check(&planted.tree())
            .expect_err("a source that does not parse was found formatted")
            .to_string();
        assert!(failure.contains("expected identifier"), "{failure}");
    }
}

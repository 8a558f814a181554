//! Small real workspaces on disk in which the rules' tests plant violations.
//!
//! [`Planted::tidy`] breaks no rule, which the test below holds; a test adds one file that does.

use std::fs;
use std::path::Path;

use super::tree::Tree;

/// A workspace in a temporary directory, gone when dropped.
pub(crate) struct Planted {
    directory: tempfile::TempDir,
}

impl Planted {
    /// A workspace of two packages, `sandbox-core` and `sandbox-engine`, that breaks no rule.
    pub(crate) fn tidy() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let package = |name: &str, rest: &str| {
            format!(
                "[package]\nname = \"{name}\"\nversion.workspace = true\nedition = \"2024\"\n{rest}"
            )
        };
        Self { directory }
            .file(
                "Cargo.toml",
                "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\
                 [workspace.package]\nversion = \"1.2.3\"\n\
                 [workspace.dependencies]\nbytes = \"1\"\n",
            )
            .file("Cargo.lock", "version = 4\n")
            .file("CHANGELOG.md", "# Changelog\n\n## 1.2.3 (unreleased)\n")
            .file(
                "ARCHITECTURE.md",
                "# Map\n\n## Dependencies\n\n| bytes | buffers |\n",
            )
            .file("crates/core/Cargo.toml", &package("sandbox-core", ""))
            .file("crates/core/src/lib.rs", "//! The port.\n")
            .file(
                "crates/engine/Cargo.toml",
                &package(
                    "sandbox-engine",
                    "[dependencies]\nsandbox-core = { path = \"../core\" }\n",
                ),
            )
            .file("crates/engine/src/lib.rs", "//! The verbs.\n")
    }

    /// Writes a file, replacing what is there.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.bytes(path, text.as_bytes())
    }

    /// Writes a file that need not be text.
    pub(crate) fn bytes(self, path: &str, bytes: &[u8]) -> Self {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .expect("the directory is writable");
        fs::write(path, bytes).expect("the directory is writable");
        self
    }

    /// Appends to a file that is there.
    pub(crate) fn append(self, path: &str, text: &str) -> Self {
        let old = fs::read_to_string(self.root().join(path)).expect("the file is there");
        self.file(path, &format!("{old}{text}"))
    }

    /// Takes a file away.
    pub(crate) fn without(self, path: &str) -> Self {
        fs::remove_file(self.root().join(path)).expect("the file is there");
        self
    }

    /// The root directory.
    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    /// The workspace as the rules see it.
    pub(crate) fn tree(&self) -> Tree {
        Tree::load(self.root()).expect("the planted workspace is one for cargo")
    }

    /// Every problem that the whole of tidy reports, as text: `FILE: WHAT; FIX [RULE]`.
    pub(crate) fn report(&self) -> Vec<String> {
        super::problems(self.root())
            .expect("the planted workspace can be checked")
            .into_iter()
            .map(|(rule, problem)| format!("{problem} [{rule}]"))
            .collect()
    }

    /// Expects one problem, with the texts in it.
    #[track_caller]
    pub(crate) fn expect_one(&self, parts: &[&str]) {
        let report = self.report();
        assert_eq!(report.len(), 1, "{report:#?}");
        for part in parts {
            assert!(
                report[0].contains(part),
                "{part:?} is not in {:?}",
                report[0]
            );
        }
    }

    /// Expects no problem.
    #[track_caller]
    pub(crate) fn expect_tidy(&self) {
        let report = self.report();
        assert!(report.is_empty(), "{report:#?}");
    }
}

#[test]
fn a_workspace_with_nothing_planted_is_tidy() {
    Planted::tidy().expect_tidy();
}

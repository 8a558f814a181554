//! The workspace as the rules see it: every text file, and cargo's description.
//!
//! Read once, so that all rules judge the same state. Left out are what git and cargo keep for
//! themselves (`.git`, and directories that cargo or another tool tagged as a cache), links, and
//! files that are not UTF-8.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Result};
use crate::workspace::{Package, Workspace};

/// Cache directories say so in a file of this name.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// A workspace, read.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Its root directory, absolute.
    pub(crate) root: PathBuf,
    /// Every text file, by its path relative to the root.
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// What cargo says about it.
    pub(crate) workspace: Workspace,
}

impl Tree {
    /// Reads the workspace at `root`.
    ///
    /// # Errors
    ///
    /// When a directory or file cannot be read, or cargo rejects a manifest.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let root = root
            .canonicalize()
            .context(|| format!("find the workspace {}", root.display()))?;
        let workspace = Workspace::load(&root)?;
        let mut files = BTreeMap::new();
        let mut directories = vec![root.clone()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(&directory)
                .context(|| format!("list the directory {}", directory.display()))?;
            for entry in entries {
                let entry =
                    entry.context(|| format!("list the directory {}", directory.display()))?;
                let path = entry.path();
                let kind = entry
                    .file_type()
                    .context(|| format!("inspect {}", path.display()))?;
                // In a linked worktree it is a file that names a directory of the machine.
                if entry.file_name() == ".git" {
                    continue;
                }
                if kind.is_dir() {
                    if !path.join(CACHE_TAG).exists() {
                        directories.push(path);
                    }
                } else if kind.is_file() {
                    let bytes = fs::read(&path).context(|| format!("read {}", path.display()))?;
                    if let Ok(text) = String::from_utf8(bytes) {
                        files.insert(relative(&path, &root).to_owned(), text);
                    }
                }
            }
        }
        Ok(Self {
            root,
            files,
            workspace,
        })
    }

    /// The text of the file at `path`, relative to the root.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<&str> {
        self.files.get(path.as_ref()).map(String::as_str)
    }

    /// The manifest of `package`, relative to the root.
    pub(crate) fn manifest_of(&self, package: &Package) -> PathBuf {
        relative(&package.manifest_path, &self.root).to_owned()
    }

    /// The directory of `package`, relative to the root.
    pub(crate) fn directory_of(&self, package: &Package) -> PathBuf {
        relative(package.directory(), &self.root).to_owned()
    }
}

/// `path` as seen from `root`, or as it is when it lies elsewhere.
pub(crate) fn relative<'path>(path: &'path Path, root: &Path) -> &'path Path {
    path.strip_prefix(root).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use crate::tidy::planted::Planted;

    #[test]
    fn texts_are_read_and_caches_and_binaries_are_left_out() {
        let planted = Planted::tidy()
            .file("docs/a.md", "text")
            .file("target/CACHEDIR.TAG", "Signature")
            .file("target/built.rs", "not ours")
            .bytes("image.bin", &[0xff, 0xfe]);
        let tree = planted.tree();
        assert_eq!(tree.text("docs/a.md"), Some("text"));
        assert_eq!(tree.text("target/built.rs"), None);
        assert_eq!(tree.text("image.bin"), None);
    }
}

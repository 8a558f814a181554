//! The workspace as cargo describes it: packages, their targets and their declared dependencies.
//!
//! Read from `cargo metadata --no-deps`, which needs no network and resolves nothing. Only the
//! members that some task uses are here.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Context as _, Result};
use crate::process;

/// What cargo says about a workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    /// The members.
    pub(crate) packages: Vec<Package>,
    /// Where cargo puts what it builds.
    pub(crate) target_directory: PathBuf,
    /// The directory of the root manifest.
    pub(crate) workspace_root: PathBuf,
}

/// A member of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    /// Its name, as dependents write it.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Its `Cargo.toml`, absolute.
    pub(crate) manifest_path: PathBuf,
    /// What it declares to depend on, of every kind.
    pub(crate) dependencies: Vec<Dependency>,
    /// What cargo builds from it.
    pub(crate) targets: Vec<Target>,
    #[serde(default)]
    metadata: Option<Extra>,
}

/// A declared dependency.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The name of the package depended on, whatever it is renamed to.
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// Something cargo builds from a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    /// Its name: for a `bin`, that of the executable.
    pub(crate) name: String,
    /// What it is: `lib`, `bin`, `test`, ...
    pub(crate) kind: Vec<String>,
    /// Its root source file, absolute.
    pub(crate) src_path: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
struct Extra {
    #[serde(default)]
    xtask: Own,
}

/// `[package.metadata.xtask]` of a manifest.
#[derive(Debug, Default, Deserialize)]
struct Own {
    #[serde(default)]
    internal: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace at `root`.
    ///
    /// # Errors
    ///
    /// When cargo cannot be run or a manifest is broken.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let json = process::capture(
            process::cargo()
                .args(["metadata", "--no-deps", "--format-version", "1"])
                .current_dir(root),
        )?;
        serde_json::from_slice(&json).context(|| "understand what `cargo metadata` printed".into())
    }

    /// The executables that a person gets, as (package, executable): every `bin` except those
    /// that the package lists as `internal` under `[package.metadata.xtask]`.
    pub(crate) fn shipped(&self) -> Vec<(&str, &str)> {
        let mut shipped = Vec::new();
        for package in &self.packages {
            for target in &package.targets {
                if target.is("bin") && !package.internal().contains(&target.name) {
                    shipped.push((package.name.as_str(), target.name.as_str()));
                }
            }
        }
        shipped
    }
}

impl Package {
    /// The directory of its manifest, absolute.
    pub(crate) fn directory(&self) -> &Path {
        self.manifest_path
            .parent()
            .expect("cargo reports manifests by absolute path")
    }

    fn internal(&self) -> &[String] {
        self.metadata
            .as_ref()
            .map_or(&[], |extra| &extra.xtask.internal)
    }
}

impl Target {
    /// Whether this is a `kind` of target.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|it| it == kind)
    }
}

/// The root of the workspace that this task was built from.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a directory of the workspace")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new executable lands on everybody's PATH only when somebody decided so here.
    const SHIPPED: [&str; 7] = [
        "spp",
        "spp-conformance",
        "spp-engine",
        "spp-provider-bubblewrap",
        "spp-provider-docker",
        "spp-provider-local",
        "spp-provider-ssh",
    ];

    #[test]
    fn only_executables_that_were_meant_for_it_are_given_to_people() {
        let workspace = Workspace::load(root()).expect("cargo describes this workspace");
        let shipped = workspace.shipped();
        assert!(shipped.contains(&("spp-cli", "spp")), "{shipped:?}");
        for (package, executable) in shipped {
            assert!(
                SHIPPED.contains(&executable),
                "`{executable}` would be installed: list it here, or as `internal` under \
                 [package.metadata.xtask] in the manifest of `{package}`"
            );
        }
    }
}

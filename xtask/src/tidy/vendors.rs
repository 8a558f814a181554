//! No vendor's name or SDK in a manifest or in the lock file.
//!
//! A vendor is reached through a provider executable of anybody's, so nothing here ever links to a
//! vendor's library. The manifests are searched whole (dependencies under any name, sources,
//! features, keywords), the lock file for what came in through others. The names are data, in
//! `vendors.txt`.

use std::path::Path;

use super::Problem;
use super::tree::Tree;

/// The denied names, in the form that their own header explains.
const NAMES: &str = include_str!("vendors.txt");

/// Reports every denied name in a `Cargo.toml` or the `Cargo.lock`.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let denied = DenyList::parse(NAMES);
    let mut problems = Vec::new();
    for (path, text) in &tree.files {
        let found = match path.file_name().and_then(|name| name.to_str()) {
            Some("Cargo.toml") => in_manifest(path, text, &denied),
            Some("Cargo.lock") => in_lock(path, text, &denied),
            _ => continue,
        };
        problems.extend(found);
    }
    problems
}

fn in_manifest(path: &Path, text: &str, denied: &DenyList<'_>) -> Vec<Problem> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(cause) => return vec![not_toml(path, &cause)],
    };
    let mut names = Vec::new();
    collect(&toml::Value::Table(manifest), &mut names);
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| Some((denied.matching(&name)?.to_owned(), name)))
        .map(|(rule, name)| {
            Problem::new(
                path,
                format!("`{name}` names a vendor (`{rule}`)"),
                "leave it to a provider outside of this workspace",
            )
        })
        .collect()
}

fn in_lock(path: &Path, text: &str, denied: &DenyList<'_>) -> Vec<Problem> {
    let lock: toml::Table = match text.parse() {
        Ok(lock) => lock,
        Err(cause) => return vec![not_toml(path, &cause)],
    };
    let packages = lock.get("package").and_then(toml::Value::as_array);
    packages
        .into_iter()
        .flatten()
        .filter_map(|package| package.get("name")?.as_str())
        .filter_map(|name| Some((name, denied.matching(name)?)))
        .map(|(name, rule)| {
            Problem::new(
                path,
                format!("the resolved package `{name}` is a vendor's (`{rule}`)"),
                format!("find who brings it in with `cargo tree -i {name}` and do without"),
            )
        })
        .collect()
}

fn not_toml(path: &Path, cause: &toml::de::Error) -> Problem {
    Problem::new(
        path,
        format!("it is not TOML ({})", cause.message()),
        "correct it",
    )
}

/// Every key and every string of `value`.
fn collect(value: &toml::Value, names: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => names.push(text.clone()),
        toml::Value::Array(values) => values.iter().for_each(|it| collect(it, names)),
        toml::Value::Table(table) => {
            for (key, value) in table {
                names.push(key.clone());
                collect(value, names);
            }
        }
        _ => {}
    }
}

/// The denied names, parsed.
#[derive(Debug, Default)]
struct DenyList<'text> {
    anywhere: Vec<&'text str>,
    whole: Vec<&'text str>,
    allowed: Vec<&'text str>,
}

impl<'text> DenyList<'text> {
    fn parse(text: &'text str) -> Self {
        let mut list = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('=') {
                list.whole.push(name);
            } else if let Some(name) = line.strip_prefix('!') {
                list.allowed.push(name);
            } else {
                list.anywhere.push(line);
            }
        }
        list
    }

    /// The line that denies `name`, if one does.
    fn matching(&self, name: &str) -> Option<&'text str> {
        let name = name.to_lowercase();
        let is = |it: &&&str| words(it).eq(words(&name));
        if self.allowed.iter().any(|it| is(&it)) {
            return None;
        }
        let anywhere = self.anywhere.iter().find(|it| contains(&name, it));
        anywhere.or_else(|| self.whole.iter().find(is)).copied()
    }
}

/// The words of a name or text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// Whether the words of `part` stand in `text` one after the other.
fn contains(text: &str, part: &str) -> bool {
    let text: Vec<&str> = words(text).collect();
    let part: Vec<&str> = words(part).collect();
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::super::planted::Planted;
    use super::{DenyList, NAMES};

    #[test]
    fn a_vendors_sdk_is_reported_in_every_kind_of_dependency() {
        for table in [
            "[dependencies]\naws-sdk-s3 = \"1\"\n",
            "[dev-dependencies]\nkube = \"1\"\n",
            "[build-dependencies]\nazure_core = \"1\"\n",
            "[target.'cfg(unix)'.dependencies]\nbollard = \"1\"\n",
            "[dependencies]\ninnocent = { package = \"async-openai\", version = \"1\" }\n",
            "[dependencies]\ninnocent = { git = \"https://example.org/daytona/sdk\" }\n",
        ] {
            Planted::tidy()
                .append("crates/core/Cargo.toml", table)
                .expect_one(&[
                    "crates/core/Cargo.toml",
                    "names a vendor",
                    "leave it",
                    "[vendors]",
                ]);
        }
    }

    #[test]
    fn a_feature_or_a_workspace_dependency_counts_too() {
        Planted::tidy()
            .append("crates/core/Cargo.toml", "[features]\ne2b = []\n")
            .expect_one(&["crates/core/Cargo.toml", "`e2b`", "[vendors]"]);
        Planted::tidy()
            .append("Cargo.toml", "google-cloud-storage = \"1\"\n")
            .append("ARCHITECTURE.md", "- `google-cloud-storage`\n")
            .expect_one(&["Cargo.toml", "`google-cloud-storage`", "[vendors]"]);
    }

    #[test]
    fn a_vendors_sdk_that_came_in_through_others_is_found_in_the_lock() {
        Planted::tidy()
            .append(
                "Cargo.lock",
                "[[package]]\nname = \"k8s-openapi\"\nversion = \"1.0.0\"\n",
            )
            .expect_one(&[
                "Cargo.lock",
                "`k8s-openapi`",
                "cargo tree -i k8s-openapi",
                "[vendors]",
            ]);
    }

    #[test]
    fn names_are_matched_by_whole_words_and_innocents_pass() {
        let list = DenyList::parse(NAMES);
        for denied in [
            "aws-config",
            "AWS",
            "google_cloud_auth",
            "modal",
            "Fly",
            "kube-client",
        ] {
            assert!(list.matching(denied).is_some(), "{denied} passed");
        }
        for innocent in [
            "aws-lc-rs",
            "bimodal",
            "fly-accept-encoding",
            "laws",
            "google-cloudless",
            "kubernetesque",
            "modal editing",
            "spp-provider-docker",
        ] {
            assert_eq!(list.matching(innocent), None, "{innocent}");
        }
    }
}

//! The globs of a scope: which entries they take, and which directories can hold one.
//!
//! A glob is relative to the scope's root and spells the whole path: `*.rs` is a file at the top,
//! `**/*.rs` one at any level. `*` and `?` do not match a slash; `{a,b}` is a choice; `\` takes the
//! meaning from what follows.
//!
//! Not here: ignore rules (`rules`), which globs never override.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use sandbox_core::search::Scope;

/// Why a scope's globs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// It is not a glob; the text points at the place.
    #[error("the glob {glob:?} cannot be read: {cause}")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        cause: String,
    },
    /// It could never match, being no path below the root.
    #[error(
        "the glob {glob:?} can match nothing: spell it relative to the scope's root, without `/` in front and without `..`"
    )]
    Nowhere {
        /// The glob.
        glob: String,
    },
    /// Together they are larger than what is compiled.
    #[error("the globs cannot be compiled: {cause}; give fewer or shorter ones")]
    TooLarge {
        /// What the compiler says.
        cause: String,
    },
}

/// The globs of a scope, compiled.
#[derive(Debug)]
pub(super) struct Filter {
    /// `None`: everything.
    include: Option<GlobSet>,
    exclude: Option<GlobSet>,
    reach: Vec<Reach>,
}

/// Where matches of one glob can be.
#[derive(Debug)]
struct Reach {
    /// The components it begins with that are plain text, `a/b/`.
    prefix: Vec<u8>,
    /// Deepest level of a match, if there is one.
    depth: Option<u32>,
}

impl Filter {
    pub(super) fn new(scope: &Scope) -> Result<Self, ScopeError> {
        Ok(Self {
            include: set(&scope.include)?,
            exclude: set(&scope.exclude)?,
            reach: scope.include.iter().map(|glob| reach(tidy(glob))).collect(),
        })
    }

    /// Whether the entry is one of those that are meant.
    pub(super) fn includes(&self, path: &[u8]) -> bool {
        matches(self.include.as_ref(), path, true)
    }

    /// Whether the entry, and all that is in it, is left out.
    pub(super) fn excludes(&self, path: &[u8]) -> bool {
        matches(self.exclude.as_ref(), path, false)
    }

    /// Whether a directory at this level (from 1) may hold something that is meant.
    pub(super) fn may_hold(&self, directory: &[u8], level: u32) -> bool {
        self.include.is_none()
            || self.reach.iter().any(|reach| {
                reach.depth.is_none_or(|deepest| level < deepest)
                    && (reach.prefix.is_empty() || leads_to(directory, &reach.prefix))
            })
    }
}

/// Whether `directory` lies on the way to `prefix`, or beneath it.
fn leads_to(directory: &[u8], prefix: &[u8]) -> bool {
    if directory.len() < prefix.len() {
        prefix.starts_with(directory) && prefix[directory.len()] == b'/'
    } else {
        directory.starts_with(&prefix[..prefix.len() - 1])
            && matches!(directory.get(prefix.len() - 1), None | Some(b'/'))
    }
}

fn matches(set: Option<&GlobSet>, path: &[u8], otherwise: bool) -> bool {
    set.map_or(otherwise, |set| {
        set.is_match_candidate(&Candidate::new(Path::new(OsStr::from_bytes(path))))
    })
}

fn set(globs: &[String]) -> Result<Option<GlobSet>, ScopeError> {
    if globs.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for text in globs {
        let glob = tidy(text);
        if glob.is_empty() || glob.starts_with('/') || glob.split('/').any(|name| name == "..") {
            return Err(ScopeError::Nowhere { glob: text.clone() });
        }
        let glob = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| ScopeError::Glob {
                glob: text.clone(),
                cause: error.kind().to_string(),
            })?;
        set.add(glob);
    }
    set.build().map(Some).map_err(|error| ScopeError::TooLarge {
        cause: error.kind().to_string(),
    })
}

/// Without what says nothing: `./` in front and `/` at the end.
fn tidy(mut glob: &str) -> &str {
    while let Some(rest) = glob.strip_prefix("./") {
        glob = rest;
    }
    glob.strip_suffix('/').unwrap_or(glob)
}

fn reach(glob: &str) -> Reach {
    let plain = glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len());
    let prefix = glob[..plain].rfind('/').map_or(0, |slash| slash + 1);
    // A choice or a set may hold a slash of its own.
    let depth = if glob.contains("**") || glob.contains(['[', '{', '\\']) {
        None
    } else {
        u32::try_from(glob.split('/').count()).ok()
    };
    Reach {
        prefix: glob.as_bytes()[..prefix].to_vec(),
        depth,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::SandboxPath;

    fn filter(include: &[&str]) -> Filter {
        let mut scope = Scope::new(SandboxPath::root());
        scope.include = include.iter().map(ToString::to_string).collect();
        Filter::new(&scope).expect("valid globs")
    }

    #[test]
    fn a_glob_spells_the_whole_path() {
        assert!(filter(&["*.rs"]).includes(b"a.rs"));
        assert!(!filter(&["*.rs"]).includes(b"a/b.rs"));
        assert!(filter(&["**/*.rs"]).includes(b"a.rs"));
        assert!(filter(&["./a/*.{rs,md}"]).includes(b"a/b.md"));
        assert!(filter(&["a{,.rs}"]).includes(b"a"), "a choice may be empty");
        assert!(filter(&["caf?"]).includes(b"caf\xe9"));
    }

    #[test]
    fn only_directories_that_can_hold_a_match_are_entered() {
        let one = filter(&["src/a/*.rs"]);
        assert!(one.may_hold(b"src", 1));
        assert!(one.may_hold(b"src/a", 2));
        assert!(!one.may_hold(b"src/ab", 2));
        assert!(!one.may_hold(b"sr", 1));
        assert!(!one.may_hold(b"src/a/b", 3));
        assert!(!filter(&["*.rs"]).may_hold(b"src", 1));
        assert!(filter(&["src/**"]).may_hold(b"src/x/y", 3));
        assert!(filter(&["{a/b,c}/x"]).may_hold(b"a/b", 2));
    }

    #[test]
    fn a_glob_that_could_never_match_is_refused_rather_than_finding_nothing() {
        for glob in ["/etc/*", "../x", "a/../b", "", "a["] {
            let mut scope = Scope::new(SandboxPath::root());
            scope.exclude = vec![glob.to_owned()];
            assert!(Filter::new(&scope).is_err(), "{glob:?}");
        }
    }
}

//! Ignore rules that hold in a directory: the files of patterns from there outwards.
//!
//! The file nearest to an entry decides first; `.git/info/exclude` of the repository comes after all
//! `.gitignore` files in it, and the user's global excludes after that. A repository within another
//! starts afresh: what the outer one ignores says nothing about what is in the inner one.
//!
//! Not here: what one file says (`pattern`), where a repository keeps its excludes (`repository`).

use std::sync::Arc;

use super::pattern::{Patterns, Verdict};

/// One file of patterns, and those further out.
#[derive(Debug)]
pub(super) struct Rules {
    patterns: Arc<Patterns>,
    /// How much of a path leads to where the file is, with the slash.
    base: usize,
    outer: Option<Arc<Rules>>,
}

/// The rules of a directory; `None` where there are none.
pub(super) type Chain = Option<Arc<Rules>>;

/// The chain with one more file, which lies where the first `base` bytes of a path lead.
pub(super) fn add(outer: Chain, patterns: Arc<Patterns>, base: usize) -> Chain {
    if patterns.is_empty() {
        return outer;
    }
    Some(Arc::new(Rules {
        patterns,
        base,
        outer,
    }))
}

/// Whether an entry is ignored. Those it lies in are not, or nobody would ask.
pub(super) fn ignores(chain: &Chain, path: &[u8], directory: bool) -> bool {
    let mut next = chain.as_deref();
    while let Some(rules) = next {
        match rules.patterns.decide(&path[rules.base..], directory) {
            Some(verdict) => return verdict == Verdict::Ignore,
            None => next = rules.outer.as_deref(),
        }
    }
    false
}

impl Drop for Rules {
    /// One after the other: a chain may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut next = self.outer.take();
        while let Some(mut rules) = next.and_then(Arc::into_inner) {
            next = rules.outer.take();
        }
    }
}

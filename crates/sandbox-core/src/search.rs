//! Requests and answers of the verbs that look at many entries: `glob`, `grep`, `fingerprint`.
//!
//! The loop runs where the tree is; matches cross the wire, not the corpus. Whatever cuts a
//! search short is said in [`Completeness`]: an incomplete answer never looks like a full one.

use crate::file::Stat;
use crate::{Digest, SandboxPath};

/// Which entries of a tree a search considers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Where to start.
    pub root: SandboxPath,
    /// Globs an entry must match one of, relative to `root`; empty means all. They never bring
    /// back what is ignored.
    pub include: Vec<String>,
    /// Globs an entry must match none of.
    pub exclude: Vec<String>,
    /// Which ignore rules hold.
    pub ignore: IgnoreRules,
    /// Whether names that start with `.` are considered. `.git` never is, unless ignore rules are off.
    pub hidden: Hidden,
    /// Deepest level below `root`; `None` for all.
    pub max_depth: Option<u32>,
}

impl Scope {
    /// Everything below `root` that git would not ignore.
    #[must_use]
    pub fn new(root: SandboxPath) -> Self {
        Self {
            root,
            include: Vec::new(),
            exclude: Vec::new(),
            ignore: IgnoreRules::Git,
            hidden: Hidden::Include,
            max_depth: None,
        }
    }
}

/// Which ignore rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreRules {
    /// None.
    Off,
    /// Those of git in the tree: nested `.gitignore`, negation, `.git/info/exclude`; also outside
    /// a repository.
    Git,
    /// The same and the user's global excludes.
    GitAndGlobal,
}

/// Whether hidden names are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// They are.
    Include,
    /// They are not.
    Exclude,
}

/// Finds entries by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobRequest {
    /// Which entries.
    pub scope: Scope,
    /// Order of the answer.
    pub sort: Sort,
    /// Most entries in the answer.
    pub limit: u64,
    /// Whether entries carry their [`Stat`].
    pub stat: WithStat,
}

/// Order of found entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// As they come: fastest.
    None,
    /// By the bytes of the path.
    Path,
    /// Newest first.
    Modified,
}

/// Whether entries carry their [`Stat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithStat {
    /// They do.
    Yes,
    /// They do not.
    No,
}

/// Entries found by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobResult {
    /// What was found.
    pub entries: Vec<FoundEntry>,
    /// Whether that is all.
    pub complete: Completeness,
}

/// An entry found by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// Where it is.
    pub path: SandboxPath,
    /// What it is, if asked for.
    pub stat: Option<Stat>,
}

/// Whether an answer is all there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// It is.
    Complete,
    /// It is not.
    Incomplete {
        /// Why, in one sentence.
        reason: String,
        /// The kind of reason.
        cause: IncompleteCause,
    },
}

/// What cut an answer short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompleteCause {
    /// A limit of the request or the provider.
    Limit,
    /// Some entries could not be read.
    Permission,
    /// The deadline came first.
    Deadline,
    /// The tree changed under the search.
    Changed,
}

/// Finds text in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepRequest {
    /// Which files.
    pub scope: Scope,
    /// What to find.
    pub pattern: Pattern,
    /// Lines before each match.
    pub before: u32,
    /// Lines after each match.
    pub after: u32,
    /// Most matches per file; `None` for no limit.
    pub max_per_file: Option<u64>,
    /// Most matches in total.
    pub limit: u64,
    /// Longest part of a line in the answer, in bytes; the rest is cut and said to be.
    pub max_line_bytes: u64,
}

/// What to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// A regular expression of the `regex` crate, or literal text.
    pub text: String,
    /// How `text` is meant.
    pub syntax: PatternSyntax,
    /// How letters compare.
    pub case: Case,
    /// Whether a match may span lines.
    pub lines: Lines,
}

/// How a pattern is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternSyntax {
    /// A regular expression.
    Regex,
    /// Literal text.
    Literal,
}

/// How letters compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Exactly.
    Sensitive,
    /// Without regard to case.
    Insensitive,
}

/// Whether a match may span lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// A match lies within one line.
    Single,
    /// A match may span several.
    Multi,
}

/// Text found in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepResult {
    /// Files with matches.
    pub files: Vec<FileMatches>,
    /// Files that were searched.
    pub searched: u64,
    /// Whether that is all.
    pub complete: Completeness,
}

/// The matches of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMatches {
    /// The file.
    pub path: SandboxPath,
    /// Lines, in order; context included.
    pub lines: Vec<MatchedLine>,
    /// The file looks binary, and only that it matches is said.
    pub binary: bool,
}

/// A line with a match, or one of context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedLine {
    /// Line number, from 1.
    pub number: u64,
    /// Where the line starts in the file, in bytes.
    pub offset: u64,
    /// The line without its terminator, cut at the request's limit.
    pub text: Vec<u8>,
    /// Whether it was cut.
    pub cut: bool,
    /// Byte ranges of matches in `text`, start and end; empty for context.
    pub matches: Vec<(u64, u64)>,
}

/// Computes what a tree looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintRequest {
    /// Which entries.
    pub scope: FingerprintScope,
    /// An earlier answer's digest to compare with, of the same scope and depth. If the provider no
    /// longer has it, the answer has no changes and says why ([`Fingerprint::uncompared`]).
    pub base: Option<Digest>,
}

/// What a fingerprint covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintScope {
    /// Which entries.
    pub scope: Scope,
    /// How closely.
    pub depth: FingerprintDepth,
    /// Most entries considered.
    pub limit: u64,
}

/// How closely a fingerprint looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FingerprintDepth {
    /// Path, kind, mode, and text of links; for all but directories also size, times, inode. Says whether
    /// this tree is as it was.
    Metadata,
    /// Path, kind, mode, text of links, content of files; not size, times, inode. Equal for two copies of a
    /// tree.
    Content,
}

/// What a tree looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// One digest over all entries, whatever the order in which they were found. Where not all were,
    /// it says nothing about the tree.
    pub digest: Digest,
    /// Entries covered.
    pub entries: u64,
    /// Whether all were.
    pub complete: Completeness,
    /// What changed since the base, if one was given and can be compared with.
    pub changes: Option<Changes>,
    /// Why a base that was given could not be compared with.
    pub uncompared: Option<Uncompared>,
}

/// Why there are no changes although a base was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncompared {
    /// No such fingerprint is known here: it was another sandbox's, or newer ones took its place. A
    /// caller starts from the answer's digest.
    NotKnown,
    /// The fingerprint of that digest was about another scope, or looked less closely.
    OtherScope,
}

/// What changed in a tree between two looks at it, whoever changed it.
///
/// Paths are those that other verbs take: the scope's root is part of them. What was undone
/// between the looks is not seen. A file is found to be modified even if its size and its time are as
/// they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Entries that are new.
    pub created: Vec<SandboxPath>,
    /// Entries that differ in what the [`FingerprintDepth`] covers. A directory does not differ because of
    /// what is in it.
    pub modified: Vec<SandboxPath>,
    /// Entries that are gone.
    pub removed: Vec<SandboxPath>,
    /// Whether that is all, and if not why. What could not be seen is in none of the lists.
    pub complete: Completeness,
}

impl Changes {
    /// Shortens the lists so that each takes at most so many bytes as text, and says so.
    pub fn cut(&mut self, bytes: usize) {
        let lists = [&mut self.created, &mut self.modified, &mut self.removed];
        let (mut listed, mut total) = (0, 0);
        for list in lists {
            let mut left = bytes;
            let fits = list
                .iter()
                .take_while(|path| match left.checked_sub(path.quoted_bytes()) {
                    Some(rest) => {
                        left = rest;
                        true
                    }
                    None => false,
                })
                .count();
            total += list.len();
            listed += fits;
            list.truncate(fits);
        }
        if listed < total && self.complete == Completeness::Complete {
            self.complete = Completeness::Incomplete {
                reason: format!(
                    "{listed} of {total} changed entries fit into the answer; narrow the scope, or accept longer lines"
                ),
                cause: IncompleteCause::Limit,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&[u8]]) -> Vec<SandboxPath> {
        let parse = |name: &&[u8]| SandboxPath::parse(name).expect("valid");
        names.iter().map(parse).collect()
    }

    #[test]
    fn lists_are_cut_each_by_itself_and_that_is_said_once() {
        let mut changes = Changes {
            created: paths(&[b"a", b"b", b"c"]),
            modified: paths(&[b"\xff\xff\xff"]),
            removed: Vec::new(),
            complete: Completeness::Complete,
        };
        let whole = changes.clone();
        changes.cut(20);
        assert_eq!(changes, whole, "all of it fits");
        changes.cut(11);
        assert_eq!(changes.created.len(), 2);
        assert_eq!(changes.modified.len(), 0);
        let Completeness::Incomplete { reason, cause } = &changes.complete else {
            panic!("it was cut");
        };
        assert_eq!(*cause, IncompleteCause::Limit);
        assert!(reason.starts_with("2 of 4 "), "{reason}");
        let why = changes.complete.clone();
        changes.cut(0);
        assert_eq!(changes.complete, why, "the first reason stays");
    }
}

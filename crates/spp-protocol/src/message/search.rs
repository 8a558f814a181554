//! The verbs that look at many entries: `glob`, `grep`, `fingerprint`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Stat;
use super::open::{default, open};
use super::value::Octets;
use super::verb;

/// Which entries of a tree a search considers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// Where to start. Default `.`.
    #[serde(default = "workspace_root")]
    pub root: Octets,
    /// Globs an entry must match one of; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Globs an entry must match none of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Which ignore rules hold. Default `git`.
    #[serde(default)]
    pub ignore: IgnoreRules,
    /// Whether names that start with `.` are considered. Default `include`.
    #[serde(default)]
    pub hidden: Hidden,
    /// Deepest level below `root`; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
}

fn workspace_root() -> Octets {
    Octets::new(".")
}

open! {
    /// Which ignore rules hold.
    pub enum IgnoreRules {
        /// None.
        Off = "off",
        /// Those of git in the tree.
        Git = "git",
        /// The same and the user's global excludes.
        GitAndGlobal = "git_and_global",
    }
}
default!(IgnoreRules::Git);

open! {
    /// Whether hidden names are considered.
    pub enum Hidden {
        /// They are.
        Include = "include",
        /// They are not.
        Exclude = "exclude",
    }
}
default!(Hidden::Include);

verb! {
    /// Finds entries by name.
    pub struct GlobParams("glob") -> GlobResult {
        /// Which entries.
        pub scope: Scope,
        /// Order of the answer. Default `none`.
        #[serde(default)]
        pub sort: Sort,
        /// Most entries in the answer.
        pub limit: u64,
        /// Whether entries are described. Default `no`.
        #[serde(default)]
        pub stat: WithStat,
    }
}

open! {
    /// Order of found entries.
    pub enum Sort {
        /// As they come.
        None = "none",
        /// By the bytes of the path.
        Path = "path",
        /// Newest first.
        Modified = "modified",
    }
}
default!(Sort::None);

open! {
    /// Whether found entries are described.
    pub enum WithStat {
        /// They are.
        Yes = "yes",
        /// They are not.
        No = "no",
    }
}
default!(WithStat::No);

/// Answers `glob`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GlobResult {
    /// What was found.
    pub entries: Vec<FoundEntry>,
    /// Whether that is all.
    pub complete: Completeness,
}

/// An entry found by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundEntry {
    /// Where it is.
    pub path: Octets,
    /// What it is, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Stat>,
}

open! {
    /// Whether an answer is all there is.
    pub enum Completeness {
        /// It is.
        Complete = "complete",
        /// It is not.
        Incomplete(Incomplete) = "incomplete",
    }
}

/// What is missing from an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Incomplete {
    /// Why, in one sentence.
    pub reason: String,
    /// The kind of reason.
    pub cause: IncompleteCause,
}

open! {
    /// What cut an answer short.
    pub enum IncompleteCause {
        /// A limit of the request or the provider.
        Limit = "limit",
        /// Some entries could not be read.
        Permission = "permission",
        /// The deadline came first.
        Deadline = "deadline",
        /// The tree changed under the search.
        Changed = "changed",
    }
}

verb! {
    /// Finds text in files.
    pub struct GrepParams("grep") -> GrepResult {
        /// Which files.
        pub scope: Scope,
        /// What to find.
        pub pattern: Pattern,
        /// Lines before each match. Default 0.
        #[serde(default)]
        pub before: u32,
        /// Lines after each match. Default 0.
        #[serde(default)]
        pub after: u32,
        /// Most matches per file; absent for no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_per_file: Option<u64>,
        /// Most matches in total.
        pub limit: u64,
        /// Longest part of a line in the answer, in bytes. Default 4096.
        #[serde(default = "default_line")]
        pub max_line_bytes: u64,
    }
}

fn default_line() -> u64 {
    4096
}

/// What to find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pattern {
    /// A regular expression, or literal text.
    pub text: String,
    /// How `text` is meant. Default `regex`.
    #[serde(default)]
    pub syntax: PatternSyntax,
    /// How letters compare. Default `sensitive`.
    #[serde(default)]
    pub case: Case,
    /// Whether a match may span lines. Default `single`.
    #[serde(default)]
    pub lines: Lines,
}

open! {
    /// How a pattern is meant.
    pub enum PatternSyntax {
        /// A regular expression, without look-around and back-references.
        Regex = "regex",
        /// Literal text.
        Literal = "literal",
    }
}
default!(PatternSyntax::Regex);

open! {
    /// How letters compare.
    pub enum Case {
        /// Exactly.
        Sensitive = "sensitive",
        /// Without regard to case.
        Insensitive = "insensitive",
    }
}
default!(Case::Sensitive);

open! {
    /// Whether a match may span lines.
    pub enum Lines {
        /// A match lies within one line.
        Single = "single",
        /// A match may span several.
        Multi = "multi",
    }
}
default!(Lines::Single);

/// Answers `grep`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrepResult {
    /// Files with matches.
    pub files: Vec<FileMatches>,
    /// How many files were searched.
    pub searched: u64,
    /// Whether that is all.
    pub complete: Completeness,
}

/// The matches of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMatches {
    /// The file.
    pub path: Octets,
    /// Lines, in order; context included.
    #[serde(default)]
    pub lines: Vec<MatchedLine>,
    /// The file looks binary, and only that it matches is said.
    #[serde(default)]
    pub binary: bool,
}

/// A line with a match, or one of context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatchedLine {
    /// Line number, from 1.
    pub number: u64,
    /// Where the line starts in the file, in bytes.
    pub offset: u64,
    /// The line without its terminator, cut at the request's limit.
    pub text: Octets,
    /// Whether it was cut.
    #[serde(default)]
    pub cut: bool,
    /// Byte ranges of matches in `text`, each start and end; empty for context.
    #[serde(default)]
    pub matches: Vec<(u64, u64)>,
}

verb! {
    /// Computes what a tree looks like, and what changed since a base.
    pub struct FingerprintParams("fingerprint") -> FingerprintResult {
        /// Which entries, and how closely.
        pub scope: FingerprintScope,
        /// The digest of an earlier answer to compare with.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub base: Option<String>,
    }
}

/// What a fingerprint covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FingerprintScope {
    /// Which entries.
    pub scope: Scope,
    /// How closely. Default `metadata`.
    #[serde(default)]
    pub depth: FingerprintDepth,
    /// Most entries considered.
    pub limit: u64,
}

open! {
    /// How closely a fingerprint looks.
    pub enum FingerprintDepth {
        /// Path, kind, mode, text of links; for all but directories also size, times, inode.
        Metadata = "metadata",
        /// Path, kind, mode, text of links, content of files.
        Content = "content",
    }
}
default!(FingerprintDepth::Metadata);

/// Answers `fingerprint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FingerprintResult {
    /// One digest over all entries.
    pub digest: String,
    /// Entries covered.
    pub entries: u64,
    /// Whether all were.
    pub complete: Completeness,
    /// What changed since the base; absent if none was given or it cannot be compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Why a base that was given could not be compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncompared: Option<Uncompared>,
}

open! {
    /// Why there are no changes although a base was given.
    pub enum Uncompared {
        /// No such fingerprint is known here, or not any more.
        NotKnown = "not_known",
        /// It was about another scope, or looked less closely.
        OtherScope = "other_scope",
    }
}

/// What changed in a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Entries that are new.
    #[serde(default)]
    pub created: Vec<Octets>,
    /// Entries that differ.
    #[serde(default)]
    pub modified: Vec<Octets>,
    /// Entries that are gone.
    #[serde(default)]
    pub removed: Vec<Octets>,
    /// Whether that is all.
    pub complete: Completeness,
}

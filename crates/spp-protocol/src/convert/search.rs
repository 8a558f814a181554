//! The verbs that look at many entries.

use sandbox_core::search as core;
use sandbox_core::{Result, Verb};

use super::file::{decode_stat, encode_stat};
use super::value::{digest, encode_path, path};
use super::{Invalid, Mirror, Target, Within, each, integer, mirror};
use crate::message::search as wire;
use crate::message::value::Octets;

mirror! {
    wire::IgnoreRules = core::IgnoreRules { Off, Git, GitAndGlobal }
    wire::Hidden = core::Hidden { Include, Exclude }
    wire::Sort = core::Sort { None, Path, Modified }
    wire::WithStat = core::WithStat { Yes, No }
    wire::IncompleteCause = core::IncompleteCause { Limit, Permission, Deadline, Changed }
    wire::PatternSyntax = core::PatternSyntax { Regex, Literal }
    wire::Case = core::Case { Sensitive, Insensitive }
    wire::Lines = core::Lines { Single, Multi }
    wire::FingerprintDepth = core::FingerprintDepth { Metadata, Content }
    wire::Uncompared = core::Uncompared { NotKnown, OtherScope }
}

impl wire::Scope {
    pub(crate) fn encode(scope: &core::Scope) -> Self {
        Self {
            root: encode_path(&scope.root),
            include: scope.include.clone(),
            exclude: scope.exclude.clone(),
            ignore: scope.ignore.into(),
            hidden: scope.hidden.into(),
            max_depth: scope.max_depth,
        }
    }

    pub(crate) fn decode(self) -> Result<core::Scope, Invalid> {
        Ok(core::Scope {
            root: path(self.root).within("root")?,
            include: self.include,
            exclude: self.exclude,
            ignore: self.ignore.decode().within("ignore")?,
            hidden: self.hidden.decode().within("hidden")?,
            max_depth: self.max_depth,
        })
    }
}

impl wire::GlobParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target, request: &core::GlobRequest) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            scope: wire::Scope::encode(&request.scope),
            sort: request.sort.into(),
            limit: integer(request.limit),
            stat: request.stat.into(),
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::GlobRequest> {
        let request = || {
            Ok(core::GlobRequest {
                scope: self.scope.decode().within("scope")?,
                sort: self.sort.decode().within("sort")?,
                limit: self.limit,
                stat: self.stat.decode().within("stat")?,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::Glob))
    }
}

impl wire::GlobResult {
    /// The wire form.
    #[must_use]
    pub fn encode(result: core::GlobResult) -> Self {
        let encode = |entry: core::FoundEntry| wire::FoundEntry {
            path: encode_path(&entry.path),
            stat: entry.stat.map(encode_stat),
        };
        Self {
            entries: result.entries.into_iter().map(encode).collect(),
            complete: encode_complete(result.complete),
        }
    }

    /// The entries.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self) -> Result<core::GlobResult> {
        let entries = each(self.entries, "entries", |entry| {
            Ok(core::FoundEntry {
                path: path(entry.path).within("path")?,
                stat: entry.stat.map(decode_stat).transpose().within("stat")?,
            })
        });
        Ok(core::GlobResult {
            entries: entries.map_err(|invalid| invalid.broken(Verb::Glob))?,
            complete: decode_complete(self.complete),
        })
    }
}

fn encode_complete(complete: core::Completeness) -> wire::Completeness {
    match complete {
        core::Completeness::Complete => wire::Completeness::Complete,
        core::Completeness::Incomplete { reason, cause } => {
            let cause = cause.into();
            wire::Completeness::Incomplete(wire::Incomplete { reason, cause })
        }
    }
}

/// What is not known is not complete.
fn decode_complete(complete: wire::Completeness) -> core::Completeness {
    match complete {
        wire::Completeness::Complete => core::Completeness::Complete,
        wire::Completeness::Incomplete(wire::Incomplete { reason, cause }) => {
            let cause = cause.decode_or(core::IncompleteCause::Limit);
            core::Completeness::Incomplete { reason, cause }
        }
        wire::Completeness::Unknown(name) => core::Completeness::Incomplete {
            reason: format!("the provider answered `{name}`, which this version does not know"),
            cause: core::IncompleteCause::Limit,
        },
    }
}

impl wire::GrepParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target, request: &core::GrepRequest) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            scope: wire::Scope::encode(&request.scope),
            pattern: wire::Pattern {
                text: request.pattern.text.clone(),
                syntax: request.pattern.syntax.into(),
                case: request.pattern.case.into(),
                lines: request.pattern.lines.into(),
            },
            before: request.before,
            after: request.after,
            max_per_file: request.max_per_file.map(integer),
            limit: integer(request.limit),
            max_line_bytes: integer(request.max_line_bytes),
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::GrepRequest> {
        let request = || {
            Ok(core::GrepRequest {
                scope: self.scope.decode().within("scope")?,
                pattern: core::Pattern {
                    syntax: self.pattern.syntax.decode().within("pattern.syntax")?,
                    case: self.pattern.case.decode().within("pattern.case")?,
                    lines: self.pattern.lines.decode().within("pattern.lines")?,
                    text: self.pattern.text,
                },
                before: self.before,
                after: self.after,
                max_per_file: self.max_per_file,
                limit: self.limit,
                max_line_bytes: self.max_line_bytes,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::Grep))
    }
}

impl wire::GrepResult {
    /// The wire form.
    #[must_use]
    pub fn encode(result: core::GrepResult) -> Self {
        let line = |line: core::MatchedLine| wire::MatchedLine {
            number: line.number,
            offset: line.offset,
            text: Octets(line.text),
            cut: line.cut,
            matches: line.matches,
        };
        let file = |file: core::FileMatches| wire::FileMatches {
            path: encode_path(&file.path),
            lines: file.lines.into_iter().map(line).collect(),
            binary: file.binary,
        };
        Self {
            files: result.files.into_iter().map(file).collect(),
            searched: result.searched,
            complete: encode_complete(result.complete),
        }
    }

    /// The matches.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member: a range of a match lies outside of its line, for example.
    pub fn decode(self) -> Result<core::GrepResult> {
        let files = each(self.files, "files", |file| {
            Ok(core::FileMatches {
                path: path(file.path).within("path")?,
                lines: each(file.lines, "lines", decode_line)?,
                binary: file.binary,
            })
        });
        Ok(core::GrepResult {
            files: files.map_err(|invalid| invalid.broken(Verb::Grep))?,
            searched: self.searched,
            complete: decode_complete(self.complete),
        })
    }
}

fn decode_line(line: wire::MatchedLine) -> Result<core::MatchedLine, Invalid> {
    let length = line.text.0.len() as u64;
    // A caller slices the text with these.
    if line
        .matches
        .iter()
        .any(|&(start, end)| start > end || end > length)
    {
        return Err(Invalid::new("a range does not lie in the line")).within("matches");
    }
    Ok(core::MatchedLine {
        number: line.number,
        offset: line.offset,
        text: line.text.0,
        cut: line.cut,
        matches: line.matches,
    })
}

impl wire::FingerprintScope {
    pub(crate) fn encode(scope: &core::FingerprintScope) -> Self {
        Self {
            scope: wire::Scope::encode(&scope.scope),
            depth: scope.depth.into(),
            limit: integer(scope.limit),
        }
    }

    pub(crate) fn decode(self) -> Result<core::FingerprintScope, Invalid> {
        Ok(core::FingerprintScope {
            scope: self.scope.decode().within("scope")?,
            depth: self.depth.decode().within("depth")?,
            limit: self.limit,
        })
    }
}

impl wire::FingerprintParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target, request: &core::FingerprintRequest) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            scope: wire::FingerprintScope::encode(&request.scope),
            base: request.base.map(|base| base.to_string()),
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::FingerprintRequest> {
        let request = || {
            Ok(core::FingerprintRequest {
                scope: self.scope.decode().within("scope")?,
                base: self
                    .base
                    .as_deref()
                    .map(digest)
                    .transpose()
                    .within("base")?,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::Fingerprint))
    }
}

impl wire::FingerprintResult {
    /// The wire form.
    #[must_use]
    pub fn encode(fingerprint: core::Fingerprint) -> Self {
        Self {
            digest: fingerprint.digest.to_string(),
            entries: fingerprint.entries,
            complete: encode_complete(fingerprint.complete),
            changes: fingerprint.changes.map(wire::Changes::encode),
            uncompared: fingerprint.uncompared.map(Into::into),
        }
    }

    /// The fingerprint.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self) -> Result<core::Fingerprint> {
        let fingerprint = || {
            Ok(core::Fingerprint {
                digest: digest(&self.digest).within("digest")?,
                entries: self.entries,
                complete: decode_complete(self.complete),
                changes: self
                    .changes
                    .map(wire::Changes::decode)
                    .transpose()
                    .within("changes")?,
                uncompared: self
                    .uncompared
                    .map(|why| why.decode_or(core::Uncompared::NotKnown)),
            })
        };
        fingerprint().map_err(|invalid: Invalid| invalid.broken(Verb::Fingerprint))
    }
}

impl wire::Changes {
    pub(crate) fn encode(changes: core::Changes) -> Self {
        let paths = |paths: Vec<_>| paths.iter().map(encode_path).collect();
        Self {
            created: paths(changes.created),
            modified: paths(changes.modified),
            removed: paths(changes.removed),
            complete: encode_complete(changes.complete),
        }
    }

    pub(crate) fn decode(self) -> Result<core::Changes, Invalid> {
        Ok(core::Changes {
            created: each(self.created, "created", path)?,
            modified: each(self.modified, "modified", path)?,
            removed: each(self.removed, "removed", path)?,
            complete: decode_complete(self.complete),
        })
    }
}

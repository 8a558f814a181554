//! Arbitrary requests and answers of the search verbs.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sandbox_core::search::*;

use super::file::stat;
use super::{digest, integer, path, raw, text};

pub(crate) fn scope() -> impl Strategy<Value = Scope> {
    (
        path(),
        vec(text(), 0..3),
        vec(text(), 0..3),
        select(vec![
            IgnoreRules::Off,
            IgnoreRules::Git,
            IgnoreRules::GitAndGlobal,
        ]),
        select(vec![Hidden::Include, Hidden::Exclude]),
        option::of(any::<u32>()),
    )
        .prop_map(
            |(root, include, exclude, ignore, hidden, max_depth)| Scope {
                root,
                include,
                exclude,
                ignore,
                hidden,
                max_depth,
            },
        )
}

pub(crate) fn completeness() -> impl Strategy<Value = Completeness> {
    use IncompleteCause::{Changed, Deadline, Limit, Permission};
    prop_oneof![
        Just(Completeness::Complete),
        (text(), select(vec![Limit, Permission, Deadline, Changed]))
            .prop_map(|(reason, cause)| Completeness::Incomplete { reason, cause }),
    ]
}

pub(crate) fn glob_request() -> impl Strategy<Value = GlobRequest> {
    (
        scope(),
        select(vec![Sort::None, Sort::Path, Sort::Modified]),
        integer(),
        select(vec![WithStat::Yes, WithStat::No]),
    )
        .prop_map(|(scope, sort, limit, stat)| GlobRequest {
            scope,
            sort,
            limit,
            stat,
        })
}

pub(crate) fn glob_result() -> impl Strategy<Value = GlobResult> {
    let entry = (path(), option::of(stat())).prop_map(|(path, stat)| FoundEntry { path, stat });
    (vec(entry, 0..4), completeness())
        .prop_map(|(entries, complete)| GlobResult { entries, complete })
}

pub(crate) fn grep_request() -> impl Strategy<Value = GrepRequest> {
    let pattern = (
        text(),
        select(vec![PatternSyntax::Regex, PatternSyntax::Literal]),
        select(vec![Case::Sensitive, Case::Insensitive]),
        select(vec![Lines::Single, Lines::Multi]),
    )
        .prop_map(|(text, syntax, case, lines)| Pattern {
            text,
            syntax,
            case,
            lines,
        });
    (
        (scope(), pattern, any::<u32>(), any::<u32>()),
        (option::of(integer()), integer(), integer()),
    )
        .prop_map(
            |((scope, pattern, before, after), (max_per_file, limit, max_line_bytes))| {
                GrepRequest {
                    scope,
                    pattern,
                    before,
                    after,
                    max_per_file,
                    limit,
                    max_line_bytes,
                }
            },
        )
}

pub(crate) fn grep_result() -> impl Strategy<Value = GrepResult> {
    let line =
        (integer(), integer(), raw(), any::<bool>()).prop_map(|(number, offset, text, cut)| {
            let matches = vec![(0, text.len() as u64)];
            MatchedLine {
                number,
                offset,
                text,
                cut,
                matches,
            }
        });
    let file =
        (path(), vec(line, 0..3), any::<bool>()).prop_map(|(path, lines, binary)| FileMatches {
            path,
            lines,
            binary,
        });
    (vec(file, 0..3), integer(), completeness()).prop_map(|(files, searched, complete)| {
        GrepResult {
            files,
            searched,
            complete,
        }
    })
}

pub(crate) fn fingerprint_scope() -> impl Strategy<Value = FingerprintScope> {
    let depth = select(vec![FingerprintDepth::Metadata, FingerprintDepth::Content]);
    (scope(), depth, integer()).prop_map(|(scope, depth, limit)| FingerprintScope {
        scope,
        depth,
        limit,
    })
}

pub(crate) fn fingerprint_request() -> impl Strategy<Value = FingerprintRequest> {
    (fingerprint_scope(), option::of(digest()))
        .prop_map(|(scope, base)| FingerprintRequest { scope, base })
}

pub(crate) fn changes() -> impl Strategy<Value = Changes> {
    (
        vec(path(), 0..3),
        vec(path(), 0..3),
        vec(path(), 0..3),
        completeness(),
    )
        .prop_map(|(created, modified, removed, complete)| Changes {
            created,
            modified,
            removed,
            complete,
        })
}

pub(crate) fn fingerprint() -> impl Strategy<Value = Fingerprint> {
    let why = select(vec![Uncompared::NotKnown, Uncompared::OtherScope]);
    (
        digest(),
        integer(),
        completeness(),
        option::of(changes()),
        option::of(why),
    )
        .prop_map(
            |(digest, entries, complete, changes, uncompared)| Fingerprint {
                digest,
                entries,
                complete,
                changes,
                uncompared,
            },
        )
}

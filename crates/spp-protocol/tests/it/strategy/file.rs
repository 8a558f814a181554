//! Arbitrary requests and answers of the file verbs.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sandbox_core::file::*;

use super::{content, digest, integer, path, permissions, raw, time};

pub(crate) fn read_request() -> impl Strategy<Value = ReadRequest> {
    let range = prop_oneof![
        Just(Range::All),
        (integer(), integer()).prop_map(|(offset, length)| Range::Bytes { offset, length }),
        (1..100u64, integer()).prop_map(|(first, count)| Range::Lines { first, count }),
    ];
    (path(), range, 0..=MAX_FILE_BYTES).prop_map(|(path, range, max)| ReadRequest {
        path,
        range,
        max,
    })
}

pub(crate) fn file_content() -> impl Strategy<Value = FileContent> {
    let facts = (
        select(vec![
            Encoding::Utf8,
            Encoding::Utf16Le,
            Encoding::Utf16Be,
            Encoding::Binary,
        ]),
        any::<bool>(),
        select(vec![
            Newline::None,
            Newline::Lf,
            Newline::CrLf,
            Newline::Mixed,
        ]),
    )
        .prop_map(|(encoding, bom, newline)| TextFacts {
            encoding,
            bom,
            newline,
        });
    (
        content(),
        integer(),
        integer(),
        option::of(integer()),
        option::of(digest()),
        permissions(),
        option::of(time()),
        facts,
    )
        .prop_map(
            |(bytes, offset, total_bytes, total_lines, digest, mode, modified, text)| FileContent {
                bytes,
                offset,
                total_bytes,
                total_lines,
                digest,
                mode,
                modified,
                text,
            },
        )
}

pub(crate) fn read_many_request() -> impl Strategy<Value = ReadManyRequest> {
    (vec(path(), 0..4), 0..=MAX_FILE_BYTES)
        .prop_map(|(paths, total_max)| ReadManyRequest { paths, total_max })
}

pub(crate) fn precondition() -> impl Strategy<Value = Precondition> {
    prop_oneof![
        Just(Precondition::None),
        Just(Precondition::Absent),
        digest().prop_map(Precondition::Digest),
    ]
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let replacement = (
        content(),
        content(),
        select(vec![Occurrences::One, Occurrences::All]),
    )
        .prop_map(|(find, replace, occurrences)| Replacement {
            find,
            replace,
            occurrences,
        });
    prop_oneof![
        (path(), content(), option::of(any::<u32>()), precondition()).prop_map(
            |(path, content, mode, precondition)| Change::Put {
                path,
                content,
                mode,
                precondition
            }
        ),
        (path(), vec(replacement, 0..3), precondition()).prop_map(
            |(path, replacements, precondition)| Change::Edit {
                path,
                replacements,
                precondition
            }
        ),
        (path(), option::of(any::<u32>()))
            .prop_map(|(path, mode)| Change::MakeDirectory { path, mode }),
        (
            path(),
            path(),
            select(vec![Existing::Keep, Existing::Replace])
        )
            .prop_map(|(from, to, existing)| Change::Rename { from, to, existing }),
        (path(), any::<u32>()).prop_map(|(path, mode)| Change::SetMode { path, mode }),
        (path(), raw()).prop_map(|(path, target)| Change::Link {
            path,
            target: target.into()
        }),
    ]
}

pub(crate) fn write_request() -> impl Strategy<Value = WriteRequest> {
    (
        vec(change(), 0..4),
        select(vec![Durability::Cached, Durability::Durable]),
    )
        .prop_map(|(changes, durability)| WriteRequest {
            changes,
            durability,
        })
}

pub(crate) fn write_receipt() -> impl Strategy<Value = WriteReceipt> {
    (
        any::<bool>(),
        integer(),
        -1000..1000i64,
        option::of(digest()),
        integer(),
    )
        .prop_map(
            |(existed, bytes, line_delta, digest, replaced)| WriteReceipt {
                existed,
                bytes,
                line_delta,
                digest,
                replaced,
            },
        )
}

pub(crate) fn remove_request() -> impl Strategy<Value = RemoveRequest> {
    (path(), select(vec![Recursion::No, Recursion::Yes]))
        .prop_map(|(path, recursion)| RemoveRequest { path, recursion })
}

pub(crate) fn stat() -> impl Strategy<Value = Stat> {
    (
        select(vec![
            EntryKind::File,
            EntryKind::Directory,
            EntryKind::Link,
            EntryKind::Special,
        ]),
        integer(),
        permissions(),
        option::of(time()),
        option::of(time()),
        any::<u64>(),
        integer(),
        option::of(raw()),
    )
        .prop_map(
            |(kind, size, mode, modified, changed, inode, links, target)| Stat {
                kind,
                size,
                mode,
                modified,
                changed,
                inode,
                links,
                target: target.map(Into::into),
            },
        )
}

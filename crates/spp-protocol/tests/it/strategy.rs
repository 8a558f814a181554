//! Arbitrary values of the port.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sandbox_core::file::*;
use sandbox_core::process::*;
use sandbox_core::search::*;
use sandbox_core::transfer::*;
use sandbox_core::*;
use spp_protocol::message::value::MAX_INTEGER;

pub(crate) fn integer() -> impl Strategy<Value = u64> {
    prop_oneof![0..10u64, 0..=MAX_INTEGER, Just(MAX_INTEGER)]
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z /\"\\\\\n\u{e9}\u{1f600}]{1,12}"]
}

/// Content: short text, raw bytes, and sometimes more than fits a line.
pub(crate) fn content() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        4 => text().prop_map(Bytes::from),
        4 => vec(any::<u8>(), 0..40).prop_map(Bytes::from),
        1 => (any::<u8>(), 32_700..33_000usize).prop_map(|(byte, count)| vec![byte; count].into()),
    ]
}

fn raw() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=255u8, 0..12)
}

pub(crate) fn path() -> impl Strategy<Value = SandboxPath> {
    let component = prop_oneof![
        "[a-z.~ -]{1,8}"
            .prop_filter("not a dot", |name| name != "." && name != "..")
            .prop_map(String::into_bytes),
        vec(prop_oneof![1..=46u8, 48..=255u8], 1..6)
            .prop_filter("not a dot", |name| name != b"." && name != b".."),
    ];
    (any::<bool>(), vec(component, 0..4)).prop_map(|(absolute, components)| {
        let lead: &[u8] = if absolute { b"/" } else { b"./" };
        SandboxPath::parse([lead, &components.join(&b'/')].concat()).expect("well spelled")
    })
}

fn absolute() -> impl Strategy<Value = SandboxPath> {
    path().prop_map(|path| {
        SandboxPath::parse([b"/", path.as_bytes()].concat()).expect("well spelled")
    })
}

fn id() -> impl Strategy<Value = String> {
    "[A-Za-z0-9][A-Za-z0-9._-]{0,20}"
}

pub(crate) fn sandbox_id() -> impl Strategy<Value = SandboxId> {
    id().prop_map(|id| SandboxId::new(id).expect("plain"))
}

pub(crate) fn proc_id() -> impl Strategy<Value = ProcId> {
    id().prop_map(|id| ProcId::new(id).expect("plain"))
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::from_bytes)
}

fn time() -> impl Strategy<Value = SystemTime> {
    (-4_000_000_000..9_000_000_000i64, 0..1_000_000_000u32).prop_map(|(s, ns)| {
        let whole = Duration::from_secs(s.unsigned_abs());
        let second = if s < 0 {
            UNIX_EPOCH - whole
        } else {
            UNIX_EPOCH + whole
        };
        second + Duration::from_nanos(ns.into())
    })
}

fn milliseconds() -> impl Strategy<Value = Duration> {
    (0..1_000_000_000u64).prop_map(Duration::from_millis)
}

fn microseconds() -> impl Strategy<Value = Duration> {
    (0..1_000_000_000u64).prop_map(Duration::from_micros)
}

fn permissions() -> impl Strategy<Value = u32> {
    0..=0o7777u32
}

pub(crate) fn error() -> impl Strategy<Value = Error> {
    (
        select(&Verb::ALL[..]),
        select(&ErrorKind::ALL[..]),
        any::<bool>(),
        text(),
        text(),
        option::of(text()),
        option::of(integer()),
    )
        .prop_map(|(verb, kind, none, subject, detail, expected, retry)| {
            let effect = if none { Effect::None } else { Effect::Unknown };
            let mut error = Error::new(verb, kind)
                .with_effect(effect)
                .on(subject)
                .detail(detail);
            if let Some(expected) = expected {
                error = error.expected(expected);
            }
            if let Some(ms) = retry {
                error = error.retry_after_ms(ms);
            }
            error
        })
}

pub(crate) fn items<T: std::fmt::Debug>(
    item: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Result<T>>> {
    vec(
        prop_oneof![3 => item.prop_map(Ok), 1 => error().prop_map(Err)],
        0..4,
    )
}

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

fn precondition() -> impl Strategy<Value = Precondition> {
    prop_oneof![
        Just(Precondition::None),
        Just(Precondition::Absent),
        digest().prop_map(Precondition::Digest),
    ]
}

fn change() -> impl Strategy<Value = Change> {
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

fn fingerprint_scope() -> impl Strategy<Value = FingerprintScope> {
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

fn changes() -> impl Strategy<Value = Changes> {
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
    (digest(), integer(), completeness(), option::of(changes())).prop_map(
        |(digest, entries, complete, changes)| Fingerprint {
            digest,
            entries,
            complete,
            changes,
        },
    )
}

fn env_change() -> impl Strategy<Value = EnvChange> {
    let name = vec(prop_oneof![1..=60u8, 62..=255u8], 1..8);
    (name, option::of(raw())).prop_map(|(name, value)| EnvChange { name, value })
}

fn pty_size() -> impl Strategy<Value = PtySize> {
    any::<(u16, u16)>().prop_map(|(rows, columns)| PtySize { rows, columns })
}

fn process_spec() -> impl Strategy<Value = ProcessSpec> {
    let output = (
        (integer(), integer(), integer()),
        select(vec![BeyondLog::Drop, BeyondLog::Block, BeyondLog::Kill]),
    )
        .prop_map(|((head, tail, log), beyond)| OutputPolicy {
            head,
            tail,
            log,
            beyond,
        });
    (
        (vec(raw(), 1..4), path(), vec(env_change(), 0..3)),
        (
            option::of(pty_size()),
            option::of(milliseconds()),
            milliseconds(),
            output,
        ),
        select(vec![Descendants::Kill, Descendants::Leave]),
    )
        .prop_map(
            |((argv, cwd, env), (pty, timeout, grace, output), descendants)| ProcessSpec {
                argv,
                cwd,
                env,
                pty,
                timeout,
                grace,
                output,
                descendants,
            },
        )
}

/// Without a stream as standard input, which cannot be compared.
pub(crate) fn exec_request() -> impl Strategy<Value = ExecRequest> {
    (
        option::of(proc_id()),
        process_spec(),
        option::of(vec(any::<u8>(), 0..40)),
        select(vec![Delivery::AtEnd, Delivery::Live]),
        option::of(fingerprint_scope()),
    )
        .prop_map(|(id, process, stdin, delivery, track)| ExecRequest {
            id,
            process,
            stdin: stdin.map_or(Stdin::Null, |bytes| Stdin::Bytes(bytes.into())),
            delivery,
            track,
        })
}

fn exit_report() -> impl Strategy<Value = ExitReport> {
    let status = prop_oneof![
        any::<u8>().prop_map(Status::Exited),
        (1..64i32, any::<bool>()).prop_map(|(signal, core)| Status::Signalled { signal, core }),
        select(vec![
            Status::TimedOut,
            Status::Cancelled,
            Status::OutputLimit,
            Status::MemoryLimit,
            Status::Lost,
        ]),
    ];
    let usage =
        (microseconds(), microseconds(), integer()).prop_map(|(user, system, peak_memory)| Usage {
            user,
            system,
            peak_memory,
        });
    let survivor = (any::<u32>(), text()).prop_map(|(pid, name)| Survivor { pid, name });
    let survivors =
        (any::<u32>(), vec(survivor, 0..3), any::<u32>()).prop_map(|(killed, left, left_total)| {
            Survivors {
                killed,
                left,
                left_total,
            }
        });
    (status, microseconds(), usage, survivors).prop_map(|(status, duration, usage, survivors)| {
        ExitReport {
            status,
            duration,
            usage,
            survivors,
        }
    })
}

fn output() -> impl Strategy<Value = Output> {
    (
        content(),
        content(),
        integer(),
        integer(),
        integer(),
        option::of(text()),
    )
        .prop_map(
            |(head, tail, dropped, total, unlogged, log_failure)| Output {
                head,
                tail,
                dropped,
                total,
                unlogged,
                log_failure,
            },
        )
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    (
        proc_id(),
        exit_report(),
        output(),
        output(),
        option::of(changes()),
    )
        .prop_map(|(id, exit, stdout, stderr, changes)| Outcome {
            id,
            exit,
            stdout,
            stderr,
            changes,
        })
}

pub(crate) fn spawn_request() -> impl Strategy<Value = SpawnRequest> {
    (
        proc_id(),
        process_spec(),
        select(vec![SpawnStdin::Null, SpawnStdin::Open]),
        select(vec![Detach::No, Detach::Yes]),
    )
        .prop_map(|(id, process, stdin, detach)| SpawnRequest {
            id,
            process,
            stdin,
            detach,
        })
}

pub(crate) fn proc_read_request() -> impl Strategy<Value = ProcReadRequest> {
    (
        proc_id(),
        select(vec![OutputStream::Stdout, OutputStream::Stderr]),
        integer(),
        0..=MAX_PROC_READ_BYTES,
        milliseconds(),
    )
        .prop_map(|(id, stream, from, max, wait)| ProcReadRequest {
            id,
            stream,
            from,
            max,
            wait,
        })
}

pub(crate) fn proc_status() -> impl Strategy<Value = ProcStatus> {
    prop_oneof![
        Just(ProcStatus::Running),
        exit_report().prop_map(ProcStatus::Ended)
    ]
}

pub(crate) fn proc_chunk() -> impl Strategy<Value = ProcChunk> {
    (
        integer(),
        content(),
        integer(),
        any::<bool>(),
        proc_status(),
    )
        .prop_map(|(offset, bytes, total, end, status)| ProcChunk {
            offset,
            bytes,
            total,
            end,
            status,
        })
}

pub(crate) fn proc_stdin_request() -> impl Strategy<Value = ProcStdinRequest> {
    (
        proc_id(),
        integer(),
        content(),
        any::<bool>(),
        option::of(pty_size()),
    )
        .prop_map(|(id, offset, bytes, close, resize)| ProcStdinRequest {
            id,
            offset,
            bytes,
            close,
            resize,
        })
}

pub(crate) fn proc_stop_request() -> impl Strategy<Value = ProcStopRequest> {
    let stop = prop_oneof![
        (1..=64i32).prop_map(Stop::Signal),
        milliseconds().prop_map(|grace| Stop::Graceful { grace }),
        Just(Stop::Kill),
    ];
    (proc_id(), stop).prop_map(|(id, stop)| ProcStopRequest { id, stop })
}

/// Sometimes of some hundred entries, which do not fit a line.
pub(crate) fn manifest() -> impl Strategy<Value = Manifest> {
    let kinds = vec![EntryKind::File, EntryKind::Directory, EntryKind::Link];
    let entry = (
        path(),
        select(kinds),
        permissions(),
        integer(),
        option::of(digest()),
    )
        .prop_map(|(path, kind, mode, size, digest)| ManifestEntry {
            path,
            kind,
            mode,
            size,
            digest,
        });
    let repeat = prop_oneof![9 => Just(1usize), 1 => Just(300usize)];
    (vec(entry, 0..4), repeat).prop_map(|(entries, repeat)| {
        let total = entries.len() * repeat;
        let entries = entries.into_iter().cycle().take(total).collect();
        Manifest { entries }
    })
}

pub(crate) fn pull_request() -> impl Strategy<Value = PullRequest> {
    (
        vec(scope(), 0..3),
        select(vec![Compression::None, Compression::Gzip]),
        option::of(manifest()),
    )
        .prop_map(|(scopes, compression, base)| PullRequest {
            scopes,
            compression,
            base,
        })
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![
        Just(Network::None),
        Just(Network::Open),
        vec(text(), 0..3).prop_map(Network::Allow),
    ]
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let access = select(vec![MountAccess::ReadOnly, MountAccess::ReadWrite]);
    let mount = (absolute(), absolute(), access).prop_map(|(host, sandbox, access)| Mount {
        host: PathBuf::from(String::from_utf8_lossy(host.as_bytes()).into_owned()),
        sandbox,
        access,
    });
    let inherit = prop_oneof![
        Just(EnvInherit::All),
        Just(EnvInherit::Nothing),
        vec(text(), 0..3).prop_map(EnvInherit::Names),
    ];
    let limit = (
        integer(),
        select(vec![Strength::Required, Strength::BestEffort]),
    )
        .prop_map(|(value, strength)| Limit { value, strength });
    (
        option::of(network()),
        vec(mount, 0..3),
        (option::of(inherit), vec(env_change(), 0..3)),
        btree_set(select(&Restriction::ALL[..]), 0..4),
        btree_map(select(&LimitKind::ALL[..]), limit, 0..8),
    )
        .prop_map(
            |(network, mounts, (inherit, changes), require, limits)| Policy {
                network,
                mounts,
                env: EnvPolicy { inherit, changes },
                require,
                limits,
            },
        )
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3)
}

/// What a `serde_json::Value` would change: big integers, members that repeat.
fn json() -> impl Strategy<Value = String> {
    select(vec![
        "{}".to_owned(),
        r#"{"a":123456789012345678901234567890,"a":1.10}"#.to_owned(),
        r#"[ "x\u0041" ,null]"#.to_owned(),
    ])
}

pub(crate) fn spec() -> impl Strategy<Value = AcquireSpec> {
    (
        (
            sandbox_id(),
            labels(),
            option::of(text()),
            option::of(text()),
        ),
        policy(),
        (
            option::of(milliseconds()),
            option::of(milliseconds()),
            option::of(json()),
        ),
    )
        .prop_map(
            |((id, labels, root, template), policy, (lease, linger, options))| AcquireSpec {
                id,
                labels,
                root,
                template,
                policy,
                lease,
                linger,
                options,
            },
        )
}

pub(crate) fn probe() -> impl Strategy<Value = Probe> {
    prop_oneof![
        vec(text(), 0..3).prop_map(|notes| Probe::Works { notes }),
        (text(), text()).prop_map(|(reason, remedy)| Probe::Fails { reason, remedy }),
    ]
}

pub(crate) fn descriptor() -> impl Strategy<Value = Descriptor> {
    let grade = prop_oneof![
        Just(Grade::Full),
        Just(Grade::Unavailable),
        vec(text(), 0..3).prop_map(|gaps| Grade::Partial { gaps }),
    ];
    let enforced = select(vec![
        EnforcedBy::Cgroup1,
        EnforcedBy::Cgroup2,
        EnforcedBy::Container,
        EnforcedBy::Rlimit,
        EnforcedBy::Poll,
        EnforcedBy::Engine,
        EnforcedBy::None,
    ]);
    let report =
        (integer(), enforced).prop_map(|(value, enforced_by)| LimitReport { value, enforced_by });
    let capabilities =
        proptest::sample::subsequence(Capability::ALL.to_vec(), 0..=Capability::ALL.len());
    (
        (text(), text(), sandbox_id(), integer(), text(), text()),
        (
            absolute(),
            option::of(absolute()),
            option::of(absolute()),
            network(),
        ),
        btree_map(select(&Restriction::ALL[..]), grade, 0..4),
        btree_map(select(&LimitKind::ALL[..]), report, 0..8),
        (capabilities, vec(text(), 0..3)),
    )
        .prop_map(|(who, places, guarantees, limits, (capabilities, notes))| {
            let (location, provider, id, generation, os, arch) = who;
            let (root, home, shell, network) = places;
            Descriptor {
                location,
                provider,
                id,
                generation: Generation(generation),
                platform: Platform { os, arch },
                root,
                home,
                shell,
                network,
                guarantees,
                limits,
                capabilities: capabilities.into_iter().collect(),
                notes,
            }
        })
}

pub(crate) fn state() -> impl Strategy<Value = SandboxState> {
    (text(), sandbox_id(), integer(), json()).prop_map(|(provider, id, generation, data)| {
        SandboxState {
            provider,
            id,
            generation: Generation(generation),
            data,
        }
    })
}

pub(crate) fn entries() -> impl Strategy<Value = Vec<SandboxEntry>> {
    let entry =
        (sandbox_id(), labels(), any::<bool>()).prop_map(|(id, labels, running)| SandboxEntry {
            id,
            labels,
            running,
        });
    vec(entry, 0..3)
}

pub(crate) fn template() -> impl Strategy<Value = TemplateSpec> {
    (text(), option::of(json())).prop_map(|(name, options)| TemplateSpec { name, options })
}

pub(crate) fn update() -> impl Strategy<Value = Update> {
    (vec(env_change(), 0..3), option::of(policy())).prop_map(|(env, policy)| Update { env, policy })
}

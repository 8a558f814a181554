//! Arbitrary trees, policies, specs and descriptors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sandbox_core::file::EntryKind;
use sandbox_core::transfer::*;
use sandbox_core::*;

use super::search::scope;
use super::{
    absolute, digest, env_change, integer, milliseconds, path, permissions, sandbox_id, text,
};

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

pub(crate) fn network() -> impl Strategy<Value = Network> {
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
        (vec(mount, 0..3), btree_set(absolute(), 0..3)),
        (option::of(inherit), vec(env_change(), 0..3)),
        btree_set(select(&Restriction::ALL[..]), 0..4),
        btree_set(select(&Restriction::ALL[..]), 0..4),
        btree_map(select(&LimitKind::ALL[..]), limit, 0..8),
    )
        .prop_map(
            |(network, (mounts, hidden), (inherit, changes), require, prefer, limits)| Policy {
                network,
                mounts,
                hidden,
                env: EnvPolicy { inherit, changes },
                require,
                prefer,
                limits,
            },
        )
}

pub(crate) fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3)
}

/// What a `serde_json::Value` would change: big integers, members that repeat.
pub(crate) fn json() -> impl Strategy<Value = String> {
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

fn claim() -> impl Strategy<Value = Claim> {
    select(vec![
        Claim::Held,
        Claim::Used,
        Claim::Kept,
        Claim::Abandoned,
        Claim::Unclear,
    ])
}

pub(crate) fn entries() -> impl Strategy<Value = Vec<SandboxEntry>> {
    let entry = (sandbox_id(), labels(), any::<bool>(), claim(), text()).prop_map(
        |(id, labels, running, claim, detail)| SandboxEntry {
            id,
            labels,
            running,
            claim,
            detail,
        },
    );
    vec(entry, 0..3)
}

pub(crate) fn template() -> impl Strategy<Value = TemplateSpec> {
    (text(), option::of(json())).prop_map(|(name, options)| TemplateSpec { name, options })
}

pub(crate) fn update() -> impl Strategy<Value = Update> {
    (vec(env_change(), 0..3), option::of(policy())).prop_map(|(env, policy)| Update { env, policy })
}

//! Arbitrary values of the port.

pub(crate) mod file;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod search;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
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

pub(crate) fn raw() -> impl Strategy<Value = Vec<u8>> {
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

pub(crate) fn absolute() -> impl Strategy<Value = SandboxPath> {
    path().prop_map(|path| {
        SandboxPath::parse([b"/", path.as_bytes()].concat()).expect("well spelled")
    })
}

pub(crate) fn id() -> impl Strategy<Value = String> {
    "[A-Za-z0-9][A-Za-z0-9._-]{0,20}"
}

pub(crate) fn sandbox_id() -> impl Strategy<Value = SandboxId> {
    id().prop_map(|id| SandboxId::new(id).expect("plain"))
}

pub(crate) fn proc_id() -> impl Strategy<Value = ProcId> {
    id().prop_map(|id| ProcId::new(id).expect("plain"))
}

pub(crate) fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::from_bytes)
}

pub(crate) fn time() -> impl Strategy<Value = SystemTime> {
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

pub(crate) fn milliseconds() -> impl Strategy<Value = Duration> {
    (0..1_000_000_000u64).prop_map(Duration::from_millis)
}

pub(crate) fn microseconds() -> impl Strategy<Value = Duration> {
    (0..1_000_000_000u64).prop_map(Duration::from_micros)
}

pub(crate) fn permissions() -> impl Strategy<Value = u32> {
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

pub(crate) fn env_change() -> impl Strategy<Value = EnvChange> {
    let name = vec(prop_oneof![1..=60u8, 62..=255u8], 1..8);
    (name, option::of(raw())).prop_map(|(name, value)| EnvChange { name, value })
}

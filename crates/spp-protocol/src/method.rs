//! The table of methods: everything that may travel, in which direction, and what it can fail with.
//!
//! `docs/protocol.md` opens with this table; a test compares the two. What a method does is the
//! port's to say ([`sandbox_core::Sandbox`], [`sandbox_core::Provider`]).

use sandbox_core::{Capability, ErrorKind, Verb};

/// Who sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The host, to the provider.
    ToProvider,
    /// The provider, to the host.
    ToHost,
    /// Either.
    Both,
}

/// Whether a message is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is a request: always answered, with this type of result or an error.
    Result(&'static str),
    /// It is a notification.
    None,
}

/// What a method may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing: any failure may be retried.
    Nothing,
    /// Something, and repeating it does no harm: the host chose the id or the offset.
    Idempotent,
    /// Something: a failure whose effect is unknown must be looked into.
    Something,
}

/// One method.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// Who sends it.
    pub direction: Direction,
    /// The type of its parameters.
    pub params: &'static str,
    /// Whether it is answered.
    pub answer: Answer,
    /// Members of its parameters that name streams, or hold byte fields that may, with where they lead.
    pub streams: &'static [(&'static str, Direction)],
    /// What it fails with, beside what everything may ([`COMMON_ERRORS`]).
    pub errors: &'static [ErrorKind],
    /// What it may change.
    pub changes: Changes,
}

/// What every request may fail with.
pub const COMMON_ERRORS: &[ErrorKind] = &[
    ErrorKind::InvalidArgument,
    ErrorKind::Unsupported,
    ErrorKind::NotInitialized,
    ErrorKind::TooLarge,
    ErrorKind::Busy,
    ErrorKind::Cancelled,
    ErrorKind::DeadlineExceeded,
    ErrorKind::Protocol,
    ErrorKind::Internal,
];

/// What every verb of a sandbox may fail with, beside [`COMMON_ERRORS`].
pub const SANDBOX_ERRORS: &[ErrorKind] = &[
    ErrorKind::SandboxNotFound,
    ErrorKind::Lost,
    ErrorKind::Fenced,
    ErrorKind::Disconnected,
];

/// What going to a path may fail with.
const PATH: &[ErrorKind] = &[
    ErrorKind::NotFound,
    ErrorKind::NotAFile,
    ErrorKind::NotADirectory,
    ErrorKind::OutsideRoot,
    ErrorKind::PermissionDenied,
    ErrorKind::Io,
];

/// What changing something at a path may fail with.
const CHANGE: &[ErrorKind] = &[
    ErrorKind::Conflict,
    ErrorKind::AlreadyExists,
    ErrorKind::NotFound,
    ErrorKind::NotAFile,
    ErrorKind::NotADirectory,
    ErrorKind::NotEmpty,
    ErrorKind::OutsideRoot,
    ErrorKind::ReadOnly,
    ErrorKind::PermissionDenied,
    ErrorKind::NoSpace,
    ErrorKind::Io,
];

/// What starting a program may fail with.
const START: &[ErrorKind] = &[
    ErrorKind::NotFound,
    ErrorKind::NotAFile,
    ErrorKind::NotADirectory,
    ErrorKind::OutsideRoot,
    ErrorKind::PermissionDenied,
    ErrorKind::SpawnFailed,
    ErrorKind::Conflict,
    ErrorKind::Io,
];

/// What obtaining something from behind the provider may fail with.
const BEHIND: &[ErrorKind] = &[
    ErrorKind::ProviderUnavailable,
    ErrorKind::AuthFailed,
    ErrorKind::QuotaExceeded,
    ErrorKind::Io,
];

const ACQUIRE: &[ErrorKind] = &[
    ErrorKind::Conflict,
    ErrorKind::PolicyUnmet,
    ErrorKind::UnsupportedSpec,
    ErrorKind::ProviderUnavailable,
    ErrorKind::AuthFailed,
    ErrorKind::QuotaExceeded,
    ErrorKind::NoSpace,
    ErrorKind::Io,
];

const fn request(
    name: &'static str,
    params: &'static str,
    result: &'static str,
    streams: &'static [(&'static str, Direction)],
    errors: &'static [ErrorKind],
    changes: Changes,
) -> Method {
    Method {
        name,
        direction: Direction::ToProvider,
        params,
        answer: Answer::Result(result),
        streams,
        errors,
        changes,
    }
}

const fn notification(name: &'static str, direction: Direction, params: &'static str) -> Method {
    Method {
        name,
        direction,
        params,
        answer: Answer::None,
        streams: &[],
        errors: &[],
        changes: Changes::Nothing,
    }
}

use Changes::{Idempotent, Nothing, Something};
use Direction::{Both, ToHost, ToProvider};

/// Every method, in the order of the documentation.
#[rustfmt::skip]
pub const METHODS: &[Method] = &[
    request("initialize", "InitializeParams", "InitializeResult", &[], &[ErrorKind::UnsupportedVersion], Nothing),
    request("ping", "PingParams", "Empty", &[], &[], Nothing),
    request("shutdown", "ShutdownParams", "Empty", &[], &[], Idempotent),
    request("probe", "ProbeParams", "ProbeResult", &[], BEHIND, Nothing),
    request("acquire", "AcquireParams", "SandboxResult", &[], ACQUIRE, Idempotent),
    request("attach", "AttachParams", "SandboxResult", &[], &[ErrorKind::Lost, ErrorKind::Fenced, ErrorKind::ProviderUnavailable, ErrorKind::AuthFailed], Idempotent),
    request("release", "ReleaseParams", "ReleaseResult", &[], BEHIND, Idempotent),
    request("list", "ListParams", "ListResult", &[], BEHIND, Nothing),
    request("prepare", "PrepareParams", "PrepareResult", &[], ACQUIRE, Idempotent),
    request("update", "UpdateParams", "Empty", &[], &[ErrorKind::SandboxNotFound, ErrorKind::PolicyUnmet, ErrorKind::ProviderUnavailable], Idempotent),
    request("capture_state", "CaptureStateParams", "CaptureStateResult", &[], &[ErrorKind::ProviderUnavailable], Nothing),
    request("read", "ReadParams", "FileContent", &[("content", ToHost)], PATH, Nothing),
    request("read_many", "ReadManyParams", "ReadManyResult", &[("content", ToHost)], PATH, Nothing),
    request("write", "WriteParams", "WriteResult", &[("changes", ToProvider)], CHANGE, Something),
    request("remove", "RemoveParams", "RemoveResult", &[], CHANGE, Something),
    request("stat_many", "StatManyParams", "StatManyResult", &[], PATH, Nothing),
    request("glob", "GlobParams", "GlobResult", &[], PATH, Nothing),
    request("grep", "GrepParams", "GrepResult", &[], PATH, Nothing),
    request("fingerprint", "FingerprintParams", "FingerprintResult", &[], PATH, Nothing),
    request("exec", "ExecParams", "ExecResult", &[("stdin", ToProvider), ("stdout", ToHost), ("stderr", ToHost)], START, Something),
    request("spawn", "SpawnParams", "SpawnResult", &[], START, Idempotent),
    request("proc_read", "ProcReadParams", "ProcReadResult", &[("content", ToHost)], &[ErrorKind::ProcessNotFound, ErrorKind::Io], Nothing),
    request("proc_stdin", "ProcStdinParams", "ProcStdinResult", &[("content", ToProvider)], &[ErrorKind::ProcessNotFound, ErrorKind::StdinClosed, ErrorKind::Conflict], Idempotent),
    request("proc_stop", "ProcStopParams", "ProcStopResult", &[], &[ErrorKind::ProcessNotFound, ErrorKind::PermissionDenied], Idempotent),
    request("push_tree", "PushTreeParams", "PushTreeResult", &[("archive", ToProvider), ("base", ToProvider), ("manifest", ToHost)], CHANGE, Something),
    request("pull_tree", "PullTreeParams", "PullTreeResult", &[("base", ToProvider), ("archive", ToHost), ("manifest", ToHost)], PATH, Nothing),
    notification("$/cancel", ToProvider, "Cancel"),
    notification("$/progress", ToHost, "Progress"),
    notification("sandbox/closed", ToHost, "SandboxClosed"),
    notification("stream/data", Both, "StreamData"),
    notification("stream/end", Both, "StreamEnd"),
    notification("stream/credit", Both, "StreamCredit"),
    notification("stream/stop", Both, "StreamStop"),
];

/// The method of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// The verb that a method is; `None` for `ping` and for notifications.
#[must_use]
pub fn verb(name: &str) -> Option<Verb> {
    Verb::ALL.into_iter().find(|verb| verb.name() == name)
}

/// The capability without which a method is answered `unsupported`; `None` for what is mandatory.
#[must_use]
pub fn capability(name: &str) -> Option<Capability> {
    verb(name).and_then(Capability::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_a_method_and_every_name_is_there_once() {
        for verb in Verb::ALL {
            let method = find(verb.name()).expect("a method for each verb");
            assert_eq!(method.direction, Direction::ToProvider);
            assert!(matches!(method.answer, Answer::Result(_)));
        }
        for (index, method) in METHODS.iter().enumerate() {
            assert!(
                METHODS[index + 1..]
                    .iter()
                    .all(|other| other.name != method.name)
            );
        }
    }
}

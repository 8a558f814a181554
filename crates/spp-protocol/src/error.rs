//! Error codes, and the error object: the wire form of [`sandbox_core::Error`].
//!
//! `data.kind` says what went wrong and is what a caller switches on; the code is its coarse twin for
//! JSON-RPC libraries. Both are open: a kind that this version does not know becomes
//! [`ErrorKind::Other`] with its name in the detail.
//!
//! **Invariant:** the object has no members but `code`, `message` and `data`, because common
//! JSON-RPC clients end the connection over any other.

use sandbox_core::{Effect, Error, ErrorKind, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// An error on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorObject {
    /// The code of the kind ([`CODES`]).
    pub code: i32,
    /// The whole error in one sentence, for people.
    pub message: String,
    /// The parts.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<ErrorData>,
}

/// The parts of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ErrorData {
    /// What went wrong, by name ([`CODES`]). Vendors use `x.DOMAIN/NAME`.
    pub kind: String,
    /// `none` is a promise that nothing happened; anything else, or nothing, means that it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The verb that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// What it was applied to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What is the matter and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The value that would have been right: a digest, an offset, the versions spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The lower-level causes, the nearest first, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// When a retry makes sense, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether doing the same again is safe and may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// A code of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The number.
    pub code: i32,
    /// The name, in `data.kind`.
    pub name: &'static str,
    /// What it is in the port.
    pub kind: ErrorKind,
}

/// First code that vendors may use; their kinds are named `x.DOMAIN/NAME`.
pub const VENDOR_CODES: i32 = 100_000;

/// Longest text of an error that is kept of a peer's, in bytes: a path and the end of somebody's
/// standard error fit.
const MAX_TEXT_BYTES: usize = 16 * 1024;

const fn code(code: i32, name: &'static str, kind: ErrorKind) -> Code {
    Code { code, name, kind }
}

/// Every code. Of two codes of one kind the first is the one that is sent.
pub const CODES: &[Code] = &[
    code(-32600, "invalid_request", ErrorKind::Protocol),
    code(-32700, "parse_error", ErrorKind::Protocol),
    code(-32602, "invalid_params", ErrorKind::InvalidArgument),
    code(-32603, "internal", ErrorKind::Internal),
    code(-32800, "cancelled", ErrorKind::Cancelled),
    code(1001, "unsupported_version", ErrorKind::UnsupportedVersion),
    code(1002, "not_initialized", ErrorKind::NotInitialized),
    code(1003, "unsupported", ErrorKind::Unsupported),
    code(-32601, "method_not_found", ErrorKind::Unsupported),
    code(1004, "deadline_exceeded", ErrorKind::DeadlineExceeded),
    code(1005, "limit_exceeded", ErrorKind::TooLarge),
    code(1006, "busy", ErrorKind::Busy),
    code(1101, "sandbox_not_found", ErrorKind::SandboxNotFound),
    code(1102, "lost", ErrorKind::Lost),
    code(1103, "conflict", ErrorKind::Conflict),
    code(1104, "provider_unavailable", ErrorKind::ProviderUnavailable),
    code(1105, "auth_failed", ErrorKind::AuthFailed),
    code(1106, "quota_exceeded", ErrorKind::QuotaExceeded),
    code(1107, "unsupported_spec", ErrorKind::UnsupportedSpec),
    code(1108, "policy_unmet", ErrorKind::PolicyUnmet),
    code(1109, "fenced", ErrorKind::Fenced),
    code(1110, "disconnected", ErrorKind::Disconnected),
    code(1201, "not_found", ErrorKind::NotFound),
    code(1202, "already_exists", ErrorKind::AlreadyExists),
    code(1203, "not_a_file", ErrorKind::NotAFile),
    code(1204, "permission_denied", ErrorKind::PermissionDenied),
    code(1205, "outside_root", ErrorKind::OutsideRoot),
    code(1206, "io", ErrorKind::Io),
    code(1207, "not_a_directory", ErrorKind::NotADirectory),
    code(1208, "not_empty", ErrorKind::NotEmpty),
    code(1209, "read_only", ErrorKind::ReadOnly),
    code(1210, "no_space", ErrorKind::NoSpace),
    code(1301, "process_not_found", ErrorKind::ProcessNotFound),
    code(1302, "stdin_closed", ErrorKind::StdinClosed),
    code(1303, "spawn_failed", ErrorKind::SpawnFailed),
    code(VENDOR_CODES, "other", ErrorKind::Other),
];

/// The code that is sent for a kind.
#[must_use]
pub fn code_of(kind: ErrorKind) -> Code {
    let found = CODES.iter().find(|code| code.kind == kind);
    *found.expect("a test holds that every kind has a code")
}

impl ErrorObject {
    /// The wire form of an error.
    #[must_use]
    pub fn encode(error: &Error) -> Self {
        let Code { code, name, .. } = code_of(error.kind());
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            code,
            message: error.to_string(),
            data: Some(ErrorData {
                kind: name.into(),
                effect: Some(effect_name(error.effect()).into()),
                verb: Some(error.verb().name().into()),
                subject: some(error.subject()),
                detail: some(error.detail_text()),
                expected: error.expected_value().map(Into::into),
                cause: causes(error),
                retry_after_ms: error.retry_after(),
                retryable: Some(error.is_retryable()),
            }),
        }
    }

    /// The error that this is. `verb` is what was asked for; it stands where the object names none that is known.
    #[must_use]
    pub fn decode(self, verb: Verb) -> Error {
        let Self {
            code,
            message,
            data,
        } = self;
        let known = |name: &str| CODES.iter().find(|known| known.name == name);
        let data = data.unwrap_or_default();
        // The kind decides; the code stands in where a peer left the kind out.
        let found = if data.kind.is_empty() {
            CODES.iter().find(|known| known.code == code)
        } else {
            known(&data.kind)
        };
        let kind = found.map_or(ErrorKind::Other, |found| found.kind);
        let effect = match data.effect.as_deref() {
            Some("none") => Effect::None,
            Some(_) => Effect::Unknown,
            None if refuses_by_nature(code) => Effect::None,
            None => Effect::Unknown,
        };
        let verb = data.verb.as_deref().and_then(verb_of).unwrap_or(verb);
        let detail = match (data.detail, found) {
            (Some(detail), Some(_)) => detail,
            // Whoever names no verb did not put the message together from these members, and said
            // everything there.
            (None, Some(_)) if data.verb.is_none() => message,
            (None, Some(_)) => String::new(),
            (detail, None) => {
                let text = detail.unwrap_or(message);
                match data.kind.as_str() {
                    "" => format!("code {code}: {text}"),
                    kind => format!("{kind}: {text}"),
                }
            }
        };
        let mut error = Error::new(verb, kind)
            .with_effect(effect)
            .detail(told(detail));
        if let Some(subject) = data.subject {
            error = error.on(told(subject));
        }
        if let Some(expected) = data.expected {
            error = error.expected(told(expected));
        }
        if let Some(ms) = data.retry_after_ms {
            error = error.retry_after_ms(ms);
        }
        if let Some(cause) = data.cause {
            error = error.caused_by(told(cause));
        }
        error
    }
}

/// A text of a peer, as it is but not without end. What is done about line breaks and control characters is
/// for whoever shows it: a subject is a path, and a path may have them.
fn told(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push_str(" [...]");
    }
    text
}

/// JSON-RPC's own refusals come before anything was tried.
fn refuses_by_nature(code: i32) -> bool {
    matches!(code, -32700 | -32602..=-32600)
}

fn effect_name(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "none",
        Effect::Unknown => "unknown",
    }
}

fn verb_of(name: &str) -> Option<Verb> {
    Verb::ALL.into_iter().find(|verb| verb.name() == name)
}

fn causes(error: &Error) -> Option<String> {
    let mut texts = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        texts.push(cause.to_string());
        source = cause.source();
    }
    (!texts.is_empty()).then(|| texts.join(": "))
}

/// `data` is anything in JSON-RPC; what is not ours counts as absent.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ErrorData>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(error: &Error) -> impl PartialEq + std::fmt::Debug {
        (
            (error.verb(), error.kind(), error.effect()),
            error.subject().to_owned(),
            error.detail_text().to_owned(),
            error.expected_value().map(str::to_owned),
            error.retry_after(),
            causes(error),
            error.to_string(),
        )
    }

    #[test]
    fn every_kind_and_every_part_survives_the_wire() {
        for kind in ErrorKind::ALL {
            for effect in [Effect::None, Effect::Unknown] {
                let bare = Error::new(Verb::Exec, kind).with_effect(effect);
                let full = Error::new(Verb::Exec, kind)
                    .with_effect(effect)
                    .on("a b")
                    .detail("because")
                    .expected("7")
                    .retry_after_ms(8)
                    .caused_by("cause");
                for error in [bare, full] {
                    let wire = serde_json::to_string(&ErrorObject::encode(&error)).expect("JSON");
                    let object: ErrorObject = serde_json::from_str(&wire).expect("our own JSON");
                    assert_eq!(parts(&object.decode(Verb::Read)), parts(&error));
                }
            }
        }
    }

    #[test]
    fn codes_and_names_are_unique_and_outside_of_what_json_rpc_reserves_for_itself() {
        for (index, code) in CODES.iter().enumerate() {
            for other in &CODES[index + 1..] {
                assert_ne!(code.code, other.code);
                assert_ne!(code.name, other.name);
            }
            let standard = (-32700..=-32600).contains(&code.code) || code.code == -32800;
            assert!(standard || code.code > 0, "{code:?}");
        }
    }

    fn decode(json: &str) -> Error {
        let object: ErrorObject = serde_json::from_str(json).expect("an error object");
        object.decode(Verb::Read)
    }

    #[test]
    fn an_unknown_kind_keeps_its_name_and_promises_nothing() {
        let error = decode(
            r#"{"code":100007,"message":"m","data":{"kind":"x.example.org/asleep","detail":"wake it","later":1}}"#,
        );
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Other, Effect::Unknown)
        );
        assert_eq!(error.detail_text(), "x.example.org/asleep: wake it");
        assert_eq!(
            decode(r#"{"code":77,"message":"m"}"#).detail_text(),
            "code 77: m"
        );
    }

    #[test]
    fn a_text_of_a_peer_does_not_go_on_for_ever() {
        let long = serde_json::json!({ "code": 1206, "message": "ä".repeat(1 << 20) });
        let kept = decode(&long.to_string()).detail_text().len();
        assert!(kept <= MAX_TEXT_BYTES + 6, "{kept}");
    }

    #[test]
    fn errors_of_plain_json_rpc_libraries_are_understood() {
        let error = decode(r#"{"code":-32601,"message":"Method not found"}"#);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unsupported, Effect::None)
        );
        assert_eq!(error.detail_text(), "Method not found");
        let error = decode(
            r#"{"code":1201,"message":"there is no `x`","data":{"kind":"not_found","effect":"none"}}"#,
        );
        assert_eq!(error.detail_text(), "there is no `x`", "{error}");
        let error = decode(r#"{"code":-32603,"message":"boom","data":"trace"}"#);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Internal, Effect::Unknown)
        );
    }
}

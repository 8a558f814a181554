//! What a peer may send, and what becomes of everything else.
//!
//! The JSON-RPC client behind us ends the whole connection over any line that it does not expect: a
//! stray print, an answer that nobody asked for, an error object with one member more. With many
//! sandboxes on one pipe that is too much for one line, so nothing reaches it but answers to calls
//! that are under way, spelled anew in the one form it understands. A result does not even pass
//! through it: it goes straight to its call, because the library copies it and writes it to its
//! trace log, and a result holds the content of files.
//!
//! **Invariant:** a [`Verdict::Answer`] is for a call that was under way and no longer is: the first
//! answer to a call is the only one.

use std::borrow::Cow;

use sandbox_core::ErrorKind;
use serde::Deserialize;
use serde_json::value::RawValue;
use spp_protocol::codec::{Envelope, Id, Line, has_in_prefix, id_in_prefix, method_in_prefix};
use spp_protocol::error::code_of;

use crate::pending::{PendingCall, PendingCalls};
use crate::shared::{LONG, LONG_ANSWER};

/// What a line is.
#[derive(Debug)]
pub(crate) enum Verdict<'a> {
    /// The answer to a call, in canonical form.
    Answer(Answer),
    /// A notification.
    Notification {
        method: Cow<'a, str>,
        params: &'a str,
    },
    /// A request. A provider sends none; this line refuses it.
    Refuse(Vec<u8>),
    /// An answer to an id that is not under way.
    Unasked,
    /// No message of the protocol, and why.
    Bad(&'static str),
    /// What may be the answer to any call, of which nothing can be read: whoever waits for it would wait for ever.
    Lost(&'static str),
}

/// An answer in canonical form.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Has the result by now, if the answer is one.
    pub(crate) call: PendingCall,
    pub(crate) line: Vec<u8>,
    pub(crate) outcome: AnswerKind,
    pub(crate) form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Result,
    Error,
}

/// Whether an answer came in a form that the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Sound,
    Repaired,
}

/// Judges one line; takes the call of an answer out of `calls`.
pub(crate) fn inspect<'a>(line: &Line<'a>, calls: &PendingCalls) -> Verdict<'a> {
    let line = match line {
        Line::Complete(line) => line,
        Line::TooLong { prefix } => {
            return match id_in_prefix(prefix) {
                Some(id) => match calls.take(id) {
                    Some(call) => failed(
                        id,
                        call,
                        ErrorKind::TooLarge,
                        "the answer is longer than a line may be; ask for less",
                    ),
                    None => Verdict::Bad(LONG),
                },
                None if may_be_answer(prefix) => Verdict::Lost(LONG_ANSWER),
                None => Verdict::Bad(LONG),
            };
        }
    };
    let Ok(text) = std::str::from_utf8(line) else {
        return Verdict::Bad("the line is not UTF-8");
    };
    if let Some((id, result)) = plain_result(text) {
        return match calls.take(id) {
            Some(call) => result_answer(id, call, result),
            None => Verdict::Unasked,
        };
    }
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Verdict::Bad("the line is no JSON object");
    }
    let Ok(envelope) = Envelope::parse(line) else {
        return match id_in_prefix(line).and_then(|id| Some((id, calls.take(id)?))) {
            Some((id, call)) => failed(
                id,
                call,
                ErrorKind::Protocol,
                "the provider's answer is not JSON",
            ),
            None if is_answer(line) => {
                Verdict::Lost("an answer is not JSON, and does not say whose it is")
            }
            None => Verdict::Bad("the line is not JSON"),
        };
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Verdict::Bad("the message does not say that it is JSON-RPC 2.0");
    }
    match (envelope.method, envelope.id) {
        (Some(method), None) => Verdict::Notification {
            method,
            params: envelope.params.map_or("{}", RawValue::get),
        },
        (Some(_), Some(id)) => refusal(&id),
        (None, Some(Id::Number(id))) => answer(id, line, envelope.result, envelope.error, calls),
        (None, _) => Verdict::Bad("the answer has no id that we gave out"),
    }
}

/// Whether a line of which only this beginning is known may be an answer: an object without a method so far.
fn may_be_answer(prefix: &[u8]) -> bool {
    prefix.trim_ascii_start().first() == Some(&b'{') && method_in_prefix(prefix).is_none()
}

/// Whether what is no JSON was to be an answer, of which no id is to be seen.
fn is_answer(line: &[u8]) -> bool {
    let has = |name| has_in_prefix(line, name);
    !has("id") && !has("method") && (has("result") || has("error"))
}

/// The result of an answer that is spelled as most peers spell it, without a look inside: whoever made
/// the call reads it anyway, as one value and nothing behind it, and a file's content is long.
fn plain_result(line: &str) -> Option<(u64, &str)> {
    let rest = line.strip_prefix(r#"{"jsonrpc":"2.0","id":"#)?;
    let (id, rest) = rest.split_at(rest.find(|character: char| !character.is_ascii_digit())?);
    let result = rest.strip_prefix(r#","result":"#)?.strip_suffix('}')?;
    let is_plain = result.starts_with('{')
        && result.ends_with('}')
        // Inside a string its quotes would be escaped, so this is a member, and maybe the message's own.
        && memchr::memmem::find(result.as_bytes(), br#""error":"#).is_none();
    Some((id.parse().ok().filter(|_| is_plain)?, result))
}

fn result_answer(id: u64, call: PendingCall, result: &str) -> Verdict<'static> {
    call.result.put(result.to_owned());
    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#).into_bytes();
    Verdict::Answer(Answer {
        call,
        line,
        outcome: AnswerKind::Result,
        form: Form::Sound,
    })
}

fn answer<'a>(
    id: u64,
    line: &'a [u8],
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    calls: &PendingCalls,
) -> Verdict<'a> {
    let Some(call) = calls.take(id) else {
        return Verdict::Unasked;
    };
    match (result.or_else(|| null_result(line)), error) {
        (Some(result), None) => result_answer(id, call, result.get()),
        (None, Some(error)) => error_answer(id, call, error),
        _ => failed(
            id,
            call,
            ErrorKind::Protocol,
            "the provider's answer has not exactly one of `result` and `error`",
        ),
    }
}

/// `"result": null` reads as absent; a member that must be there tells the two apart.
fn null_result(line: &[u8]) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Present<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    serde_json::from_slice::<Present<'_>>(line)
        .ok()
        .map(|present| present.result)
}

/// Reads an error object leniently: members it should not have are left out, a code beyond the
/// usual range becomes an internal error.
fn error_answer(id: u64, call: PendingCall, error: &RawValue) -> Verdict<'static> {
    #[derive(Deserialize)]
    struct Lenient<'a> {
        code: serde_json::Number,
        #[serde(borrow)]
        message: Cow<'a, str>,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let Ok(lenient) = serde_json::from_str::<Lenient<'_>>(error.get()) else {
        return failed(
            id,
            call,
            ErrorKind::Protocol,
            "the provider failed the call with a malformed error",
        );
    };
    let code = lenient
        .code
        .as_i64()
        .and_then(|code| i32::try_from(code).ok());
    let sound = code.is_some() && serde_json::from_str::<ErrorObject<'_>>(error.get()).is_ok();
    let line = error_line(
        id,
        code.unwrap_or(code_of(ErrorKind::Internal).code),
        &lenient.message,
        lenient.data.map(RawValue::get),
    );
    Verdict::Answer(Answer {
        call,
        line,
        outcome: AnswerKind::Error,
        form: if sound { Form::Sound } else { Form::Repaired },
    })
}

type ErrorObject<'a> = jsonrpsee::types::ErrorObject<'a>;

/// Fails the one call that a malformed answer was for.
fn failed(id: u64, call: PendingCall, kind: ErrorKind, detail: &str) -> Verdict<'static> {
    let code = code_of(kind);
    let data = serde_json::json!({ "kind": code.name, "effect": "unknown", "detail": detail });
    Verdict::Answer(Answer {
        call,
        line: error_line(id, code.code, detail, Some(&data.to_string())),
        outcome: AnswerKind::Error,
        form: Form::Repaired,
    })
}

fn error_line(id: u64, code: i32, message: &str, data: Option<&str>) -> Vec<u8> {
    let message = serde_json::Value::from(message);
    let data = data.map_or(String::new(), |data| format!(r#","data":{data}"#));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
        .into_bytes()
}

fn refusal(id: &Id<'_>) -> Verdict<'static> {
    let id = match id {
        Id::Number(number) => serde_json::Value::from(*number),
        Id::Text(text) if text.len() <= 256 => serde_json::Value::from(&**text),
        Id::Text(_) | Id::Other(_) => {
            return Verdict::Bad("a request with an id of no usable form");
        }
    };
    let mut line = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"a host takes no requests"}}}}"#
    )
    .into_bytes();
    line.push(b'\n');
    Verdict::Refuse(line)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A table with one call under way, of id 7.
    fn calls() -> PendingCalls {
        let calls = PendingCalls::default();
        calls.insert(
            7,
            PendingCall::new(sandbox_core::Verb::Read, None, Duration::ZERO),
        );
        let (taken, _) = calls.sent(7).expect("it was inserted");
        taken.set();
        calls
    }

    /// The canonical line, the form, and the result that the call has then.
    fn answer_to(line: &str) -> (String, Form, Option<String>) {
        match inspect(&Line::Complete(line.as_bytes()), &calls()) {
            Verdict::Answer(answer) => (
                String::from_utf8(answer.line).expect("canonical lines are UTF-8"),
                answer.form,
                answer.call.result.take(),
            ),
            other => panic!("{line} is {other:?}"),
        }
    }

    #[test]
    fn an_answer_reaches_the_call_in_one_form_however_it_is_spelled() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#,
            r#" { "result" : {"a":1}, "later": [1], "id" : 7, "jsonrpc" : "2.0" } "#,
        ] {
            assert_eq!(
                answer_to(line),
                (
                    r#"{"jsonrpc":"2.0","id":7,"result":null}"#.to_owned(),
                    Form::Sound,
                    Some(r#"{"a":1}"#.to_owned())
                )
            );
        }
        let (_, _, result) = answer_to(r#"{"jsonrpc":"2.0","id":7,"result":null}"#);
        assert_eq!(result.as_deref(), Some("null"));
    }

    #[test]
    fn a_malformed_answer_fails_its_own_call_only() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":5}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m","later":2}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":99999999999,"message":"m"}}"#,
        ] {
            let (answer, form, _) = answer_to(line);
            assert_eq!(form, Form::Repaired, "{line}");
            let parsed: jsonrpsee::types::Response<'_, ()> =
                serde_json::from_str(&answer).expect("the client behind us reads it");
            assert!(matches!(
                parsed.payload,
                jsonrpsee::types::ResponsePayload::Error(_)
            ));
        }
    }

    /// Whoever made the call reads the result as one value and nothing behind it.
    #[test]
    fn what_follows_a_result_is_left_for_its_call_to_refuse() {
        for behind in [r#","later":{}"#, r#","result":{}"#, "}"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":1}}{behind}}}"#);
            let (_, _, result) = answer_to(&line);
            let result = result.unwrap_or_default();
            assert!(
                serde_json::from_str::<serde_json::Value>(&result).is_err(),
                "{line} gave {result}"
            );
        }
    }

    #[test]
    fn what_may_be_any_calls_answer_and_cannot_be_read_is_told_from_what_is_none() {
        fn beginning(text: &str) -> Verdict<'_> {
            let prefix = text.as_bytes();
            inspect(&Line::TooLong { prefix }, &calls())
        }
        fn whole(text: &str) -> Verdict<'_> {
            inspect(&Line::Complete(text.as_bytes()), &calls())
        }
        for answer in [
            r#"{"jsonrpc":"2.0","result":{"id":7,"#,
            r#" {"result":"xxxxxxxxxxxxxxxxxxxxx"#,
            r#"{"id":"7","result":""#,
        ] {
            assert!(matches!(beginning(answer), Verdict::Lost(_)), "{answer}");
        }
        for none in [
            "a log without an end of a line",
            r#"{"jsonrpc":"2.0","method":"stream/data","params":{"#,
            r#"{"jsonrpc":"2.0","id":8,"result":""#,
        ] {
            assert!(matches!(beginning(none), Verdict::Bad(_)), "{none}");
        }
        assert!(matches!(
            whole(r#"{"jsonrpc":"2.0","result":{"a":"#),
            Verdict::Lost(_)
        ));
        for none in [
            r#"{"level":"info","#,
            r#"{"jsonrpc":"2.0","method":"x","result":"#,
        ] {
            assert!(matches!(whole(none), Verdict::Bad(_)), "{none}");
        }
    }

    #[test]
    fn what_is_no_answer_of_ours_never_gets_through() {
        fn check(line: &[u8]) -> Verdict<'_> {
            inspect(&Line::Complete(line), &calls())
        }
        for bad in [
            &b"starting up..."[..],
            b"7",
            b"[]",
            b"{\"jsonrpc\":\"2.0\",\"id\":8,\"res",
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}",
            b"{\"jsonrpc\":\"2.0\",\"id\":7.5,\"result\":1}",
            b"{\"id\":7,\"result\":1}",
            b"{\"method\":\"$/progress\"}",
            b"\xff\xfe",
        ] {
            assert!(
                matches!(check(bad), Verdict::Bad(_)),
                "{}",
                String::from_utf8_lossy(bad)
            );
        }
        assert!(matches!(
            check(br#"{"jsonrpc":"2.0","id":8,"result":1}"#),
            Verdict::Unasked
        ));
        assert!(matches!(
            check(br#"{"jsonrpc":"2.0","id":1,"method":"x"}"#),
            Verdict::Refuse(_)
        ));
        assert!(matches!(
            check(br#"{"jsonrpc":"2.0","method":"x"}"#),
            Verdict::Notification { .. }
        ));
    }
}

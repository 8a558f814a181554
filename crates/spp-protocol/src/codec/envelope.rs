//! The envelope of a message: is it a request, a notification or a response, and of which id.
//!
//! Parameters and results stay raw text here, borrowed from the line, until somebody who knows the
//! method asks for them with [`params`] or [`result`].

use std::borrow::Cow;

use sandbox_core::{Error, ErrorKind, Result, Verb};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::message::{Notification, Request};

/// A message whose parts are still raw.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// `2.0`; some peers leave it out.
    #[serde(borrow, default)]
    pub jsonrpc: Option<Cow<'a, str>>,
    /// The id, in a request or a response.
    #[serde(borrow, default)]
    pub id: Option<Id<'a>>,
    /// The method, in a request or a notification.
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    /// The parameters.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    /// The result, in a response.
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    /// The error, in a response.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a line.
    ///
    /// # Errors
    ///
    /// What the JSON parser says: the line is no JSON object, or not UTF-8.
    pub fn parse(line: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }
}

/// An id, as a peer may spell it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Id<'a> {
    /// An integer: the only form that this protocol uses.
    Number(u64),
    /// A string.
    #[serde(borrow)]
    Text(Cow<'a, str>),
    /// Something else: negative, fractional, an object.
    Other(serde_json::Value),
}

/// Finds the id in the first bytes of a message that is too long to be read.
///
/// Only a number in a member `id` of the outermost object counts; an `id` inside the parameters does
/// not.
#[must_use]
pub fn id_in_prefix(prefix: &[u8]) -> Option<u64> {
    let value = member_in_prefix(prefix, b"id")?;
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    // A number that the prefix cuts off would be another number.
    value
        .get(digits)
        .filter(|byte| matches!(byte, b',' | b'}' | b' '))?;
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

/// Finds the method in the first bytes of a message that is too long to be read, as
/// [`id_in_prefix`] finds the id. A method with escapes in its name is none of this protocol.
#[must_use]
pub fn method_in_prefix(prefix: &[u8]) -> Option<&str> {
    let name = member_in_prefix(prefix, b"method")?.strip_prefix(b"\"")?;
    let end = name.iter().position(|&byte| byte == b'"')?;
    std::str::from_utf8(&name[..end])
        .ok()
        .filter(|name| !name.contains('\\'))
}

/// Whether the outermost object has a member of this name in the first bytes of a message.
#[must_use]
pub fn has_in_prefix(prefix: &[u8], name: &str) -> bool {
    member_in_prefix(prefix, name.as_bytes()).is_some()
}

/// What follows the colon of a member of the outermost object.
fn member_in_prefix<'a>(prefix: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut depth = 0u32;
    let mut at = 0;
    while let Some(&byte) = prefix.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let begin = at;
                let mut escaped = false;
                loop {
                    match *prefix.get(at)? {
                        _ if escaped => escaped = false,
                        b'\\' => escaped = true,
                        b'"' => break,
                        _ => {}
                    }
                    at += 1;
                }
                let is_wanted = depth == 1 && &prefix[begin..at] == name;
                at += 1;
                if let (true, Some(value)) = (
                    is_wanted,
                    prefix[at..].trim_ascii_start().strip_prefix(b":"),
                ) {
                    return Some(value.trim_ascii_start());
                }
            }
            _ => {}
        }
    }
    None
}

/// Reads the parameters of a request. Absent parameters are an empty object.
///
/// # Errors
///
/// `InvalidArgument`, naming the member that is wrong, with no effect.
pub fn params<T: Request>(raw: Option<&str>) -> Result<T> {
    let verb = verb_of(T::METHOD);
    read(raw.unwrap_or("{}"))
        .map_err(|detail| Error::refused(verb, ErrorKind::InvalidArgument).detail(detail))
}

/// Reads the result of a request of type `T`.
///
/// # Errors
///
/// `Protocol`, naming the member that is wrong. The verb was done, so its effect is unknown.
pub fn result<T: Request>(raw: &str) -> Result<T::Result> {
    let verb = verb_of(T::METHOD);
    read(raw).map_err(|detail| {
        Error::new(verb, ErrorKind::Protocol)
            .detail(format_args!("the provider's answer is malformed: {detail}"))
    })
}

/// Appends the line of a notification.
pub fn write_notification<T: Notification>(out: &mut Vec<u8>, params: &T) {
    #[derive(serde::Serialize)]
    struct Message<'a, T> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'a T,
    }
    let message = Message {
        jsonrpc: "2.0",
        method: T::METHOD,
        params,
    };
    serde_json::to_writer(&mut *out, &message)
        .expect("our own messages have string keys, and memory does not fail");
    out.push(b'\n');
}

/// Appends the line of a response that has a result.
pub fn write_response<T: serde::Serialize>(out: &mut Vec<u8>, id: u64, result: &T) {
    #[derive(serde::Serialize)]
    struct Message<'a, T> {
        jsonrpc: &'static str,
        id: u64,
        result: &'a T,
    }
    let message = Message {
        jsonrpc: "2.0",
        id,
        result,
    };
    serde_json::to_writer(&mut *out, &message)
        .expect("our own messages have string keys, and memory does not fail");
    out.push(b'\n');
}

/// The verb of a method, for errors. `ping` has none of its own and counts as a part of the handshake.
fn verb_of(method: &str) -> Verb {
    crate::method::verb(method).unwrap_or(Verb::Initialize)
}

fn read<T: DeserializeOwned>(raw: &str) -> std::result::Result<T, String> {
    serde_json::from_str(raw).map_err(|error| {
        // Read once more to learn where: following the path slows the good case down.
        let deserializer = &mut serde_json::Deserializer::from_str(raw);
        match serde_path_to_error::deserialize::<_, T>(deserializer) {
            Err(located) if located.path().iter().next().is_some() => {
                format!("member `{}`: {}", located.path(), problem(located.inner()))
            }
            _ => problem(&error),
        }
    })
}

/// What is wrong, without the position, which counts from the start of the parameters, where nobody
/// can look it up; and without the text that is wrong, which may be a whole file, or the value of a
/// variable.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(&*text, |end| &text[..end]);
    match (text.find(STRING), text.rfind("\", expected ")) {
        (Some(start), Some(end)) if start + STRING.len() <= end => {
            let kind = &text[..start + STRING.len() - 2];
            format!("{kind}{}", &text[end + 1..])
        }
        _ => text.to_owned(),
    }
}

/// How the parser begins to quote a text.
const STRING: &str = ": string \"";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::file::ReadParams;

    #[test]
    fn the_id_of_an_over_long_line_is_found_only_where_it_is_the_messages_own() {
        let check = |text: &str, id| assert_eq!(id_in_prefix(text.as_bytes()), id, "{text}");
        check(r#"{"jsonrpc":"2.0","id":17,"result":{"te"#, Some(17));
        check(r#"{ "id" : 17 , "result":{"te"#, Some(17));
        check(r#"{"result":{"id":5,"x":["#, None);
        check(r#"{"method":"\"id\":3,","id":4,"#, Some(4));
        check(r#"{"id":17"#, None);
        check(r#"{"id":"17","#, None);
        check(r#"]]]"#, None);
        check(r#"{"method":"id","params":1,"id":8}"#, Some(8));
    }

    #[test]
    fn the_method_of_an_over_long_line_is_found_as_its_id_is() {
        let check =
            |text: &str, method| assert_eq!(method_in_prefix(text.as_bytes()), method, "{text}");
        check(
            r#"{"jsonrpc":"2.0","id":17,"method":"write","params":{"cha"#,
            Some("write"),
        );
        check(r#"{"params":{"method":"read","x":["#, None);
        check(r#"{"id":"method","method" : "exec" ,"#, Some("exec"));
        check(r#"{"method":"wri"#, None);
        check(r#"{"method":7,"#, None);
    }

    #[test]
    fn a_wrong_member_is_named_with_its_path() {
        let raw = r#"{"sandbox":"a","generation":1,"path":"x","range":{"bytes":{"offset":-1,"length":2}}}"#;
        let error = params::<ReadParams>(Some(raw)).expect_err("the offset is negative");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error
                .detail_text()
                .starts_with("member `range.bytes.offset`: invalid value: integer `-1`"),
            "{error}"
        );
        let raw = r#"{"sandbox":"a","generation":"a \\"secret\\", expected by nobody"}"#;
        let error = params::<ReadParams>(Some(raw)).expect_err("a text is no number");
        assert_eq!(
            error.detail_text(),
            "member `generation`: invalid type: string, expected u64"
        );
        let error = params::<ReadParams>(None).expect_err("nothing is there");
        assert_eq!(error.detail_text(), "missing field `sandbox`");
    }
}

//! Which lines a provider may send at all.
//!
//! Every line of every check passes here, so a stray print, a request to the host or an error with
//! a member too many is found wherever it happens.

use serde_json::Value;

use crate::check::Failure;

/// A line that is sound.
pub(super) enum Message {
    /// An answer. Without an id if that is no number from 0 to 2^53 - 1.
    Answer(Option<u64>, Value),
    /// A notification: method and parameters.
    Notice(String, Value),
}

/// Judges a line as it came, its end included.
pub(super) fn judge(line: &[u8], max: usize) -> Result<Message, Failure> {
    let fault = |what: &str| {
        let shown = String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
        Err(Failure::new(format_args!("the provider {what}: {shown:?}")))
    };
    let Some(content) = line.strip_suffix(b"\n") else {
        return fault("ended in the middle of a line, or wrote one without an end");
    };
    if content.len() > max {
        return Err(Failure::new(format_args!(
            "the provider wrote a line of {} bytes, and {max} were agreed on",
            content.len()
        )));
    }
    if content.ends_with(b"\r") {
        return fault("ended a line in CR LF, which a sender does not");
    }
    let Ok(text) = std::str::from_utf8(content) else {
        return fault("wrote a line that is not UTF-8");
    };
    let Ok(Value::Object(mut message)) = serde_json::from_str::<Value>(text) else {
        return fault("wrote a line that is no JSON object");
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return fault("wrote a message without `\"jsonrpc\":\"2.0\"`");
    }
    if let Some(method) = message.get("method") {
        let Some(method) = method.as_str().map(str::to_owned) else {
            return fault("wrote a method that is no string");
        };
        if message.contains_key("id") {
            return fault("sent a request, and requests go from host to provider only");
        }
        let params = message
            .remove("params")
            .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        if !params.is_object() {
            return fault("sent a notification whose parameters are no object");
        }
        return Ok(Message::Notice(method, params));
    }
    if message.contains_key("result") == message.contains_key("error") {
        return fault("sent an answer that has not exactly one of `result` and `error`");
    }
    if let Some(error) = message.get("error") {
        let Some(error) = error.as_object() else {
            return fault("sent an error that is no object");
        };
        if !error.get("code").is_some_and(Value::is_i64)
            || !error.get("message").is_some_and(Value::is_string)
        {
            return fault("sent an error without a code that is an integer and a message");
        }
        if error
            .keys()
            .any(|name| !["code", "message", "data"].contains(&name.as_str()))
        {
            return fault("sent an error with other members than code, message and data");
        }
    }
    let Some(id) = message.get("id") else {
        return fault("sent an answer without an id");
    };
    let id = id.as_u64();
    Ok(Message::Answer(id, Value::Object(message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_provider_may_send_is_named() {
        for (line, word) in [
            ("starting up\n", "no JSON object"),
            ("\n", "no JSON object"),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\r\n", "CR LF"),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}",
                "without an end",
            ),
            ("{\"id\":1,\"result\":1}\n", "jsonrpc"),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n",
                "request",
            ),
            ("{\"jsonrpc\":\"2.0\",\"id\":1}\n", "exactly one"),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"m\",\"x\":1}}\n",
                "other members",
            ),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1.5,\"message\":\"m\"}}\n",
                "integer",
            ),
            ("{\"jsonrpc\":\"2.0\",\"result\":1}\n", "without an id"),
        ] {
            let failure = judge(line.as_bytes(), 1000).err().expect(line).to_string();
            assert!(failure.contains(word), "{line:?}: {failure}");
        }
        assert!(judge(b"\xff\n", 1000).is_err());
        assert!(judge(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n", 10).is_err());
    }

    #[test]
    fn what_a_provider_may_send_is_taken() {
        for line in [
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n",
            "{\"later\":1,\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"m\"}}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"later/notice\"}\n",
        ] {
            assert!(judge(line.as_bytes(), 1000).is_ok(), "{line}");
        }
    }
}

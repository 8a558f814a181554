//! Lies about lines: what is written is no message, or none that anybody asked for. The honest answer
//! follows, so a host that survives has it.

use serde_json::json;

use crate::{Chaos, Lie, Request, When};

/// Writes a line that is none of ours, then the honest answer.
macro_rules! stray {
    ($name:literal, $does:literal, $line:expr) => {
        Lie {
            name: $name,
            does: $does,
            when: When::Verb,
            act: |chaos, request| {
                chaos.line($line);
                chaos.honest(request);
            },
        }
    };
}

/// How much longer than any line may be, in bytes.
const TOO_LONG: usize = 9 * 1024 * 1024;

pub(crate) const LIES: &[Lie] = &[
    Lie {
        name: "fine",
        does: "does not lie",
        when: When::Verb,
        act: Chaos::honest,
    },
    stray!("text", "prints text", "Starting provider v1.2..."),
    stray!(
        "commands",
        "prints what commands a terminal",
        b"\x1b]0;owned\x07\x1b[2Jloading\r100%"
    ),
    stray!(
        "truncated",
        "writes half an answer",
        r#"{"jsonrpc":"2.0","id":5,"result":{"#
    ),
    stray!("scalar", "writes a number", "42"),
    stray!("not-utf8", "writes bytes that are no text", b"\xff\xfe{}"),
    stray!(
        "garbage",
        "writes binary data",
        [0x00, 0x01, 0x80, 0x7f, 0x1b, 0x9b]
    ),
    stray!(
        "nul",
        "writes a message behind which a NUL follows",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\0"
    ),
    stray!("blank", "writes a blank line", " \t "),
    stray!(
        "no-jsonrpc",
        "writes a notification that does not say what it is",
        r#"{"method":"x","params":{}}"#
    ),
    stray!(
        "mark",
        "writes a byte order mark in the middle",
        b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"
    ),
    stray!(
        "surrogate",
        "writes half a character",
        r#"{"jsonrpc":"2.0","method":"x","params":{"text":"\ud800"}}"#
    ),
    stray!(
        "notification",
        "writes a notification that nobody knows",
        r#"{"jsonrpc":"2.0","method":"later/news","params":{}}"#
    ),
    stray!(
        "no-params",
        "writes a notification without what it is about",
        r#"{"jsonrpc":"2.0","method":"stream/credit"}"#
    ),
    stray!("array", "writes an empty list", "[]"),
    stray!(
        "batch",
        "writes several messages as one",
        r#"[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","method":"y"}]"#
    ),
    stray!(
        "null-id",
        "answers nobody, as a server does that could not read",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#
    ),
    stray!(
        "headers",
        "writes a header of another framing",
        "Content-Length: 52\r\n\r"
    ),
    stray!(
        "deep",
        "nests a list too deep for any stack",
        format!(
            r#"{{"jsonrpc":"2.0","method":"x","params":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        )
    ),
    stray!(
        "deep-object",
        "nests an object too deep for any stack",
        format!(
            r#"{{"jsonrpc":"2.0","method":"sandbox/closed","params":{}1{}}}"#,
            r#"{"a":"#.repeat(100_000),
            "}".repeat(100_000)
        )
    ),
    stray!(
        "long",
        "writes a line longer than any",
        vec![b'x'; TOO_LONG]
    ),
    stray!(
        "request",
        "asks its host for something",
        r#"{"jsonrpc":"2.0","id":77,"method":"host/please","params":{}}"#
    ),
    Lie {
        name: "requests",
        does: "asks its host for something without end and reads no answer",
        when: When::Verb,
        act: |chaos, _| {
            for id in 0u64.. {
                chaos.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "host/please" }));
            }
        },
    },
    Lie {
        name: "drops",
        does: "prints more lines than a connection survives",
        when: When::Verb,
        act: |chaos, request| {
            for number in 0..200 {
                chaos.line(format!("progress {number}%"));
            }
            chaos.honest(request);
        },
    },
    Lie {
        name: "notifications",
        does: "sends a flood of notifications",
        when: When::Verb,
        act: |chaos, request| {
            for number in 0..50_000 {
                chaos.notify("later/news", json!({ "number": number }));
            }
            chaos.honest(request);
        },
    },
    Lie {
        name: "progress",
        does: "reports a flood of progress",
        when: When::Verb,
        act: |chaos, request| {
            let text = "x".repeat(1000);
            for _ in 0..50_000 {
                chaos.notify(
                    "$/progress",
                    json!({ "id": request.id, "phase": "wait", "message": text }),
                );
            }
            chaos.honest(request);
        },
    },
    Lie {
        name: "endless",
        does: "writes a line without an end",
        when: When::Verb,
        act: |chaos, _| chaos.without_end(),
    },
    Lie {
        name: "endless-start",
        does: "begins with a line without an end",
        when: When::Start,
        act: |chaos, _| chaos.without_end(),
    },
    Lie {
        name: "banner",
        does: "greets before it speaks",
        when: When::Start,
        act: |chaos, _| {
            for number in 0..36 {
                chaos.line(format!("Welcome, line {number}"));
            }
        },
    },
    Lie {
        name: "long-banner",
        does: "greets with megabytes",
        when: When::Start,
        act: |chaos, _| {
            let line = "welcome ".repeat(10_000);
            for _ in 0..50 {
                chaos.line(&line);
            }
        },
    },
];

impl Chaos {
    fn without_end(&mut self) {
        let piece = vec![b'x'; 64 * 1024];
        loop {
            self.raw(&piece);
        }
    }
}

/// An answer in place of the honest one, spelled by hand.
pub(crate) fn by_hand(chaos: &mut Chaos, request: &Request, members: &str) {
    let id = &request.id;
    chaos.line(format!(r#"{{"jsonrpc":"2.0","id":{id}{members}}}"#));
}

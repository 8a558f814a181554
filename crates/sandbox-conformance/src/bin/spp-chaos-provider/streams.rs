//! Lies about streams: their credit, their order, their end, and whose they are.

use serde_json::{Value, json};

use crate::{Chaos, Lie, Request, When, exited, file};

/// Writes something on the standard output of a live run, then answers with its total.
macro_rules! output {
    ($name:literal, $does:literal, |$chaos:ident, $stdout:ident| $act:expr) => {
        Lie {
            name: $name,
            does: $does,
            when: When::Verb,
            act: |$chaos, request| {
                let $stdout = &request.params["stdout"];
                let total: u64 = $act;
                $chaos.end_run(request, total);
            },
        }
    };
}

/// The payload of a usual piece, in bytes.
const PIECE: usize = 32 * 1024;

pub(crate) const LIES: &[Lie] = &[
    output!(
        "overrun",
        "sends more than it has credit for",
        |chaos, stdout| {
            let piece = "x".repeat(PIECE);
            for seq in 0..20 {
                chaos.data(stdout, seq, seq * PIECE as u64, &piece);
            }
            20 * PIECE as u64
        }
    ),
    output!(
        "flood",
        "sends a flood on a stream that nobody reads",
        |chaos, stdout| {
            let piece = "x".repeat(PIECE);
            for seq in 0..2000 {
                chaos.data(stdout, seq, seq * PIECE as u64, &piece);
            }
            2000 * PIECE as u64
        }
    ),
    output!("gap", "leaves a piece of a stream out", |chaos, stdout| {
        chaos.data(stdout, 0, 0, "one");
        chaos.data(stdout, 2, 6, "three");
        8
    }),
    output!(
        "again",
        "sends a piece of a stream twice",
        |chaos, stdout| {
            chaos.data(stdout, 0, 0, "one");
            chaos.data(stdout, 0, 0, "one");
            6
        }
    ),
    output!(
        "jump",
        "jumps to another offset of a stream",
        |chaos, stdout| {
            chaos.data(stdout, 0, 0, "one");
            chaos.data(stdout, 1, 1_000_000, "far");
            6
        }
    ),
    output!(
        "unknown-stream",
        "sends on a stream that nobody opened",
        |chaos, stdout| {
            chaos.data(&json!(1), 0, 0, "lost");
            chaos.data(stdout, 0, 0, "fine\n");
            5
        }
    ),
    output!(
        "large-piece",
        "sends a piece larger than any",
        |chaos, stdout| {
            chaos.data(stdout, 0, 0, &"x".repeat(300_000));
            300_000
        }
    ),
    output!(
        "no-text",
        "sends a piece without anything in it",
        |chaos, stdout| {
            chaos.notify(
                "stream/data",
                json!({ "stream": stdout, "seq": 0, "offset": 0 }),
            );
            0
        }
    ),
    output!(
        "no-base64",
        "sends a piece that is not what it says",
        |chaos, stdout| {
            let piece = json!({ "stream": stdout, "seq": 0, "offset": 0, "b64": "not base64!" });
            chaos.notify("stream/data", piece);
            5
        }
    ),
    output!(
        "end-of-what",
        "ends a stream without saying how",
        |chaos, stdout| {
            chaos.data(stdout, 0, 0, "fi");
            chaos.notify("stream/end", json!({ "stream": stdout }));
            5
        }
    ),
    output!(
        "end-both-ways",
        "ends a stream in order and with an error",
        |chaos, stdout| {
            chaos.data(stdout, 0, 0, "fine\n");
            let error = json!({ "code": 1206, "message": "m" });
            chaos.notify(
                "stream/end",
                json!({ "stream": stdout, "bytes": 5, "error": error }),
            );
            5
        }
    ),
    output!(
        "end-short",
        "ends a stream before its end",
        |chaos, stdout| {
            chaos.data(stdout, 0, 0, "fi");
            chaos.notify("stream/end", json!({ "stream": stdout, "bytes": 5 }));
            5
        }
    ),
    output!(
        "after-end",
        "sends on after the end of a stream",
        |chaos, stdout| {
            chaos.data(stdout, 0, 0, "fine\n");
            chaos.notify("stream/end", json!({ "stream": stdout, "bytes": 5 }));
            chaos.data(stdout, 1, 5, "a lie");
            5
        }
    ),
    output!("short", "loses the end of an output", |chaos, stdout| {
        chaos.data(stdout, 0, 0, "fi");
        5
    }),
    output!(
        "credit",
        "gives more credit than there is",
        |chaos, stdout| {
            for stream in [stdout, &json!(1), &json!(u64::MAX)] {
                chaos.notify(
                    "stream/credit",
                    json!({ "stream": stream, "bytes": u64::MAX }),
                );
            }
            chaos.data(stdout, 0, 0, "fine\n");
            5
        }
    ),
    Lie {
        name: "content-other",
        does: "answers with bytes of a stream that is another's",
        when: When::Verb,
        act: |chaos, request| {
            let mut content = file("fine");
            content["content"] = json!({ "stream": 1, "bytes": 4 });
            chaos.answer(request, content);
        },
    },
    Lie {
        name: "content-short",
        does: "answers with fewer bytes on a stream than it says",
        when: When::Verb,
        act: |chaos, request| stream_content(chaos, request, "fi", 4),
    },
    Lie {
        name: "content-long",
        does: "answers with more bytes on a stream than it says",
        when: When::Verb,
        act: |chaos, request| stream_content(chaos, request, "finest", 4),
    },
    Lie {
        name: "content-huge",
        does: "answers with more bytes on a stream than there are",
        when: When::Verb,
        act: |chaos, request| stream_content(chaos, request, "fine", u64::MAX),
    },
    Lie {
        name: "content-more",
        does: "answers with more bytes on a stream than were asked for",
        when: When::Verb,
        act: |chaos, request| {
            let content = "x".repeat(2000);
            stream_content(chaos, request, &content, 2000);
        },
    },
];

impl Chaos {
    fn end_run(&mut self, request: &Request, total: u64) {
        let mut result = exited(&request.params["id"], &request.params, "");
        result["stdout"] = json!({ "total": total });
        self.answer(request, result);
    }
}

/// Answers a `read` with `content` on its stream, and says that `bytes` of it are the file.
fn stream_content(chaos: &mut Chaos, request: &Request, content: &str, bytes: u64) {
    let stream: Value = request.params["content"].clone();
    chaos.data(&stream, 0, 0, content);
    let mut answer = file("");
    answer["content"] = json!({ "stream": stream, "bytes": bytes });
    answer["total_bytes"] = json!(content.len());
    chaos.answer(request, answer);
}

//! Lies in answers: they can be read, and do not fit what was asked.

use serde_json::{Value, json};

use crate::{Lie, Request, When, exited, file};

/// Answers with this result.
macro_rules! result {
    ($name:literal, $does:literal, |$request:ident| $result:expr) => {
        Lie {
            name: $name,
            does: $does,
            when: When::Verb,
            act: |chaos, $request| {
                let result: Value = $result;
                chaos.answer($request, result);
            },
        }
    };
}

const STAT: fn() -> Value =
    || json!({ "kind": "file", "size": 1, "mode": 420, "inode": "1", "links": 1 });

pub(crate) const LIES: &[Lie] = &[
    Lie {
        name: "long-answer",
        does: "answers in a line longer than any",
        when: When::Verb,
        act: |chaos, request| {
            let content = "x".repeat(9 * 1024 * 1024);
            chaos.answer(request, file(&content));
        },
    },
    result!("size", "answers with more than was asked for", |_request| {
        file(&"x".repeat(2000))
    }),
    result!(
        "beyond",
        "answers with bytes beyond the end of the file",
        |_request| { with(file("fine"), "total_bytes", json!(3)) }
    ),
    result!(
        "elsewhere",
        "answers with another part of the file",
        |_request| {
            with(
                with(file("fine"), "offset", json!(5)),
                "total_bytes",
                json!(100),
            )
        }
    ),
    result!(
        "huge-offset",
        "answers with an offset beyond any file",
        |_request| {
            let file = with(file("fine"), "offset", json!(u64::MAX - 1));
            with(file, "total_bytes", json!(u64::MAX))
        }
    ),
    result!(
        "digest",
        "answers with the digest of something else",
        |_request| { with(file("fine"), "digest", json!("00".repeat(32))) }
    ),
    result!(
        "no-digest",
        "answers with a digest that is none",
        |_request| { with(file("fine"), "digest", json!("0xBAD")) }
    ),
    result!("mode", "answers with a mode that is none", |_request| {
        with(file("fine"), "mode", json!(0o170_644))
    }),
    result!(
        "items",
        "answers with fewer items than were asked for",
        |_request| { json!({ "items": [{ "ok": null }] }) }
    ),
    result!(
        "items-more",
        "answers with more items than were asked for",
        |_request| { json!({ "items": [{ "ok": null }, { "ok": null }, { "ok": null }] }) }
    ),
    result!(
        "total",
        "answers many reads with more than was asked for",
        |_request| {
            json!({ "items": [{ "ok": file(&"x".repeat(600)) }, { "ok": file(&"x".repeat(600)) }] })
        }
    ),
    result!("names", "finds names that lead out", |_request| {
        json!({ "entries": [{ "path": "../../etc/cron.d/x" }], "complete": "complete" })
    }),
    result!("names-nul", "finds names with a NUL", |_request| {
        json!({ "entries": [{ "path": "a\0b" }], "complete": "complete" })
    }),
    result!("names-empty", "finds names that are none", |_request| {
        json!({ "entries": [{ "path": "" }], "complete": "complete" })
    }),
    result!(
        "names-stat",
        "finds an entry that is no entry",
        |_request| {
            let stat = with(STAT(), "inode", json!("-1"));
            json!({ "entries": [{ "path": "a", "stat": stat }], "complete": "complete" })
        }
    ),
    result!("more-found", "finds more than was asked for", |_request| {
        let entry = |number: u64| json!({ "path": format!("file-{number}") });
        let entries: Vec<Value> = (0..1000).map(entry).collect();
        json!({ "entries": entries, "complete": "complete" })
    }),
    result!(
        "billion",
        "answers with nothing, a million times",
        |_request| {
            let empty: Vec<Value> = (0..1_000_000).map(|_| json!([])).collect();
            json!({ "entries": [], "complete": "complete", "later": empty })
        }
    ),
    result!(
        "changed-names",
        "tells of changes that lead out",
        |_request| {
            json!({ "digest": "00".repeat(32), "entries": 1, "complete": "complete", "changes": {
            "created": ["../../x"], "modified": [], "removed": [], "complete": "complete" } })
        }
    ),
    result!(
        "match-range",
        "finds a match outside of its line",
        |_request| {
            matches(
                &json!([{ "number": 1, "offset": 0, "text": "ab", "cut": false, "matches": [[1, 9]] }]),
            )
        }
    ),
    result!(
        "match-back",
        "finds a match that ends before it starts",
        |_request| {
            matches(
                &json!([{ "number": 1, "offset": 0, "text": "ab", "cut": false, "matches": [[2, 1]] }]),
            )
        }
    ),
    result!(
        "match-line",
        "finds a longer line than was asked for",
        |_request| {
            let text = "x".repeat(10_000);
            matches(
                &json!([{ "number": 1, "offset": 0, "text": text, "cut": false, "matches": [[0, 1]] }]),
            )
        }
    ),
    result!(
        "match-more",
        "finds more matches than were asked for",
        |_request| {
            let ranges: Vec<Value> = (0..100).map(|at| json!([at, at + 1])).collect();
            let text = "x".repeat(100);
            matches(
                &json!([{ "number": 1, "offset": 0, "text": text, "cut": false, "matches": ranges }]),
            )
        }
    ),
    result!("exec-id", "answers for another run", |request| {
        exited(&json!("other"), &request.params, "fine\n")
    }),
    result!(
        "exec-more",
        "answers with more output than was asked for",
        |request| {
            let output = "x".repeat(5000);
            exited(&request.params["id"], &request.params, &output)
        }
    ),
    result!("exec-sum", "counts its output wrong", |request| {
        let result = exited(&request.params["id"], &request.params, "fine\n");
        with(
            result,
            "stdout",
            json!({ "head": { "text": "fine\n" }, "total": 9 }),
        )
    }),
    result!(
        "exec-two-ends",
        "says that a run exited and was signalled",
        |request| {
            let result = exited(&request.params["id"], &request.params, "fine\n");
            let both =
                json!({ "exited": { "code": 0 }, "signalled": { "signal": 9, "core": false } });
            with(result, "exit", json!({ "status": both, "duration_us": 1 }))
        }
    ),
    result!(
        "exec-signal",
        "says that a signal ended a run that there is not",
        |request| {
            let result = exited(&request.params["id"], &request.params, "fine\n");
            let signal = json!({ "signalled": { "signal": 900, "core": false } });
            with(
                result,
                "exit",
                json!({ "status": signal, "duration_us": 1 }),
            )
        }
    ),
    result!(
        "exec-code",
        "says that a run exited with a code that there is not",
        |request| {
            let result = exited(&request.params["id"], &request.params, "fine\n");
            let code = json!({ "exited": { "code": 70_000 } });
            with(result, "exit", json!({ "status": code, "duration_us": 1 }))
        }
    ),
    result!(
        "spawn-id",
        "starts another process than was asked for",
        |_request| { json!({ "id": "other", "pid": 1 }) }
    ),
    result!(
        "log-earlier",
        "answers with earlier output than was asked for",
        |_request| { log(0, "again", 100) }
    ),
    result!(
        "log-beyond",
        "answers with output that was never written",
        |_request| { log(10, "more", 12) }
    ),
    result!(
        "log-more",
        "answers with more output at once than was asked for",
        |_request| { log(10, &"x".repeat(2000), 10_000) }
    ),
    result!(
        "log-overflow",
        "answers with an offset beyond any output",
        |_request| { log(u64::MAX - 1, "more", u64::MAX) }
    ),
    result!(
        "log-status",
        "says that a process is something unknown",
        |_request| { with(log(10, "", 10), "status", json!("dreaming")) }
    ),
];

/// An object with one member replaced.
fn with(mut object: Value, member: &str, value: Value) -> Value {
    object[member] = value;
    object
}

/// The answer to a `grep` that found these lines in one file.
fn matches(lines: &Value) -> Value {
    json!({ "files": [{ "path": "a", "lines": lines, "binary": false }], "searched": 1,
        "complete": "complete" })
}

/// The answer to a `proc_read`.
fn log(offset: u64, text: &str, total: u64) -> Value {
    json!({ "offset": offset, "content": { "text": text }, "total": total, "end": false,
        "status": "running" })
}

/// The id of the sandbox that a request is for.
pub(crate) fn sandbox(request: &Request) -> &Value {
    &request.params["sandbox"]
}

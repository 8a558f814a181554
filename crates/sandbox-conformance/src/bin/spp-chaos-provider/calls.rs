//! Lies about calls: whose answer it is, how often it comes, and whether it comes at all.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lines::by_hand;
use crate::{Lie, Request, When, file};

/// Sends an answer that is not for the call, then the honest one.
macro_rules! other {
    ($name:literal, $does:literal, |$request:ident| $id:expr) => {
        Lie {
            name: $name,
            does: $does,
            when: When::Verb,
            act: |chaos, $request| {
                let id: String = $id;
                let result = file("a lie");
                chaos.line(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
                ));
                chaos.honest($request);
            },
        }
    };
}

/// Answers with these members beside the id, spelled by hand.
macro_rules! members {
    ($name:literal, $does:literal, $members:expr) => {
        Lie {
            name: $name,
            does: $does,
            when: When::Verb,
            act: |chaos, request| by_hand(chaos, request, $members),
        }
    };
}

pub(crate) const LIES: &[Lie] = &[
    other!("unknown-id", "answers what nobody asked", |request| {
        format!("{}", request.id.as_u64().unwrap_or(0) ^ 1)
    }),
    other!("text-id", "answers to the id as a text", |request| format!(
        r#""{}""#,
        request.id
    )),
    other!(
        "fraction-id",
        "answers to the id as a fraction",
        |request| { format!("{}.5", request.id) }
    ),
    other!("negative-id", "answers to a negative id", |request| {
        format!("-{}", request.id)
    }),
    other!(
        "huge-id",
        "answers to an id that is too large",
        |_request| { "18446744073709551616".to_owned() }
    ),
    other!(
        "number-id",
        "answers to an id that is no number of any size",
        |_request| "1e400".to_owned()
    ),
    Lie {
        name: "guess",
        does: "answers ids before they are given out",
        when: When::At("acquire"),
        act: |chaos, request| {
            for id in 0..1000 {
                let result = file("a lie");
                chaos.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            }
            chaos.honest(request);
        },
    },
    Lie {
        name: "twice",
        does: "answers twice",
        when: When::Verb,
        act: |chaos, request| {
            chaos.honest(request);
            let result = file("a lie");
            chaos.answer(request, result);
        },
    },
    Lie {
        name: "twice-error",
        does: "answers with a result and then with an error",
        when: When::Verb,
        act: |chaos, request| {
            chaos.honest(request);
            chaos.refuse(request, json!({ "code": 1102, "message": "a lie" }));
        },
    },
    Lie {
        name: "twice-initialize",
        does: "answers the handshake twice, each time in another way",
        when: When::At("initialize"),
        act: |chaos, request| {
            chaos.honest(request);
            chaos.answer(request, json!({ "protocol": { "major": 9 } }));
        },
    },
    Lie {
        name: "answers",
        does: "sends a flood of answers that nobody waits for",
        when: When::Verb,
        act: |chaos, request| {
            for id in 0..50_000 {
                chaos.send(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
            }
            chaos.honest(request);
        },
    },
    members!("neither", "answers with neither result nor error", ""),
    members!(
        "both",
        "answers with a result and an error at once",
        r#","result":{},"error":{"code":1,"message":"m"}"#
    ),
    members!("null-result", "answers with nothing", r#","result":null"#),
    members!(
        "half-result",
        "answers with half a result",
        r#","result":{"content":"#
    ),
    members!("two-ids", "answers with two ids", r#","id":1,"result":{}"#),
    members!("error-text", "fails with a text", r#","error":"no""#),
    members!(
        "error-extra",
        "fails with an error that has a member too many",
        r#","error":{"code":1201,"message":"m","data":{"kind":"not_found"},"later":1}"#
    ),
    members!(
        "error-code",
        "fails with a code that is too large",
        r#","error":{"code":99999999999,"message":"m"}"#
    ),
    members!(
        "error-kind",
        "fails in a way that nobody knows",
        r#","error":{"code":100007,"message":"m","data":{"kind":"x.example.org/asleep","detail":"wake it"}}"#
    ),
    members!(
        "error-verb",
        "fails another verb than the one that was asked for",
        r#","error":{"code":1201,"message":"m","data":{"kind":"not_found","verb":"release","detail":"gone"}}"#
    ),
    members!(
        "error-commands",
        "fails with what commands a terminal",
        r#","error":{"code":1201,"message":"m","data":{"kind":"not_found","subject":"exe.\u202etxt","detail":"\u001b]0;owned\u0007\u001b[2J\u001b[31mfail\nOK: all tests passed"}}"#
    ),
    Lie {
        name: "error-deep",
        does: "fails with an error that is nested too deep",
        when: When::Verb,
        act: |chaos, request| {
            let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            let members = format!(r#","error":{{"code":1201,"message":"m","data":{deep}}}"#);
            by_hand(chaos, request, &members);
        },
    },
    Lie {
        name: "error-long",
        does: "fails with megabytes of reasons",
        when: When::Verb,
        act: |chaos, request| {
            let detail = "because ".repeat(500_000);
            let data = json!({ "kind": "not_found", "detail": detail });
            chaos.refuse(
                request,
                json!({ "code": 1201, "message": "m", "data": data }),
            );
        },
    },
    Lie {
        name: "never",
        does: "never answers, and answers no ping and no cancellation",
        when: When::Verb,
        act: |_, _| pause(),
    },
    Lie {
        name: "drip",
        does: "answers so slowly that the answer never ends",
        when: When::Verb,
        act: |chaos, _| {
            chaos.raw(r#"{"jsonrpc":"2.0","id":"#);
            loop {
                chaos.raw(" ");
                std::thread::sleep(Duration::from_millis(20));
            }
        },
    },
    Lie {
        name: "stopped",
        does: "stops itself",
        when: When::Verb,
        act: |chaos, request| {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::STOP);
            chaos.honest(request);
        },
    },
    Lie {
        name: "deaf",
        does: "reads nothing any more",
        when: When::At("acquire"),
        act: |chaos, request| {
            chaos.honest(request);
            pause();
        },
    },
    Lie {
        name: "deaf-start",
        does: "reads nothing at all",
        when: When::Start,
        act: |_, _| pause(),
    },
    Lie {
        name: "lag",
        does: "answers late, and the second question first",
        when: When::Verb,
        act: |chaos, request| {
            std::thread::sleep(Duration::from_millis(300));
            let other = chaos.next();
            if let Some(other) = &other {
                chaos.honest(other);
            }
            chaos.honest(request);
        },
    },
    Lie {
        name: "crash",
        does: "crashes in the middle of a call",
        when: When::Verb,
        act: |_, _| {
            let _ = writeln!(std::io::stderr(), "out of \x1b[31mcheese");
            std::process::exit(7);
        },
    },
    Lie {
        name: "crash-half",
        does: "crashes in the middle of an answer",
        when: When::Verb,
        act: |chaos, request| {
            let answer = json!({ "jsonrpc": "2.0", "id": request.id, "result": file("fine") });
            let answer = answer.to_string();
            chaos.raw(&answer[..answer.len() - 10]);
            std::process::exit(7);
        },
    },
    Lie {
        name: "crash-whole",
        does: "crashes before the end of the line of an answer",
        when: When::Verb,
        act: |chaos, request| {
            let answer = json!({ "jsonrpc": "2.0", "id": request.id, "result": file("fine") });
            chaos.raw(answer.to_string());
            std::process::exit(0);
        },
    },
    Lie {
        name: "crash-after",
        does: "answers and crashes at once",
        when: When::Verb,
        act: |chaos, request| {
            chaos.honest(request);
            std::process::exit(7);
        },
    },
    Lie {
        name: "close",
        does: "closes its output and lives on",
        when: When::Verb,
        act: |_, _| {
            // Replaced rather than closed, so that nothing else gets its number.
            let null = std::fs::File::open("/dev/null").expect("every system has it");
            let _ = rustix::stdio::dup2_stdout(&null);
            pause();
        },
    },
    Lie {
        name: "stderr",
        does: "writes megabytes to standard error first",
        when: When::Verb,
        act: |chaos, request| {
            let line = format!("\x1b[2J{}\n", "noise ".repeat(100));
            for _ in 0..20_000 {
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            chaos.honest(request);
        },
    },
    Lie {
        name: "carriage",
        does: "ends its line as another system does",
        when: When::Verb,
        act: |chaos, request| {
            let answer = json!({ "jsonrpc": "2.0", "id": request.id, "result": file("fine") });
            chaos.line(format!("{answer}\r"));
        },
    },
    Lie {
        name: "extra",
        does: "answers with members that nobody knows",
        when: When::Verb,
        act: |chaos, request: &Request| {
            let mut answer = json!({ "jsonrpc": "2.0", "id": request.id, "result": file("fine") });
            answer["__proto__"] = json!({ "polluted": true });
            answer["result"]["later"] = Value::from("x".repeat(1000));
            chaos.send(&answer);
        },
    },
];

/// Does nothing for ever.
fn pause() -> ! {
    loop {
        std::thread::park();
    }
}

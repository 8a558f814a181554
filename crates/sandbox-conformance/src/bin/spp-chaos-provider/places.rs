//! Lies about places: which sandbox it is, whether it lives, and what it is.

use serde_json::json;

use crate::answers::sandbox;
use crate::{Lie, When, descriptor};

pub(crate) const LIES: &[Lie] = &[
    Lie {
        name: "other-sandbox",
        does: "gives out another sandbox than was asked for",
        when: When::At("acquire"),
        act: |chaos, request| {
            chaos.answer(
                request,
                json!({ "descriptor": descriptor(&json!("other")) }),
            );
        },
    },
    Lie {
        name: "no-sandbox",
        does: "gives out a sandbox that is none",
        when: When::At("acquire"),
        act: |chaos, request| {
            chaos.answer(
                request,
                json!({ "descriptor": descriptor(&json!("../..")) }),
            );
        },
    },
    Lie {
        name: "bad-root",
        does: "gives out a sandbox with a root that is no path",
        when: When::At("acquire"),
        act: |chaos, request| {
            let mut place = descriptor(&request.params["spec"]["sandbox"]);
            place["root"] = json!("/workspace/../..");
            chaos.answer(request, json!({ "descriptor": place }));
        },
    },
    Lie {
        name: "other-generation",
        does: "says that an earlier life of the sandbox ended",
        when: When::Verb,
        act: |chaos, request| {
            chaos.notify(
                "sandbox/closed",
                json!({ "sandbox": sandbox(request), "generation": 0, "reason": "lost", "detail": "a lie" }),
            );
            chaos.honest(request);
        },
    },
    Lie {
        name: "other-closed",
        does: "says that a sandbox ended that nobody has",
        when: When::Verb,
        act: |chaos, request| {
            chaos.notify(
                "sandbox/closed",
                json!({ "sandbox": "../..", "generation": 1, "reason": "lost" }),
            );
            chaos.notify(
                "sandbox/closed",
                json!({ "sandbox": "other", "generation": 1, "reason": "lost" }),
            );
            chaos.honest(request);
        },
    },
    Lie {
        name: "lost",
        does: "says that the sandbox is lost, and answers all the same",
        when: When::Verb,
        act: |chaos, request| {
            chaos.notify(
                "sandbox/closed",
                json!({ "sandbox": sandbox(request), "generation": 1, "reason": "lost",
                    "detail": "evicted" }),
            );
            chaos.honest(request);
        },
    },
    Lie {
        name: "list",
        does: "lists sandboxes that are none",
        when: When::At("list"),
        act: |chaos, request| {
            let entry = json!({ "sandbox": "../../x", "labels": {}, "running": true });
            chaos.answer(request, json!({ "sandboxes": [entry] }));
        },
    },
    Lie {
        name: "version",
        does: "chooses a version that nobody offered",
        when: When::At("initialize"),
        act: |chaos, request| {
            let provider = json!({ "name": "chaos", "version": "1" });
            chaos.answer(
                request,
                json!({ "protocol": { "major": 7 }, "provider": provider, "instance": "i" }),
            );
        },
    },
    Lie {
        name: "no-version",
        does: "answers the handshake without a version",
        when: When::At("initialize"),
        act: |chaos, request| {
            chaos.answer(request, json!({ "capabilities": { "files": 7 } }));
        },
    },
    Lie {
        name: "limits",
        does: "takes next to nothing",
        when: When::At("initialize"),
        act: |chaos, request| {
            let provider = json!({ "name": "chaos", "version": "1" });
            let limits = json!({ "max_line_bytes": 1, "stream_window_bytes": 0,
                "connection_window_bytes": 0, "max_in_flight": 0 });
            chaos.answer(
                request,
                json!({ "protocol": { "major": 1 }, "provider": provider, "instance": "i",
                    "limits": limits }),
            );
        },
    },
];

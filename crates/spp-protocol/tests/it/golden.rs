//! Messages as committed text: a change of the wire is a change of these files.
//!
//! Each file in `golden/` holds the messages of one method, one a line: requests or notifications, and results. A
//! line must read as its type and be written as the same text; it must fit the schema; and it must mean
//! the same with unknown members in it.

use std::fmt::Debug;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use spp_protocol::error::{CODES, ErrorObject};
use spp_protocol::message::handshake::{self, Manifest};
use spp_protocol::message::tree::{Flaw, ManifestEntry};
use spp_protocol::message::{
    Notification, Request, file, lifecycle, process, search, stream, tree,
};
use spp_protocol::method::METHODS;

use super::schema::{BLESS, Validator, bless};

fn path(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden")).join(format!("{file}.ndjson"))
}

struct Golden {
    validator: Validator,
    methods: Vec<&'static str>,
}

impl Golden {
    fn request<T: Request + PartialEq + Debug>(&mut self)
    where
        T::Result: PartialEq + Debug,
    {
        let (mut requests, mut results) = (0, 0);
        self.file(T::METHOD, |this, message| {
            if message.get("method").is_some() {
                requests += 1;
                assert_eq!(message["method"], T::METHOD);
                this.validator.message(message);
                this.same::<T>(message, "params")
            } else {
                results += 1;
                this.validator.message(message);
                let document = spp_protocol::schema::document();
                let reference = document["methods"][T::METHOD]["result"]["$ref"]
                    .as_str()
                    .expect("a reference")
                    .to_owned();
                let name = reference.trim_start_matches("#/$defs/");
                this.validator.definition(name, &message["result"]);
                this.same::<T::Result>(message, "result")
            }
        });
        assert!(
            requests > 0 && results > 0,
            "{} has no request or no result",
            T::METHOD
        );
    }

    fn notification<T: Notification + PartialEq + Debug>(&mut self) {
        self.file(T::METHOD, |this, message| {
            assert_eq!(message["method"], T::METHOD);
            this.validator.message(message);
            this.same::<T>(message, "params")
        });
    }

    /// Calls `check` with each line of a file, which answers with the text that should be there.
    fn file(&mut self, method: &'static str, mut check: impl FnMut(&Self, &Value) -> String) {
        self.methods.push(method);
        let name = method.trim_start_matches("$/").replace('/', "_");
        let text = std::fs::read_to_string(path(&name)).expect("every method has golden messages");
        let mut canonical = String::new();
        for line in text.lines() {
            let message = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{name}: {error} in {line}"));
            canonical += &check(self, &message);
            canonical.push('\n');
        }
        same_or_bless(&name, &text, &canonical);
    }

    /// Reads a member as its type, and gives the text of the whole message with the member as the type writes it.
    fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(
        &self,
        message: &Value,
        member: &str,
    ) -> String {
        let value: T = serde_json::from_value(message[member].clone())
            .expect("a golden message reads as its type");
        let text = serde_json::to_string(&value).expect("JSON");
        let again: T = serde_json::from_str(&text).expect("our own JSON");
        assert_eq!(again, value);

        let mut later = message.clone();
        add_unknown_members(&mut later[member]);
        assert_ne!(later, *message);
        let with_unknown: T =
            serde_json::from_value(later[member].clone()).expect("unknown members are ignored");
        assert_eq!(with_unknown, value, "an unknown member changed the meaning");
        self.validator.message(&later);

        let id = message
            .get("id")
            .map_or(String::new(), |id| format!(r#""id":{id},"#));
        let method = message
            .get("method")
            .map_or(String::new(), |method| format!(r#""method":{method},"#));
        format!(r#"{{"jsonrpc":"2.0",{id}{method}"{member}":{text}}}"#)
    }
}

fn same_or_bless(file: &str, text: &str, canonical: &str) {
    if bless() {
        std::fs::write(path(file), canonical).expect("golden messages can be written");
        return;
    }
    assert_eq!(
        canonical, text,
        "golden/{file}.ndjson is not how this is written now; see {BLESS}=1"
    );
}

/// Adds a member that nobody knows to every object that is a message's own.
fn add_unknown_members(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_unknown_members),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                // Maps by name, and JSON that belongs to somebody else.
                let foreign = [
                    "labels",
                    "limits",
                    "guarantees",
                    "capabilities",
                    "options",
                    "data",
                ];
                if !foreign.contains(&name.as_str()) {
                    add_unknown_members(member);
                }
            }
            members.insert("x_later".into(), json!({ "a": [1, null] }));
        }
        _ => {}
    }
}

#[test]
fn every_message_is_read_and_written_as_its_golden_text() {
    let mut golden = Golden {
        validator: Validator::new(),
        methods: Vec::new(),
    };
    golden.request::<handshake::InitializeParams>();
    golden.request::<handshake::PingParams>();
    golden.request::<handshake::ShutdownParams>();
    golden.request::<lifecycle::ProbeParams>();
    golden.request::<lifecycle::AcquireParams>();
    golden.request::<lifecycle::AttachParams>();
    golden.request::<lifecycle::ReleaseParams>();
    golden.request::<lifecycle::ListParams>();
    golden.request::<lifecycle::PrepareParams>();
    golden.request::<lifecycle::UpdateParams>();
    golden.request::<lifecycle::CaptureStateParams>();
    golden.request::<file::ReadParams>();
    golden.request::<file::ReadManyParams>();
    golden.request::<file::WriteParams>();
    golden.request::<file::RemoveParams>();
    golden.request::<file::StatManyParams>();
    golden.request::<search::GlobParams>();
    golden.request::<search::GrepParams>();
    golden.request::<search::FingerprintParams>();
    golden.request::<process::ExecParams>();
    golden.request::<process::SpawnParams>();
    golden.request::<process::ProcReadParams>();
    golden.request::<process::ProcStdinParams>();
    golden.request::<process::ProcStopParams>();
    golden.request::<tree::PushTreeParams>();
    golden.request::<tree::PullTreeParams>();
    golden.notification::<stream::Cancel>();
    golden.notification::<stream::Progress>();
    golden.notification::<stream::SandboxClosed>();
    golden.notification::<stream::StreamData>();
    golden.notification::<stream::StreamEnd>();
    golden.notification::<stream::StreamCredit>();
    golden.notification::<stream::StreamStop>();
    let all: Vec<_> = METHODS.iter().map(|method| method.name).collect();
    assert_eq!(golden.methods, all, "a method has no golden messages");
}

#[test]
fn every_code_has_a_golden_error() {
    let validator = Validator::new();
    let text = std::fs::read_to_string(path("error")).expect("errors have golden messages");
    let mut lines = text.lines();
    for code in CODES {
        let line = lines.next().expect("a line for each code");
        let message: Value = serde_json::from_str(line).expect("JSON");
        validator.message(&message);
        assert_eq!(message["error"]["code"], code.code);
        assert_eq!(message["error"]["data"]["kind"], code.name);
        let error: ErrorObject =
            serde_json::from_value(message["error"].clone()).expect("an error object");
        let text = serde_json::to_string(&error).expect("JSON");
        assert_eq!(
            line,
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{text}}}"#)
        );
        assert_eq!(error.decode(sandbox_core::Verb::Read).kind(), code.kind);
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn what_travels_outside_of_messages_has_golden_text_too() {
    let validator = Validator::new();
    let check = |file: &str, name: &str, rewrite: &dyn Fn(&str) -> String| {
        let text = std::fs::read_to_string(path(file)).expect("golden text");
        let lines = text.lines().inspect(|line| {
            validator.definition(name, &serde_json::from_str(line).expect("JSON"));
        });
        let canonical: String = lines.map(|line| rewrite(line) + "\n").collect();
        same_or_bless(file, &text, &canonical);
    };
    check("spp_manifest", "Manifest", &|line| {
        let value: Manifest = serde_json::from_str(line).expect("a manifest");
        serde_json::to_string(&value).expect("JSON")
    });
    check("flaw", "Flaw", &|line| {
        let value: Flaw = serde_json::from_str(line).expect("a flaw");
        serde_json::to_string(&value).expect("JSON")
    });
    check("manifest_entry", "ManifestEntry", &|line| {
        let value: ManifestEntry = serde_json::from_str(line).expect("an entry");
        serde_json::to_string(&value).expect("JSON")
    });
}

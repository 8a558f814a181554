//! The JSON Schema of everything that travels, as one document (draft 2020-12).
//!
//! The document accepts any message: it checks the parameters of requests and notifications by their
//! method. Results are not known by their method on the wire, so `methods` names the schema of each,
//! beside what else `METHODS` says of it.
//! It is as open as the protocol: unknown members and unknown choices are valid.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use sandbox_core::ErrorKind;

use crate::error::{CODES, ErrorObject, code_of};
use crate::message::handshake::Manifest;
use crate::message::tree::{Flaw, ManifestEntry};
use crate::message::{
    Notification, Request, file, handshake, lifecycle, policy, process, search, stream, tree,
};
use crate::method::{self, Answer, COMMON_ERRORS, Changes, Direction, Method, SANDBOX_ERRORS};

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut collector = Collector {
        generator: SchemaSettings::draft2020_12().into_generator(),
        methods: Map::new(),
        branches: Vec::new(),
    };
    collector.request::<handshake::InitializeParams>();
    collector.request::<handshake::PingParams>();
    collector.request::<handshake::ShutdownParams>();
    collector.request::<lifecycle::ProbeParams>();
    collector.request::<lifecycle::AcquireParams>();
    collector.request::<lifecycle::AttachParams>();
    collector.request::<lifecycle::ReleaseParams>();
    collector.request::<lifecycle::ListParams>();
    collector.request::<lifecycle::PrepareParams>();
    collector.request::<lifecycle::UpdateParams>();
    collector.request::<lifecycle::CaptureStateParams>();
    collector.request::<file::ReadParams>();
    collector.request::<file::ReadManyParams>();
    collector.request::<file::WriteParams>();
    collector.request::<file::RemoveParams>();
    collector.request::<file::StatManyParams>();
    collector.request::<search::GlobParams>();
    collector.request::<search::GrepParams>();
    collector.request::<search::FingerprintParams>();
    collector.request::<process::ExecParams>();
    collector.request::<process::SpawnParams>();
    collector.request::<process::ProcReadParams>();
    collector.request::<process::ProcStdinParams>();
    collector.request::<process::ProcStopParams>();
    collector.request::<tree::PushTreeParams>();
    collector.request::<tree::PullTreeParams>();
    collector.notification::<stream::Cancel>();
    collector.notification::<stream::Progress>();
    collector.notification::<stream::SandboxClosed>();
    collector.notification::<stream::StreamData>();
    collector.notification::<stream::StreamEnd>();
    collector.notification::<stream::StreamCredit>();
    collector.notification::<stream::StreamStop>();
    collector.finish()
}

struct Collector {
    generator: SchemaGenerator,
    methods: Map<String, Value>,
    branches: Vec<Value>,
}

impl Collector {
    fn request<T: Request>(&mut self) {
        let params = self.reference::<T>();
        let result = self.reference::<T::Result>();
        self.method(T::METHOD, &params, Some(result));
    }

    fn notification<T: Notification>(&mut self) {
        let params = self.reference::<T>();
        self.method(T::METHOD, &params, None);
    }

    fn method(&mut self, name: &str, params: &Value, result: Option<Value>) {
        self.branches.push(json!({
            "if": { "properties": { "method": { "const": name } }, "required": ["method"] },
            "then": { "properties": { "params": params } },
        }));
        let mut entry = json!({ "params": params });
        if let Some(result) = result {
            entry["result"] = result;
        }
        if let Some(method) = method::find(name) {
            describe(&mut entry, method);
        }
        self.methods.insert(name.to_owned(), entry);
    }

    fn reference<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    fn finish(mut self) -> Value {
        let error = self.reference::<ErrorObject>();
        // Named in texts and by keys of maps only, so no message leads to them.
        self.reference::<Manifest>();
        self.reference::<ManifestEntry>();
        self.reference::<Flaw>();
        self.reference::<policy::LimitKind>();
        let codes: Map<String, Value> = CODES
            .iter()
            .map(|code| (code.name.to_owned(), json!(code.code)))
            .collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Sandbox Provider Protocol, version 1",
            "description": "Any message. `methods` says by method who sends it, the schemas of its parameters and its result, the members of its parameters that name streams or hold byte fields that may, the error kinds of its own, and what it changes; `commonErrors` may answer any request, `sandboxErrors` any verb of a sandbox. `errorCodes` has the code of each error kind.",
            "type": "object",
            "properties": {
                "jsonrpc": { "const": "2.0" },
                "id": { "type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64 },
                "method": { "type": "string" },
                "error": error,
            },
            "required": ["jsonrpc"],
            "oneOf": [
                { "title": "Request or notification", "required": ["method"] },
                { "title": "Response", "required": ["id", "result"] },
                { "title": "Error response", "required": ["id", "error"] },
            ],
            "allOf": self.branches,
            "methods": self.methods,
            "errorCodes": codes,
            "commonErrors": kinds(COMMON_ERRORS),
            "sandboxErrors": kinds(SANDBOX_ERRORS),
            "$defs": self.generator.take_definitions(true),
        })
    }
}

/// Adds what the table says of a method.
fn describe(entry: &mut Value, method: &Method) {
    entry["direction"] = json!(direction(method.direction));
    if method.answer == Answer::None {
        return;
    }
    let streams: Map<String, Value> = method
        .streams
        .iter()
        .map(|(member, to)| ((*member).to_owned(), json!(direction(*to))))
        .collect();
    entry["streams"] = json!(streams);
    entry["errors"] = kinds(method.errors);
    entry["changes"] = json!(match method.changes {
        Changes::Nothing => "nothing",
        Changes::Idempotent => "idempotent",
        Changes::Something => "something",
    });
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::ToProvider => "to provider",
        Direction::ToHost => "to host",
        Direction::Both => "both",
    }
}

fn kinds(kinds: &[ErrorKind]) -> Value {
    kinds.iter().map(|kind| code_of(*kind).name).collect()
}

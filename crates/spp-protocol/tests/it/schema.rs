//! The schema that is checked in is the schema of the code, and accepts and refuses what it should.

use std::path::PathBuf;

use serde_json::{Value, json};
use spp_protocol::method::{Answer, METHODS};
use spp_protocol::schema;

/// Set to `1` to write files anew instead of comparing them.
pub(crate) const BLESS: &str = "SPP_BLESS";

pub(crate) fn bless() -> bool {
    std::env::var_os(BLESS).is_some_and(|value| value == "1")
}

pub(crate) fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Checks messages, and results by their method.
pub(crate) struct Validator {
    document: Value,
    message: jsonschema::Validator,
}

impl Validator {
    pub(crate) fn new() -> Self {
        let document = schema::document();
        let message = jsonschema::draft202012::new(&document).expect("a valid schema");
        Self { document, message }
    }

    pub(crate) fn message(&self, message: &Value) {
        if let Err(error) = self.message.validate(message) {
            panic!("{error} at {}\nin {message}", error.instance_path);
        }
    }

    pub(crate) fn refuses(&self, message: &Value) -> bool {
        !self.message.is_valid(message)
    }

    pub(crate) fn definition(&self, name: &str, value: &Value) {
        let schema = json!({ "$ref": format!("#/$defs/{name}"), "$defs": self.document["$defs"] });
        let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
        if let Err(error) = validator.validate(value) {
            panic!("{error} at {}\nin {value}", error.instance_path);
        }
    }
}

#[test]
fn the_schema_that_is_checked_in_is_the_schema_of_the_code() {
    let path = repository().join("docs/schema/spp-1.schema.json");
    let text = format!("{:#}\n", schema::document());
    if bless() {
        std::fs::write(&path, text).expect("the schema can be written");
        return;
    }
    let checked_in = std::fs::read_to_string(&path).expect("the schema is checked in");
    assert!(
        checked_in == text,
        "docs/schema/spp-1.schema.json is not the schema of the code; look at the difference that {BLESS}=1 makes"
    );
}

#[test]
fn every_method_is_in_the_schema_under_the_types_of_the_table() {
    let document = schema::document();
    let methods = document["methods"].as_object().expect("an object");
    assert_eq!(methods.len(), METHODS.len());
    for method in METHODS {
        let entry = &methods[method.name];
        assert_eq!(
            entry["params"]["$ref"],
            format!("#/$defs/{}", method.params)
        );
        match method.answer {
            Answer::Result(result) => {
                assert_eq!(entry["result"]["$ref"], format!("#/$defs/{result}"));
            }
            Answer::None => assert_eq!(entry["result"], Value::Null),
        }
        let params = &document["$defs"][method.params]["properties"];
        for (member, _) in method.streams {
            assert!(params.get(*member).is_some(), "{}: {member}", method.name);
        }
        let codes = &document["errorCodes"];
        for kind in entry["errors"].as_array().into_iter().flatten() {
            let kind = kind.as_str().expect("a name");
            assert!(codes.get(kind).is_some(), "{}: {kind}", method.name);
        }
    }
}

#[test]
fn the_schema_is_open_where_the_protocol_is_and_refuses_what_is_malformed() {
    let validator = Validator::new();
    let read =
        |params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "read", "params": params});
    let good = json!({"sandbox": "a", "generation": 1, "path": "x", "range": {"bytes": {"offset": 0, "length": 1}}});
    validator.message(&read(good.clone()));
    for (member, value) in [
        ("later", json!({"a": 1})),
        ("range", json!("pages")),
        ("range", json!({"pages": 3})),
        ("range", json!("all")),
        ("path", json!({"b64": "/w=="})),
    ] {
        let mut open = good.clone();
        open[member] = value;
        validator.message(&read(open));
    }
    validator.message(&json!({"jsonrpc": "2.0", "id": 1, "method": "later", "params": []}));
    for (member, value) in [
        ("generation", json!("1")),
        ("generation", json!(-1)),
        ("path", json!(3)),
        ("path", json!({"text": 3})),
        ("range", json!({"bytes": {"offset": 0}})),
        ("range", json!("bytes")),
        ("range", json!({})),
    ] {
        let mut wrong = good.clone();
        wrong[member] = value;
        assert!(validator.refuses(&read(wrong.clone())), "{wrong}");
    }
    for wrong in [
        json!({"jsonrpc": "2.0"}),
        json!({"jsonrpc": "2.0", "id": -1, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "m"}}),
        json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
        json!([]),
    ] {
        assert!(validator.refuses(&wrong), "{wrong}");
    }
}

//! `examples/python-provider`, which shares no code with us, is a provider.
//!
//! `spp-conformance` says so, as it would to whoever wrote one. And what travels between the host and that
//! provider, both ways, fits `docs/schema`. What fails here is a fault of the example, or a promise that
//! `docs/protocol.md` does not make: of a stranger nothing may be asked but what is written there.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandbox_conformance::Check;
use sandbox_conformance::catalogue::Item;
use sandbox_host::SearchPath;
use sandbox_host::config::UserFile;
use serde_json::{Value, json};

use crate::over_host;

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn provider() -> PathBuf {
    let path = repository().join("examples/python-provider/provider.py");
    path.canonicalize().expect("the example is checked in")
}

/// Runs `spp-conformance` on the example, on all groups of one kind.
fn passes(wanted: impl Fn(&Item) -> bool) {
    let groups: BTreeSet<_> = Item::all()
        .filter(|item| wanted(item))
        .map(Item::group)
        .collect();
    #[expect(
        clippy::disallowed_methods,
        reason = "the executable under test is started as people start it"
    )]
    let mut runner = Command::new(env!("CARGO_BIN_EXE_spp-conformance"));
    let output = runner
        .args(groups.iter().flat_map(|group| ["--only", group]))
        .arg(provider())
        .output()
        .expect("the runner starts");
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn it_keeps_the_protocol() {
    passes(|item| matches!(item, Item::Wire(_)));
}

#[test]
fn it_keeps_what_the_file_verbs_promise() {
    passes(|item| matches!(item, Item::Behaviour(_)) && !is_about_processes(item));
}

#[test]
fn it_keeps_what_commands_promise() {
    passes(|item| matches!(item, Item::Behaviour(_)) && is_about_processes(item));
}

/// By what the clause is of: a group has one kind of verb.
fn is_about_processes(item: &Item) -> bool {
    item.clauses()
        .iter()
        .any(|clause| clause.starts_with("7.7") || clause.starts_with("7.8"))
}

/// Checks that make every kind of message travel that the example knows: content in the message and on
/// streams, credit, stop, cancel, errors of requests and of items.
const TALKATIVE: [&str; 12] = [
    "a_file_is_read_byte_for_byte",
    "a_large_file_arrives_intact",
    "a_put_makes_missing_parents",
    "a_removed_tree_is_gone_and_counted",
    "an_entry_is_described_with_kind_size_and_mode",
    "absence_is_a_value",
    "an_input_stream_arrives_in_order",
    "a_slow_reader_loses_nothing",
    "a_stream_that_nobody_wants_holds_nothing_up",
    "a_cancel_ends_the_whole_tree",
    "another_spec_of_the_same_id_is_a_conflict",
    "what_is_not_declared_answers_unsupported",
];

#[tokio::test]
async fn everything_that_travels_fits_the_schema() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let recorder = scratch.path().join("recorder");
    let script = format!(
        "#!/bin/sh\ncd '{}' && tee to-provider | '{}' | tee to-host\n",
        scratch.path().display(),
        provider().display()
    );
    std::fs::write(&recorder, script).expect("room for a script");
    std::fs::set_permissions(&recorder, PermissionsExt::from_mode(0o755)).expect("its mode is set");
    let config = scratch.path().join("config.toml");
    std::fs::write(
        &config,
        "[sandbox.providers.recorded]\ncommand = './recorder'\n",
    )
    .expect("room for a file");

    let search = SearchPath {
        beside: None,
        path: Vec::new(),
    };
    let harness = over_host::provider("recorded", UserFile::Named(config), search)
        .await
        .expect("the provider starts");
    for name in TALKATIVE {
        let check = Check::by_name(name).expect("a check of that name");
        let passed = check.run(&*harness, Duration::from_secs(120)).await;
        passed.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
    drop(harness);

    let schema = Schema::checked_in();
    let mut methods = HashMap::new();
    let mut seen = BTreeSet::new();
    for message in messages(&scratch.path().join("to-provider")) {
        schema.fits(&message);
        let method = message["method"].as_str().expect("a host sends no answers");
        seen.insert(method.to_owned());
        if let Some(id) = message["id"].as_u64() {
            methods.insert(id, method.to_owned());
        }
    }
    let mut answers = 0;
    for message in messages(&scratch.path().join("to-host")) {
        schema.fits(&message);
        match message["id"].as_u64() {
            Some(id) => {
                answers += 1;
                schema.answers(&methods[&id], &message);
            }
            None => drop(seen.insert(message["method"].as_str().expect("a method").to_owned())),
        }
    }
    assert_eq!(answers, methods.len(), "requests that were answered once");
    for expected in [
        "initialize",
        "acquire",
        "release",
        "read",
        "write",
        "remove",
        "stat_many",
        "exec",
        "stream/data",
        "stream/end",
        "stream/credit",
        "stream/stop",
        "$/cancel",
        "sandbox/closed",
    ] {
        assert!(seen.contains(expected), "no {expected} travelled: {seen:?}");
    }
}

/// What was recorded. Each line must be a message: nothing else may be on the connection. The last may still be on
/// its way; every answer that was waited for is before it.
fn messages(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("it was recorded, in UTF-8");
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = complete.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

struct Schema {
    document: Value,
    message: jsonschema::Validator,
}

impl Schema {
    fn checked_in() -> Self {
        let file = repository().join("docs/schema/spp-1.schema.json");
        let text = std::fs::read_to_string(file).expect("the schema is checked in");
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let message = jsonschema::draft202012::new(&document).expect("a valid schema");
        Self { document, message }
    }

    fn fits(&self, message: &Value) {
        if let Err(error) = self.message.validate(message) {
            panic!("{error} at {}\nin {message}", error.instance_path);
        }
    }

    /// The result is of the method's type, or the error one that it may fail with.
    fn answers(&self, method: &str, message: &Value) {
        let entry = &self.document["methods"][method];
        if let Some(error) = message.get("error") {
            let kind = &error["data"]["kind"];
            let may = [
                &entry["errors"],
                &self.document["commonErrors"],
                &self.document["sandboxErrors"],
            ]
            .into_iter()
            .flat_map(|kinds| kinds.as_array().into_iter().flatten())
            .any(|allowed| allowed == kind);
            assert!(may, "{method} failed with {error}");
            return;
        }
        let reference = &entry["result"]["$ref"];
        let schema = json!({ "$ref": reference, "$defs": self.document["$defs"] });
        let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
        if let Err(error) = validator.validate(&message["result"]) {
            panic!(
                "{error} at {}\nin the result of {method}: {message}",
                error.instance_path
            );
        }
    }
}

//! `docs/protocol.md` names everything that the code has.

use std::collections::BTreeSet;

use serde_json::Value;
use spp_protocol::convert::PATH_OF_CAPABILITY;
use spp_protocol::error::{CODES, code_of};
use spp_protocol::method::{Answer, COMMON_ERRORS, Changes, Direction, METHODS, SANDBOX_ERRORS};
use spp_protocol::{limits, schema};

use super::schema::{BLESS, bless, repository};

const OPEN: &str = "<!-- methods -->\n";
const CLOSE: &str = "<!-- /methods -->";

fn document() -> String {
    let path = repository().join("docs/protocol.md");
    std::fs::read_to_string(path).expect("the specification is checked in")
}

/// The table that the document opens with.
fn table() -> String {
    let mut table = String::from(
        "| method | direction | params | result | streams | errors | effect |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for method in METHODS {
        let direction = match method.direction {
            Direction::ToProvider => "to provider",
            Direction::ToHost => "to host",
            Direction::Both => "both",
        };
        let result = match method.answer {
            Answer::Result(result) => format!("`{result}`"),
            Answer::None => "notification".into(),
        };
        let errors: Vec<_> = method
            .errors
            .iter()
            .map(|kind| format!("`{}`", code_of(*kind).name))
            .collect();
        let effect = match (method.answer, method.changes) {
            (Answer::None, _) => "",
            (_, Changes::Nothing) => "nothing",
            (_, Changes::Idempotent) => "idempotent",
            (_, Changes::Something) => "something",
        };
        let streams = [
            (Direction::ToProvider, "provider"),
            (Direction::ToHost, "host"),
        ]
        .map(|(to, whom)| {
            let members: Vec<_> = (method.streams.iter())
                .filter(|stream| stream.1 == to)
                .map(|(member, _)| format!("`{member}`"))
                .collect();
            match members.is_empty() {
                true => String::new(),
                false => format!("{} to {whom}", members.join(" and ")),
            }
        })
        .join(", ");
        let streams = streams.trim_matches([',', ' ']);
        let (name, params) = (method.name, method.params);
        let errors = errors.join(", ");
        table += &format!(
            "| `{name}` | {direction} | `{params}` | {result} | {streams} | {errors} | {effect} |\n"
        );
    }
    table
}

#[test]
fn it_opens_with_the_table_of_methods() {
    let text = document();
    let (before, rest) = text.split_once(OPEN).expect("the table is marked");
    let (found, after) = rest.split_once(CLOSE).expect("the table is marked");
    let expected = format!("\n{}\n", table());
    if bless() {
        let path = repository().join("docs/protocol.md");
        std::fs::write(path, [before, OPEN, &expected, CLOSE, after].concat())
            .expect("the specification can be written");
        return;
    }
    assert!(
        !before.contains("\n## "),
        "the table comes before every chapter"
    );
    assert!(
        found == expected,
        "the table is not the one of `method::METHODS`; {BLESS}=1 writes it anew"
    );
}

#[test]
fn every_code_is_in_the_table_of_errors_and_no_other() {
    let text = document();
    let rows: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let code: i32 = cells.next()?.parse().ok()?;
            let filled = cells.clone().take(3).all(|cell| !cell.is_empty());
            assert!(filled, "{line}");
            Some((code, cells.next()?.trim_matches('`').to_owned()))
        })
        .collect();
    let rows: BTreeSet<_> = rows.into_iter().collect();
    let codes = CODES.iter().map(|code| (code.code, code.name.to_owned()));
    assert_eq!(rows, codes.collect());
}

#[test]
fn the_common_errors_are_those_of_the_code() {
    let text = document();
    for (clause, kinds) in [("9.2", COMMON_ERRORS), ("9.3", SANDBOX_ERRORS)] {
        let start = format!("**{clause}** ");
        let line = text
            .lines()
            .find(|line| line.starts_with(&start))
            .expect("the clause is there");
        for kind in kinds {
            let name = code_of(*kind).name;
            assert!(line.contains(&format!("`{name}`")), "{clause} lacks {name}");
        }
    }
}

/// All words that the document sets as code, split at whatever is no part of a name.
fn words(text: &str) -> BTreeSet<&str> {
    let fenced = text.split("```").enumerate();
    fenced
        .flat_map(|(index, part)| {
            let inline = part.split('`').skip(1).step_by(2);
            let (whole, inline) = if index % 2 == 1 {
                (Some(part), None)
            } else {
                (None, Some(inline))
            };
            whole.into_iter().chain(inline.into_iter().flatten())
        })
        .flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .collect()
}

#[test]
fn every_member_and_every_choice_of_every_message_is_named() {
    let text = document();
    let words = words(&text);
    let mut missing = BTreeSet::new();
    visit(&schema::document()["$defs"], &mut |name| {
        if !words.contains(name) {
            missing.insert(name.to_owned());
        }
    });
    for (_, group, name) in PATH_OF_CAPABILITY {
        for name in [group, name] {
            if !words.contains(name) {
                missing.insert(name.to_owned());
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/protocol.md does not name {missing:?}"
    );
}

/// Calls `named` with every member's name and every known choice in a schema.
fn visit(schema: &Value, named: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            named(name);
                            visit(property, named);
                        }
                    }
                    ("const", Value::String(name)) => named(name),
                    _ => visit(value, named),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, named)),
        _ => {}
    }
}

#[test]
fn limits_and_environment_are_those_of_the_code() {
    let text = document();
    let row = |member: &str| {
        let start = format!("| `{member}` |");
        text.lines()
            .find(|line| line.starts_with(&start))
            .expect("the limit is in the table")
    };
    let kib = |bytes: u64| match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    };
    let lines = row("max_line_bytes");
    for bytes in [
        limits::DEFAULT_LINE_BYTES,
        limits::MIN_LINE_BYTES,
        limits::MAX_LINE_BYTES,
    ] {
        assert!(lines.contains(&kib(bytes)), "{lines}");
    }
    let stream = row("stream_window_bytes");
    for bytes in [
        limits::DEFAULT_STREAM_WINDOW_BYTES,
        limits::MIN_WINDOW_BYTES,
    ] {
        assert!(stream.contains(&kib(bytes)), "{stream}");
    }
    let connection = row("connection_window_bytes");
    assert!(
        connection.contains(&kib(limits::DEFAULT_CONNECTION_WINDOW_BYTES)),
        "{connection}"
    );
    assert!(row("max_in_flight").contains(&limits::DEFAULT_IN_FLIGHT.to_string()));
    for name in [spp_protocol::HOST_VARIABLE, spp_protocol::HOST_PID_VARIABLE] {
        assert!(text.contains(&format!("`{name}")), "{name}");
    }
    assert!(text.contains(&format!(
        "exits with status {}",
        spp_protocol::EXIT_NOT_A_HOST
    )));
}

#[test]
fn the_messages_of_its_examples_fit_the_schema() {
    let validator = super::schema::Validator::new();
    let text = document();
    let examples: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("> ").or_else(|| line.strip_prefix("< ")))
        .filter(|line| line.starts_with('{'))
        .collect();
    assert!(examples.len() > 5);
    for example in examples {
        let message: Value = serde_json::from_str(example).expect("an example is JSON");
        validator.message(&message);
        if message.get("result").is_some() {
            validator.definition("ExecResult", &message["result"]);
        }
    }
}

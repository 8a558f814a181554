//! Nothing gets out, and what is there to show that something could does.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// What works without protection on any machine; where it does not, the outside was prepared wrongly.
const ALWAYS_COUNT: [&str; 24] = [
    "F01", "F02", "F03", "F18", "F34", "F37", "F44", "F53", "N01", "N04", "N10", "P01", "P02",
    "P04", "P11", "P14", "P21", "P31", "P34", "L01", "L02", "R08", "R12", "R15",
];

/// The suite, beside the providers and the engine that it runs.
fn suite() -> PathBuf {
    let built = std::env::var_os("SPP_TEST_BIN_DIR").map(PathBuf::from);
    let suite = Path::new(env!("CARGO_BIN_EXE_spp-escape-suite"));
    built.map_or_else(|| suite.to_owned(), |built| built.join("spp-escape-suite"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test starts the program as its users do"
)]
fn run(arguments: &[&str]) -> std::process::Output {
    let output = std::process::Command::new(suite()).args(arguments).output();
    output.expect("it starts: `cargo xtask test` builds it")
}

fn check(kinds: &[&str]) {
    let output = run(&[&["--json"], kinds].concat());
    let words = String::from_utf8_lossy(&output.stderr);
    let table: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"));
    assert_eq!(table["problems"], serde_json::json!([]), "{words}");
    assert_eq!(output.status.code(), Some(0), "{words}");

    let attempts = table["attempts"].as_array().expect("a list");
    for id in ALWAYS_COUNT.iter().filter(|id| kinds.contains(&&id[..1])) {
        let attempt = attempts.iter().find(|attempt| attempt["id"] == *id);
        let attempt = attempt.unwrap_or_else(|| panic!("{id} is no longer tried"));
        assert_eq!(attempt["counts"], true, "{id} works in no control: {table}");
    }
    // A location that was silently left out held nothing.
    for column in table["columns"].as_array().expect("a list") {
        let by_root = ["bubblewrap-root", "naive-docker", "docker-root"];
        let only_root_could = by_root.iter().any(|name| column["name"] == *name)
            && !rustix::process::geteuid().is_root();
        assert!(column["left_out"].is_null() || only_root_could, "{column}");
    }
}

#[test]
fn nothing_gets_out_that_a_location_promises_to_hold() {
    check(&["F", "K", "N", "P"]);
}

#[test]
fn nothing_uses_up_or_outlives_what_a_location_promises_to_keep() {
    check(&["R", "L"]);
}

#[test]
fn an_attempt_that_there_is_none_of_is_refused_by_name() {
    let output = run(&["F00"]);
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("`F00`"), "{words}");
}

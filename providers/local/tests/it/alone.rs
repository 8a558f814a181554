//! What the executable says without a host.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const PROVIDER: &str = env!("CARGO_BIN_EXE_spp-provider-local");

#[expect(
    clippy::disallowed_methods,
    reason = "the executable is what is tested"
)]
fn run(arguments: &[&str]) -> Output {
    Command::new(PROVIDER)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[test]
fn by_hand_it_explains_itself_and_does_nothing() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(output.stdout, b"", "standard output is the protocol's");
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.contains("spp run"), "{text}");
}

#[test]
fn the_manifest_is_printed_with_nothing_around_it() {
    let output = run(&["--spp-manifest"]);
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
    let manifest: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(manifest["name"], "local");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        manifest["capabilities"]["files"]["edit"].is_object(),
        "{manifest}"
    );
    assert!(
        manifest["capabilities"].get("search").is_none(),
        "what is not there is not declared: {manifest}"
    );
}

#[test]
fn an_argument_that_it_does_not_know_is_named() {
    let output = run(&["--serve"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--serve"));
}

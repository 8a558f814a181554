//! What the executable says without a host.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const PROVIDER: &str = env!("CARGO_BIN_EXE_spp-provider-local");

#[expect(
    clippy::disallowed_methods,
    reason = "the executable is what is tested"
)]
fn provider(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROVIDER);
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    provider(arguments).output().expect("it starts")
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
        manifest["capabilities"]["lifecycle"]
            .get("linger")
            .is_none(),
        "what is not there is not declared: {manifest}"
    );
}

#[test]
fn an_argument_that_it_does_not_know_is_named() {
    let output = run(&["--serve"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--serve"));
}

#[test]
fn only_the_cookie_that_a_host_sets_makes_it_serve() {
    for value in ["", "0", "true", "11"] {
        let output = provider(&[]).env("SPP_HOST", value).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(64), "SPP_HOST={value}");
        assert_eq!(output.stdout, b"");
    }
    // Nothing is asked for on this input, and its end is a host that went away.
    let output = provider(&[]).env("SPP_HOST", "1").output();
    let output = output.expect("it starts");
    assert_eq!((output.status.code(), output.stdout), (Some(0), vec![]));
}

#[test]
fn help_and_version_are_printed_with_nothing_around_them_by_a_host_too() {
    let version = format!("local {}\n", env!("CARGO_PKG_VERSION"));
    for cookie in [None, Some(("SPP_HOST", "1"))] {
        let output = |argument| {
            let output = provider(&[argument]).envs(cookie).output();
            let output = output.expect("it starts");
            assert_eq!(output.status.code(), Some(0), "{argument}");
            assert_eq!(output.stderr, b"", "{argument}");
            String::from_utf8(output.stdout).expect("text")
        };
        assert_eq!(output("--version"), version);
        let help = output("--help");
        assert_eq!(output("-h"), help);
        for part in ["Usage: local", "--spp-manifest", "--version", "SPP_HOST=1"] {
            assert!(help.contains(part), "{part} is not in {help}");
        }
        assert!(output("--spp-manifest").starts_with('{'));
    }
}

#[test]
fn two_arguments_are_refused_whatever_they_are() {
    for arguments in [["--version", "--help"], ["--spp-manifest", "x"], ["", ""]] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert_eq!(output.stdout, b"");
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(text.contains("more than one argument"), "{text}");
    }
}

#[test]
fn what_could_not_be_printed_is_no_success() {
    for argument in ["--spp-manifest", "--version", "--help"] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let status = provider(&[argument])
            .stdout(full.expect("a device"))
            .status();
        assert_eq!(status.expect("it starts").code(), Some(70), "{argument}");
    }
}

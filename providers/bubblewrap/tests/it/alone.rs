//! What the executable says without a host.

use std::process::Output;

use std::io::{Seek as _, Write as _};

use serde_json::Value;

use super::support::{PROVIDER, command};

fn run(arguments: &[&str]) -> Output {
    command(PROVIDER)
        .args(arguments)
        .output()
        .expect("it starts")
}

#[test]
fn by_hand_it_explains_itself_and_does_nothing() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(output.stdout, b"", "standard output is the protocol's");
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.contains("--location bubblewrap"), "{text}");
}

#[test]
fn the_manifest_is_printed_without_bubblewrap_or_an_engine() {
    let output = command(PROVIDER)
        .arg("--spp-manifest")
        .env_clear()
        .output()
        .expect("it starts");
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
    let manifest: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(manifest["name"], "bubblewrap");
    for (group, one) in [
        ("files", "edit"),
        ("processes", "spawn"),
        ("lifecycle", "probe"),
    ] {
        assert!(
            manifest["capabilities"][group][one].is_object(),
            "{manifest}"
        );
    }
    assert!(
        manifest["capabilities"]["lifecycle"]
            .get("linger")
            .is_none()
    );
}

#[test]
fn a_launch_by_hand_comes_to_nothing_and_says_so() {
    let by_hand: [&[u8]; 4] = [b"", b"short", &[0xff; 64], b"\0\0\0\0\0\0\0\x05nono\0"];
    for input in by_hand {
        let mut file = tempfile::tempfile().expect("a scratch file");
        file.write_all(input).expect("it is written");
        file.rewind().expect("it is a file");
        let output = command(PROVIDER)
            .arg("--launch")
            .stdin(file)
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(71));
        let text = String::from_utf8(output.stderr).expect("text");
        let sense = ["makes no sense", "Argument list too long"];
        assert!(sense.iter().any(|says| text.contains(says)), "{text}");
    }
}

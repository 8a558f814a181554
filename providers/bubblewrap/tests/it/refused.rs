//! What cannot be had is refused, with the reason and what to do.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::support::{Scratch, Served, Who, command, each, is_root};

fn refusal(served: &mut Served, spec: &Value) -> (String, String) {
    let answer = served.ask("acquire", &json!({"spec": spec}));
    let data = &answer["error"]["data"];
    assert_eq!(data["effect"], "none", "{answer}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&data["kind"]), answer.to_string())
}

#[test]
fn a_root_that_is_not_there_and_policies_that_nobody_can_keep_are_refused_before_anything_is_made()
{
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = Served::start(&mut scratch.command());
        let mut check = |spec: Value, kind: &str, says: &str| {
            let (found, text) = refusal(&mut served, &spec);
            assert_eq!(found, kind, "{text}");
            assert!(text.contains(says), "{text}");
        };
        check(
            json!({"sandbox": "s", "root": "/nothing/is/here"}),
            "not_found",
            "/nothing/is/here",
        );
        check(
            json!({"sandbox": "s", "root": "/"}),
            "invalid_params",
            "must not have",
        );
        check(
            scratch.spec(&json!({"network": {"allow": ["https://example.org:443"]}})),
            "policy_unmet",
            "single origins",
        );
        check(
            scratch.spec(&json!({"mounts": [{"host": "/nothing/is/here", "sandbox": "/mnt/x", "access": "read_only"}]})),
            "policy_unmet",
            "/nothing/is/here",
        );
        check(
            scratch.spec(&json!({"mounts": [{"host": "/usr/..", "sandbox": "/mnt/x", "access": "read_only"}]})),
            "policy_unmet",
            "never shown",
        );
        check(
            scratch.spec(&json!({"mounts": [{"host": "/usr", "sandbox": "/usr/not-there/x", "access": "read_only"}]})),
            "provider_unavailable",
            "somewhere else",
        );
        assert_eq!(served.family().len(), 1, "something was left");
    });
}

#[test]
fn an_engine_that_is_missing_or_is_none_is_named() {
    let scratch = Scratch::new(Who::Me);
    let alone = scratch.beside("alone");
    let provider = alone.join("spp-provider-bubblewrap");
    std::fs::copy(scratch.provider(), &provider).expect("a copy");
    let mut served = Served::start(&mut command(&provider));
    let spec = scratch.spec(&json!({}));
    let (kind, text) = refusal(&mut served, &spec);
    assert_eq!(kind, "provider_unavailable");
    assert!(text.contains("alone/spp-engine is missing"), "{text}");
    std::fs::copy("/bin/ls", alone.join("spp-engine")).expect("a copy");
    let (_, text) = refusal(&mut served, &spec);
    assert!(text.contains("linked dynamically"), "{text}");
    let probe = served.call("probe", &json!({"spec": spec}));
    assert!(probe.to_string().contains("linked dynamically"), "{probe}");
}

/// A machine on which `bwrap` is this script: found in PATH, where none is in its usual place.
fn with_bwrap(scratch: &Scratch, script: &str) -> Option<String> {
    with_bwrap_and(scratch, script, &json!({}))
}

/// The same, under a policy.
pub(crate) fn with_bwrap_and(scratch: &Scratch, script: &str, policy: &Value) -> Option<String> {
    let directory = scratch.beside("path");
    let file = directory.join("bwrap");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("ours");
    // In a mount namespace in which the usual one is the script.
    let mut start = command("unshare");
    start.args([
        "-m",
        "sh",
        "-c",
        "mount --bind \"$1\" /usr/bin/bwrap && exec \"$0\"",
    ]);
    start.arg(scratch.provider()).arg(&file);
    let mut served = Served::start(&mut start);
    let answer = served.ask("acquire", &json!({"spec": scratch.spec(policy)}));
    Some(answer["error"]["data"]["detail"].as_str()?.to_owned())
}

#[test]
fn a_bwrap_that_is_too_old_or_refused_by_the_system_is_told_with_what_to_do() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new(Who::Me);
    let old = with_bwrap(&scratch, "echo bubblewrap 0.4.1").expect("refused");
    assert!(
        old.contains("0.4.1 is too old") && old.contains("install bubblewrap 0.8.0"),
        "{old}"
    );
    let refuses = |says: &str| {
        let script = format!(
            "case $1 in --version) echo bubblewrap 0.9.0;; --help) echo --bind-fd;; *) echo 'bwrap: {says}' >&2; exit 1;; esac"
        );
        with_bwrap(&scratch, &script).expect("refused")
    };
    let apparmor = refuses("setting up uid map: Permission denied");
    assert!(
        apparmor.contains("uid map") && apparmor.contains("apparmor_parser"),
        "{apparmor}"
    );
    let container = refuses("Cant mount proc on /newroot/proc: Operation not permitted");
    assert!(container.contains("could not be made"), "{container}");
}

#[test]
fn bwrap_is_not_asked_about_itself_as_root() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new(Who::Me);
    let script = "test \"$(id -u) $(id -G)\" = '65534 65534' && echo bubblewrap 0.4.1";
    let told = with_bwrap(&scratch, script).expect("refused");
    assert!(told.contains("0.4.1 is too old"), "{told}");
}

#[test]
fn a_filesystem_that_cannot_map_owners_is_refused_to_root_and_not_to_its_owner() {
    if !is_root() {
        return;
    }
    let try_it = |who| {
        let scratch = Scratch::new(who);
        let mut start = command("unshare");
        let mount = "mount -t ramfs none \"$1\" && chmod 777 \"$1\" && shift && exec \"$@\"";
        start
            .args(["-m", "sh", "-c", mount, "sh"])
            .arg(scratch.workspace());
        if let Some(user) = scratch.user() {
            start.args([
                "setpriv",
                &format!("--reuid={user}"),
                &format!("--regid={user}"),
                "--clear-groups",
            ]);
        }
        start.arg(scratch.provider());
        let mut served = Served::start(&mut start);
        served.ask("acquire", &json!({"spec": scratch.spec(&json!({}))}))
    };
    let refused = try_it(Who::Me).to_string();
    assert!(
        refused.contains("cannot show its files under another owner"),
        "{refused}"
    );
    assert!(refused.contains("ordinary user"), "{refused}");
    let answer = try_it(Who::Ordinary);
    assert!(answer["result"].is_object(), "{answer}");
}

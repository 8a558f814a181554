//! `spp run` where nothing goes wrong: streams, input, arguments, exit status.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Place, check, executable, finish, line, start};

#[test]
fn the_exit_status_is_the_commands_and_is_no_error() {
    let place = Place::new();
    for code in [0, 1, 7, 124, 125, 126, 127, 128, 255] {
        let ended = place.spp(&["run", "--", "sh", "-c", &format!("exit {code}")]);
        check(&ended, code, "");
        assert_eq!(ended.stderr, "", "exit {code}");
    }
    // Reports B061 and B062.
    for (name, code) in [
        ("HUP", 129),
        ("INT", 130),
        ("KILL", 137),
        ("SEGV", 139),
        ("TERM", 143),
    ] {
        let ended = place.spp(&["run", "--", "sh", "-c", &format!("kill -{name} $$")]);
        check(&ended, code, "");
        assert_eq!(ended.stderr, "", "{name}");
    }
}

#[test]
fn nothing_of_the_callers_environment_is_needed() {
    let place = Place::new();
    // As started by cron, or by less.
    let mut command = place.command(&["run", "--", "echo", "hi"]);
    check(&finish(start(command.env_clear())), 0, "hi\n");
    let mut command = place.command(&["run", "--", "/bin/echo", "hi"]);
    let command = command.env("PATH", "").env("TMPDIR", "/nowhere/at/all");
    check(&finish(start(command)), 0, "hi\n");
}

#[test]
fn each_stream_goes_to_its_own_descriptor_untouched() {
    let place = Place::new();
    let ended = place.spp(&[
        "run",
        "--",
        "sh",
        "-c",
        "printf 'a\\377\\000b\\r\\n'; printf 'on error, no newline' >&2",
    ]);
    assert_eq!(ended.stdout, b"a\xff\0b\r\n");
    assert_eq!(ended.stderr, "on error, no newline");
    assert_eq!(ended.code, Some(0));
}

#[test]
fn output_comes_while_the_command_runs() {
    let place = Place::new();
    let mut child = start(
        place
            .command(&["run", "--", "sh", "-c", "echo one; read line; echo $line"])
            .stdin(Stdio::piped()),
    );
    let mut stdout = child.stdout.take().expect("a pipe");
    assert_eq!(line(&mut stdout), "one");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"two\n").expect("spp reads its input");
    assert_eq!(line(&mut stdout), "two");
    // The input is still open: it must not keep anybody.
    assert_eq!(finish(child).code, Some(0));
    drop(stdin);
}

#[test]
fn a_pipe_is_passed_on_as_input_to_its_last_byte() {
    let place = Place::new();
    let input: Vec<u8> = (0..1_000_003_u32).map(|n| n.to_le_bytes()[0]).collect();
    let ended = place.spp_with(&["run", "--", "cat"], &input);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout == input,
        "{} bytes came back",
        ended.stdout.len()
    );
    check(&place.spp_with(&["run", "--", "cat"], b""), 0, "");
}

#[test]
fn a_file_is_passed_on_as_input() {
    let place = Place::new();
    place.put("words", "b\na\n");
    let file = std::fs::File::open(place.path("words")).expect("it was just written");
    let ended = finish(start(place.command(&["run", "--", "sort"]).stdin(file)));
    check(&ended, 0, "a\nb\n");
}

#[test]
fn a_command_that_does_not_read_its_input_ends_all_the_same() {
    let place = Place::new();
    let ended = place.spp_with(&["run", "--", "echo", "done"], &vec![b'x'; 10_000_000]);
    check(&ended, 0, "done\n");
    assert_eq!(ended.stderr, "");
}

#[test]
fn the_command_runs_in_the_tree_one_stands_in() {
    let place = Place::new();
    place.put("below/file", "found\n");
    check(
        &place.spp(&["run", "--", "cat", "below/file"]),
        0,
        "found\n",
    );
    check(
        &place.spp(&["run", "--cwd", "below", "--", "cat", "file"]),
        0,
        "found\n",
    );
    check(&place.spp(&["run", "touch", "made"]), 0, "");
    assert!(place.path("made").is_file());
}

#[test]
fn arguments_arrive_as_they_are() {
    let place = Place::new();
    let ended = place.spp(&[
        "run", "--", "printf", "%s|", "", " a ", "$HOME", "*", "-n", "--json", "é\n",
    ]);
    check(&ended, 0, "| a |$HOME|*|-n|--json|é\n|");
    // Without the dashes, what follows the command is the command's all the same.
    check(
        &place.spp(&["run", "echo", "-v", "--json"]),
        0,
        "-v --json\n",
    );
}

#[test]
fn variables_are_set_passed_on_and_refused() {
    let place = Place::new();
    let ended = finish(start(
        place
            .command(&[
                "run",
                "-e",
                "A=1=2",
                "--env",
                "B",
                "--",
                "sh",
                "-c",
                "echo $A $B",
            ])
            .env("B", "callers"),
    ));
    check(&ended, 0, "1=2 callers\n");
    let ended = place.spp(&["run", "--env", "SPP_TEST_NOBODY_SETS_THIS", "--", "true"]);
    check(&ended, 125, "");
    assert!(ended.stderr.contains("not set"), "{}", ended.stderr);
}

#[test]
fn the_callers_environment_reaches_the_command_and_the_providers_own_does_not() {
    let place = Place::new();
    let ended = finish(start(
        place
            .command(&[
                "run",
                "--",
                "sh",
                "-c",
                "echo $TOOLCHAIN-$SPP_HOST-$SPP_HOST_PID",
            ])
            .env("TOOLCHAIN", "mine"),
    ));
    check(&ended, 0, "mine--\n");
}

#[test]
fn a_command_that_cannot_be_started_has_the_status_that_shells_give() {
    let place = Place::new();
    place.put("plain", "text");
    for (command, code, word) in [
        ("no-such-program-here", 127, "not found"),
        ("./nowhere", 127, "not found"),
        ("./plain", 126, "plain"),
        (".", 126, "."),
    ] {
        let ended = place.spp(&["run", "--", command]);
        check(&ended, code, "");
        assert!(
            ended.stderr.starts_with("spp: ") && ended.stderr.contains(word),
            "{}",
            ended.stderr
        );
    }
    let ended = place.spp(&["run", "--cwd", "nowhere", "--", "true"]);
    check(&ended, 125, "");
    assert!(ended.stderr.contains("nowhere"), "{}", ended.stderr);
}

#[test]
fn json_is_one_object_with_the_outcome() {
    let place = Place::new();
    let ended = place.spp(&[
        "run",
        "--json",
        "--",
        "sh",
        "-c",
        "echo out; printf '\\377' >&2; exit 3",
    ]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), ""));
    let object = ended.json();
    assert_eq!(
        object["status"],
        serde_json::json!({ "kind": "exited", "code": 3 })
    );
    assert_eq!(object["exit_code"], 3);
    assert_eq!(object["stdout"]["head"]["text"], "out\n");
    assert_eq!(object["stdout"]["total_bytes"], 4);
    assert_eq!(object["stderr"]["head"]["base64"], "/w==");
    assert!(object["duration_ms"].is_u64() && object["survivors"]["killed"].is_u64());

    let ended = place.spp(&["run", "--json", "--", "no-such-program-here"]);
    assert_eq!(ended.code, Some(127));
    let error = &ended.json()["error"];
    assert_eq!(
        (
            error["verb"].as_str(),
            error["kind"].as_str(),
            error["effect"].as_str()
        ),
        (Some("exec"), Some("not_found"), Some("none"))
    );
}

#[test]
fn a_command_line_that_makes_no_sense_is_a_failure_of_spp() {
    let place = Place::new();
    for args in [
        &["run"][..],
        &["run", "--jsn", "--", "ls"],
        &["run", "--timeout", "10", "--", "ls"],
        &["run", "--cwd", "..", "--", "ls"],
    ] {
        let ended = place.spp(args);
        assert_eq!(ended.code, Some(125), "{args:?}: {}", ended.stderr);
        assert!(!ended.stderr.is_empty(), "{args:?}");
    }
    assert_eq!(place.spp(&["rnu"]).code, Some(2));
    for args in [
        &["run", "--json", "--jsn", "--", "ls"][..],
        &["--json", "rnu"],
    ] {
        let error = place.spp(args).json();
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("--jsn") || message.contains("rnu"),
            "{error}"
        );
    }
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device that is always full");
    let ended = finish(start(place.command(&["--help"]).stdout(full)));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let help = place.spp(&["run", "--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout().contains("Examples:"));
}

#[test]
fn no_log_shows_the_value_of_a_variable() {
    let place = Place::new();
    let ended = place.spp(&["-vvv", "run", "--env", "TOKEN=hunter2", "--", "true"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

#[test]
fn sixty_four_open_files_are_enough() {
    let place = Place::new();
    let script = format!(
        "ulimit -n 64; exec '{}' run -- echo fine",
        executable().display()
    );
    // The outer one is only a way to set the limit.
    let ended = place.spp(&["run", "--", "sh", "-c", &script]);
    assert_eq!(
        (ended.code, ended.stdout().as_str()),
        (Some(0), "fine\n"),
        "{ended:?}"
    );
}

#[test]
fn what_a_command_changed_is_said_when_asked_for() {
    let place = Place::new();
    place.put("old", "old");
    place.put("gone", "gone");
    let script = "mkdir d; echo x >d/new; echo y >>old; rm gone; exit 3";
    let ended = place.spp(&["run", "--track", "--", "sh", "-c", script]);
    check(&ended, 3, "");
    assert_eq!(
        ended.stderr,
        "spp: what changed:\n  A d\n  A d/new\n  M old\n  D gone\n"
    );
    let ended = place.spp(&["run", "--track", "--", "true"]);
    assert_eq!(ended.stderr, "spp: nothing changed\n");
    let ended = place.spp(&["run", "--json", "--track", "--", "rm", "old"]);
    let said: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(
        said["changes"],
        serde_json::json!({
            "created": [], "modified": [], "removed": ["old"], "complete": true
        })
    );
    let ended = place.spp(&["run", "--json", "--", "true"]);
    let said: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(said.get("changes"), None);
}

/// A name may hold anything, and what is said may go to a terminal.
#[test]
fn a_name_that_changed_cannot_forge_a_line() {
    let place = Place::new();
    let script = "touch \"$(printf 'a\\n  D important')\"";
    let ended = place.spp(&["run", "--track", "--", "sh", "-c", script]);
    assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
}

//! What is executed, with what, and why it was not.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sandbox_core::process::{ExecRequest, ProcessSpec, PtySize, SpawnRequest, Status, Stdin};
use sandbox_core::{Cancel, Ctx, Effect, EnvChange, Error, ErrorKind, ProcId, Verb};
use sandbox_engine::process::environment::Environment;

use crate::process::{Place, exists, id, sh, text, within};

async fn refusal(place: &Place, spec: ProcessSpec) -> (ErrorKind, String) {
    let error: Error = place
        .exec(ExecRequest::new(spec))
        .await
        .expect_err("it was started");
    assert_eq!(
        (error.effect(), error.verb()),
        (Effect::None, Verb::Exec),
        "{error}"
    );
    (error.kind(), error.to_string())
}

fn executable(place: &Place, name: &str, content: &str, mode: u32) {
    let path = place.root.join(name);
    std::fs::write(&path, content).expect("writable");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
}

#[tokio::test]
async fn arguments_arrive_byte_for_byte() {
    let place = Place::new();
    let odd: [&[u8]; 8] = [
        b"",
        b" ",
        b"a'b",
        b"$(touch x)",
        b"`x`",
        b"a\nb",
        b"--help",
        &[0xff, 0xfe, b'*'],
    ];
    let mut argv: Vec<Vec<u8>> = vec![b"printf".to_vec(), b"%s\\0".to_vec()];
    argv.extend(odd.iter().map(|argument| argument.to_vec()));
    let outcome = place
        .exec(ExecRequest::new(ProcessSpec::new(argv)))
        .await
        .expect("ran");
    let expected: Vec<u8> = odd
        .iter()
        .flat_map(|argument| [argument, &b"\0"[..]].concat())
        .collect();
    assert_eq!(outcome.stdout.head, expected);
    assert!(!exists(&place.root.join("x")));
}

/// B043, B044, B047.
#[tokio::test]
async fn a_script_reaches_its_shell_as_it_is_and_one_that_is_not_finished_ends() {
    let place = Place::new();
    for (script, said, code) in [
        (
            "cat <<'END'\n  a $HOME\n\tb `c`\nEND",
            "  a $HOME\n\tb `c`\n",
            0,
        ),
        ("cat <<-END\n\ta\n\tEND\necho b", "a\nb\n", 0),
        // A delimiter with a blank behind it is none, so everything up to the end is the text.
        ("cat <<END\na\nEND \n", "a\nEND \n", 0),
        ("cat <<END\na", "a", 0),
        ("echo 'abc", "", 2),
        ("read line; echo \"<$line>\"", "<>\n", 0),
    ] {
        let outcome = place.sh(script).await;
        assert_eq!(
            text(&outcome.stdout.head).trim_end_matches('\n'),
            said.trim_end_matches('\n'),
            "{script}"
        );
        assert_eq!(outcome.exit.status, Status::Exited(code), "{script}");
    }
    // What follows is not disturbed by any of it.
    assert_eq!(text(&place.sh("echo ok").await.stdout.head), "ok\n");
}

#[tokio::test]
async fn ten_thousand_arguments_arrive() {
    let place = Place::new();
    let mut argv = vec![
        "sh".to_owned(),
        "-c".into(),
        "echo $# $1 ${10000}".into(),
        "sh".into(),
    ];
    argv.extend((1..=10_000).map(|number| format!("argument-{number}")));
    let outcome = place
        .exec(ExecRequest::new(ProcessSpec::new(argv)))
        .await
        .expect("ran");
    assert_eq!(
        text(&outcome.stdout.head),
        "10000 argument-1 argument-10000\n"
    );
}

#[tokio::test]
async fn arguments_or_an_environment_past_the_kernels_limit_are_too_large() {
    let place = Place::new();
    let long = "x".repeat(200_000);
    let (kind, said) = refusal(&place, ProcessSpec::new(["true", &long])).await;
    assert_eq!(kind, ErrorKind::TooLarge);
    assert!(said.contains("128 KiB"), "{said}");
    assert_eq!(
        refusal(&place, sh("true").env("LONG", &long)).await.0,
        ErrorKind::TooLarge
    );
    let mut many = sh("true");
    many.env = (0..4000)
        .map(|at| EnvChange::set(format!("V{at}"), "y".repeat(2000)))
        .collect();
    assert_eq!(refusal(&place, many).await.0, ErrorKind::TooLarge);
    assert_eq!(place.sh("exit 3").await.exit.status, Status::Exited(3));
}

#[tokio::test]
async fn what_no_process_can_be_given_is_an_invalid_argument() {
    let place = Place::new();
    let empty: [&str; 0] = [];
    for spec in [
        ProcessSpec::new(empty),
        ProcessSpec::new([""]),
        ProcessSpec::new(["echo", "a\0b"]),
        sh("true").env("A=B", "c"),
        sh("true").env("A", "b\0c"),
    ] {
        assert_eq!(refusal(&place, spec).await.0, ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_where_it_was_looked_for() {
    let place = Place::new();
    let (kind, said) = refusal(&place, ProcessSpec::new(["no-such-program"])).await;
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(
        said.contains("no-such-program") && said.contains("PATH=/usr/local/bin:/usr/bin:/bin"),
        "{said}"
    );
    let (kind, said) = refusal(&place, ProcessSpec::new(["./tool"])).await;
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(said.contains("./tool"), "{said}");
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_is_told_from_one_that_is_missing() {
    let place = Place::new();
    std::fs::create_dir(place.root.join("directory")).expect("writable");
    executable(&place, "plain", "#!/bin/sh\n", 0o644);
    executable(&place, "orphan", "#!/no/such/interpreter\n", 0o755);
    executable(&place, "text", "just text\n", 0o755);
    for (program, kind, word) in [
        ("./directory", ErrorKind::NotAFile, "directory"),
        ("./plain", ErrorKind::PermissionDenied, "not executable"),
        ("./orphan", ErrorKind::SpawnFailed, "interpreter"),
        ("./text", ErrorKind::SpawnFailed, "#!/bin/sh"),
        ("./plain/x", ErrorKind::NotFound, "no such program"),
    ] {
        let (found, said) = refusal(&place, ProcessSpec::new([program])).await;
        assert_eq!(found, kind, "{said}");
        assert!(said.contains(word), "{said}");
    }
}

#[tokio::test]
async fn a_name_is_looked_up_in_the_path_of_the_process_itself() {
    let place = Place::new();
    std::fs::create_dir(place.root.join("tools")).expect("writable");
    executable(&place, "tools/here", "#!/bin/sh\necho found\n", 0o755);
    let spec = ProcessSpec::new(["here"]).env("PATH", "/nowhere:tools:/bin:/usr/bin");
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(text(&outcome.stdout.head), "found\n");
}

#[tokio::test]
async fn only_the_variables_that_were_asked_for_are_there() {
    let place = Place::new();
    let mut spec = ProcessSpec::new(["/usr/bin/env"]);
    spec.env = vec![
        EnvChange::set("A", "1"),
        EnvChange::set("B", "2"),
        EnvChange::remove("A"),
    ];
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(
        text(&outcome.stdout.head),
        "B=2\nPATH=/usr/local/bin:/usr/bin:/bin\n"
    );
}

#[tokio::test]
async fn a_change_of_the_environment_holds_for_what_is_started_after_it() {
    let place = Place::new();
    let mut environment = Environment::default();
    environment
        .change(Verb::Update, &[EnvChange::set("NEW", "yes")])
        .expect("valid");
    place.processes.set_environment(environment);
    let outcome = place
        .exec(ExecRequest::new(ProcessSpec::new(["/usr/bin/env"])))
        .await
        .expect("ran");
    assert_eq!(text(&outcome.stdout.head), "NEW=yes\n");
}

/// B067.
#[tokio::test]
async fn a_terminal_is_named_and_pipes_are_not() {
    let place = Place::new();
    let outcome = place
        .sh("echo \"[$TERM]\"; test -t 0 || test -t 1 || echo none; tty </dev/tty")
        .await;
    assert!(text(&outcome.stdout.head).starts_with("[]\nnone\n"));
    assert_ne!(
        outcome.exit.status,
        Status::Exited(0),
        "it has a controlling terminal"
    );

    let mut spec =
        sh("echo \"[$TERM]\"; test -t 0 && test -t 1 && test -t 2 && stty size </dev/tty");
    spec.pty = Some(PtySize {
        rows: 33,
        columns: 101,
    });
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(text(&outcome.stdout.head), "[xterm-256color]\r\n33 101\r\n");
    assert_eq!(
        (outcome.exit.status, outcome.stderr.total),
        (Status::Exited(0), 0)
    );
}

#[tokio::test]
async fn a_request_that_was_cancelled_before_it_came_does_nothing() {
    let place = Place::new();
    let cancel = Cancel::new();
    cancel.cancel();
    let ctx = Ctx::new().with_cancel(cancel);
    let request = ExecRequest::new(sh("touch ran"));
    let error = place
        .processes
        .exec(&ctx, request, place.directory())
        .expect_err("cancelled");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Cancelled, Effect::None)
    );
    assert!(!exists(&place.root.join("ran")));
}

#[tokio::test]
async fn repeating_a_spawn_starts_nothing_and_another_request_under_its_id_is_a_conflict() {
    let place = Place::new();
    let request = SpawnRequest::new(id("once"), sh("echo started >> log; sleep 0.3"));
    let (first, second) = tokio::join!(place.spawn(request.clone()), place.spawn(request.clone()));
    assert_eq!(first.expect("started"), second.expect("the same receipt"));
    assert_eq!(place.report(&id("once")).await.status, Status::Exited(0));
    let third = place.spawn(request.clone()).await;
    assert!(
        third.is_ok(),
        "a repetition after the end was refused: {third:?}"
    );
    assert_eq!(place.file("log"), "started\n");

    let other = SpawnRequest::new(id("once"), sh("true"));
    assert_eq!(
        place.spawn(other).await.expect_err("in use").kind(),
        ErrorKind::Conflict
    );
    let exec = ExecRequest::new(sh("true")).id(id("once"));
    assert_eq!(
        place.exec(exec).await.expect_err("in use").kind(),
        ErrorKind::Conflict
    );
}

#[tokio::test]
async fn a_spawn_that_failed_leaves_its_id_free() {
    let place = Place::new();
    let missing = SpawnRequest::new(id("retry"), ProcessSpec::new(["./tool"]));
    let error = place.spawn(missing.clone()).await.expect_err("missing");
    assert_eq!(
        (error.kind(), error.verb()),
        (ErrorKind::NotFound, Verb::Spawn)
    );
    executable(&place, "tool", "#!/bin/sh\nexit 9\n", 0o755);
    place.spawn(missing).await.expect("started");
    assert_eq!(place.report(&id("retry")).await.status, Status::Exited(9));
}

#[tokio::test]
async fn old_processes_are_forgotten_oldest_first() {
    let place = Place::with(|settings| settings.kept = 3);
    for number in 0..5 {
        let request = ExecRequest::new(sh("true")).id(id(&format!("call-{number}")));
        place.exec(request).await.expect("ran");
    }
    let known = |number: u8| ProcId::new(format!("call-{number}")).expect("plain");
    for forgotten in [0, 1] {
        let request = sandbox_core::process::ProcReadRequest {
            id: known(forgotten),
            stream: sandbox_core::process::OutputStream::Stdout,
            from: 0,
            max: 1,
            wait: Duration::ZERO,
        };
        let error = within(place.processes.proc_read(&Ctx::new(), request))
            .await
            .expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::ProcessNotFound);
    }
    assert_eq!(place.report(&known(4)).await.status, Status::Exited(0));
}

#[tokio::test]
async fn a_working_directory_that_was_removed_is_still_entered_by_its_handle() {
    let place = Place::new();
    let directory = place.directory();
    std::fs::remove_dir(&place.root).expect("empty");
    let request =
        ExecRequest::new(ProcessSpec::new(["/bin/sh", "-c", "exit 6"])).stdin(Stdin::Null);
    let execution = place
        .processes
        .exec(&Ctx::new(), request, directory)
        .expect("admitted");
    assert_eq!(
        within(execution.outcome).await.expect("ran").exit.status,
        Status::Exited(6)
    );
}

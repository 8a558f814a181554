//! `spp run` where something ends early: a signal, a time limit, a reader that leaves, `spp` itself.
//! Each time, nothing of what was started may be left.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal};

use crate::support::{
    Place, check, children, eventually, finish, line, runs, signal, signal_until_it_ends, start,
};

/// A command that is hard to end: it ignores polite signals, and has children that do too, one of
/// which left its session. It writes its process ids to `pids`.
const STUBBORN: &str = "\
trap '' INT TERM HUP
echo $$ >> pids
(trap '' INT TERM HUP; sh -c 'echo $PPID' >> pids; while :; do sleep 1; done) &
setsid sh -c 'trap \"\" INT TERM HUP; echo $$ >> pids; while :; do sleep 1; done' &
while :; do sleep 1; done";

fn stubborn(place: &Place) -> (Child, Vec<Pid>) {
    let child = start(&mut place.command(&["run", "--", "sh", "-c", STUBBORN]));
    let pids = place.pids("pids", 3);
    (child, pids)
}

#[track_caller]
fn check_gone(pids: &[Pid]) {
    for pid in pids {
        assert!(!runs(*pid), "process {pid:?} was left");
    }
}

#[test]
fn ctrl_c_ends_the_whole_tree_however_stubborn() {
    let place = Place::new();
    let (child, pids) = stubborn(&place);
    signal(&child, Signal::INT);
    let ended = finish(child);
    check(&ended, 130, "");
    check_gone(&pids);
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let place = Place::new();
    let (child, pids) = stubborn(&place);
    signal(&child, Signal::INT);
    signal(&child, Signal::INT);
    check(&finish(child), 130, "");
    check_gone(&pids);
}

#[test]
fn a_command_that_handles_ctrl_c_ends_its_own_way() {
    let place = Place::new();
    let script = "trap 'echo cleaned up; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let mut child = start(&mut place.command(&["run", "--", "sh", "-c", script]));
    let mut stdout = child.stdout.take().expect("a pipe");
    assert_eq!(line(&mut stdout), "ready");
    signal(&child, Signal::INT);
    assert_eq!(line(&mut stdout), "cleaned up");
    assert_eq!(finish(child).code, Some(5));
}

#[test]
fn a_request_to_terminate_ends_the_whole_tree() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let place = Place::new();
        let (child, pids) = stubborn(&place);
        signal(&child, sent);
        check(&finish(child), code, "");
        check_gone(&pids);
    }
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let place = Place::new();
    let spp = place.command(&[]).get_program().to_owned();
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program as its users do"
    )]
    let mut nohup = std::process::Command::new("nohup");
    nohup
        .arg(spp)
        .args(["run", "--", "sh", "-c", "echo ready; sleep 0.5; echo done"])
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = start(&mut nohup);
    let mut stdout = child.stdout.take().expect("a pipe");
    assert_eq!(line(&mut stdout), "ready");
    signal(&child, Signal::HUP);
    assert_eq!(line(&mut stdout), "done");
    assert_eq!(finish(child).code, Some(0));
}

#[test]
fn a_time_limit_ends_the_whole_tree() {
    let place = Place::new();
    let child =
        start(&mut place.command(&["run", "--timeout", "700ms", "--", "sh", "-c", STUBBORN]));
    let pids = place.pids("pids", 3);
    let ended = finish(child);
    check(&ended, 124, "");
    assert!(ended.stderr.contains("after 700ms"), "{}", ended.stderr);
    check_gone(&pids);
}

#[test]
fn a_reader_that_leaves_ends_the_tree_without_a_word() {
    let place = Place::new();
    let script = "echo $$ > pids; exec yes";
    let mut child = start(&mut place.command(&["run", "--", "sh", "-c", script]));
    let mut stdout = child.stdout.take().expect("a pipe");
    assert_eq!(line(&mut stdout), "y");
    drop(stdout);
    let ended = finish(child);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(141), ""));
    check_gone(&place.pids("pids", 1));
}

#[test]
fn a_pipeline_with_head_ends() {
    let place = Place::new();
    let spp = place.command(&[]).get_program().to_owned();
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program as its users do"
    )]
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "\"$0\" run -- yes | head -n 1"])
        .arg(spp)
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ended = finish(start(&mut shell));
    check(&ended, 0, "y\n");
    assert_eq!(ended.stderr, "");
}

#[test]
fn closed_streams_of_spp_are_no_reason_to_panic() {
    let place = Place::new();
    let spp = place.command(&[]).get_program().to_owned();
    for line in [
        "\"$0\" run -- echo hi >&-",
        "\"$0\" run -- no-such-program-here 2>&-",
        "\"$0\" --help | :",
        "\"$0\" run -- cat <&-",
    ] {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test starts the program as its users do"
        )]
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", line])
            .arg(&spp)
            .current_dir(place.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ended = finish(start(&mut shell));
        assert!(
            !ended.stderr.contains("panicked"),
            "{line}: {}",
            ended.stderr
        );
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_of_spp() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device that is always full");
    let ended = finish(start(
        place
            .command(&["run", "--", "yes"])
            .stdout(Stdio::from(full)),
    ));
    assert_eq!(ended.code, Some(125), "{}", ended.stderr);
    assert!(ended.stderr.contains("standard output"), "{}", ended.stderr);
}

#[test]
fn when_spp_is_killed_everything_ends() {
    let place = Place::new();
    let (mut child, pids) = stubborn(&place);
    signal(&child, Signal::KILL);
    let _ = child.wait();
    eventually("the tree is gone", || pids.iter().all(|pid| !runs(*pid)));
}

/// A place at a provider that is deaf to everything but `SIGKILL`, after it answered as much as this
/// script does.
fn deaf(answers: &str) -> Place {
    let place = Place::new();
    place.put(
        "provider",
        format!(
            "trap '' TERM\n\
             answer() {{ read -r line; id=${{line#*'\"id\":'}}; id=${{id%%[,\\}}]*}}; \
             printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" \"$1\"; }}\n\
             {answers}\necho $$ >> pids\nsleep 1000\n"
        ),
    );
    place.configure(&format!(
        "[sandbox]\nlocation = 'deaf'\n[sandbox.providers.deaf]\ncommand = '/bin/sh'\nargs = ['{}']\n",
        place.path("provider").display()
    ));
    place
}

const HANDSHAKE: &str =
    r#"answer '{"protocol":{"major":1},"provider":{"name":"deaf","version":"1"},"instance":"1"}'"#;

#[test]
fn whatever_waits_for_a_deaf_provider_can_be_interrupted_and_leaves_nothing() {
    for answers in ["", HANDSHAKE] {
        for (args, sent, code) in [
            (&["run", "--", "true"][..], Signal::INT, 130),
            (&["read", "file"], Signal::TERM, 143),
            (&["write", "file"], Signal::HUP, 129),
            (&["doctor"], Signal::INT, 130),
        ] {
            let place = deaf(answers);
            let scratch = place.path("scratch");
            std::fs::create_dir(&scratch).expect("a directory");
            let child = start(place.command(args).env("TMPDIR", &scratch));
            let pids = place.pids("pids", 1);
            let sleeping = children(&child);
            let ended = signal_until_it_ends(child, sent);
            check(&ended, code, "");
            check_gone(&pids);
            check_gone(&sleeping);
            let left = std::fs::read_dir(&scratch).expect("a directory").count();
            assert_eq!(left, 0, "{args:?} left a temporary directory");
        }
    }
}

#[test]
fn what_nobody_reads_can_be_interrupted() {
    let place = Place::new();
    place.put("long", vec![b'x'; 1_000_000]);
    for args in [
        &["read", "long"][..],
        &["read", "--json", "long"],
        &["run", "--json", "--", "cat", "long"],
        &["run", "--", "cat", "long"],
    ] {
        let mut child = start(&mut place.command(args));
        let mut stdout = child.stdout.take().expect("a pipe");
        // Something was written, and more than a pipe holds is to come.
        std::io::Read::read_exact(&mut stdout, &mut [0]).expect("it writes");
        let ended = signal_until_it_ends(child, Signal::INT);
        assert_eq!(ended.code, Some(130), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn runs_within_runs_end_with_the_outermost() {
    let place = Place::new();
    let spp = place.command(&[]).get_program().to_owned();
    let spp = spp.to_str().expect("a path in UTF-8");
    let inner = ["run", "--", spp, "run", "--", spp, "run", "--", "sh", "-c"];
    let mut args = inner.to_vec();
    args.push("echo $$ >> pids; exit 42");
    check(&place.spp(&args), 42, "");
    let mut args = inner.to_vec();
    args.push("trap '' INT TERM; echo $$ >> pids; while :; do sleep 1; done");
    let child = start(&mut place.command(&args));
    let pids = place.pids("pids", 2);
    signal(&child, Signal::TERM);
    check(&finish(child), 143, "");
    check_gone(&pids);
}

#[test]
fn two_runs_in_one_tree_do_not_know_of_each_other() {
    let place = Place::new();
    // Each waits for what the other one does.
    let meet = |own: &str, other: &str| {
        let script = format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo {own}");
        start(&mut place.command(&["run", "--", "sh", "-c", &script]))
    };
    let (one, two) = (meet("one", "two"), meet("two", "one"));
    check(&finish(one), 0, "one\n");
    check(&finish(two), 0, "two\n");
}

//! How a sandbox ends: nothing of it is left, whoever ended it, and it is told at once.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::support::{Scratch, Served, Who, command, each, is_root, is_running, until};

/// Something that has everything that could be left: a daemon, a detached tree, open pipes.
const BUSY: &str = "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000 & sleep 1001' &) ; sleep 1002 & echo up; wait";

/// A sandbox in which much is going on, and its processes.
fn busy(scratch: &Scratch) -> (Served, Vec<u32>) {
    let mut served = scratch.serve();
    served.spawn(BUSY);
    let family = served.family();
    assert!(family.len() > 6, "{family:?}");
    (served, family)
}

fn mounts(scratch: &Scratch) -> usize {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("it can be read");
    let workspace = scratch.workspace();
    let workspace = workspace.to_str().expect("UTF-8");
    table
        .lines()
        .filter(|line| line.contains(workspace) || line.contains(" spp "))
        .count()
}

fn all_gone(scratch: &Scratch, family: &[u32]) {
    until("the end of everything inside", || {
        !family.iter().any(|pid| is_running(*pid))
    });
    assert_eq!(mounts(scratch), 0, "mounts that are left on the machine");
}

fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a process");
    rustix::process::kill_process(pid, signal).expect("it is there");
}

#[test]
fn a_release_is_not_answered_before_everything_inside_is_gone() {
    each(|who| {
        let scratch = Scratch::new(who);
        let (mut served, family) = busy(&scratch);
        let provider = served.child.id();
        let receipt = served.call(
            "release",
            &json!({"sandbox": "s", "disposition": "destroy"}),
        );
        let left: Vec<_> = family
            .iter()
            .filter(|pid| **pid != provider && is_running(**pid))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(receipt["existed"], true);
        assert!(
            scratch.workspace().is_dir(),
            "the workspace is the caller's"
        );
        let again = served.call(
            "release",
            &json!({"sandbox": "s", "disposition": "destroy"}),
        );
        assert_eq!(again["existed"], false);
        assert_eq!(served.hang_up(), Some(0));
        all_gone(&scratch, &family);
    });
}

/// An engine that does not end by itself is killed with whatever holds it, and takes a moment longer than that.
#[test]
fn a_release_that_has_to_kill_is_not_answered_before_everything_inside_is_gone_either() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = scratch.serve();
        served.spawn("for i in $(seq 300); do sleep 1000 & done; echo up; wait");
        let (family, provider) = (served.family(), served.child.id());
        assert!(family.len() > 300, "{}", family.len());
        signal(served.named("engine"), rustix::process::Signal::STOP);
        let receipt = served.call("release", &json!({"sandbox": "s", "disposition": "keep"}));
        let mut left = family.iter().filter(|pid| **pid != provider);
        assert!(!left.any(|pid| is_running(*pid)), "{receipt}");
        assert_eq!(served.hang_up(), Some(0));
        all_gone(&scratch, &family);
    });
}

#[test]
fn when_the_host_goes_everything_inside_goes() {
    each(|who| {
        let scratch = Scratch::new(who);
        let (served, family) = busy(&scratch);
        assert_eq!(served.hang_up(), Some(0));
        all_gone(&scratch, &family);
    });
}

#[test]
fn when_the_provider_is_killed_everything_inside_goes() {
    each(|who| {
        let scratch = Scratch::new(who);
        let (served, family) = busy(&scratch);
        kill(served.child.id());
        drop(served);
        all_gone(&scratch, &family);
    });
}

/// Kills one process of a place, and returns after the sandbox was told to be lost, and is another one when it is
/// acquired again.
fn lost(scratch: &Scratch, victim: &str) {
    let (mut served, family) = busy(scratch);
    let exec = served.of_sandbox(json!({"process": {"argv": ["sleep", "1000"]}}));
    served.tell("exec", &exec);
    // Before it has begun it has no effect.
    until("the start of a command", || {
        served.family().len() > family.len()
    });
    let (provider, before) = (served.child.id(), served.generation);
    kill(served.named(victim));
    let mut told = Vec::new();
    // The call that was under way, and that the sandbox is closed; in either order.
    while told.len() < 2 {
        let message = served.next().expect("the provider lives on");
        if message["method"] == "sandbox/closed" {
            assert!(
                message["params"]["lost"].is_object() || message.to_string().contains("lost"),
                "{message}"
            );
            told.push("closed");
        } else if message["error"].is_object() {
            assert_eq!(message["error"]["data"]["kind"], "lost", "{message}");
            assert_eq!(message["error"]["data"]["effect"], "unknown", "{message}");
            told.push("exec");
        }
    }
    let mut left = family.iter().filter(|pid| **pid != provider);
    assert!(
        !left.any(|pid| is_running(*pid)),
        "it is told before it is so"
    );
    let read = served.of_sandbox(json!({"path": "file"}));
    let refused = served.ask("read", &read);
    assert_eq!(refused["error"]["data"]["kind"], "lost", "{refused}");
    served.acquire(&scratch.spec(&json!({})));
    assert!(served.generation > before);
    assert_eq!(served.sh("echo again"), "again\n");
    assert_eq!(served.hang_up(), Some(0));
    all_gone(scratch, &family);
}

#[test]
fn when_bwrap_is_killed_the_sandbox_is_lost_at_once_and_nothing_is_left() {
    each(|who| lost(&Scratch::new(who), "bwrap"));
}

#[test]
fn when_the_engine_is_killed_the_sandbox_is_lost_at_once_and_nothing_is_left() {
    each(|who| lost(&Scratch::new(who), "engine"));
}

/// What was asked for again is made when the last process of what was lost is gone: this one closes everything, and
/// stays.
#[test]
fn a_lost_place_is_not_replaced_while_something_of_it_is_left() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new(Who::Me);
    let script = scratch.beside("path").join("bwrap");
    // The real one has another name in a mount namespace that has the script in its place.
    let lingers = r#"#!/bin/bash
        case $1 in --version | --help) exec /usr/bin/yes "$@" ;; esac
        /usr/bin/yes "$@"
        exec sleep 1000 0<&- 1>&- 2>&-"#;
    std::fs::write(&script, lingers).expect("a file");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("ours");
    let mut start = command("unshare");
    start.args([
        "-m",
        "sh",
        "-c",
        "mount --bind /usr/bin/bwrap /usr/bin/yes && mount --bind \"$1\" /usr/bin/bwrap && exec \"$0\"",
    ]);
    start.arg(scratch.provider()).arg(&script);
    let mut served = Served::start(&mut start);
    served.acquire(&scratch.spec(&json!({})));
    let (outer, engine) = (served.named("bwrap"), served.named("engine"));
    kill(engine);
    while served.next().expect("the provider lives on")["method"] != "sandbox/closed" {}
    served.acquire(&scratch.spec(&json!({})));
    assert!(!is_running(outer), "it was replaced before it was gone");
    assert_eq!(served.sh("echo again"), "again\n");
}

#[test]
fn a_hundred_places_that_come_and_go_leave_nothing_behind() {
    let scratch = Scratch::new(Who::Me);
    let mut served = Served::start(&mut scratch.command());
    let descriptors = |served: &Served| {
        std::fs::read_dir(format!("/proc/{}/fd", served.child.id()))
            .expect("it runs")
            .count()
    };
    let once = |served: &mut Served| {
        served.acquire(&scratch.spec(&json!({})));
        served.call("release", &json!({"sandbox": "s", "disposition": "keep"}));
    };
    once(&mut served);
    let before = descriptors(&served);
    for _ in 0..100 {
        once(&mut served);
    }
    assert!(
        descriptors(&served) <= before + 2,
        "descriptors are left open"
    );
    assert_eq!(served.family().len(), 1, "processes are left");
    assert_eq!(mounts(&scratch), 0);
}

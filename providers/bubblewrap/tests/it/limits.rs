//! Limits on a whole sandbox: what is beyond them is stopped and named, a neighbour does not notice, and nothing of
//! them is left.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_cgroup::{Controller, Hierarchies};
use serde_json::{Value, json};

use super::support::{LIMIT, Scratch, Served, Who, each, until};

fn limit(kind: &str, value: u64, strength: &str) -> Value {
    json!({"limits": {kind: {"value": value, "strength": strength}}})
}

/// A sandbox with a limit that is required, if this user may have it.
fn limited(scratch: &Scratch, kind: &str, value: u64) -> Option<Served> {
    let mut served = Served::start(&mut scratch.command());
    let spec = scratch.spec(&limit(kind, value, "required"));
    let answer = served.ask("acquire", &json!({"spec": spec}));
    if answer["result"].is_null() {
        let text = answer["error"].to_string();
        for says in ["policy_unmet", kind, "control group"] {
            assert!(text.contains(says), "{text}");
        }
        assert_ne!(kind, "processes", "they are always limited: {text}");
        let spec = scratch.spec(&limit(kind, value, "best_effort"));
        served.acquire(&spec);
        assert_eq!(enforced_by(&served, kind), "none");
        return None;
    }
    served.descriptor = answer["result"]["descriptor"].clone();
    served.generation = served.descriptor["generation"].as_u64().expect("a number");
    Some(served)
}

fn enforced_by(served: &Served, kind: &str) -> String {
    let report = &served.descriptor["limits"][kind];
    report["enforced_by"].as_str().unwrap_or("?").to_owned()
}

/// What becomes of a script.
fn status(served: &mut Served, script: &str) -> Value {
    let process = json!({"argv": ["sh", "-c", script], "timeout_ms": 20_000});
    served.verb("exec", json!({"process": process}))["exit"]["status"].clone()
}

/// The groups that a provider has made.
fn groups(provider: u32) -> Vec<PathBuf> {
    let hierarchies = Hierarchies::of_this_process().expect("procfs is there");
    let of = |controller| hierarchies.of(controller)?.base.clone();
    let mark = format!("-{provider}-");
    let mut found = Vec::new();
    for base in Controller::ALL.into_iter().filter_map(of) {
        let entries = std::fs::read_dir(base).expect("it is there").flatten();
        found.extend(
            entries
                .filter(|entry| entry.file_name().to_string_lossy().contains(&mark))
                .map(|entry| entry.path()),
        );
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn a_fork_bomb_stops_at_the_limit_and_a_neighbour_does_not_notice() {
    const MOST: u64 = 60;
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = limited(&scratch, "processes", MOST).expect("always had");
        let by = enforced_by(&served, "processes");
        assert!(
            ["cgroup1", "cgroup2", "rlimit"].contains(&by.as_str()),
            "{by}"
        );
        let beside =
            json!({"sandbox": "beside", "root": scratch.beside("other").to_str().expect("UTF-8")});
        let beside = served.call("acquire", &json!({"spec": beside}))["descriptor"].clone();
        let alone = served.family().len();

        let bomb = "bomb() { bomb | bomb & sleep 1000; }; bomb; wait";
        let process = json!({"argv": ["sh", "-c", bomb], "timeout_ms": 4000, "grace_ms": 0});
        let bomb = served.of_sandbox(json!({"process": process}));
        served.tell("exec", &bomb);
        until("the bomb", || served.family().len() >= alone + 20);
        let began = Instant::now();
        let mut most = 0;
        while began.elapsed() < Duration::from_secs(2) {
            let asked = Instant::now();
            let exec = json!({
                "sandbox": "beside", "generation": beside["generation"], "process": {"argv": ["true"]},
            });
            let outcome = served.call("exec", &exec);
            assert_eq!(outcome["exit"]["status"], json!({"exited": {"code": 0}}));
            assert!(
                asked.elapsed() < Duration::from_secs(2),
                "the neighbour noticed"
            );
            // The engine of it and what waits for commands are there besides.
            most = most.max(served.family().len() - alone);
            std::thread::sleep(Duration::from_millis(50));
        }
        let reached = usize::try_from(MOST).expect("a small number");
        assert!(most <= reached + 8, "{most} processes");
        assert!(most >= 20, "{most} processes: this was no bomb");
        // The sandbox goes on, once the bomb has timed out.
        until("the end of the bomb", || served.family().len() <= alone + 8);
        assert_eq!(
            status(&mut served, "exit 3"),
            json!({"exited": {"code": 3}})
        );
    });
}

#[test]
fn memory_beyond_the_limit_ends_the_command_by_that_name_and_the_sandbox_goes_on() {
    each(|who| {
        let scratch = Scratch::new(who);
        let Some(mut served) = limited(&scratch, "memory", 64 << 20) else {
            assert_eq!(who, Who::Ordinary, "root may make groups here");
            return;
        };
        let hog = "exec dd if=/dev/zero of=/dev/null bs=256M count=1 2>&1";
        assert_eq!(status(&mut served, hog), "memory_limit");
        assert_eq!(status(&mut served, "true"), json!({"exited": {"code": 0}}));
        let killed = json!({"signalled": {"signal": 9, "core": false}});
        assert_eq!(
            status(&mut served, "kill -KILL $$"),
            killed,
            "nobody's memory"
        );
        // Many small ones are ended too, and never the engine.
        let many = "for i in $(seq 40); do (x=$(head -c 4000000 /dev/zero | tr '\\0' x); sleep 2) & done; wait";
        status(&mut served, many);
        assert_eq!(status(&mut served, "true"), json!({"exited": {"code": 0}}));
        let other =
            json!({"sandbox": "beside", "root": scratch.beside("other").to_str().expect("UTF-8")});
        let other = served.call("acquire", &json!({"spec": other}))["descriptor"].clone();
        let process = json!({"argv": ["sh", "-c", hog]});
        let exec =
            json!({"sandbox": "beside", "generation": other["generation"], "process": process});
        let outcome = served.call("exec", &exec);
        assert_eq!(
            outcome["exit"]["status"],
            json!({"exited": {"code": 0}}),
            "no limit of its own"
        );
    });
}

#[test]
fn time_on_processors_is_bounded() {
    each(|who| {
        let scratch = Scratch::new(who);
        let Some(mut served) = limited(&scratch, "cpu", 200) else {
            assert_eq!(who, Who::Ordinary, "root may make groups here");
            return;
        };
        let process = json!({
            "argv": ["sh", "-c", "while :; do :; done & while :; do :; done"],
            "timeout_ms": 2000, "grace_ms": 0,
        });
        let outcome = served.verb("exec", json!({"process": process}));
        assert_eq!(outcome["exit"]["status"], "timed_out", "{outcome}");
        let used = |what: &str| outcome["exit"]["usage"][what].as_u64().expect("a number");
        let micros = used("user_us") + used("system_us");
        // Two loops would have had two seconds and more; a fifth of a processor is 0.4 s of them.
        assert!((50_000..1_000_000).contains(&micros), "{outcome}");
    });
}

#[test]
fn a_limited_command_finds_neither_the_group_nor_a_descriptor_of_it() {
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = limited(&scratch, "processes", 100).expect("always had");
        let seen = served.sh(
            "ls /proc/self/fd | tr '\\n' ' '; ls /sys/fs 2>/dev/null; ls -l /proc/1/fd 2>/dev/null",
        );
        assert_eq!(seen, "0 1 2 3 ", "3 is the directory that ls itself reads");
    });
}

#[test]
fn nothing_of_a_group_is_left_after_a_release_and_the_next_one_removes_what_a_killed_provider_left()
{
    each(|who| {
        let scratch = Scratch::new(who);
        let mut served = limited(&scratch, "processes", 100).expect("always had");
        if enforced_by(&served, "processes") == "rlimit" {
            assert_eq!(groups(served.child.id()), Vec::<PathBuf>::new());
            return;
        }
        assert_eq!(groups(served.child.id()).len(), 1);
        served.call("release", &json!({"sandbox": "s", "disposition": "keep"}));
        assert_eq!(groups(served.child.id()), Vec::<PathBuf>::new());

        let spec = scratch.spec(&limit("processes", 100, "required"));
        served.acquire(&spec);
        served.spawn("sleep 1000 & echo up; wait");
        let (left, killed) = (served.family(), served.child.id());
        assert_eq!(groups(killed).len(), 1);
        served.child.kill().expect("it is ours");
        served.child.wait().expect("it ends");
        until("the end of everything inside", || {
            !left.iter().any(|pid| super::support::is_running(*pid))
        });
        let began = Instant::now();
        while !groups(killed).is_empty() {
            assert!(began.elapsed() < LIMIT, "{:?} is left", groups(killed));
            let next = limited(&scratch, "processes", 100).expect("always had");
            assert_eq!(next.hang_up(), Some(0));
        }
    });
}

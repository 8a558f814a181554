//! A call ends when its leader does, and takes the whole tree along.

use std::time::{Duration, Instant};

use sandbox_core::process::{
    Delivery, Descendants, ExecRequest, ProcStopRequest, ProcessSpec, SpawnRequest, Status, Stop,
};
use sandbox_core::{Cancel, Ctx, ErrorKind};

use crate::process::{
    Place, bash, descriptors, eventually, exists, id, marker, running, sh, text, within, zombies,
};

fn second() -> Duration {
    Duration::from_secs(1)
}

/// B001.
#[tokio::test]
async fn a_timeout_ends_a_writer_and_a_reader_of_a_fifo_and_keeps_what_was_said() {
    let place = Place::new();
    let script =
        "mkfifo f; (while :; do echo x; sleep 0.05; done > f) & echo said; cat f > /dev/null";
    let mark = marker();
    let script = format!("mark={mark}; {script}");
    let outcome = place
        .exec(ExecRequest::new(sh(&script).timeout(second() / 2)))
        .await
        .expect("ran");
    assert_eq!(outcome.exit.status, Status::TimedOut);
    assert_eq!(text(&outcome.stdout.head), "said\n");
    assert_eq!(running(&mark), Vec::<u32>::new());
}

/// B002.
#[tokio::test]
async fn a_process_substitution_that_holds_the_output_does_not_hold_the_call() {
    let place = Place::new();
    let outcome = place
        .exec(ExecRequest::new(bash(
            "exec > >(tee -a log) 2>&1; echo hi; exit 3",
        )))
        .await;
    let outcome = outcome.expect("ran");
    assert_eq!(
        (outcome.exit.status, text(&outcome.stdout.head)),
        (Status::Exited(3), "hi\n".into())
    );

    let mark = marker();
    let script = format!("exec > >(sleep {mark}); exit 3");
    let outcome = place
        .exec(ExecRequest::new(bash(&script)))
        .await
        .expect("ran");
    assert_eq!(
        (outcome.exit.status, outcome.exit.survivors.killed),
        (Status::Exited(3), 1)
    );
    assert_eq!(running(&mark), Vec::<u32>::new());
}

/// B004, B014, B020.
#[tokio::test]
async fn a_timeout_reaches_grandchildren_and_those_that_ignore_the_polite_signal() {
    let place = Place::new();
    for script in [
        "sh -c 'sleep MARK & wait'",
        "trap '' TERM; sleep MARK & wait; sleep MARK",
        "setsid sh -c 'trap \"\" TERM; while :; do sleep MARK; done' & sleep MARK",
        "until false; do sleep 0.1; : MARK; done",
    ] {
        let mark = marker();
        let spec = sh(&script.replace("MARK", &mark)).timeout(second() / 2);
        let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
        assert_eq!(outcome.exit.status, Status::TimedOut, "{script}");
        assert_eq!(outcome.exit.survivors.left_total, 0, "{script}");
        assert_eq!(running(&mark), Vec::<u32>::new(), "{script}");
    }
}

/// B005, B017.
#[tokio::test]
async fn a_background_job_that_holds_any_stream_does_not_keep_a_finished_call() {
    let place = Place::new();
    for redirected in ["", ">/dev/null", "2>/dev/null", ">/dev/null 2>&1"] {
        let mark = marker();
        let begun = Instant::now();
        let outcome = place
            .sh(&format!("sleep {mark} {redirected} & echo done"))
            .await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{redirected}");
        assert_eq!(
            (outcome.exit.status, text(&outcome.stdout.head)),
            (Status::Exited(0), "done\n".into())
        );
        assert_eq!(outcome.exit.survivors.killed, 1, "{redirected}");
        assert_eq!(running(&mark), Vec::<u32>::new(), "{redirected}");
    }
}

/// B007.
#[tokio::test]
async fn nothing_writes_to_the_tree_after_a_timeout_was_answered() {
    let place = Place::new();
    let script = "(while :; do echo x >> grows; sleep 0.02; done) & wait";
    let spec = sh(script).timeout(Duration::from_millis(200));
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(outcome.exit.status, Status::TimedOut);
    let before = place.file("grows").len();
    assert!(before > 0);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(place.file("grows").len(), before);
}

/// B008.
#[tokio::test]
async fn a_cancel_ends_the_tree_and_returns_what_was_said() {
    let place = Place::new();
    let mark = marker();
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let script = format!("setsid sleep {mark} & mkfifo f; echo said; touch ready; cat f; : {mark}");
    let execution = place
        .processes
        .exec(&ctx, ExecRequest::new(sh(&script)), place.directory())
        .expect("admitted");
    eventually("it is ready", || exists(&place.root.join("ready"))).await;
    cancel.cancel();
    let outcome = within(execution.outcome).await.expect("an outcome");
    assert_eq!(
        (outcome.exit.status, text(&outcome.stdout.head)),
        (Status::Cancelled, "said\n".into())
    );
    assert_eq!(running(&mark), Vec::<u32>::new());
}

/// B008.
#[tokio::test]
async fn an_outcome_that_nobody_waits_for_ends_the_tree() {
    let place = Place::new();
    let mark = marker();
    let script = format!("setsid sleep {mark} & sleep {mark}");
    let request = ExecRequest::new(sh(&script));
    let execution = place
        .processes
        .exec(&Ctx::new(), request, place.directory())
        .expect("admitted");
    eventually("both run", || {
        running(&format!("sleep\u{0}{mark}")).len() == 2
    })
    .await;
    drop(execution);
    eventually("both are gone", || running(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_call_past_its_own_deadline_fails_after_its_tree_is_gone() {
    let place = Place::new();
    let mark = marker();
    let ctx = Ctx::new().with_timeout(Duration::from_millis(200));
    let request = ExecRequest::new(sh(&format!("sleep {mark}")));
    let execution = place
        .processes
        .exec(&ctx, request, place.directory())
        .expect("admitted");
    let error = within(execution.outcome)
        .await
        .expect_err("the deadline passed");
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(running(&mark), Vec::<u32>::new());
}

/// B013, with fewer of them.
#[tokio::test]
async fn busy_loops_in_the_background_end_with_the_call() {
    let place = Place::new();
    let mark = marker();
    let script =
        format!("for i in 1 2 3 4 5 6 7 8; do sh -c 'yes {mark} > /dev/null' & done; exit 0");
    let outcome = place.sh(&script).await;
    assert_eq!(outcome.exit.status, Status::Exited(0));
    assert!(outcome.exit.survivors.killed >= 8);
    assert_eq!(running(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_daemon_by_the_book_is_killed_with_the_call() {
    let place = Place::new();
    let mark = marker();
    // Double fork, own session, own directory, no stream of ours.
    let script = format!(
        "(setsid sh -c '(cd /; exec sleep {mark} </dev/null >/dev/null 2>&1) & exit 0' &) ; \
         until pgrep -f 'sleep {mark}' > /dev/null; do sleep 0.01; done"
    );
    let outcome = place.sh(&script).await;
    assert_eq!(
        (outcome.exit.status, outcome.exit.survivors.killed),
        (Status::Exited(0), 1)
    );
    assert_eq!(running(&format!("sleep\u{0}{mark}")), Vec::<u32>::new());
}

#[tokio::test]
async fn what_is_left_on_request_is_named_keeps_its_output_and_can_be_stopped() {
    let place = Place::new();
    let mark = marker();
    let script = format!(
        "sh -c 'echo one; until test -e go; do sleep 0.01; done; echo two; exec sleep {mark}' &"
    );
    let mut spec = sh(&script);
    spec.descendants = Descendants::Leave;
    let outcome = place
        .exec(ExecRequest::new(spec).id(id("left")))
        .await
        .expect("ran");
    assert_eq!(outcome.exit.status, Status::Exited(0));
    assert!(outcome.exit.survivors.left_total >= 1);
    assert!(
        outcome
            .exit
            .survivors
            .left
            .iter()
            .any(|left| left.name == "sh"),
        "{outcome:?}"
    );

    std::fs::write(place.root.join("go"), "").expect("writable");
    eventually("it sleeps", || {
        !running(&format!("sleep\u{0}{mark}")).is_empty()
    })
    .await;
    let chunk = place
        .read(&id("left"), sandbox_core::process::OutputStream::Stdout, 4)
        .await;
    assert_eq!(text(&chunk.bytes), "two\n");

    let stop = ProcStopRequest {
        id: id("left"),
        stop: Stop::Kill,
    };
    within(place.processes.proc_stop(&Ctx::new(), stop))
        .await
        .expect("stopped");
    assert_eq!(running(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_reader_along_a_call_that_leaves_something_sees_the_end() {
    let place = Place::new();
    let mark = marker();
    let mut spec = sh(&format!("echo said; sleep {mark} &"));
    spec.descendants = Descendants::Leave;
    let (stdout, _, outcome) = crate::process::live(&place, spec).await;
    assert_eq!(
        (text(&stdout), outcome.exit.survivors.left_total),
        ("said\n".into(), 1)
    );
    within(place.processes.shutdown()).await;
    assert_eq!(running(&mark), Vec::<u32>::new());
}

/// H7: absence is proved before the answer, from outside.
#[tokio::test]
async fn a_stop_is_answered_when_nothing_is_left() {
    let place = Place::new();
    for stop in [
        Stop::Kill,
        Stop::Graceful {
            grace: Duration::from_millis(100),
        },
    ] {
        let mark = marker();
        let name = id(&format!("stopped-{mark}"));
        let script = format!("trap '' TERM; setsid sleep {mark} & while :; do sleep {mark}; done");
        place
            .spawn(SpawnRequest::new(name.clone(), sh(&script)))
            .await
            .expect("started");
        eventually("both run", || {
            running(&format!("sleep\u{0}{mark}")).len() == 2
        })
        .await;
        let request = ProcStopRequest {
            id: name.clone(),
            stop,
        };
        within(place.processes.proc_stop(&Ctx::new(), request.clone()))
            .await
            .expect("stopped");
        assert_eq!(running(&mark), Vec::<u32>::new());
        assert_eq!(place.report(&name).await.status, Status::Cancelled);
        within(place.processes.proc_stop(&Ctx::new(), request))
            .await
            .expect("stopping twice is no error");
    }
}

#[tokio::test]
async fn a_polite_stop_lets_the_process_tidy_up() {
    let place = Place::new();
    let script = "trap 'echo tidy > done; exit 0' TERM; touch ready; while :; do sleep 0.01; done";
    place
        .spawn(SpawnRequest::new(id("tidy"), sh(script)))
        .await
        .expect("started");
    eventually("it is ready", || exists(&place.root.join("ready"))).await;
    let stop = Stop::Graceful {
        grace: Duration::from_secs(20),
    };
    let request = ProcStopRequest {
        id: id("tidy"),
        stop,
    };
    within(place.processes.proc_stop(&Ctx::new(), request))
        .await
        .expect("stopped");
    assert_eq!(place.file("done"), "tidy\n");
}

#[tokio::test]
async fn a_signal_reaches_the_tree_and_need_not_end_it() {
    let place = Place::new();
    let script =
        "trap 'echo got >> log' USR1; touch ready; while ! test -e stop; do sleep 0.01; done";
    place
        .spawn(SpawnRequest::new(id("signalled"), sh(script)))
        .await
        .expect("started");
    eventually("it is ready", || exists(&place.root.join("ready"))).await;
    // The shell's own `sleep` dies of it, the shell does not.
    let request = ProcStopRequest {
        id: id("signalled"),
        stop: Stop::Signal(10),
    };
    within(place.processes.proc_stop(&Ctx::new(), request))
        .await
        .expect("signalled");
    eventually("it was got", || place.file("log") == "got\n").await;
    std::fs::write(place.root.join("stop"), "").expect("writable");
    assert_eq!(
        place.report(&id("signalled")).await.status,
        Status::Exited(0)
    );
    let request = ProcStopRequest {
        id: id("signalled"),
        stop: Stop::Signal(65),
    };
    let error = within(place.processes.proc_stop(&Ctx::new(), request))
        .await
        .expect_err("no signal");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// B061, B062.
#[tokio::test]
async fn a_signal_that_ended_it_is_told_as_a_signal() {
    let place = Place::new();
    for (name, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("INT", 2)] {
        let outcome = place.sh(&format!("ulimit -c 0; kill -{name} $$")).await;
        assert_eq!(
            outcome.exit.status,
            Status::Signalled {
                signal: number,
                core: false
            }
        );
        assert_eq!(i32::from(outcome.exit.status.shell_code()), 128 + number);
    }
}

/// A command of the same user can kill its supervisor. It gains nothing by it.
#[tokio::test]
async fn a_command_that_kills_its_supervisor_dies_and_the_outcome_says_lost() {
    let place = Place::new();
    let mark = marker();
    let script = format!("echo said; setsid sleep {mark} & sleep 0.2; kill -9 $PPID; sleep {mark}");
    let outcome = place.sh(&script).await;
    assert_eq!(
        (outcome.exit.status, text(&outcome.stdout.head)),
        (Status::Lost, "said\n".into())
    );
    assert_eq!(running(&mark), Vec::<u32>::new());
    assert_eq!(place.sh("exit 4").await.exit.status, Status::Exited(4));
}

/// What a container manager starts is in a session whose leader it cannot see, which has no number
/// there. Orphans are told from children of ours by their session, so this is tried in such a place.
#[tokio::test]
async fn a_session_led_from_outside_the_namespace_hides_no_orphan() {
    let place = Place::new();
    let user = rustix::process::geteuid();
    let namespace: &[&str] = match user.is_root() {
        true => &["unshare", "--pid", "--fork", "--mount-proc"],
        false => &[
            "unshare",
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--mount-proc",
        ],
    };
    let itself = std::env::current_exe().expect("the path of this test");
    let itself = itself.to_str().expect("a name in UTF-8");
    let module = "process_tree::a_command_that_kills_its_supervisor_dies_and_the_outcome_says_lost";
    let argv: Vec<&str> = [namespace, &[itself, "--exact", module]].concat();
    let request = ExecRequest::new(ProcessSpec::new(argv));
    let outcome = place.exec(request).await.expect("ran");
    let said = text(&outcome.stdout.head);
    assert!(
        said.contains("1 passed"),
        "{said}{}",
        text(&outcome.stderr.head)
    );
    assert_eq!(outcome.exit.status, Status::Exited(0));
}

/// The supervisor keeps the time, so a command that stops it must not thereby stop the clock.
#[tokio::test]
async fn a_command_that_stops_its_supervisor_still_times_out() {
    let place = Place::new();
    let mark = marker();
    let script = format!("kill -STOP $PPID; sleep {mark}");
    let outcome = place
        .exec(ExecRequest::new(sh(&script).timeout(second() / 2)))
        .await
        .expect("ran");
    assert_eq!(outcome.exit.status, Status::TimedOut);
    assert_eq!(running(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn dropping_a_sandbox_kills_what_runs_in_it() {
    let place = Place::new();
    let mark = marker();
    let script = format!("setsid sleep {mark} & sleep {mark}");
    place
        .spawn(SpawnRequest::new(id("dropped"), sh(&script)))
        .await
        .expect("started");
    eventually("both run", || {
        running(&format!("sleep\u{0}{mark}")).len() == 2
    })
    .await;
    drop(place);
    eventually("both are gone", || running(&mark).is_empty()).await;
}

#[tokio::test]
async fn nothing_starts_after_a_shutdown() {
    let place = Place::new();
    within(place.processes.shutdown()).await;
    let error = place
        .exec(ExecRequest::new(sh("true")))
        .await
        .expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::Lost);
}

/// K22: the slot of a call is taken until its tree is gone, and free right after.
#[tokio::test]
async fn a_slot_is_free_when_the_answer_is_there_and_not_before() {
    let place = Place::with(|settings| settings.concurrency = 1);
    let mark = marker();
    for _ in 0..10 {
        place.sh(&format!("sleep {mark} >/dev/null 2>&1 &")).await;
    }
    place
        .spawn(SpawnRequest::new(id("slot"), sh(&format!("sleep {mark}"))))
        .await
        .expect("started");
    let error = place
        .exec(ExecRequest::new(sh("touch ran")))
        .await
        .expect_err("the slot is taken");
    assert_eq!(
        (error.kind(), error.is_retryable()),
        (ErrorKind::Busy, true)
    );
    assert!(!exists(&place.root.join("ran")));
    let request = ProcStopRequest {
        id: id("slot"),
        stop: Stop::Kill,
    };
    within(place.processes.proc_stop(&Ctx::new(), request))
        .await
        .expect("stopped");
    assert_eq!(place.sh("exit 5").await.exit.status, Status::Exited(5));
}

/// B203.
#[tokio::test]
async fn three_hundred_calls_leave_no_zombie_and_no_descriptor() {
    let place = Place::new();
    for _ in 0..20 {
        place.sh("true").await;
    }
    let before = descriptors();
    for round in 0..300 {
        let script = if round % 10 == 0 {
            "sleep 1000 >/dev/null 2>&1 &"
        } else {
            "true"
        };
        assert_eq!(place.sh(script).await.exit.status, Status::Exited(0));
    }
    assert_eq!(zombies(), 0);
    assert!(
        descriptors() <= before,
        "{before} descriptors became {}",
        descriptors()
    );
}

/// B205.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_in_parallel_do_not_disturb_each_other() {
    let place = std::sync::Arc::new(Place::new());
    let calls = (0..32).map(|number: u8| {
        let place = std::sync::Arc::clone(&place);
        tokio::spawn(async move {
            let outcome = place
                .sh(&format!("echo {number}; echo e{number} >&2; exit {number}"))
                .await;
            assert_eq!(outcome.exit.status, Status::Exited(number));
            assert_eq!(text(&outcome.stdout.head), format!("{number}\n"));
            assert_eq!(text(&outcome.stderr.head), format!("e{number}\n"));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        within(call).await.expect("each is right");
    }
}

#[tokio::test]
async fn what_a_tree_used_is_reported() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let outcome = place.sh(script).await;
    let used = outcome.exit.usage.user + outcome.exit.usage.system;
    assert!(used > Duration::from_millis(5), "{used:?}");
    assert!(
        used <= outcome.exit.duration * 2 + Duration::from_millis(20),
        "{used:?}"
    );
    assert!(outcome.exit.usage.peak_memory > 0);
}

#[tokio::test]
async fn a_wall_time_of_the_sandbox_holds_for_every_process() {
    let place = Place::with(|settings| settings.wall_time = Some(Duration::from_millis(200)));
    let spec = sh("sleep 1000").timeout(Duration::from_secs(3600));
    let request = ExecRequest::new(spec).delivery(Delivery::AtEnd);
    assert_eq!(
        place.exec(request).await.expect("ran").exit.status,
        Status::TimedOut
    );
}

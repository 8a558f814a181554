//! Output: whole, bounded, and never lost without a word.

use std::time::Duration;

use futures_util::StreamExt;
use sandbox_core::Ctx;
use sandbox_core::process::{
    BeyondLog, Delivery, ExecRequest, OutputStream, ProcReadRequest, SpawnRequest, Status, Stdin,
};

use crate::process::{Place, bash, eventually, exists, id, live, sh, text, within};

/// B028.
#[tokio::test]
async fn bytes_that_are_no_text_arrive_as_they_are() {
    let place = Place::new();
    let outcome = place
        .sh("head -c 4096 /dev/urandom | tee copy; exit 7")
        .await;
    assert_eq!(outcome.exit.status, Status::Exited(7));
    assert_eq!(
        outcome.stdout.head,
        std::fs::read(place.root.join("copy")).expect("there")
    );
}

/// B031.
#[tokio::test]
async fn the_end_of_long_output_is_kept_and_what_is_missing_is_counted() {
    let place = Place::new();
    let mut spec = bash(
        "for i in {1..20}; do head -c 20000 /dev/zero | tr '\\0' a; echo; done; echo 'error: boom'",
    );
    spec.output.head = 32 * 1024;
    spec.output.tail = 32 * 1024;
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert!(outcome.stdout.tail.ends_with(b"\nerror: boom\n"));
    let total = 20 * 20_001 + 12;
    assert_eq!(
        (outcome.stdout.total, outcome.stdout.dropped),
        (total, total - 64 * 1024)
    );
    assert_eq!(outcome.stdout.unlogged, 0);
    let said = format!("[{} of {total} bytes not shown]", total - 64 * 1024);
    assert!(outcome.stdout.to_text().contains(&said));
}

/// B032.
#[tokio::test]
async fn what_the_outcome_leaves_out_can_be_read_by_range() {
    let place = Place::new();
    let script =
        "yes before | head -c 5000000; echo; echo 'error: here'; yes after | head -c 5000000";
    let outcome = place
        .exec(ExecRequest::new(bash(script)).id(id("long")))
        .await
        .expect("ran");
    assert!(outcome.stdout.is_truncated());
    assert!(!outcome.stdout.to_text().contains("error: here"));
    let all = place.read_all(&id("long"), OutputStream::Stdout).await;
    assert_eq!(all.len() as u64, outcome.stdout.total);
    assert_eq!(text(&all[5_000_001..5_000_013]), "error: here\n");
    let request = ProcReadRequest {
        id: id("long"),
        stream: OutputStream::Stdout,
        from: 5_000_001,
        max: 11,
        wait: Duration::ZERO,
    };
    let chunk = within(place.processes.proc_read(&Ctx::new(), request))
        .await
        .expect("readable");
    assert_eq!(
        (text(&chunk.bytes), chunk.end),
        ("error: here".into(), false)
    );
}

/// B034.
#[tokio::test]
async fn a_cut_never_splits_a_character() {
    let place = Place::new();
    for limit in 1..10 {
        let mut spec = sh("printf '你好世界你好世界你好世界'");
        spec.output.head = limit;
        spec.output.tail = limit;
        let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
        assert!(std::str::from_utf8(&outcome.stdout.head).is_ok(), "{limit}");
        assert!(std::str::from_utf8(&outcome.stdout.tail).is_ok(), "{limit}");
        let shown = (outcome.stdout.head.len() + outcome.stdout.tail.len()) as u64;
        assert_eq!(outcome.stdout.dropped + shown, 36);
    }
}

/// B035.
#[tokio::test]
async fn a_character_written_byte_by_byte_arrives_whole() {
    let place = Place::new();
    let script = "for i in 1 2 3; do for b in 360 237 246 200; do printf \"\\\\$b\"; sleep 0.005; done; done";
    let (stdout, _, _) = live(&place, sh(script)).await;
    assert_eq!(text(&stdout), "🦀🦀🦀");
}

/// B037.
#[tokio::test]
async fn no_amount_of_output_on_either_stream_blocks() {
    let place = Place::new();
    for amount in [32_768, 65_535, 65_536, 65_537, 1_048_576] {
        let fill = format!("head -c {amount} /dev/zero");
        for (script, out, err) in [
            (fill.clone(), amount, 0),
            (format!("{fill} >&2"), 0, amount),
            (format!("{fill}; {fill} >&2"), amount, amount),
            (
                format!("{fill} >&2; {fill}; {fill} >&2"),
                amount,
                2 * amount,
            ),
        ] {
            let outcome = place.sh(&script).await;
            assert_eq!(
                (outcome.stdout.total, outcome.stderr.total),
                (out, err),
                "{script}"
            );
            assert_eq!(outcome.exit.status, Status::Exited(0));
        }
    }
}

/// B037, B121.
#[tokio::test]
async fn fifty_megabytes_go_in_and_come_out_at_once() {
    let place = Place::new();
    let input: Vec<u8> = (0..50_000_000_u32)
        .map(|at| (at ^ (at >> 8)).to_le_bytes()[0])
        .collect();
    let stdin = Stdin::Bytes(input.clone().into());
    let request = ExecRequest::new(sh("cat"))
        .stdin(stdin)
        .delivery(Delivery::Live);
    let execution = place
        .processes
        .exec(&Ctx::new(), request, place.directory())
        .expect("admitted");
    let stdout = within(sandbox_core::collect(
        sandbox_core::Verb::Exec,
        execution.stdout,
        u64::MAX,
    ));
    let (stdout, outcome) = tokio::join!(stdout, execution.outcome);
    assert!(stdout.expect("whole") == input, "the copy differs");
    assert_eq!(outcome.expect("ran").exit.status, Status::Exited(0));
}

/// B038.
#[tokio::test]
async fn a_long_line_of_errors_disturbs_nothing() {
    let place = Place::new();
    let outcome = place
        .sh("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo ok")
        .await;
    assert_eq!(
        (text(&outcome.stdout.head), outcome.stderr.total),
        ("ok\n".into(), 1_000_000)
    );
}

/// B040.
#[tokio::test]
async fn a_slow_reader_gets_every_byte() {
    let place = Place::new();
    let request =
        ExecRequest::new(sh("head -c 4194304 /dev/urandom | tee copy")).delivery(Delivery::Live);
    let mut execution = place
        .processes
        .exec(&Ctx::new(), request, place.directory())
        .expect("admitted");
    drop(execution.stderr);
    let mut all = Vec::new();
    let reader = async {
        while let Some(chunk) = execution.stdout.next().await {
            all.extend_from_slice(&chunk.expect("whole"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ((), outcome) = within(async { tokio::join!(reader, execution.outcome) }).await;
    assert!(
        all == std::fs::read(place.root.join("copy")).expect("there"),
        "the output differs"
    );
    assert_eq!(outcome.expect("ran").stdout.total, 4 << 20);
}

#[tokio::test]
async fn a_stalled_reader_makes_the_process_wait_and_not_the_memory_grow() {
    let place = Place::new();
    let script = "head -c 8000000 /dev/zero; touch done; echo e >&2";
    let request = ExecRequest::new(sh(script)).delivery(Delivery::Live);
    let mut execution = place
        .processes
        .exec(&Ctx::new(), request, place.directory())
        .expect("admitted");
    let first = within(execution.stdout.next())
        .await
        .expect("a chunk")
        .expect("whole");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        !exists(&place.root.join("done")),
        "it wrote although nobody read"
    );
    // Another call is not disturbed.
    assert_eq!(place.sh("echo x").await.stdout.total, 2);
    let mut total = first.len();
    while let Some(chunk) = within(execution.stdout.next()).await {
        total += chunk.expect("whole").len();
    }
    assert_eq!(total, 8_000_000);
    drop(execution.stderr);
    assert_eq!(
        within(execution.outcome).await.expect("ran").exit.status,
        Status::Exited(0)
    );
}

#[tokio::test]
async fn a_reader_that_went_away_does_not_stop_the_process() {
    let place = Place::new();
    let request =
        ExecRequest::new(sh("head -c 8000000 /dev/zero; exit 3")).delivery(Delivery::Live);
    let execution = place
        .processes
        .exec(&Ctx::new(), request, place.directory())
        .expect("admitted");
    drop((execution.stdout, execution.stderr));
    let outcome = within(execution.outcome).await.expect("ran");
    assert_eq!(
        (outcome.exit.status, outcome.stdout.total),
        (Status::Exited(3), 8_000_000)
    );
}

/// B029, with less of it.
#[tokio::test]
async fn output_beyond_its_log_is_dropped_counted_and_keeps_its_tail() {
    let place = Place::new();
    let mut spec = sh("head -c 3000000 /dev/zero; printf the-end");
    spec.output.head = 1000;
    spec.output.tail = 1000;
    spec.output.log = 1_000_000;
    let outcome = place
        .exec(ExecRequest::new(spec).id(id("capped")))
        .await
        .expect("ran");
    let stdout = &outcome.stdout;
    assert_eq!((stdout.total, stdout.unlogged), (3_000_007, 2_000_007));
    assert_eq!((stdout.head.len(), stdout.tail.len()), (1000, 1000));
    assert!(stdout.tail.ends_with(b"the-end"));
    let chunk = place
        .read(&id("capped"), OutputStream::Stdout, 999_999)
        .await;
    assert_eq!((chunk.bytes.len(), chunk.end), (1, false));
    let chunk = place
        .read(&id("capped"), OutputStream::Stdout, 1_000_000)
        .await;
    assert_eq!(
        (chunk.offset, chunk.bytes.len(), chunk.end),
        (3_000_007, 0, true)
    );
}

#[tokio::test]
async fn a_process_that_never_stops_writing_is_ended_at_its_limit_if_that_is_asked_for() {
    let place = Place::new();
    let mut spec = sh("trap '' TERM; yes");
    spec.output.log = 100_000;
    spec.output.head = 10;
    spec.output.tail = 10;
    spec.output.beyond = BeyondLog::Kill;
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(
        (outcome.exit.status, &outcome.stdout.head[..]),
        (Status::OutputLimit, &b"y\ny\ny\ny\ny\n"[..])
    );
    assert!(outcome.stdout.total > 100_000);
}

#[tokio::test]
async fn output_without_a_newline_for_ever_is_kept_within_bounds_until_its_timeout() {
    let place = Place::new();
    let mut spec = sh("exec tr '\\0' x < /dev/zero").timeout(Duration::from_millis(500));
    spec.output.log = 1_000_000;
    let (head, tail) = (spec.output.head, spec.output.tail);
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(outcome.exit.status, Status::TimedOut);
    let stdout = &outcome.stdout;
    assert!(stdout.total > 1_000_000, "{} bytes", stdout.total);
    assert!(stdout.head.len() as u64 <= head && stdout.tail.len() as u64 <= tail);
    assert_eq!(
        stdout.dropped,
        stdout.total - (stdout.head.len() + stdout.tail.len()) as u64
    );
}

#[tokio::test]
async fn a_blocking_log_loses_nothing_and_makes_the_process_wait() {
    let place = Place::new();
    let mut spec = sh("head -c 2000000 /dev/urandom | tee copy; touch done");
    spec.output.log = 200_000;
    spec.output.head = 0;
    spec.output.tail = 0;
    spec.output.beyond = BeyondLog::Block;
    place
        .spawn(SpawnRequest::new(id("blocking"), spec))
        .await
        .expect("started");
    eventually("the log is full", || {
        std::fs::metadata(place.root.join("copy")).is_ok_and(|copy| copy.len() >= 200_000)
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!exists(&place.root.join("done")));
    let all = place.read_all(&id("blocking"), OutputStream::Stdout).await;
    assert!(
        all == std::fs::read(place.root.join("copy")).expect("there"),
        "the output differs"
    );
    assert_eq!(
        place.report(&id("blocking")).await.status,
        Status::Exited(0)
    );
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_said_and_stops_nothing() {
    let place = Place::with(|settings| settings.log_bytes = 100_000);
    let mut spec = sh("head -c 300000 /dev/zero; printf the-end");
    spec.output.head = 10;
    spec.output.tail = 10;
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(
        (outcome.exit.status, outcome.stdout.total),
        (Status::Exited(0), 300_007)
    );
    assert!(outcome.stdout.tail.ends_with(b"the-end"));
    assert!(outcome.stdout.unlogged >= 200_007 && outcome.stdout.log_failure.is_some());
}

#[tokio::test]
async fn the_output_of_old_calls_gives_way_to_that_of_new_ones() {
    let place = Place::with(|settings| settings.log_bytes = 1_000_000);
    for number in 0..5 {
        let request =
            ExecRequest::new(sh("head -c 400000 /dev/zero")).id(id(&format!("call-{number}")));
        let outcome = place.exec(request).await.expect("ran");
        assert_eq!(
            (outcome.stdout.unlogged, outcome.stdout.log_failure),
            (0, None)
        );
    }
    assert_eq!(
        place
            .read_all(&id("call-4"), OutputStream::Stdout)
            .await
            .len(),
        400_000
    );
    let chunk = place.read(&id("call-0"), OutputStream::Stdout, 0).await;
    assert_eq!(
        (chunk.offset, chunk.bytes.len(), chunk.end),
        (400_000, 0, true)
    );
}

/// B011.
#[tokio::test]
async fn the_first_read_after_an_exit_returns_at_once_with_the_status() {
    let place = Place::new();
    for number in 0..20 {
        let name = id(&format!("quick-{number}"));
        place
            .spawn(SpawnRequest::new(name.clone(), sh("true")))
            .await
            .expect("started");
        let chunk = place.read(&name, OutputStream::Stdout, 0).await;
        assert!(chunk.bytes.is_empty() && chunk.end);
        assert_eq!(place.report(&name).await.status, Status::Exited(0));
    }
}

/// B041.
#[tokio::test]
async fn reading_on_after_a_pause_has_no_gap() {
    let place = Place::new();
    let script =
        "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; sleep 0.1; echo last";
    place
        .spawn(SpawnRequest::new(id("lines"), sh(script)))
        .await
        .expect("started");
    let first = place
        .read(&id("lines"), OutputStream::Stdout, 0)
        .await
        .bytes;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let all = place.read_all(&id("lines"), OutputStream::Stdout).await;
    assert!(all.starts_with(&first));
    let expected: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    assert_eq!(text(&all), expected + "last\n");
}

/// B049.
#[tokio::test]
async fn what_was_said_before_a_timeout_is_there() {
    let place = Place::new();
    let spec = sh("echo before; echo problem >&2; sleep 60").timeout(Duration::from_millis(300));
    let outcome = place.exec(ExecRequest::new(spec)).await.expect("ran");
    assert_eq!(outcome.exit.status, Status::TimedOut);
    assert_eq!(
        (text(&outcome.stdout.head), text(&outcome.stderr.head)),
        ("before\n".into(), "problem\n".into())
    );
}

/// B016.
#[tokio::test]
async fn a_long_read_ends_when_the_deadline_of_the_process_ends_it() {
    let place = Place::new();
    let spec = sh("sleep 1000").timeout(Duration::from_millis(200));
    place
        .spawn(SpawnRequest::new(id("deadline"), spec))
        .await
        .expect("started");
    let chunk = place.read(&id("deadline"), OutputStream::Stdout, 0).await;
    assert!(chunk.end);
    assert_eq!(place.report(&id("deadline")).await.status, Status::TimedOut);
}

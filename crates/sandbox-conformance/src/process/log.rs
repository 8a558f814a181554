//! Checks of `spawn` and of reading what a process has written, by absolute offset.
//!
//! Reports B026, B032 and B041: an exit was never told, the middle of a log could not be had, and
//! output was lost when a command went on in the background.

use std::time::{Duration, Instant};

use sandbox_core::process::{
    BeyondLog, ExecRequest, OutputStream, ProcChunk, ProcReadRequest, ProcStatus, ProcStdinRequest,
    ProcStopRequest, SpawnRequest, SpawnStdin, Status, Stop,
};
use sandbox_core::{ErrorKind, Limit, LimitKind, Strength};

use crate::check::{Failure, Verdict};
use crate::harness::{Place, fresh_id};
use crate::support::{proc_id, read_log, refused, soon};

async fn stdout(
    place: &Place,
    id: &str,
    from: u64,
    max: u64,
    wait: Duration,
) -> Result<ProcChunk, Failure> {
    let request = ProcReadRequest {
        max,
        ..read_log(&proc_id(id), OutputStream::Stdout, from, wait)
    };
    Ok(place.sandbox.proc_read(&place.ctx(), request).await?)
}

pub(crate) async fn a_spawned_process_runs_on(place: &Place) -> Verdict {
    let line = "echo $$; while ! [ -e go ]; do sleep 0.02; done; echo gone; exit 9";
    let receipt = place.spawn("runner", line, SpawnStdin::Null).await?;
    ensure_eq!(receipt.id, proc_id("runner"), "id");
    place.says("runner", &format!("{}\n", receipt.pid)).await?;
    place.put("go", "now").await?;
    let (output, exit) = place.log(&proc_id("runner"), OutputStream::Stdout).await?;
    ensure_eq!(output, format!("{}\ngone\n", receipt.pid), "output");
    ensure_eq!(exit.status, Status::Exited(9), "status");
    Ok(())
}

pub(crate) async fn a_log_is_read_by_absolute_offset(place: &Place) -> Verdict {
    place
        .spawn("digits", "printf 0123456789", SpawnStdin::Null)
        .await?;
    place.log(&proc_id("digits"), OutputStream::Stdout).await?;
    for (from, max, bytes, end) in [
        (0, 10, "0123456789", true),
        (3, 4, "3456", false),
        (8, 100, "89", true),
        (10, 5, "", true),
        (3, 4, "3456", false),
    ] {
        let chunk = stdout(place, "digits", from, max, Duration::ZERO).await?;
        ensure_eq!(
            (&chunk.bytes[..], chunk.offset, chunk.total, chunk.end),
            (bytes.as_bytes(), from, 10, end),
            "bytes, offset, total and end of at most {max} from {from}"
        );
    }
    Ok(())
}

pub(crate) async fn the_two_logs_are_read_apart(place: &Place) -> Verdict {
    place
        .spawn("both", "echo out; echo err >&2", SpawnStdin::Null)
        .await?;
    let (out, _) = place.log(&proc_id("both"), OutputStream::Stdout).await?;
    let (err, _) = place.log(&proc_id("both"), OutputStream::Stderr).await?;
    ensure_eq!(
        (&out[..], &err[..]),
        (&b"out\n"[..], &b"err\n"[..]),
        "the two logs"
    );
    Ok(())
}

/// Report B032.
pub(crate) async fn what_an_outcome_leaves_out_can_be_read_back(place: &Place) -> Verdict {
    let mut process = place.line("seq 1 20000")?;
    process.output.head = 10;
    process.output.tail = 10;
    let request = ExecRequest::new(process).id(proc_id("long"));
    let outcome = place.start(request).await?.outcome.await?;
    let (log, _) = place.log(&outcome.id, OutputStream::Stdout).await?;
    let expected: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    ensure!(
        log == expected,
        "of {} bytes the log has {}, or others",
        expected.len(),
        log.len()
    );
    Ok(())
}

pub(crate) async fn a_read_waits_until_there_is_something(place: &Place) -> Verdict {
    let line = "while ! [ -e go ]; do sleep 0.02; done; echo there; sleep 300";
    place.spawn("late", line, SpawnStdin::Null).await?;
    let reading = stdout(place, "late", 0, 100, Duration::from_secs(30));
    let writing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        place.put("go", "now").await
    };
    let (chunk, _) = soon(
        "a read that waits",
        futures_util::future::try_join(reading, writing),
    )
    .await??;
    ensure_eq!(chunk.bytes, "there\n", "what came");
    ensure_eq!(chunk.status, ProcStatus::Running, "status");
    Ok(())
}

pub(crate) async fn a_read_that_waits_ends_with_the_process(place: &Place) -> Verdict {
    place
        .spawn("silent", "sleep 0.1; exit 3", SpawnStdin::Null)
        .await?;
    let reading = async {
        loop {
            // Asked again, since the end of the stream and that of the process are two events.
            let chunk = stdout(place, "silent", 0, 100, Duration::from_secs(30)).await?;
            if let ProcStatus::Ended(exit) = chunk.status {
                return Ok::<_, Failure>((chunk.bytes, chunk.end, exit.status));
            }
        }
    };
    ensure_eq!(
        soon("a read that waits for a silent process", reading).await??,
        (bytes::Bytes::new(), true, Status::Exited(3)),
        "bytes, end and status"
    );
    Ok(())
}

pub(crate) async fn a_read_that_waited_long_enough_comes_back_empty(place: &Place) -> Verdict {
    place.spawn("silent", "sleep 300", SpawnStdin::Null).await?;
    let began = Instant::now();
    let reading = stdout(place, "silent", 0, 100, Duration::from_millis(150));
    let chunk = soon("a read that waits", reading).await??;
    ensure!(
        began.elapsed() >= Duration::from_millis(140),
        "a read that was to wait for 150 ms came back after {:?}",
        began.elapsed()
    );
    ensure_eq!(
        (chunk.bytes.len(), chunk.end, chunk.status),
        (0, false, ProcStatus::Running),
        "bytes, end and status of a process that says nothing"
    );
    Ok(())
}

/// Report B026.
pub(crate) async fn the_exit_is_known_at_the_first_read(place: &Place) -> Verdict {
    place
        .spawn(
            "short",
            "echo $$ >pids; echo done; exit 4",
            SpawnStdin::Null,
        )
        .await?;
    place.appears("pids").await?;
    place.end(&["pids"]).await?;
    // A moment for the news to arrive, since only what is known can be told.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let chunk = stdout(place, "short", 0, 100, Duration::ZERO).await?;
    ensure_eq!(chunk.bytes, "done\n", "output");
    ensure!(
        matches!(&chunk.status, ProcStatus::Ended(exit) if exit.status == Status::Exited(4))
            && chunk.end,
        "a process that ended before the first read is said to be {:?}",
        chunk.status
    );
    Ok(())
}

pub(crate) async fn a_process_that_outgrows_its_log_waits_when_asked(place: &Place) -> Verdict {
    let mut process = place.line("head -c 1000000 /dev/zero; exit 8")?;
    process.output.log = 100_000;
    process.output.beyond = BeyondLog::Block;
    let request = SpawnRequest::new(proc_id("writer"), process);
    place.sandbox.spawn(&place.ctx(), request).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let chunk = stdout(place, "writer", 0, 1, Duration::ZERO).await?;
    ensure_eq!(
        chunk.status,
        ProcStatus::Running,
        "status before the log was read"
    );
    let (log, exit) = place.log(&proc_id("writer"), OutputStream::Stdout).await?;
    ensure_eq!(
        (log.len(), exit.status),
        (1_000_000, Status::Exited(8)),
        "bytes and status"
    );
    Ok(())
}

/// What is asked twice because an answer was lost must not run twice.
pub(crate) async fn a_repeated_spawn_is_the_same_process(place: &Place) -> Verdict {
    let line = "echo ran >>runs; sleep 300";
    let first = place.spawn("once", line, SpawnStdin::Null).await?;
    place.appears("runs").await?;
    let second = place.spawn("once", line, SpawnStdin::Null).await?;
    ensure_eq!(second, first, "receipt of the repeated call");
    tokio::time::sleep(Duration::from_millis(50)).await;
    ensure_eq!(place.content("runs").await?, "ran\n", "what ran");
    Ok(())
}

pub(crate) async fn another_spawn_of_the_same_id_is_a_conflict(place: &Place) -> Verdict {
    place.spawn("taken", "sleep 300", SpawnStdin::Null).await?;
    let request = SpawnRequest::new(proc_id("taken"), place.line("echo ran >ran")?);
    refused(
        place.sandbox.spawn(&place.ctx(), request).await,
        ErrorKind::Conflict,
        "another spawn of the same id",
    )?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    ensure!(!place.exists("ran").await?, "the refused process ran");
    Ok(())
}

pub(crate) async fn a_process_that_nobody_started_is_not_found(place: &Place) -> Verdict {
    let id = proc_id("nobody");
    let ctx = place.ctx();
    let sandbox = &place.sandbox;
    let read = read_log(&id, OutputStream::Stdout, 0, Duration::ZERO);
    let stdin = ProcStdinRequest {
        id: id.clone(),
        offset: 0,
        bytes: "input".into(),
        close: false,
        resize: None,
    };
    let stop = ProcStopRequest {
        id,
        stop: Stop::Kill,
    };
    let kind = ErrorKind::ProcessNotFound;
    refused(
        sandbox.proc_read(&ctx, read).await,
        kind,
        "reading from nobody",
    )?;
    refused(
        sandbox.proc_stdin(&ctx, stdin).await,
        kind,
        "writing to nobody",
    )?;
    refused(sandbox.proc_stop(&ctx, stop).await, kind, "stopping nobody")?;
    Ok(())
}

pub(crate) async fn what_cannot_be_spawned_is_said_at_once(place: &Place) -> Verdict {
    for (argv, kind) in [
        (vec!["./missing"], ErrorKind::NotFound),
        (vec![], ErrorKind::InvalidArgument),
    ] {
        let process = sandbox_core::process::ProcessSpec::new(argv);
        let request = SpawnRequest::new(proc_id("never"), process);
        refused(
            place.sandbox.spawn(&place.ctx(), request).await,
            kind,
            "a spawn of what cannot start",
        )?;
    }
    Ok(())
}

pub(crate) async fn a_spawned_process_ends_at_its_timeout(place: &Place) -> Verdict {
    let process = place
        .line("echo started; exec sleep 300")?
        .timeout(Duration::from_secs(1));
    let request = SpawnRequest::new(proc_id("limited"), process);
    place.sandbox.spawn(&place.ctx(), request).await?;
    let (output, exit) = place.log(&proc_id("limited"), OutputStream::Stdout).await?;
    ensure_eq!(
        (&output[..], exit.status),
        (&b"started\n"[..], Status::TimedOut),
        "output and status"
    );
    Ok(())
}

/// A place that cannot count says so when it is asked to; one that can refuses the one too many.
pub(crate) async fn one_process_too_many_is_busy(place: &Place) -> Verdict {
    let mut spec = place.spec.clone();
    spec.id = fresh_id();
    let limit = Limit {
        value: 1,
        strength: Strength::Required,
    };
    spec.policy.limits.insert(LimitKind::Concurrency, limit);
    let sandbox = match place.provider.acquire(&place.ctx(), &spec).await {
        Ok(sandbox) => sandbox,
        unmet => {
            refused(
                unmet,
                ErrorKind::PolicyUnmet,
                "a limit of one process at a time",
            )?;
            return Ok(());
        }
    };
    let limited = Place {
        provider: place.provider.clone(),
        spec: spec.clone(),
        sandbox,
        outside: None,
    };
    limited
        .spawn("first", "sleep 300", SpawnStdin::Null)
        .await?;
    let second = SpawnRequest::new(proc_id("second"), limited.line("echo ran >ran")?);
    refused(
        limited.sandbox.spawn(&limited.ctx(), second.clone()).await,
        ErrorKind::Busy,
        "a second process where one is allowed",
    )?;
    let stop = ProcStopRequest {
        id: proc_id("first"),
        stop: Stop::Graceful {
            grace: Duration::from_secs(2),
        },
    };
    limited.sandbox.proc_stop(&limited.ctx(), stop).await?;
    // The slot is free as soon as the first is said to be gone.
    limited.sandbox.spawn(&limited.ctx(), second).await?;
    limited
        .log(&proc_id("second"), OutputStream::Stdout)
        .await?;
    ensure!(
        limited.exists("ran").await?,
        "the second process did not run"
    );
    place
        .provider
        .release(&place.ctx(), &spec.id, sandbox_core::Disposition::Keep)
        .await?;
    Ok(())
}

//! Doubles that are wrong about processes that run on: their logs, their input, their end.

use std::time::Duration;

use bytes::Bytes;
use sandbox_core::process::{
    BeyondLog, ExitReport, MAX_PROC_READ_BYTES, OutputStream, ProcReadRequest, ProcStatus,
    ProcessSpec, SpawnReceipt, SpawnRequest, SpawnStdin, Status, StdinReceipt, Stop, StopReceipt,
    Survivors, Usage,
};
use sandbox_core::{Ctx, Error, ErrorKind, ProcId, SandboxExt, Verb};

use super::doubles;
use super::wrapped::Honest;

async fn status(honest: &Honest, ctx: &Ctx, id: &ProcId) -> Option<ProcStatus> {
    let request = ProcReadRequest {
        id: id.clone(),
        stream: OutputStream::Stdout,
        from: 0,
        max: 1,
        wait: Duration::ZERO,
    };
    Some(honest.proc_read(ctx, request).await.ok()?.status)
}

fn stopped() -> StopReceipt {
    let report = ExitReport {
        status: Status::Cancelled,
        duration: Duration::from_millis(1),
        usage: Usage::default(),
        survivors: Survivors::default(),
    };
    StopReceipt {
        status: ProcStatus::Ended(report),
    }
}

const RUNNING: StopReceipt = StopReceipt {
    status: ProcStatus::Running,
};

doubles! {
    a_spawned_process_has_no_input_unless_asked: "a reader that is spawned waits for input"
    spawn(honest, ctx, mut request) {
        if request.process.argv.last().is_some_and(|line| line.starts_with(b"cat;")) {
            request.stdin = SpawnStdin::Open;
        }
        honest.spawn(&ctx, request).await
    }

    a_spawned_process_runs_on: "the pid is another one's"
    spawn(honest, ctx, request) {
        let mut receipt = honest.spawn(&ctx, request).await?;
        receipt.pid += 1;
        Ok(receipt)
    }

    a_log_is_read_by_absolute_offset: "a small piece of a log is larger than wanted"
    proc_read(honest, ctx, mut request) {
        request.max = MAX_PROC_READ_BYTES;
        honest.proc_read(&ctx, request).await
    }

    the_two_logs_are_read_apart: "there is one log, that of standard output"
    proc_read(honest, ctx, mut request) {
        request.stream = OutputStream::Stdout;
        honest.proc_read(&ctx, request).await
    }

    what_an_outcome_leaves_out_can_be_read_back: "only what was spawned has a log"
    proc_read(honest, ctx, request) {
        if honest.noted(&format!("exec {}", request.id)) > 0 {
            return Err(Error::refused(Verb::ProcRead, ErrorKind::ProcessNotFound));
        }
        honest.proc_read(&ctx, request).await
    }

    a_read_waits_until_there_is_something: "a long wait is no wait"
    proc_read(honest, ctx, mut request) {
        if request.wait > Duration::from_secs(10) {
            request.wait = Duration::from_millis(1);
        }
        honest.proc_read(&ctx, request).await
    }

    a_read_that_waits_ends_with_the_process: "a long wait does not see that nothing follows"
    proc_read(honest, ctx, request) {
        let long = request.wait > Duration::from_secs(10);
        let mut chunk = honest.proc_read(&ctx, request).await?;
        chunk.end &= !long;
        Ok(chunk)
    }

    a_read_that_waited_long_enough_comes_back_empty: "a short wait is no wait"
    proc_read(honest, ctx, mut request) {
        if request.wait < Duration::from_secs(1) {
            request.wait = Duration::ZERO;
        }
        honest.proc_read(&ctx, request).await
    }

    the_exit_is_known_at_the_first_read: "the first read of a process says that it runs"
    proc_read(honest, ctx, request) {
        let known = honest.note(&format!("read {}", request.id), 1) > 0;
        let mut chunk = honest.proc_read(&ctx, request).await?;
        if !known {
            chunk.status = ProcStatus::Running;
            chunk.end = false;
        }
        Ok(chunk)
    }

    a_process_that_outgrows_its_log_waits_when_asked: "no process waits for its log"
    spawn(honest, ctx, mut request) {
        request.process.output.beyond = BeyondLog::Drop;
        honest.spawn(&ctx, request).await
    }

    a_repeated_spawn_is_the_same_process: "a repeated spawn runs once more"
    spawn(honest, ctx, request) {
        let repeated = honest.noted(&format!("pid {}", request.id)) > 0;
        let (process, receipt) = (request.process.clone(), honest.spawn(&ctx, request).await?);
        if repeated && let Ok(id) = ProcId::new("again") {
            honest.spawn(&ctx, SpawnRequest::new(id, process)).await?;
        }
        Ok(receipt)
    }

    another_spawn_of_the_same_id_is_a_conflict:
        "another spawn of the same id is taken for the first"
    spawn(honest, ctx, request) {
        let id = request.id.clone();
        match honest.spawn(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(SpawnReceipt { id, pid: 1 }),
            result => result,
        }
    }

    a_process_that_nobody_started_is_not_found: "a process that nobody started has a closed input"
    proc_stdin(honest, ctx, request) {
        honest.proc_stdin(&ctx, request).await.map_err(|error| match error.kind() {
            ErrorKind::ProcessNotFound => Error::refused(Verb::ProcStdin, ErrorKind::StdinClosed),
            _ => error,
        })
    }

    what_cannot_be_spawned_is_said_at_once: "what is missing is spawned and never heard of"
    spawn(honest, ctx, request) {
        let id = request.id.clone();
        match honest.spawn(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(SpawnReceipt { id, pid: 1 }),
            result => result,
        }
    }

    a_spawned_process_ends_at_its_timeout: "a spawned process has no timeout"
    spawn(honest, ctx, mut request) {
        request.process.timeout = None;
        honest.spawn(&ctx, request).await
    }

    one_process_too_many_is_busy: "one process too many may have started"
    spawn(honest, ctx, request) {
        honest.spawn(&ctx, request).await.map_err(|error| match error.kind() {
            ErrorKind::Busy => Error::new(Verb::Spawn, ErrorKind::Busy),
            _ => error,
        })
    }

    input_can_be_written_piece_by_piece: "the receipt of a close says that the input is open"
    proc_stdin(honest, ctx, request) {
        let mut receipt = honest.proc_stdin(&ctx, request).await?;
        receipt.closed = false;
        Ok(receipt)
    }

    repeated_input_is_written_once: "repeated input is written again"
    proc_stdin(honest, ctx, mut request) {
        let key = format!("next {}", request.id);
        request.offset = request.offset.max(honest.noted(&key));
        let receipt = honest.proc_stdin(&ctx, request).await?;
        honest.note(&key, receipt.next);
        Ok(receipt)
    }

    a_gap_in_the_input_is_a_conflict_that_names_the_offset: "a gap does not name the offset"
    proc_stdin(honest, ctx, request) {
        honest.proc_stdin(&ctx, request).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict => Error::refused(Verb::ProcStdin, ErrorKind::Conflict),
            _ => error,
        })
    }

    closed_input_stays_closed: "after the end of its input a process is forgotten"
    proc_stdin(honest, ctx, request) {
        let key = format!("closed {}", request.id);
        let closed = honest.noted(&key) > 0;
        honest.note(&key, u64::from(closed || request.close));
        honest.proc_stdin(&ctx, request).await.map_err(|error| match error.kind() {
            ErrorKind::StdinClosed if closed => {
                Error::refused(Verb::ProcStdin, ErrorKind::ProcessNotFound)
            }
            _ => error,
        })
    }

    a_process_without_input_cannot_be_written_to: "input that nobody can read is taken"
    proc_stdin(honest, ctx, request) {
        let (first, next) = (request.offset == 0, request.bytes.len() as u64);
        match honest.proc_stdin(&ctx, request).await {
            Err(error) if first && error.kind() == ErrorKind::StdinClosed => {
                Ok(StdinReceipt { next, closed: false })
            }
            result => result,
        }
    }

    a_signal_reaches_a_process_that_may_live_on: "a signal of the user's kills"
    proc_stop(honest, ctx, mut request) {
        if request.stop == Stop::Signal(10) {
            request.stop = Stop::Kill;
        }
        honest.proc_stop(&ctx, request).await
    }

    a_signal_reaches_the_whole_tree: "a signal reaches the first process only"
    proc_stop(honest, ctx, request) {
        match request.stop {
            Stop::Signal(12) => {
                let pid = honest.noted(&format!("pid {}", request.id)).to_string();
                honest.run(&ctx, ProcessSpec::new(["/bin/sh", "-c", "kill -USR2 $0", &pid])).await?;
                Ok(RUNNING)
            }
            _ => honest.proc_stop(&ctx, request).await,
        }
    }

    a_signal_that_does_not_exist_is_refused: "a signal that does not exist is sent"
    proc_stop(honest, ctx, request) {
        match honest.proc_stop(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(RUNNING),
            result => result,
        }
    }

    a_graceful_stop_lets_a_process_finish: "a stop with a long grace is a kill"
    proc_stop(honest, ctx, mut request) {
        if matches!(request.stop, Stop::Graceful { grace } if grace > Duration::from_secs(1)) {
            request.stop = Stop::Kill;
        }
        honest.proc_stop(&ctx, request).await
    }

    a_graceful_stop_ends_what_does_not_listen: "a short grace never ends"
    proc_stop(honest, ctx, mut request) {
        if matches!(request.stop, Stop::Graceful { grace } if grace < Duration::from_secs(1))
            && honest.noted(&format!("pid {}", request.id)) > 0
        {
            request.stop = Stop::Signal(15);
        }
        honest.proc_stop(&ctx, request).await
    }

    nothing_is_left_when_a_stop_is_answered: "a kill is answered before it is done"
    proc_stop(honest, ctx, request) {
        let running = status(&honest, &ctx, &request.id).await == Some(ProcStatus::Running);
        if request.stop != Stop::Kill || !running {
            return honest.proc_stop(&ctx, request).await;
        }
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let _ = honest.proc_stop(&Ctx::new(), request).await;
        });
        Ok(stopped())
    }

    stopping_what_has_ended_is_no_error: "what has ended cannot be stopped"
    proc_stop(honest, ctx, request) {
        if let Some(ProcStatus::Ended(_)) = status(&honest, &ctx, &request.id).await {
            return Err(Error::refused(Verb::ProcStop, ErrorKind::ProcessNotFound));
        }
        honest.proc_stop(&ctx, request).await
    }

    a_terminal_changes_its_size: "a terminal keeps its size"
    proc_stdin(honest, ctx, mut request) {
        request.resize = None;
        honest.proc_stdin(&ctx, request).await
    }

    what_is_typed_reaches_the_process: "the end of a line that is typed is lost"
    proc_stdin(honest, ctx, mut request) {
        if honest.noted(&format!("pty {}", request.id)) > 0 && request.bytes.ends_with(b"\n") {
            request.bytes.truncate(request.bytes.len() - 1);
        }
        honest.proc_stdin(&ctx, request).await
    }

    control_c_interrupts: "control characters are not typed"
    proc_stdin(honest, ctx, mut request) {
        request.bytes = request.bytes.iter().copied().filter(|byte| *byte != 3).collect::<Bytes>();
        honest.proc_stdin(&ctx, request).await
    }
}

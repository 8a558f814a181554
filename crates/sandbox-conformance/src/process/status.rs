//! Checks of how a process is said to have ended.

use std::time::Duration;

use futures_util::future::join_all;
use sandbox_core::ErrorKind;
use sandbox_core::process::{ExecRequest, ProcessSpec, Status};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{proc_id, soon};

pub(crate) async fn every_exit_code_comes_back(place: &Place) -> Verdict {
    for code in [
        0, 1, 2, 77, 124, 125, 126, 127, 128, 129, 130, 137, 143, 254, 255,
    ] {
        let outcome = place.run(place.line(&format!("exit {code}"))?).await?;
        ensure_eq!(
            outcome.exit.status,
            Status::Exited(code),
            "status of `exit {code}`"
        );
    }
    Ok(())
}

/// Reports B061 and B062: a signal came back as an exit code of its own number, or as 1.
pub(crate) async fn a_signal_is_not_an_exit_code(place: &Place) -> Verdict {
    for number in [1, 2, 9, 11, 15] {
        let outcome = place
            .run(place.line(&format!("kill -{number} $$; sleep 5"))?)
            .await?;
        ensure!(
            matches!(outcome.exit.status, Status::Signalled { signal, .. } if signal == number),
            "signal {number} came back as: {}",
            outcome.exit.status
        );
    }
    Ok(())
}

/// A runtime that ignores a signal for itself must not hand that on: `yes | head -1` would not end.
/// Signals 32 and 33, which the C library keeps to itself: what is started through it cannot set them, and no
/// program can be sent them by name.
const OF_THE_C_LIBRARY: u64 = 0b11 << 31;

pub(crate) async fn a_process_starts_with_no_signal_ignored(place: &Place) -> Verdict {
    // Read by the program itself, since a shell sets signals for its own use.
    let outcome = place
        .run(ProcessSpec::new([
            "grep",
            "-E",
            "^Sig(Ign|Blk):",
            "/proc/self/status",
        ]))
        .await?;
    let ignored = outcome.stdout.to_text();
    for line in ignored.lines() {
        let mask = line
            .split_once('\t')
            .and_then(|(_, mask)| u64::from_str_radix(mask, 16).ok());
        ensure!(
            mask.is_some_and(|mask| mask & !OF_THE_C_LIBRARY == 0),
            "a process started with signals ignored or blocked: {line}"
        );
    }
    ensure_eq!(ignored.lines().count(), 2, "masks that were found");
    Ok(())
}

pub(crate) async fn duration_and_use_are_told(place: &Place) -> Verdict {
    let line = "sleep 0.2; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";
    let exit = place.run(place.line(line)?).await?.exit;
    ensure!(
        exit.duration >= Duration::from_millis(200) && exit.duration < Duration::from_secs(60),
        "a run of 0.2 s and a little took {:?}",
        exit.duration
    );
    ensure!(
        exit.usage.user > Duration::ZERO && exit.usage.user < exit.duration,
        "of {:?} the processor was used for {:?}",
        exit.duration,
        exit.usage.user
    );
    ensure!(
        exit.usage.peak_memory > 100_000 && exit.usage.peak_memory < 1 << 30,
        "a shell used {} bytes of memory",
        exit.usage.peak_memory
    );
    Ok(())
}

pub(crate) async fn runs_at_once_do_not_mix(place: &Place) -> Verdict {
    let runs = (0..16u8).map(|number| async move {
        let line = format!("echo out {number}; sleep 0.05; echo err {number} >&2; exit {number}");
        let outcome = place.run(place.line(&line)?).await?;
        ensure_eq!(
            (
                outcome.exit.status,
                outcome.stdout.to_text(),
                outcome.stderr.to_text()
            ),
            (
                Status::Exited(number),
                format!("out {number}\n"),
                format!("err {number}\n")
            ),
            "status and output of run {number} of 16"
        );
        Ok(outcome.id)
    });
    let mut ids = Vec::new();
    for id in join_all(runs).await {
        ids.push(id?);
    }
    ids.sort();
    ids.dedup();
    ensure_eq!(ids.len(), 16, "different ids of 16 runs");
    Ok(())
}

pub(crate) async fn a_run_has_the_id_it_was_given(place: &Place) -> Verdict {
    let request = ExecRequest::new(place.line("true")?).id(proc_id("given"));
    let execution = place.start(request).await?;
    ensure_eq!(execution.id, proc_id("given"), "id of the run");
    ensure_eq!(
        execution.outcome.await?.id,
        proc_id("given"),
        "id in the outcome"
    );
    Ok(())
}

/// A deadline is of the call, not of the process: the call fails, and nothing is left running.
pub(crate) async fn a_call_ends_at_its_deadline(place: &Place) -> Verdict {
    let ctx = place.ctx().with_timeout(Duration::from_secs(1));
    let process = place.line("echo $$ >pid; exec sleep 60")?;
    let call = async {
        let execution = place.sandbox.exec(&ctx, ExecRequest::new(process)).await?;
        execution.outcome.await
    };
    match soon("a call with a deadline", call).await? {
        Ok(outcome) => {
            return Err(Failure::new(format_args!(
                "a call past its deadline came to an outcome: {}",
                outcome.exit.status
            )));
        }
        Err(error) => ensure_eq!(
            error.kind(),
            ErrorKind::DeadlineExceeded,
            "how a call past its deadline failed ({error})"
        ),
    }
    place.end(&["pid"]).await
}

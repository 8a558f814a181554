//! Checks of `proc_stop`.
//!
//! Not here: stopping an `exec`, which is with the other ways to end a [`tree`](super::tree).

use std::time::Duration;

use sandbox_core::process::{
    OutputStream, ProcStatus, ProcStopRequest, SpawnStdin, Status, Stop, StopReceipt,
};
use sandbox_core::{Error, ErrorKind};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{proc_id, refused, soon};

async fn stop(place: &Place, stop: Stop) -> Result<StopReceipt, Error> {
    let request = ProcStopRequest {
        id: proc_id("target"),
        stop,
    };
    place.sandbox.proc_stop(&place.ctx(), request).await
}

pub(crate) async fn a_signal_reaches_a_process_that_may_live_on(place: &Place) -> Verdict {
    let line = "trap 'echo caught' USR1; echo ready; while :; do sleep 0.02; done";
    place.spawn("target", line, SpawnStdin::Null).await?;
    place.says("target", "ready").await?;
    let receipt = stop(place, Stop::Signal(10)).await?;
    ensure_eq!(
        receipt.status,
        ProcStatus::Running,
        "status after the signal"
    );
    place.says("target", "caught").await?;
    Ok(())
}

pub(crate) async fn a_signal_reaches_the_whole_tree(place: &Place) -> Verdict {
    let line = "trap 'echo parent' USR2; \
                setsid sh -c 'trap \"echo child; exit\" USR2; echo ready; while :; do sleep 0.02; done' & \
                wait; wait; echo end; sleep 300";
    place.spawn("target", line, SpawnStdin::Null).await?;
    place.says("target", "ready").await?;
    stop(place, Stop::Signal(12)).await?;
    for word in ["parent", "child", "end"] {
        place.says("target", word).await?;
    }
    Ok(())
}

pub(crate) async fn a_signal_that_does_not_exist_is_refused(place: &Place) -> Verdict {
    place.spawn("target", "sleep 300", SpawnStdin::Null).await?;
    for number in [-9, 0, 65, 1000] {
        refused(
            stop(place, Stop::Signal(number)).await,
            ErrorKind::InvalidArgument,
            &format!("signal {number}"),
        )?;
    }
    Ok(())
}

pub(crate) async fn a_graceful_stop_lets_a_process_finish(place: &Place) -> Verdict {
    let line =
        "trap 'sleep 0.1; echo goodbye; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    place.spawn("target", line, SpawnStdin::Null).await?;
    place.says("target", "ready").await?;
    let grace = Duration::from_secs(4);
    let receipt = soon("a graceful stop", stop(place, Stop::Graceful { grace })).await??;
    ensure!(
        matches!(receipt.status, ProcStatus::Ended(_)),
        "after a graceful stop the status is {:?}",
        receipt.status
    );
    let (output, _) = place.log(&proc_id("target"), OutputStream::Stdout).await?;
    ensure_eq!(output, "ready\ngoodbye\n", "output");
    Ok(())
}

pub(crate) async fn a_graceful_stop_ends_what_does_not_listen(place: &Place) -> Verdict {
    let line = "trap '' TERM; echo $$ >pids; : >started; while :; do sleep 0.02; done";
    place.spawn("target", line, SpawnStdin::Null).await?;
    place.appears("started").await?;
    let grace = Duration::from_millis(100);
    soon("a graceful stop", stop(place, Stop::Graceful { grace })).await??;
    place.all_gone(&["pids"]).await
}

/// Requirement H7: the answer is the proof.
pub(crate) async fn nothing_is_left_when_a_stop_is_answered(place: &Place) -> Verdict {
    let line = "echo $$ >pids; (setsid sh -c 'echo $$ >>pids; sleep 300 & echo $! >>pids; \
                : >started; wait' &); sleep 300";
    place.spawn("target", line, SpawnStdin::Null).await?;
    place.appears("started").await?;
    let receipt = soon("a stop", stop(place, Stop::Kill)).await??;
    place.all_gone(&["pids"]).await?;
    let ProcStatus::Ended(exit) = receipt.status else {
        return Err(Failure::new("a process that was killed is said to run"));
    };
    ensure_eq!(
        exit.status,
        Status::Cancelled,
        "status of a process that was stopped"
    );
    Ok(())
}

pub(crate) async fn stopping_what_has_ended_is_no_error(place: &Place) -> Verdict {
    place.spawn("target", "exit 6", SpawnStdin::Null).await?;
    place.log(&proc_id("target"), OutputStream::Stdout).await?;
    for how in [Stop::Signal(15), Stop::Kill] {
        let receipt = stop(place, how).await?;
        ensure!(
            matches!(&receipt.status, ProcStatus::Ended(exit) if exit.status == Status::Exited(6)),
            "a process that ended by itself is said to be {:?}",
            receipt.status
        );
    }
    Ok(())
}

//! Checks of output that is delivered while the process runs.
//!
//! Report B040: a burst overflowed a buffer between process and reader, and bytes were lost with a
//! normal exit code.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join3;
use sandbox_core::process::{Delivery, ExecRequest, OutputPolicy, ProcessSpec, Status};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{drain, drain_until, soon};

fn live(process: ProcessSpec) -> ExecRequest {
    ExecRequest::new(process).delivery(Delivery::Live)
}

pub(crate) async fn output_arrives_while_the_process_runs(place: &Place) -> Verdict {
    let line = "echo ready; while ! [ -e go ]; do sleep 0.02; done; echo gone";
    let mut execution = place.start(live(place.line(line)?)).await?;
    soon(
        "output of a process that runs",
        drain_until(&mut execution.stdout, "ready\n"),
    )
    .await??;
    place.put("go", "now").await?;
    let (rest, _, outcome) = try_join3(drain(execution.stdout), drain(execution.stderr), async {
        execution.outcome.await.map_err(Failure::from)
    })
    .await?;
    ensure_eq!(rest, "gone\n", "the rest of the output");
    ensure_eq!(outcome.exit.status, Status::Exited(0), "status");
    Ok(())
}

pub(crate) async fn a_slow_reader_loses_nothing(place: &Place) -> Verdict {
    let execution = place.start(live(place.line("seq 1 300000")?)).await?;
    let mut stream = execution.stdout;
    let reader = async {
        let mut all = Vec::new();
        while let Some(chunk) = stream.next().await {
            if all.len() < 200_000 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            all.extend_from_slice(&chunk?);
        }
        Ok(all)
    };
    let (all, _, outcome) = try_join3(reader, drain(execution.stderr), async {
        execution.outcome.await.map_err(Failure::from)
    })
    .await?;
    let expected: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    ensure!(
        all == expected.as_bytes(),
        "{} of {} bytes came, or others",
        all.len(),
        expected.len()
    );
    ensure_eq!(outcome.stdout.total, expected.len() as u64, "total");
    Ok(())
}

pub(crate) async fn one_stream_never_waits_for_the_other(place: &Place) -> Verdict {
    let line = "head -c 3000000 /dev/zero & sleep 0.1; echo alive >&2; wait";
    let mut execution = place.start(live(place.line(line)?)).await?;
    soon(
        "standard error beside an output that nobody reads yet",
        drain_until(&mut execution.stderr, "alive\n"),
    )
    .await??;
    let (stdout, _, _) = try_join3(drain(execution.stdout), drain(execution.stderr), async {
        execution.outcome.await.map_err(Failure::from)
    })
    .await?;
    ensure_eq!(stdout.len(), 3_000_000, "bytes on standard output");
    Ok(())
}

pub(crate) async fn a_stream_that_nobody_wants_holds_nothing_up(place: &Place) -> Verdict {
    let line = "head -c 2000000 /dev/zero; echo done >&2; exit 6";
    let execution = place.start(live(place.line(line)?)).await?;
    drop(execution.stdout);
    let run = async {
        let errors = drain(execution.stderr).await?;
        Ok::<_, Failure>((errors, execution.outcome.await?))
    };
    let (errors, outcome) = soon("a run whose output is not wanted", run).await??;
    ensure_eq!(errors, "done\n", "standard error");
    ensure_eq!(
        (outcome.exit.status, outcome.stdout.total),
        (Status::Exited(6), 2_000_000),
        "status and total"
    );
    Ok(())
}

/// How output is delivered must not change what an outcome says.
pub(crate) async fn the_outcome_of_a_live_run_says_the_same(place: &Place) -> Verdict {
    let mut process = place.line("seq 1 5000; printf '\\342\\202\\254' >&2; exit 2")?;
    process.output = OutputPolicy {
        head: 100,
        tail: 100,
        ..OutputPolicy::default()
    };
    let at_end = place.run(process.clone()).await?;
    let execution = place.start(live(process)).await?;
    let (_, _, live) = try_join3(drain(execution.stdout), drain(execution.stderr), async {
        execution.outcome.await.map_err(Failure::from)
    })
    .await?;
    ensure_eq!(
        (live.exit.status, live.stdout, live.stderr),
        (at_end.exit.status, at_end.stdout, at_end.stderr),
        "status and outputs of a live run, against those of the same at the end"
    );
    Ok(())
}

pub(crate) async fn a_run_that_cannot_start_says_so_when_live_too(place: &Place) -> Verdict {
    let run = async {
        let execution = place
            .sandbox
            .exec(&place.ctx(), live(ProcessSpec::new(["./missing"])))
            .await?;
        drop((execution.stdout, execution.stderr));
        execution.outcome.await
    };
    let result = soon("the refusal", run).await?;
    crate::support::refused(
        result,
        sandbox_core::ErrorKind::NotFound,
        "a live run of a missing program",
    )?;
    Ok(())
}

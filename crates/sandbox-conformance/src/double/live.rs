//! Doubles that are wrong about output that is delivered while a process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sandbox_core::process::{Delivery, Status};
use sandbox_core::stream::collect;
use sandbox_core::{ByteStream, Error, ErrorKind, Verb};

use super::doubles;
use super::exec::made_up;
use super::wrapped::mapped;

/// Says when it is dropped.
struct Guard<F: FnMut()>(F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The same stream; `gone` is called when it has ended or was dropped, with whether it had ended.
fn watched(stream: ByteStream, mut gone: impl FnMut(bool) + Send + 'static) -> ByteStream {
    let ended = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&ended);
    let guard = Guard(move || gone(seen.load(Ordering::SeqCst) == 1));
    Box::pin(stream::unfold(
        (stream, Some(guard)),
        move |(mut stream, mut guard)| {
            let ended = Arc::clone(&ended);
            async move {
                let item = stream.next().await;
                if item.is_none() {
                    ended.store(1, Ordering::SeqCst);
                    drop(guard.take());
                }
                item.map(|item| (item, (stream, guard)))
            }
        },
    ))
}

doubles! {
    output_arrives_while_the_process_runs: "live output comes at the end"
    exec(honest, ctx, request) {
        let live = request.delivery == Delivery::Live;
        let mut execution = honest.exec(&ctx, request).await?;
        if live {
            let stdout = execution.stdout;
            let all = async move { collect(Verb::Exec, stdout, u64::MAX).await };
            execution.stdout = Box::pin(stream::once(all));
        }
        Ok(execution)
    }

    a_slow_reader_loses_nothing: "a chunk of text is lost after a megabyte"
    exec(honest, ctx, request) {
        let mut execution = honest.exec(&ctx, request).await?;
        let (mut count, mut lost) = (0, false);
        execution.stdout = Box::pin(execution.stdout.map(move |chunk| {
            let mut chunk = chunk?;
            count += chunk.len();
            if !lost && count > 1 << 20 && chunk.contains(&b'\n') {
                lost = true;
                chunk = Bytes::new();
            }
            Ok(chunk)
        }));
        Ok(execution)
    }

    one_stream_never_waits_for_the_other: "standard error comes after standard output"
    exec(honest, ctx, request) {
        let mut execution = honest.exec(&ctx, request).await?;
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let mut sender = Some(sender);
        execution.stdout = watched(execution.stdout, move |_| drop(sender.take()));
        let stderr = execution.stderr;
        let after = async move {
            let _ = receiver.await;
            stderr
        };
        execution.stderr = Box::pin(stream::once(after).flatten());
        Ok(execution)
    }

    a_stream_that_nobody_wants_holds_nothing_up: "output that nobody wants fails the run"
    exec(honest, ctx, request) {
        let live = request.delivery == Delivery::Live;
        let mut execution = honest.exec(&ctx, request).await?;
        if !live {
            return Ok(execution);
        }
        let unwanted = Arc::new(AtomicU64::new(0));
        let note = Arc::clone(&unwanted);
        execution.stdout = watched(execution.stdout, move |ended| {
            note.store(u64::from(!ended), Ordering::SeqCst);
        });
        let outcome = execution.outcome;
        execution.outcome = Box::pin(async move {
            let outcome = outcome.await?;
            match unwanted.load(Ordering::SeqCst) {
                0 => Ok(outcome),
                _ => Err(Error::new(Verb::Exec, ErrorKind::Io)),
            }
        });
        Ok(execution)
    }

    the_outcome_of_a_live_run_says_the_same: "the outcome of a live run has no tail"
    exec(honest, ctx, request) {
        let live = request.delivery == Delivery::Live;
        mapped(&honest, &ctx, request, move |outcome| {
            let mut outcome = outcome?;
            if live {
                outcome.stdout.tail = Bytes::new();
            }
            Ok(outcome)
        }).await
    }

    a_run_that_cannot_start_says_so_when_live_too: "a live run of what is missing exits with 127"
    exec(honest, ctx, request) {
        let live = request.delivery == Delivery::Live;
        mapped(&honest, &ctx, request, move |outcome| match outcome {
            Err(error) if live && error.kind() == ErrorKind::NotFound => {
                Ok(made_up(Status::Exited(127)))
            }
            outcome => outcome,
        }).await
    }
}

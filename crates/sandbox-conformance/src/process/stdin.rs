//! Checks of the standard input of `exec`.
//!
//! Reports B022, B025 and B128: commands waited for ever on an input that nobody would write, and
//! a command that read only part of its input failed the call.

use bytes::Bytes;
use futures_util::stream;
use sandbox_core::process::{ExecRequest, OutputStream, SpawnStdin, Status, Stdin};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::{proc_id, soon};

pub(crate) async fn no_input_ends_at_once(place: &Place) -> Verdict {
    let run = place.run(place.line("cat; wc -c; read line || echo end")?);
    let outcome = soon("a command that reads its input", run).await??;
    let printed = outcome.stdout.to_text();
    ensure!(
        printed.trim_start().starts_with('0') && printed.ends_with("end\n"),
        "a command without input read {printed:?}"
    );
    Ok(())
}

pub(crate) async fn a_spawned_process_has_no_input_unless_asked(place: &Place) -> Verdict {
    place
        .spawn("reader", "cat; echo end", SpawnStdin::Null)
        .await?;
    let (output, _) = place.log(&proc_id("reader"), OutputStream::Stdout).await?;
    ensure_eq!(output, "end\n", "what a process without input printed");
    Ok(())
}

/// The input must also not fit any pipe, and come back at the same time.
pub(crate) async fn input_arrives_byte_for_byte(place: &Place) -> Verdict {
    let input: Bytes = (0..=255u8).cycle().take(400_000).collect::<Vec<_>>().into();
    let request = ExecRequest::new(place.line("cat")?).stdin(Stdin::Bytes(input.clone()));
    let outcome = place.start(request).await?.outcome.await?;
    ensure!(
        outcome.stdout.head == input && outcome.stdout.dropped == 0,
        "of {} bytes on the input {} came back, or others",
        input.len(),
        outcome.stdout.total
    );
    Ok(())
}

pub(crate) async fn an_input_stream_arrives_in_order(place: &Place) -> Verdict {
    let chunks: Vec<Bytes> = (0..200)
        .map(|number| Bytes::from(format!("chunk {number}\n").repeat(10 + number)))
        .collect();
    let expected = chunks.concat();
    let input = Stdin::Stream(Box::pin(stream::iter(chunks.into_iter().map(Ok))));
    let request = ExecRequest::new(place.line("cat")?).stdin(input);
    let outcome = place.start(request).await?.outcome.await?;
    ensure!(
        outcome.stdout.head == expected,
        "of {} bytes on the input stream {} came back, or others",
        expected.len(),
        outcome.stdout.total
    );
    Ok(())
}

/// Report B128.
pub(crate) async fn input_that_nobody_reads_is_no_error(place: &Place) -> Verdict {
    for (line, expected) in [("exit 7", ""), ("head -c 10; exit 7", "xxxxxxxxxx")] {
        let input = Stdin::Bytes(vec![b'x'; 4 << 20].into());
        let request = ExecRequest::new(place.line(line)?).stdin(input);
        let outcome = soon("a command that leaves its input", async {
            place
                .start(request)
                .await?
                .outcome
                .await
                .map_err(Failure::from)
        })
        .await??;
        ensure_eq!(
            (outcome.exit.status, outcome.stdout.to_text().as_str()),
            (Status::Exited(7), expected),
            "status and output of `{line}`"
        );
    }
    Ok(())
}

/// An input that is still open must not hold up a command that has ended.
pub(crate) async fn an_input_that_never_ends_holds_nothing_up(place: &Place) -> Verdict {
    let request =
        ExecRequest::new(place.line("exit 5")?).stdin(Stdin::Stream(Box::pin(stream::pending())));
    let outcome = soon("a command whose input stays open", async {
        place
            .start(request)
            .await?
            .outcome
            .await
            .map_err(Failure::from)
    })
    .await??;
    ensure_eq!(outcome.exit.status, Status::Exited(5), "status");
    Ok(())
}

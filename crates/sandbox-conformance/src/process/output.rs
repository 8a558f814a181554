//! Checks of the output that an outcome carries.

use std::time::Duration;

use sandbox_core::process::{BeyondLog, OutputPolicy, ProcessSpec, Status};

use crate::check::Verdict;
use crate::harness::Place;

fn keep(mut process: ProcessSpec, head: u64, tail: u64) -> ProcessSpec {
    process.output = OutputPolicy {
        head,
        tail,
        ..OutputPolicy::default()
    };
    process
}

pub(crate) async fn both_streams_come_back_apart(place: &Place) -> Verdict {
    let line = "echo one; echo two >&2; echo three; echo four >&2; printf five";
    let outcome = place.run(place.line(line)?).await?;
    ensure_eq!(
        (
            outcome.stdout.to_text().as_str(),
            outcome.stderr.to_text().as_str()
        ),
        ("one\nthree\nfive", "two\nfour\n"),
        "the two streams"
    );
    for output in [&outcome.stdout, &outcome.stderr] {
        ensure_eq!(
            (
                output.total,
                output.dropped,
                output.tail.len(),
                output.unlogged
            ),
            (output.head.len() as u64, 0, 0, 0),
            "total, dropped, tail, unlogged of a short stream"
        );
    }
    Ok(())
}

/// Report B028.
pub(crate) async fn binary_output_is_not_touched(place: &Place) -> Verdict {
    let bytes: Vec<u8> = (0..=255).collect();
    place.put("binary", bytes.clone()).await?;
    let outcome = place.run(place.line("cat binary; exit 7")?).await?;
    ensure_eq!(outcome.stdout.head, bytes, "output");
    ensure_eq!(outcome.exit.status, Status::Exited(7), "status");
    Ok(())
}

/// Reports B029 and B031.
pub(crate) async fn long_output_keeps_head_and_tail_and_counts_the_rest(place: &Place) -> Verdict {
    let process = place.line("printf 0123456789; head -c 100000 /dev/zero; printf abcdefghij")?;
    let output = place.run(keep(process, 5, 7)).await?.stdout;
    ensure_eq!(
        (&output.head[..], &output.tail[..]),
        (&b"01234"[..], &b"defghij"[..]),
        "head and tail"
    );
    ensure_eq!(
        (output.total, output.dropped),
        (100_020, 100_008),
        "total and dropped"
    );
    Ok(())
}

/// A stream that just fits is not cut, and one byte more is.
pub(crate) async fn output_that_fits_is_not_cut(place: &Place) -> Verdict {
    for (length, dropped) in [(19u64, 0u64), (20, 0), (21, 1)] {
        let process = place.line(&format!("head -c {length} /dev/zero"))?;
        let output = place.run(keep(process, 10, 10)).await?.stdout;
        ensure_eq!(
            (
                output.total,
                output.dropped,
                (output.head.len() + output.tail.len()) as u64
            ),
            (length, dropped, length - dropped),
            "total, dropped and kept of {length} bytes where 20 fit"
        );
    }
    Ok(())
}

/// Reports B034 and B035.
pub(crate) async fn a_cut_never_splits_a_character(place: &Place) -> Verdict {
    let character = "\u{20ac}";
    place.put("text", character.repeat(1000)).await?;
    for keep_bytes in [9, 10, 11, 12] {
        let output = place
            .run(keep(place.line("cat text")?, keep_bytes, keep_bytes))
            .await?
            .stdout;
        for (part, name) in [(&output.head, "head"), (&output.tail, "tail")] {
            let text = std::str::from_utf8(part).unwrap_or("");
            ensure!(
                !text.is_empty() && text.len() as u64 <= keep_bytes,
                "a {name} of at most {keep_bytes} bytes is {part:?}"
            );
        }
        ensure_eq!(
            output.head.len() as u64 + output.dropped + output.tail.len() as u64,
            output.total,
            "head, dropped and tail together"
        );
    }
    Ok(())
}

/// Reports B037 and B038: more than any pipe holds, on both streams at the same time.
pub(crate) async fn much_output_on_both_streams_stalls_nothing(place: &Place) -> Verdict {
    let line = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; \
                head -c 300000 /dev/zero & head -c 300000 /dev/zero >&2; wait; exit 4";
    let outcome = place.run(place.line(line)?).await?;
    ensure_eq!(
        (
            outcome.exit.status,
            outcome.stdout.total,
            outcome.stderr.total
        ),
        (Status::Exited(4), 600_000, 600_000),
        "status and bytes on each stream"
    );
    Ok(())
}

/// Report B049.
pub(crate) async fn output_before_a_timeout_is_returned(place: &Place) -> Verdict {
    let process = place
        .line("echo partial; echo error >&2; exec sleep 60")?
        .timeout(Duration::from_secs(1));
    let outcome = place.run(process).await?;
    ensure_eq!(
        (
            outcome.exit.status,
            outcome.stdout.to_text().as_str(),
            outcome.stderr.to_text().as_str()
        ),
        (Status::TimedOut, "partial\n", "error\n"),
        "status and output"
    );
    Ok(())
}

pub(crate) async fn bytes_that_no_log_keeps_are_counted(place: &Place) -> Verdict {
    let mut process = keep(place.line("head -c 500000 /dev/zero")?, 1000, 1000);
    process.output.log = 100_000;
    let output = place.run(process).await?.stdout;
    ensure_eq!(
        (output.total, output.unlogged),
        (500_000, 400_000),
        "total and unlogged"
    );
    Ok(())
}

pub(crate) async fn output_beyond_its_limit_ends_the_tree_when_asked(place: &Place) -> Verdict {
    // The timeout is only how long a place that does not keep its promise is waited for.
    let mut process = place
        .line("echo $$ >pid; yes & echo $! >>pid; wait")?
        .timeout(Duration::from_secs(3));
    process.output.log = 100_000;
    process.output.beyond = BeyondLog::Kill;
    process.grace = Duration::ZERO;
    let outcome = place.run(process).await?;
    ensure_eq!(outcome.exit.status, Status::OutputLimit, "status");
    ensure!(outcome.stdout.total >= 100_000, "the limit was not reached");
    place.all_gone(&["pid"]).await
}

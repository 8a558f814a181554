//! Checks of `proc_stdin`: input of a process that runs, by absolute offset.

use std::time::Duration;

use sandbox_core::process::{OutputStream, ProcStdinRequest, SpawnStdin, Status, StdinReceipt};
use sandbox_core::{Error, ErrorKind};

use crate::check::Verdict;
use crate::harness::Place;
use crate::support::{proc_id, refused};

async fn write(
    place: &Place,
    offset: u64,
    bytes: &'static str,
    close: bool,
) -> Result<StdinReceipt, Error> {
    let request = ProcStdinRequest {
        id: proc_id("reader"),
        offset,
        bytes: bytes.into(),
        close,
        resize: None,
    };
    place.sandbox.proc_stdin(&place.ctx(), request).await
}

/// Report B026.
pub(crate) async fn input_can_be_written_piece_by_piece(place: &Place) -> Verdict {
    let line = "while read line; do echo got $line; done; exit 5";
    place.spawn("reader", line, SpawnStdin::Open).await?;
    let mut offset = 0;
    for (piece, answer) in [
        ("one\n", "got one"),
        ("two\n", "got two"),
        ("three\n", "got three"),
    ] {
        let receipt = write(place, offset, piece, false).await?;
        offset += piece.len() as u64;
        ensure_eq!(
            (receipt.next, receipt.closed),
            (offset, false),
            "next offset and closed"
        );
        place.says("reader", answer).await?;
    }
    let receipt = write(place, offset, "", true).await?;
    ensure!(
        receipt.closed,
        "the receipt of a close says that the input is open"
    );
    let (output, exit) = place.log(&proc_id("reader"), OutputStream::Stdout).await?;
    ensure_eq!(output, "got one\ngot two\ngot three\n", "output");
    ensure_eq!(exit.status, Status::Exited(5), "status");
    Ok(())
}

pub(crate) async fn repeated_input_is_written_once(place: &Place) -> Verdict {
    place.spawn("reader", "cat", SpawnStdin::Open).await?;
    for (offset, bytes, next) in [(0, "abc", 3), (0, "abc", 3), (1, "bcde", 5), (0, "ab", 5)] {
        let receipt = write(place, offset, bytes, false).await?;
        ensure_eq!(
            receipt.next,
            next,
            "next offset after {bytes:?} at {offset}"
        );
    }
    write(place, 5, "f", true).await?;
    let (output, _) = place.log(&proc_id("reader"), OutputStream::Stdout).await?;
    ensure_eq!(output, "abcdef", "what the process read");
    Ok(())
}

pub(crate) async fn a_gap_in_the_input_is_a_conflict_that_names_the_offset(
    place: &Place,
) -> Verdict {
    place.spawn("reader", "cat", SpawnStdin::Open).await?;
    write(place, 0, "abc", false).await?;
    let error = refused(
        write(place, 5, "fgh", false).await,
        ErrorKind::Conflict,
        "input after a gap",
    )?;
    ensure_eq!(
        error.expected_value(),
        Some("3"),
        "the offset that the conflict names"
    );
    write(place, 3, "de", true).await?;
    let (output, _) = place.log(&proc_id("reader"), OutputStream::Stdout).await?;
    ensure_eq!(output, "abcde", "what the process read");
    Ok(())
}

pub(crate) async fn closed_input_stays_closed(place: &Place) -> Verdict {
    let line = "cat; while ! [ -e go ]; do sleep 0.02; done";
    place.spawn("reader", line, SpawnStdin::Open).await?;
    write(place, 0, "abc", true).await?;
    place.says("reader", "abc").await?;
    refused(
        write(place, 3, "more", false).await,
        ErrorKind::StdinClosed,
        "input after the end of input",
    )?;
    place.put("go", "now").await?;
    let (output, exit) = place.log(&proc_id("reader"), OutputStream::Stdout).await?;
    ensure_eq!(
        (&output[..], exit.status),
        (&b"abc"[..], Status::Exited(0)),
        "what the process read, and its status"
    );
    Ok(())
}

pub(crate) async fn a_process_without_input_cannot_be_written_to(place: &Place) -> Verdict {
    place.spawn("reader", "sleep 300", SpawnStdin::Null).await?;
    refused(
        write(place, 0, "abc", false).await,
        ErrorKind::StdinClosed,
        "input of a process that was started without",
    )?;
    Ok(())
}

/// What the process does not read yet must not hold up other verbs.
pub(crate) async fn unread_input_holds_up_nothing_else(place: &Place) -> Verdict {
    place.spawn("reader", "sleep 300", SpawnStdin::Open).await?;
    let full = async {
        let mut offset = 0;
        loop {
            let request = ProcStdinRequest {
                id: proc_id("reader"),
                offset,
                bytes: vec![b'x'; 65_536].into(),
                close: false,
                resize: None,
            };
            let receipt = place.sandbox.proc_stdin(&place.ctx(), request).await?;
            if receipt.next == offset {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            offset = receipt.next;
        }
    };
    let others = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        place.script("echo alive").await
    };
    let printed = crate::support::soon("another verb beside input that nobody reads", async {
        tokio::select! {
            stuck = full => stuck,
            printed = others => printed,
        }
    })
    .await??;
    ensure_eq!(printed, "alive\n", "what another process printed");
    Ok(())
}

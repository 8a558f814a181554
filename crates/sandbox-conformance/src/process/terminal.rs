//! Checks of processes with a terminal.

use std::time::Duration;

use sandbox_core::process::{
    OutputStream, ProcStdinRequest, ProcessSpec, PtySize, SpawnRequest, SpawnStdin,
};

use crate::check::{Failure, Verdict};
use crate::harness::Place;
use crate::support::proc_id;

const SIZE: PtySize = PtySize {
    rows: 33,
    columns: 101,
};

fn with_terminal(mut process: ProcessSpec) -> ProcessSpec {
    process.pty = Some(SIZE);
    process
}

async fn spawn_with_terminal(place: &Place, line: &str) -> Verdict {
    let request = SpawnRequest {
        stdin: SpawnStdin::Open,
        ..SpawnRequest::new(proc_id("terminal"), with_terminal(place.line(line)?))
    };
    place.sandbox.spawn(&place.ctx(), request).await?;
    Ok(())
}

async fn input(place: &Place, bytes: &'static [u8], resize: Option<PtySize>) -> Verdict {
    let request = ProcStdinRequest {
        id: proc_id("terminal"),
        offset: 0,
        bytes: bytes.into(),
        close: false,
        resize,
    };
    place.sandbox.proc_stdin(&place.ctx(), request).await?;
    Ok(())
}

pub(crate) async fn a_terminal_has_the_size_it_was_given(place: &Place) -> Verdict {
    let outcome = place.run(with_terminal(place.line("stty size")?)).await?;
    ensure_eq!(
        outcome.stdout.to_text().trim_end(),
        "33 101",
        "rows and columns"
    );
    Ok(())
}

pub(crate) async fn a_terminal_is_all_three_streams_and_has_a_name(place: &Place) -> Verdict {
    let line = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo three; \
                echo \"name:${TERM:-none}\" >&2; echo err >&2";
    let outcome = place.run(with_terminal(place.line(line)?)).await?;
    let text = outcome.stdout.to_text();
    ensure!(
        text.starts_with("three\r\nname:") && text.ends_with("\r\nerr\r\n"),
        "with a terminal the one stream is {text:?}"
    );
    ensure!(
        !text.contains("name:none"),
        "the terminal has no name in TERM"
    );
    ensure_eq!(outcome.stderr.total, 0, "bytes on standard error");
    Ok(())
}

pub(crate) async fn without_a_terminal_there_is_none(place: &Place) -> Verdict {
    let line = "for fd in 0 1 2; do [ -t $fd ] && echo $fd; done; \
                (: </dev/tty) 2>/dev/null && echo tty; true";
    ensure_eq!(place.script(line).await?, "", "streams that are terminals");
    Ok(())
}

pub(crate) async fn a_terminal_changes_its_size(place: &Place) -> Verdict {
    spawn_with_terminal(
        place,
        "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done",
    )
    .await?;
    place.says("terminal", "ready").await?;
    let size = PtySize {
        rows: 44,
        columns: 155,
    };
    input(place, b"", Some(size)).await?;
    place.says("terminal", "44 155").await
}

pub(crate) async fn what_is_typed_reaches_the_process(place: &Place) -> Verdict {
    spawn_with_terminal(place, "echo ready; read line; echo \"<$line>\"").await?;
    place.says("terminal", "ready").await?;
    input(place, b"typed\n", None).await?;
    place.says("terminal", "<typed>").await
}

pub(crate) async fn control_c_interrupts(place: &Place) -> Verdict {
    spawn_with_terminal(
        place,
        "trap 'echo interrupted; exit 0' INT; echo ready; sleep 300 & wait",
    )
    .await?;
    place.says("terminal", "ready").await?;
    input(place, b"\x03", None).await?;
    let (output, _) = place
        .log(&proc_id("terminal"), OutputStream::Stdout)
        .await?;
    let text = String::from_utf8_lossy(&output);
    if !text.contains("interrupted") {
        return Err(Failure::new(format_args!(
            "after control-C the output is {text:?}"
        )));
    }
    Ok(())
}

/// The last words before the end of a terminal must not be lost with it.
pub(crate) async fn the_end_of_a_terminal_loses_nothing(place: &Place) -> Verdict {
    let process = with_terminal(place.line("seq 1 20000")?).timeout(Duration::from_secs(20));
    let outcome = place.run(process).await?;
    let expected: String = (1..=20_000).map(|number| format!("{number}\r\n")).collect();
    if outcome.stdout.head != expected {
        return Err(Failure::new(format_args!(
            "of {} bytes {} came, or others",
            expected.len(),
            outcome.stdout.total
        )));
    }
    Ok(())
}

//! Standard input: none, all at once, or piece by piece.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use sandbox_core::process::{
    ExecRequest, OutputStream, ProcStdinRequest, PtySize, SpawnRequest, SpawnStdin, Status, Stdin,
    StdinReceipt,
};
use sandbox_core::{Cancel, Ctx, Effect, Error, ErrorKind, ProcId};

use crate::process::{Place, eventually, exists, id, live, sh, text, within};

fn piece(id: &ProcId, offset: u64, bytes: &str) -> ProcStdinRequest {
    let bytes = Bytes::copy_from_slice(bytes.as_bytes());
    ProcStdinRequest {
        id: id.clone(),
        offset,
        bytes,
        close: false,
        resize: None,
    }
}

async fn send(place: &Place, request: ProcStdinRequest) -> Result<StdinReceipt, Error> {
    within(place.processes.proc_stdin(&Ctx::new(), request)).await
}

async fn open(place: &Place, name: &str, script: &str) -> ProcId {
    let request = SpawnRequest {
        stdin: SpawnStdin::Open,
        ..SpawnRequest::new(id(name), sh(script))
    };
    place.spawn(request).await.expect("started");
    id(name)
}

/// B022, B025.
#[tokio::test]
async fn a_command_that_is_given_no_input_sees_its_end() {
    let place = Place::new();
    for (script, code) in [
        ("cat", 0),
        ("grep foo", 1),
        ("wc -l", 0),
        ("sort", 0),
        ("read x", 1),
    ] {
        let outcome = place.sh(script).await;
        assert_eq!(outcome.exit.status, Status::Exited(code), "{script}");
        let name = id(&format!("spawned-{}", script.replace(' ', "-")));
        place
            .spawn(SpawnRequest::new(name.clone(), sh(script)))
            .await
            .expect("started");
        assert_eq!(
            place.report(&name).await.status,
            Status::Exited(code),
            "{script}"
        );
    }
}

#[tokio::test]
async fn input_arrives_whole_and_then_ends() {
    let place = Place::new();
    let stream =
        futures_util::stream::iter(["one ", "two ", "three"].map(|text| Ok(Bytes::from(text))));
    for stdin in [
        Stdin::Bytes("one two three".into()),
        Stdin::Stream(Box::pin(stream)),
    ] {
        let outcome = place
            .exec(ExecRequest::new(sh("cat; echo .")).stdin(stdin))
            .await
            .expect("ran");
        assert_eq!(text(&outcome.stdout.head), "one two three.\n");
    }
}

/// B128.
#[tokio::test]
async fn a_command_may_stop_reading_or_never_begin() {
    let place = Place::new();
    let input = Bytes::from(vec![b'x'; 20_000_000]);
    for (script, length) in [("head -c 10", 10), ("true", 0)] {
        let request = ExecRequest::new(sh(script)).stdin(Stdin::Bytes(input.clone()));
        let outcome = place.exec(request).await.expect("ran");
        assert_eq!(
            (outcome.exit.status, outcome.stdout.total),
            (Status::Exited(0), length),
            "{script}"
        );
    }
}

#[tokio::test]
async fn an_input_that_never_ends_does_not_keep_a_call_that_ended() {
    let place = Place::new();
    let stdin = Stdin::Stream(Box::pin(futures_util::stream::pending()));
    let outcome = place
        .exec(ExecRequest::new(sh("echo done")).stdin(stdin))
        .await
        .expect("ran");
    assert_eq!(text(&outcome.stdout.head), "done\n");
}

/// A command must not take half an input for a whole one; and whoever waits for it is told why it was
/// ended, since a status cannot say so.
#[tokio::test]
async fn an_input_that_fails_midway_ends_the_command_and_is_told() {
    let place = Place::new();
    let lost = Error::refused(sandbox_core::Verb::Read, ErrorKind::Io).detail("the tape tore");
    let (seen, waiting) = tokio::sync::oneshot::channel::<()>();
    // It fails only once the command has said what it was given.
    let stream = futures_util::stream::iter([Ok(Bytes::from("rm -rf build"))]).chain(
        futures_util::stream::once(async {
            let _ = waiting.await;
            Err(lost)
        }),
    );
    let request = ExecRequest::new(sh("cat; sleep 1000"))
        .id(id("torn"))
        .stdin(Stdin::Stream(Box::pin(stream)));
    let execution = place
        .processes
        .exec(&Ctx::new(), request, place.directory())
        .expect("it starts");
    let told = async {
        let said = loop {
            let chunk = place.read(&id("torn"), OutputStream::Stdout, 0).await;
            if !chunk.bytes.is_empty() {
                break chunk;
            }
        };
        assert_eq!(text(&said.bytes), "rm -rf build");
        seen.send(()).expect("the input waits for it");
    };
    let (outcome, ()) = futures_util::join!(within(execution.outcome), told);
    let error = outcome.expect_err("it was ended");
    assert_eq!(
        (error.verb(), error.kind(), error.effect()),
        (sandbox_core::Verb::Exec, ErrorKind::Io, Effect::Unknown)
    );
    assert!(error.detail_text().contains("the tape tore"), "{error}");
    // What it wrote so far is not lost with the outcome.
    let written = place.read(&id("torn"), OutputStream::Stdout, 0).await;
    assert_eq!(text(&written.bytes), "rm -rf build");
}

/// B026.
#[tokio::test]
async fn pieces_arrive_one_by_one_until_the_input_is_closed() {
    let place = Place::new();
    let name = open(
        &place,
        "pieces",
        "while read l; do echo got $l; done; exit 5",
    )
    .await;
    let mut next = 0;
    let mut seen = 0;
    for word in ["a", "b", "c"] {
        let receipt = send(&place, piece(&name, next, &format!("{word}\n")))
            .await
            .expect("taken");
        next = receipt.next;
        let chunk = place.read(&name, OutputStream::Stdout, seen).await;
        assert_eq!(text(&chunk.bytes), format!("got {word}\n"));
        seen += chunk.bytes.len() as u64;
    }
    let close = ProcStdinRequest {
        close: true,
        ..piece(&name, next, "")
    };
    assert_eq!(
        send(&place, close.clone()).await.expect("closed"),
        StdinReceipt {
            next: 6,
            closed: true
        }
    );
    assert_eq!(place.report(&name).await.status, Status::Exited(5));
    assert!(
        send(&place, close)
            .await
            .expect("closing twice is no error")
            .closed
    );
    let error = send(&place, piece(&name, next, "more"))
        .await
        .expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::StdinClosed);
}

#[tokio::test]
async fn a_repeated_piece_is_written_once_and_a_gap_is_a_conflict() {
    let place = Place::new();
    let name = open(&place, "offsets", "cat").await;
    for request in [
        piece(&name, 0, "one "),
        piece(&name, 0, "one "),
        piece(&name, 0, "one two "),
    ] {
        send(&place, request).await.expect("taken");
    }
    let error = send(&place, piece(&name, 20, "lost"))
        .await
        .expect_err("a gap");
    assert_eq!(
        (error.kind(), error.expected_value()),
        (ErrorKind::Conflict, Some("8"))
    );
    send(
        &place,
        ProcStdinRequest {
            close: true,
            ..piece(&name, 8, "three")
        },
    )
    .await
    .expect("taken");
    assert_eq!(
        text(&place.read_all(&name, OutputStream::Stdout).await),
        "one two three"
    );
}

#[tokio::test]
async fn a_piece_that_nobody_reads_can_be_given_up_and_taken_up_again() {
    let place = Place::new();
    let name = open(&place, "full", "until test -e go; do sleep 0.01; done; cat").await;
    let long = "0123456789".repeat(20_000);
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let call = place.processes.proc_stdin(&ctx, piece(&name, 0, &long));
    let later = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (given_up, ()) = within(async { tokio::join!(call, later) }).await;
    assert_eq!(
        given_up.expect_err("nobody reads").kind(),
        ErrorKind::Cancelled
    );
    std::fs::write(place.root.join("go"), "").expect("writable");
    let again = ProcStdinRequest {
        close: true,
        ..piece(&name, 0, &long)
    };
    assert_eq!(send(&place, again).await.expect("taken").next, 200_000);
    assert_eq!(
        text(&place.read_all(&name, OutputStream::Stdout).await),
        long
    );
}

#[tokio::test]
async fn a_process_started_without_input_takes_none() {
    let place = Place::new();
    place
        .spawn(SpawnRequest::new(id("none"), sh("sleep 1000")))
        .await
        .expect("started");
    let error = send(&place, piece(&id("none"), 0, "x"))
        .await
        .expect_err("no input");
    assert_eq!(error.kind(), ErrorKind::StdinClosed);
    let error = send(&place, piece(&id("unknown"), 0, "x"))
        .await
        .expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::ProcessNotFound);
    let size = Some(PtySize {
        rows: 1,
        columns: 1,
    });
    let resize = ProcStdinRequest {
        resize: size,
        ..piece(&id("none"), 0, "")
    };
    assert_eq!(
        send(&place, resize).await.expect_err("no terminal").kind(),
        ErrorKind::InvalidArgument
    );
}

#[tokio::test]
async fn a_terminal_is_written_to_resized_and_hung_up() {
    let place = Place::new();
    // Resized while it does not read: some shells end a `read` when a signal arrives.
    let script = "trap 'stty size' WINCH; stty -echo; touch ready; \
                  until test -e go; do sleep 0.01; done; \
                  while read l; do echo got $l; done; echo over";
    let mut spec = sh(script);
    spec.pty = Some(PtySize {
        rows: 10,
        columns: 20,
    });
    let name = id("terminal");
    place
        .spawn(SpawnRequest::new(name.clone(), spec))
        .await
        .expect("started");
    eventually("it is ready", || exists(&place.root.join("ready"))).await;
    let size = Some(PtySize {
        rows: 50,
        columns: 132,
    });
    let request = ProcStdinRequest {
        resize: size,
        ..piece(&name, 0, "line\n")
    };
    send(&place, request).await.expect("taken");
    let seen = place.read(&name, OutputStream::Stdout, 0).await;
    assert_eq!(text(&seen.bytes), "50 132\r\n");
    std::fs::write(place.root.join("go"), "").expect("writable");
    let close = ProcStdinRequest {
        close: true,
        ..piece(&name, 5, "")
    };
    send(&place, close).await.expect("closed");
    let said = text(&place.read_all(&name, OutputStream::Stdout).await);
    assert!(
        said.contains("50 132\r\n") && said.contains("got line\r\n"),
        "{said:?}"
    );
    assert!(said.ends_with("over\r\n"), "{said:?}");
    assert_eq!(place.report(&name).await.status, Status::Exited(0));
}

#[tokio::test]
async fn a_call_with_a_terminal_gets_its_input_and_the_end_of_it() {
    let place = Place::new();
    let mut spec = sh("stty -echo; touch ready; cat; echo over");
    spec.pty = Some(PtySize {
        rows: 10,
        columns: 20,
    });
    let (stdout, stderr, outcome) = live(&place, spec).await;
    assert_eq!(
        (text(&stdout), text(&stderr)),
        ("over\r\n".into(), String::new())
    );
    assert_eq!(outcome.exit.status, Status::Exited(0));
}

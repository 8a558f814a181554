//! Bytes beside the messages: order, credit, ends.

use std::time::Duration;

use serde_json::{Value, json};

use super::Subject;
use super::handshake::content;
use super::peer::{Peer, refused, result};
use super::stream::Reading;
use crate::check::{Failure, Verdict};

/// A window small enough that every check fills it.
const WINDOW: u64 = 64 * 1024;
/// So long must nothing come from a producer that waits.
const QUIET: Duration = Duration::from_millis(700);

/// The process of a shell's command line.
pub(super) fn line(peer: &Peer, line: &str) -> Value {
    let shell = peer
        .sandbox
        .as_ref()
        .and_then(|sandbox| sandbox.descriptor["shell"].as_str())
        .unwrap_or("/bin/sh");
    json!({"argv": [shell, "-c", line]})
}

/// Runs a command line that must succeed, and returns what it printed.
pub(super) async fn script(peer: &mut Peer, command: &str) -> Result<Vec<u8>, Failure> {
    let process = line(peer, command);
    let ran = peer.verb_ok("exec", json!({ "process": process })).await?;
    ensure_eq!(
        ran["exit"]["status"],
        json!({"exited": {"code": 0}}),
        "the status of `{command}`"
    );
    content(&ran["stdout"]["head"])
}

/// A live run and its two streams.
pub(super) struct Live {
    pub(super) id: u64,
    pub(super) stdout: u64,
}

/// Starts a command line with live output.
pub(super) async fn live(
    peer: &mut Peer,
    command: &str,
    reading: Reading,
) -> Result<Live, Failure> {
    let (stdout, stderr) = (peer.stream(reading), peer.stream(Reading::Eager));
    let process = line(peer, command);
    let params = json!({
        "process": process, "delivery": "live", "stdout": stdout, "stderr": stderr,
    });
    let id = peer.ask_verb("exec", params).await?;
    peer.streams.of_request(id, &[stdout, stderr]);
    Ok(Live { id, stdout })
}

pub(super) async fn live_output_comes_whole_and_before_the_answer(subject: &Subject) -> Verdict {
    let mut peer = subject
        .sandbox_with(json!({"stream_window_bytes": WINDOW, "connection_window_bytes": 4 * WINDOW}))
        .await?;
    let run = live(&mut peer, "seq 1 100000; echo wrong >&2", Reading::Eager).await?;
    let answer = peer.answer(run.id, "a live run").await?;
    let outcome = result(answer, "exec")?;
    let wanted: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let got = &peer.streams.get(run.stdout)?.bytes;
    ensure!(
        *got == wanted.as_bytes(),
        "{} bytes had come on the stream when the answer came, of {} that were printed",
        got.len(),
        wanted.len()
    );
    ensure_eq!(
        outcome["stdout"]["total"],
        json!(wanted.len()),
        "`stdout.total` of a live run"
    );
    ensure_eq!(outcome["stderr"]["total"], json!(6), "`stderr.total`");
    // What comes after the answer is found here.
    peer.is_alive().await
}

pub(super) async fn a_reader_that_stalls_stops_the_producer_and_nobody_else(
    subject: &Subject,
) -> Verdict {
    let mut peer = subject
        .sandbox_with(json!({"stream_window_bytes": WINDOW, "connection_window_bytes": 4 * WINDOW}))
        .await?;
    let bytes = 1_000_000_u64;
    let command = format!("head -c {bytes} /dev/zero | tr '\\0' x");
    let run = live(&mut peer, &command, Reading::Stalled).await?;
    peer.settle(QUIET).await?;
    let held = peer.streams.get(run.stdout)?;
    ensure!(
        held.outstanding <= WINDOW && held.bytes.len() as u64 > WINDOW / 2,
        "{} bytes had come when nothing more came, of a window of {WINDOW}",
        held.bytes.len()
    );
    ensure!(
        !peer.is_answered(run.id),
        "a run was answered whose output had not been taken"
    );
    for _ in 0..20 {
        peer.is_alive().await?;
    }
    script(&mut peer, "echo beside").await?;
    peer.settle(QUIET).await?;
    ensure!(
        peer.streams.get(run.stdout)?.outstanding <= WINDOW,
        "more came than the window while the reader stalled"
    );
    if let Some(credit) = peer.streams.resume(run.stdout) {
        peer.notify("stream/credit", credit).await?;
    }
    result(peer.answer(run.id, "a run that goes on").await?, "exec")?;
    let got = &peer.streams.get(run.stdout)?.bytes;
    ensure!(
        got.len() as u64 == bytes && got.iter().all(|byte| *byte == b'x'),
        "after the stall {} bytes came in all, of {bytes}",
        got.len()
    );
    Ok(())
}

pub(super) async fn one_window_holds_for_all_streams_together(subject: &Subject) -> Verdict {
    let together = WINDOW + WINDOW / 2;
    let mut peer = subject
        .sandbox_with(json!({"stream_window_bytes": WINDOW, "connection_window_bytes": together}))
        .await?;
    let command = "head -c 300000 /dev/zero | tr '\\0' x";
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(live(&mut peer, command, Reading::Stalled).await?);
    }
    peer.settle(QUIET).await?;
    ensure!(
        peer.streams.most_outstanding > WINDOW,
        "only {} bytes came on three streams together, of a window of {together}",
        peer.streams.most_outstanding
    );
    for run in &runs {
        if let Some(credit) = peer.streams.resume(run.stdout) {
            peer.notify("stream/credit", credit).await?;
        }
    }
    for run in runs {
        result(peer.answer(run.id, "one of three runs").await?, "exec")?;
        ensure_eq!(
            peer.streams.get(run.stdout)?.bytes.len(),
            300_000,
            "bytes of one of three runs"
        );
    }
    Ok(())
}

pub(super) async fn a_stopped_stream_ends_and_the_run_does_not(subject: &Subject) -> Verdict {
    let mut peer = subject
        .sandbox_with(json!({"stream_window_bytes": WINDOW, "connection_window_bytes": 4 * WINDOW}))
        .await?;
    let command = "head -c 1000000 /dev/zero | tr '\\0' x; echo after >after";
    let run = live(&mut peer, command, Reading::Stalled).await?;
    peer.settle(QUIET).await?;
    peer.streams.stopped(run.stdout);
    peer.notify("stream/stop", json!({"stream": run.stdout}))
        .await?;
    let outcome = result(
        peer.answer(run.id, "a run after `stream/stop`").await?,
        "exec",
    )?;
    ensure_eq!(
        outcome["exit"]["status"],
        json!({"exited": {"code": 0}}),
        "the status of a run whose output was stopped"
    );
    peer.verb_ok("read", json!({"path": "after"})).await?;
    Ok(())
}

pub(super) async fn a_file_is_read_onto_a_stream(subject: &Subject) -> Verdict {
    let mut peer = subject
        .sandbox_with(json!({"stream_window_bytes": WINDOW, "connection_window_bytes": 4 * WINDOW}))
        .await?;
    script(&mut peer, "seq 1 300000 >file").await?;
    let stream = peer.stream(Reading::Eager);
    let id = peer
        .ask_verb("read", json!({"path": "file", "content": stream}))
        .await?;
    peer.streams.of_request(id, &[stream]);
    let read = result(peer.answer(id, "a read onto a stream").await?, "read")?;
    let wanted: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    let got = if read["content"]["stream"] == stream {
        ensure_eq!(
            read["content"]["bytes"],
            json!(wanted.len()),
            "`bytes` of the content on a stream"
        );
        peer.streams.get(stream)?.bytes.clone()
    } else {
        content(&read["content"])?
    };
    ensure!(
        got == wanted.as_bytes(),
        "{} bytes of a file of {} were read",
        got.len(),
        wanted.len()
    );
    Ok(())
}

/// Sends bytes on a stream as credit comes, with a window of the provider's.
async fn send(peer: &mut Peer, stream: u64, bytes: &[u8], id: u64) -> Verdict {
    let window = peer.hello["limits"]["stream_window_bytes"]
        .as_u64()
        .unwrap_or(256 * 1024);
    let mut given = window;
    let (mut seq, mut offset) = (0_u64, 0_usize);
    while offset < bytes.len() {
        let mut seen = 0;
        // Credit of this stream, as far as it has come.
        given += peer
            .notices
            .drain(..)
            .filter(|(method, params)| method == "stream/credit" && params["stream"] == stream)
            .map(|(_, params)| params["bytes"].as_u64().unwrap_or(0))
            .inspect(|_| seen += 1)
            .sum::<u64>();
        let size = (bytes.len() - offset).min(32 * 1024);
        let cost = size as u64 + super::stream::OVERHEAD;
        if cost > given {
            if peer.is_answered(id) {
                return Err(Failure::new(
                    "a call was answered before its input had come",
                ));
            }
            let next = tokio::time::timeout(super::peer::SOON, peer.next()).await;
            next.unwrap_or_else(|_| {
                Err(Failure::new(format_args!(
                    "no credit came back after {offset} of {} bytes on a stream",
                    bytes.len()
                )))
            })?;
            continue;
        }
        given -= cost;
        let chunk = String::from_utf8_lossy(&bytes[offset..offset + size]);
        let data = json!({"stream": stream, "seq": seq, "offset": offset, "text": chunk});
        peer.notify("stream/data", data).await?;
        seq += 1;
        offset += size;
    }
    peer.notify(
        "stream/end",
        json!({"stream": stream, "bytes": bytes.len()}),
    )
    .await
}

fn put(path: &str, stream: u64, bytes: usize) -> Value {
    json!({"put": {"path": path, "content": {"stream": stream, "bytes": bytes}}})
}

pub(super) async fn a_file_is_written_from_a_stream_under_credit(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let window = peer.hello["limits"]["stream_window_bytes"]
        .as_u64()
        .and_then(|window| usize::try_from(window).ok())
        .unwrap_or(256 * 1024);
    let bytes: Vec<u8> = (b'a'..=b'z').cycle().take(3 * window).collect();
    let stream = peer.outgoing();
    let params = json!({"changes": [put("file", stream, bytes.len())]});
    let id = peer.ask_verb("write", params).await?;
    send(&mut peer, stream, &bytes, id).await?;
    let receipts = result(peer.answer(id, "a write from a stream").await?, "write")?;
    ensure_eq!(
        receipts["items"][0]["ok"]["bytes"],
        json!(bytes.len()),
        "`bytes` of the receipt, which is {receipts}"
    );
    let size = script(&mut peer, "wc -c <file; tr -d a-z <file | wc -c").await?;
    let size = String::from_utf8_lossy(&size).into_owned();
    let sizes: Vec<&str> = size.split_whitespace().collect();
    ensure_eq!(
        sizes,
        [bytes.len().to_string().as_str(), "0"],
        "bytes of the file, and how many of them are wrong"
    );
    Ok(())
}

pub(super) async fn several_contents_share_a_stream(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let stream = peer.outgoing();
    let params = json!({"changes": [put("one", stream, 3), put("two", stream, 4)]});
    let id = peer.ask_verb("write", params).await?;
    send(&mut peer, stream, b"onetwo!", id).await?;
    let receipts = result(peer.answer(id, "two contents on a stream").await?, "write")?;
    for (index, path, wanted) in [(0, "one", "one"), (1, "two", "two!")] {
        ensure!(
            receipts["items"][index]["ok"].is_object(),
            "the receipt of `{path}` is {}",
            receipts["items"][index]
        );
        let read = peer.verb_ok("read", json!({"path": path})).await?;
        ensure_eq!(
            content(&read["content"])?,
            wanted.as_bytes(),
            "the content of `{path}`"
        );
    }
    Ok(())
}

/// That a write of 10 bytes fails whose stream is as said, and writes nothing.
async fn fails(subject: &Subject, messages: &[(&str, Value)], what: &str) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let stream = peer.outgoing();
    let params = json!({"changes": [put("file", stream, 10)]});
    let id = peer.ask_verb("write", params).await?;
    for (method, params) in messages {
        let mut params = params.clone();
        params["stream"] = json!(stream);
        peer.notify(method, params).await?;
    }
    let answer = peer.answer(id, what).await?;
    let item = &answer["result"]["items"][0];
    ensure!(
        answer["error"].is_object() || item["error"].is_object(),
        "a write of 10 bytes from {what} must fail, and was answered {answer}"
    );
    let read = peer.verb("read", json!({"path": "file"})).await?;
    refused(&read, 1201, "not_found", "a read of what was not written")?;
    Ok(())
}

pub(super) async fn a_gap_in_a_stream_fails_its_call(subject: &Subject) -> Verdict {
    let data = |seq: u64, offset: u64| {
        (
            "stream/data",
            json!({"seq": seq, "offset": offset, "text": "01234"}),
        )
    };
    let end = ("stream/end", json!({"bytes": 10}));
    let gaps = [
        ("a stream with a gap in `seq`", [data(0, 0), data(2, 5)]),
        ("a stream with a gap in `offset`", [data(0, 0), data(1, 6)]),
        ("a stream with a piece twice", [data(0, 0), data(0, 0)]),
    ];
    for (what, [first, second]) in gaps {
        fails(subject, &[first, second, end.clone()], what).await?;
    }
    Ok(())
}

pub(super) async fn a_stream_that_ends_early_fails_its_call(subject: &Subject) -> Verdict {
    let data = (
        "stream/data",
        json!({"seq": 0, "offset": 0, "text": "01234"}),
    );
    let error = json!({"code": 100_000, "message": "the file could not be read further"});
    for (what, end) in [
        ("a stream that ends too early", json!({"bytes": 5})),
        (
            "a stream that ends with an error",
            json!({ "error": error }),
        ),
    ] {
        fails(subject, &[data.clone(), ("stream/end", end)], what).await?;
    }
    Ok(())
}

pub(super) async fn what_is_for_no_stream_is_ignored(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    for (method, params) in [
        (
            "stream/data",
            json!({"stream": 77, "seq": 0, "offset": 0, "text": "x"}),
        ),
        ("stream/end", json!({"stream": 77, "bytes": 1})),
        ("stream/credit", json!({"stream": 77, "bytes": 1000})),
        ("stream/stop", json!({"stream": 77})),
    ] {
        peer.notify(method, params).await?;
    }
    peer.is_alive().await
}

pub(super) async fn input_on_a_stream_reaches_the_process(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let bytes: Vec<u8> = (b'a'..=b'z').cycle().take(1_000_000).collect();
    let stream = peer.outgoing();
    let process = line(&peer, "wc -c; tr -d a-z | wc -c");
    let params = json!({"process": process, "stdin": {"stream": stream}});
    let id = peer.ask_verb("exec", params).await?;
    send(&mut peer, stream, &bytes, id).await?;
    let outcome = result(
        peer.answer(id, "a run with input on a stream").await?,
        "exec",
    )?;
    let printed = content(&outcome["stdout"]["head"])?;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    ensure_eq!(
        printed.split_whitespace().collect::<Vec<_>>(),
        ["1000000", "0"],
        "how many bytes the process counted, and what was left"
    );
    Ok(())
}

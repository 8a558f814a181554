//! How messages lie on lines, and what becomes of everything else.

use serde_json::{Value, json};

use super::Subject;
use super::peer::{refused, refused_without_effect, request, result};
use crate::check::{Failure, Verdict};

pub(super) async fn a_message_may_come_in_pieces(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let id = peer.id();
    let line = request(id, "ping", &json!({}));
    let (first, rest) = line.as_bytes().split_at(line.len() / 2);
    for piece in [&first[..1], &first[1..], rest, b"\n"] {
        peer.bytes(piece).await?;
        // Else the other side may find two pieces in one, and nothing was tried.
        peer.is_read().await?;
    }
    result(peer.answer(id, "a ping in pieces").await?, "ping")?;
    Ok(())
}

pub(super) async fn several_messages_may_come_at_once(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let ids: Vec<u64> = (0..50).map(|_| peer.id()).collect();
    let lines: String = ids
        .iter()
        .map(|id| request(*id, "ping", &json!({})) + "\n")
        .collect();
    peer.bytes(lines.as_bytes()).await?;
    for id in ids {
        result(peer.answer(id, "one of 50 pings at once").await?, "ping")?;
    }
    Ok(())
}

pub(super) async fn carriage_returns_and_blank_lines_are_tolerated(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let id = peer.id();
    let line = request(id, "ping", &json!({}));
    peer.bytes(format!("\n\r\n{line}\r\n\n").as_bytes()).await?;
    result(peer.answer(id, "a ping that ends in CR LF").await?, "ping")?;
    peer.is_alive().await
}

pub(super) async fn a_byte_order_mark_at_the_start_is_tolerated(subject: &Subject) -> Verdict {
    let mut peer = subject.peer()?;
    let id = peer.id();
    let line = request(
        id,
        "initialize",
        &super::subject::initialize(&[1], &json!({})),
    );
    peer.bytes(format!("\u{feff}{line}\n").as_bytes()).await?;
    let answer = peer
        .answer(id, "initialize after a byte order mark")
        .await?;
    result(answer, "initialize")?;
    Ok(())
}

pub(super) async fn absent_parameters_are_empty(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let id = peer.id();
    peer.line(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string())
        .await?;
    result(peer.answer(id, "ping without params").await?, "ping")?;
    Ok(())
}

/// A ping of exactly this many bytes.
fn padded(id: u64, bytes: usize) -> String {
    let with = |pad: usize| {
        request(
            id,
            "ping",
            &json!({"_meta": {"x.example/pad": "x".repeat(pad)}}),
        )
    };
    with(bytes.saturating_sub(with(0).len()))
}

pub(super) async fn a_line_of_the_longest_length_is_read(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let id = peer.id();
    let line = padded(id, peer.max_line);
    ensure_eq!(line.len(), peer.max_line, "length of the check's own line");
    peer.line(line).await?;
    let answer = peer.answer(id, "a ping of the longest length").await?;
    result(answer, "ping")?;
    Ok(())
}

pub(super) async fn a_line_that_is_too_long_fails_its_own_call(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let too_long = peer.id();
    // Longer than it takes from anybody, not only than this host said.
    let theirs = peer.hello["limits"]["max_line_bytes"].as_u64();
    let theirs = theirs.and_then(|bytes| usize::try_from(bytes).ok());
    let line = padded(too_long, theirs.unwrap_or(1024 * 1024) + 1);
    // The id is among the first bytes, where it can be found.
    let rest = line.replacen(&format!("\"id\":{too_long},"), "", 1);
    let line = format!("{{\"id\":{too_long},{}", rest.trim_start_matches('{'));
    peer.line(line).await?;
    let other = peer.ask("ping", json!({})).await?;
    result(peer.answer(other, "a ping after it").await?, "ping")?;
    let answer = peer.answer(too_long, "a line that is too long").await?;
    refused_without_effect(&answer, 1005, "limit_exceeded", "a line that is too long")?;
    Ok(())
}

pub(super) async fn a_result_that_fits_no_line_is_limit_exceeded(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let bytes = peer.max_line * 2;
    let line = format!("head -c {bytes} /dev/zero | tr '\\0' x >large");
    super::streams::script(&mut peer, &line).await?;
    let answer = peer.verb("read", json!({"path": "large"})).await?;
    refused(
        &answer,
        1005,
        "limit_exceeded",
        "a read whose content fits no line and that names no stream",
    )?;
    peer.is_alive().await
}

/// That a line gets no answer and does no harm.
async fn dropped(subject: &Subject, lines: &[&[u8]]) -> Verdict {
    let mut peer = subject.ready().await?;
    for line in lines {
        peer.line(line).await?;
    }
    // Two pings: by then even somebody who answers late has.
    peer.is_alive().await?;
    peer.settle(std::time::Duration::from_millis(100)).await?;
    ensure!(
        peer.odd.is_empty(),
        "what is no message was answered: {}",
        Value::Array(peer.odd.clone())
    );
    Ok(())
}

pub(super) async fn what_is_no_message_is_dropped(subject: &Subject) -> Verdict {
    dropped(
        subject,
        &[
            b"hello",
            b"{",
            b"{\"jsonrpc\":\"2.0\",\"id\":5000001,\"method\":\"ping\",\"params\":{}",
            b"17",
            b"null",
            b"\"text\"",
            b"{}",
            b"{\"jsonrpc\":\"2.0\"}",
        ],
    )
    .await
}

pub(super) async fn bytes_that_are_not_utf8_are_dropped(subject: &Subject) -> Verdict {
    dropped(
        subject,
        &[
            b"\xff\xfe\xfd",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"x\xc3\x28\",\"params\":{}}",
            b"\x00",
        ],
    )
    .await
}

pub(super) async fn an_id_that_is_none_is_refused(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let ids = ["1.5", "\"text\"", "-1", "9007199254740992"];
    for id in ids {
        peer.accept = super::peer::Answers::ToAnything;
        let before = peer.answered;
        peer.line(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\",\"params\":{{}}}}"
        ))
        .await?;
        peer.is_alive().await?;
        peer.settle(std::time::Duration::from_millis(50)).await?;
        ensure_eq!(
            peer.answered - before,
            3,
            "answers to a ping with the id {id} and two good ones"
        );
        let wanted: Value = serde_json::from_str(id).map_err(Failure::new)?;
        let answer = match wanted.as_u64() {
            Some(number) => {
                peer.answer(number, "a request whose id is too large")
                    .await?
            }
            None => peer.odd.pop().unwrap_or_default(),
        };
        ensure!(
            answer["id"] == wanted && answer["error"]["code"] == -32600,
            "a request with the id {id} must be answered `invalid_request` with that id, and was answered {answer}"
        );
    }
    Ok(())
}

pub(super) async fn an_id_of_null_counts_as_absent(subject: &Subject) -> Verdict {
    dropped(
        subject,
        &[b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\",\"params\":{}}"],
    )
    .await
}

/// Answers to a batch are of no kind that is prescribed; its members must not be carried out.
pub(super) async fn a_batch_is_not_carried_out(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    peer.accept = super::peer::Answers::ToAnything;
    let (one, other) = (peer.id(), peer.id());
    let batch = json!([
        {"jsonrpc": "2.0", "id": one, "method": "ping", "params": {}},
        {"jsonrpc": "2.0", "id": other, "method": "ping", "params": {}},
    ]);
    peer.line(batch.to_string()).await?;
    peer.is_alive().await?;
    for id in [one, other] {
        if peer.is_answered(id) {
            let answer = peer.answer(id, "a member of a batch").await?;
            ensure!(
                answer["result"].is_null(),
                "a member of a batch was carried out, and there are no batches: {answer}"
            );
        }
    }
    Ok(())
}

pub(super) async fn unknown_members_are_ignored(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    let id = peer.id();
    let mut params = peer.verb_params(json!({"paths": ["."], "x.example/later": {"a": [1]}}))?;
    params["_meta"] = json!({"later": 1});
    let message = json!({
        "jsonrpc": "2.0", "id": id, "method": "stat_many", "params": params, "later": [1, 2],
    });
    peer.line(message.to_string()).await?;
    let answer = peer.answer(id, "a request with unknown members").await?;
    result(answer, "stat_many")?;
    Ok(())
}

pub(super) async fn an_unknown_method_is_not_found(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    for method in ["x.example/no_such_method", "", "Ping"] {
        let answer = peer.call(method, json!({})).await?;
        refused_without_effect(
            &answer,
            -32601,
            "method_not_found",
            &format!("the method {method:?}"),
        )?;
    }
    peer.is_alive().await
}

pub(super) async fn an_unknown_notification_is_ignored(subject: &Subject) -> Verdict {
    dropped(
        subject,
        &[
            b"{\"jsonrpc\":\"2.0\",\"method\":\"x.example/later\",\"params\":{\"a\":1}}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"$/later\"}",
        ],
    )
    .await
}

pub(super) async fn an_unknown_choice_is_invalid_and_no_more(subject: &Subject) -> Verdict {
    let mut peer = subject.sandbox().await?;
    for (method, params) in [
        ("read", json!({"path": "file", "range": "later"})),
        (
            "read",
            json!({"path": "file", "range": {"later": {"a": 1}}}),
        ),
        ("remove", json!({"path": "file", "recursion": "later"})),
        ("write", json!({"changes": [{"later": {"path": "file"}}]})),
        (
            "exec",
            json!({"process": {"argv": ["true"]}, "delivery": "later"}),
        ),
    ] {
        let what = format!("`{method}` with {params}");
        let answer = peer.verb(method, params).await?;
        refused_without_effect(&answer, -32602, "invalid_params", &what)?;
    }
    peer.is_alive().await
}

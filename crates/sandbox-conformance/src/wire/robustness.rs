//! What must not harm a provider, whoever sends it.

use serde_json::{Value, json};

use super::Subject;
use super::peer::{Answers, request};
use crate::check::Verdict;

/// Where the sequence of mutations begins; the same in every run.
const SEED: u64 = 0x5dee_ce66_d1ce_4e5b;
const LINES: usize = 10_000;
/// Lines that are sent before what came is looked at.
const AT_ONCE: usize = 100;

/// A sequence that is the same everywhere (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap_or(0)
    }
}

/// Changes a line in one to four places. No mutation makes two lines of one.
fn mutate(line: &[u8], random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 10] = [
        b"null",
        b"-1",
        b"1e999",
        b"{}",
        b"[",
        b"\"",
        b"\\u0000",
        b"\xff",
        b",",
        b"18446744073709551616",
    ];
    let mut line = line.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(line.len());
        match random.below(5) {
            0 => line[at] ^= 1 << random.below(8),
            1 => line.truncate(at.max(1)),
            2 => {
                let to = at + random.below(line.len() - at);
                line.drain(at..to);
            }
            3 => {
                let piece = PIECES[random.below(PIECES.len())];
                line.splice(at..at, piece.iter().copied());
            }
            _ => {
                let to = at + random.below(line.len() - at);
                let copy = line[at..to].to_vec();
                line.splice(at..at, copy);
            }
        }
        if line.is_empty() {
            line.push(b' ');
        }
    }
    for byte in &mut line {
        if *byte == b'\n' {
            *byte = b' ';
        }
    }
    line
}

/// Lines of verbs that do no harm, whatever becomes of their parameters.
fn harmless(verb: impl Fn(Value) -> Value) -> Vec<String> {
    let asked = [
        ("ping", json!({})),
        (
            "initialize",
            super::subject::initialize(&[1], &json!({"max_in_flight": 4})),
        ),
        (
            "stat_many",
            verb(json!({"paths": ["a", "b/c", {"b64": "/w=="}]})),
        ),
        (
            "read",
            verb(
                json!({"path": "file", "range": {"bytes": {"offset": 0, "length": 10}}, "max": 100}),
            ),
        ),
        ("glob", verb(json!({"scope": {"root": "."}, "limit": 3}))),
        (
            "proc_read",
            verb(json!({"id": "p", "stream": "stdout", "from": 0})),
        ),
    ];
    let told = [
        ("$/cancel", json!({"id": 5})),
        ("stream/credit", json!({"stream": 9, "bytes": 1000})),
        (
            "stream/data",
            json!({"stream": 9, "seq": 0, "offset": 0, "text": "abc"}),
        ),
        ("stream/end", json!({"stream": 9, "bytes": 3})),
        ("stream/stop", json!({"stream": 9})),
    ];
    let asked = asked
        .iter()
        .map(|(method, params)| request(1_000_000, method, params));
    let told = told.iter().map(|(method, params)| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
    });
    asked.chain(told).collect()
}

pub(super) async fn ten_thousand_mutated_lines_cause_no_crash_and_no_storm(
    subject: &Subject,
) -> Verdict {
    let mut peer = subject.sandbox().await?;
    peer.accept = Answers::ToAnything;
    let sandbox = peer.verb_params(json!({}))?;
    let lines = harmless(|mut params| {
        params["sandbox"] = sandbox["sandbox"].clone();
        params["generation"] = sandbox["generation"].clone();
        params
    });
    let mut random = Random(SEED);
    let before = peer.answered;
    for _ in 0..LINES / AT_ONCE {
        let mut batch = Vec::new();
        for _ in 0..AT_ONCE {
            let line = &lines[random.below(lines.len())];
            batch.extend(mutate(line.as_bytes(), &mut random));
            batch.push(b'\n');
        }
        peer.bytes(&batch).await?;
        peer.is_alive().await?;
    }
    peer.settle(std::time::Duration::from_millis(200)).await?;
    let pings = 2 * (LINES / AT_ONCE) as u64;
    let answers = peer.answered - before - pings;
    ensure!(
        answers <= LINES as u64,
        "{LINES} lines got {answers} answers, and one line has at most one"
    );
    super::streams::script(&mut peer, "true").await?;
    Ok(())
}

pub(super) async fn a_line_nested_without_end_is_survived(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    peer.accept = Answers::ToAnything;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = 100_000;
        let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        peer.line(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":3000000,\"method\":\"ping\",\"params\":{{\"later\":{nested}}}}}"
        ))
        .await?;
        peer.is_alive().await?;
    }
    Ok(())
}

pub(super) async fn a_thousand_pings_at_once_are_answered_once_each(subject: &Subject) -> Verdict {
    let mut peer = subject.ready().await?;
    let ids: Vec<u64> = (0..1000).map(|_| peer.id()).collect();
    let lines: String = ids
        .iter()
        .map(|id| request(*id, "ping", &json!({})) + "\n")
        .collect();
    peer.bytes(lines.as_bytes()).await?;
    for id in ids {
        let answer = peer.answer(id, "one of a thousand pings").await?;
        // More than may be in flight at once, if it is slow.
        ensure!(
            answer["result"].is_object() || answer["error"]["code"] == 1006,
            "one of a thousand pings was answered {answer}"
        );
    }
    peer.is_alive().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutation_is_one_line_and_the_same_every_time() {
        let lines = harmless(|params| params);
        let all = |seed| {
            let mut random = Random(seed);
            (0..2000)
                .map(|_| {
                    let line = &lines[random.below(lines.len())];
                    mutate(line.as_bytes(), &mut random)
                })
                .collect::<Vec<_>>()
        };
        let first = all(SEED);
        assert!(first.iter().all(|line| !line.contains(&b'\n')));
        assert_eq!(first, all(SEED));
        assert_ne!(first, all(SEED + 1));
    }
}

//! Outcomes as JSON, and as the exit statuses that shells expect.
//!
//! Bytes are a member `text` where they are UTF-8 and a member `base64` where they are not, so that
//! nothing is lost and most of it can be read.

use std::time::Duration;

use sandbox_core::SandboxPath;
use sandbox_core::process::{ExitReport, Outcome, Output, Status, Survivors};
use sandbox_core::search::{Changes, Completeness};
use serde_json::{Value, json};

/// One JSON object and a newline.
pub(crate) fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// A finished run.
pub(crate) fn outcome(outcome: &Outcome) -> Value {
    let mut object = exit(&outcome.exit);
    object["stdout"] = output(&outcome.stdout);
    object["stderr"] = output(&outcome.stderr);
    if let Some(changes) = &outcome.changes {
        object["changes"] = self::changes(changes);
    }
    object
}

fn changes(changes: &Changes) -> Value {
    let paths = |paths: &[SandboxPath]| -> Vec<Value> { paths.iter().map(path).collect() };
    let mut object = json!({
        "created": paths(&changes.created),
        "modified": paths(&changes.modified),
        "removed": paths(&changes.removed),
        "complete": changes.complete == Completeness::Complete,
    });
    if let Completeness::Incomplete { reason, .. } = &changes.complete {
        object["incomplete_because"] = reason.as_str().into();
    }
    object
}

/// The same for people: a line an entry, marked as git marks them.
pub(crate) fn changed_lines(changes: &Changes) -> String {
    let mut lines = String::new();
    let lists = [
        ("A", &changes.created),
        ("M", &changes.modified),
        ("D", &changes.removed),
    ];
    for (mark, paths) in lists {
        for path in paths {
            lines.push_str(&format!("\n  {mark} {path}"));
        }
    }
    lines
}

fn exit(report: &ExitReport) -> Value {
    json!({
        "status": status(report.status),
        "exit_code": report.status.shell_code(),
        "duration_ms": milliseconds(report.duration),
        "usage": {
            "user_ms": milliseconds(report.usage.user),
            "system_ms": milliseconds(report.usage.system),
            "peak_memory_bytes": report.usage.peak_memory,
        },
        "survivors": survivors(&report.survivors),
    })
}

fn status(status: Status) -> Value {
    match status {
        Status::Exited(code) => json!({ "kind": "exited", "code": code }),
        Status::Signalled { signal, core } => {
            json!({ "kind": "signalled", "signal": signal, "core": core })
        }
        Status::TimedOut => json!({ "kind": "timed_out" }),
        Status::Cancelled => json!({ "kind": "cancelled" }),
        Status::OutputLimit => json!({ "kind": "output_limit" }),
        Status::MemoryLimit => json!({ "kind": "memory_limit" }),
        Status::Lost => json!({ "kind": "lost" }),
    }
}

fn survivors(survivors: &Survivors) -> Value {
    let left: Vec<Value> = survivors
        .left
        .iter()
        .map(|survivor| json!({ "pid": survivor.pid, "name": survivor.name }))
        .collect();
    json!({ "killed": survivors.killed, "left": left, "left_total": survivors.left_total })
}

/// `head` and, if something was left out behind it, `tail`.
fn output(output: &Output) -> Value {
    let mut object = json!({
        "head": bytes(&output.head),
        "total_bytes": output.total,
        "dropped_bytes": output.dropped,
    });
    if output.is_truncated() {
        object["tail"] = bytes(&output.tail);
    }
    object
}

/// Bytes as an object with `text` or `base64`.
pub(crate) fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": base64_simd::STANDARD.encode_to_string(bytes) }),
    }
}

/// A path as a string, or as an object with `base64` where it is not UTF-8.
pub(crate) fn path(path: &SandboxPath) -> Value {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) => text.into(),
        Err(_) => bytes(path.as_bytes()),
    }
}

/// A number of entries in words.
pub(crate) fn entries(count: u64) -> String {
    format!("{count} {}", if count == 1 { "entry" } else { "entries" })
}

/// A number of bytes in words.
pub(crate) fn byte_count(count: u64) -> String {
    format!("{count} {}", if count == 1 { "byte" } else { "bytes" })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_where_they_can_be_and_lose_nothing_where_they_cannot() {
        assert_eq!(bytes("é\n".as_bytes()), json!({ "text": "é\n" }));
        assert_eq!(bytes(b"\xff\x00"), json!({ "base64": "/wA=" }));
    }
}

//! A provider that is wrong in one way: `wrong_provider LIE`, where a lie has the id of the check of the
//! wire that catches it.
//!
//! It serves the engine honestly, and tampers with the lines in between. What it does for each id is
//! in `Liar`; an id for which it does nothing ends it, so that no check is left without a lie.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use sandbox_engine::{EngineProvider, Place, ProviderOptions};
use serde_json::{Value, json};
use spp_server::{Ended, ServeOptions};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const VERSION: &str = "1.0.0";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let lie = arguments.first().cloned().unwrap_or_default();
    if arguments
        .get(1)
        .is_some_and(|argument| argument == "--spp-manifest")
    {
        // Another version than the handshake's, which is its lie.
        let manifest = json!({"name": "wrong", "version": "2.0.0", "protocol": {"majors": [1]}});
        say(&manifest.to_string());
        exit(0);
    }
    if std::env::var_os("SPP_HOST").is_none() {
        // Not 64, which is its lie.
        exit(0);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(serve(lie));
    exit(0);
}

fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    if writeln!(output, "{text}")
        .and_then(|()| output.flush())
        .is_err()
    {
        exit(0);
    }
}

async fn serve(lie: String) {
    if matches!(
        lie.as_str(),
        "life/nothing_outlives_a_provider_that_is_killed" | "life/the_loss_of_both_pipes_ends_it"
    ) {
        leave_a_process();
    }
    let provider = Arc::new(EngineProvider::new(ProviderOptions {
        name: "wrong".to_owned(),
        version: VERSION.to_owned(),
        place: Place::open("wrong"),
    }));
    let (host, theirs) = tokio::io::duplex(1024 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = tokio::spawn(async move {
        let served = spp_server::serve(provider, reader, writer, ServeOptions::default());
        if served.await.is_ok_and(|ended| ended == Ended::HostSilent) {
            exit(0);
        }
    });
    let (from_server, to_server) = tokio::io::split(host);
    let (send, lines) = unbounded_channel();
    let liar = Arc::new(std::sync::Mutex::new(Liar::new(lie.clone(), send.clone())));
    let writing = tokio::spawn(write_lines(lines, to_server));
    let answering = tokio::spawn({
        let liar = Arc::clone(&liar);
        async move {
            let mut lines = BufReader::new(from_server).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let said = liar.lock().expect("no panic").outgoing(&line);
                for line in said {
                    say(&line);
                }
            }
        }
    });
    let rest = read_input(&lie, &liar).await;
    if lie == "life/a_line_that_the_end_cuts_off_is_no_message" {
        let _ = send.send(rest);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    match lie.as_str() {
        "life/the_end_of_input_ends_it_and_what_it_started" => exit(3),
        "life/the_end_of_input_ends_it_while_streams_wait_for_credit" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        _ => {}
    }
    drop(send);
    *liar.lock().expect("no panic") = Liar::new(String::new(), unbounded_channel().0);
    let _ = tokio::join!(writing, serving, answering);
}

/// Hands lines on to the liar; returns what came after the last line's end.
async fn read_input(lie: &str, liar: &std::sync::Mutex<Liar>) -> Vec<u8> {
    let mut input = tokio::io::stdin();
    let mut chunk = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    loop {
        let count = input.read(&mut chunk).await.unwrap_or(0);
        if count == 0 {
            return pending;
        }
        pending.extend_from_slice(&chunk[..count]);
        if lie == "framing/a_message_may_come_in_pieces" && !pending.ends_with(b"\n") {
            // One read is one message.
            pending.clear();
        }
        let mut first = true;
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if first || lie != "framing/several_messages_may_come_at_once" {
                liar.lock().expect("no panic").incoming(&line[..end]);
            }
            first = false;
        }
    }
}

async fn write_lines(
    mut lines: UnboundedReceiver<Vec<u8>>,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) {
    while let Some(mut line) = lines.recv().await {
        line.push(b'\n');
        if to.write_all(&line).await.is_err() {
            return;
        }
    }
    // Half of a split pipe that is dropped does not end it.
    let _ = to.shutdown().await;
}

fn leave_a_process() {
    #[expect(clippy::disallowed_methods, reason = "what is left behind is the lie")]
    let left = std::process::Command::new("setsid")
        .args(["sleep", "60"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    drop(left);
}

struct Liar {
    lie: String,
    to_server: UnboundedSender<Vec<u8>>,
    /// Method and parameters of each request.
    asked: HashMap<u64, (String, Value)>,
    acquired: u32,
    spawned: u32,
    generation: Value,
    last_run: u64,
    offset: usize,
    seq: u64,
    dropped: bool,
}

/// An answer of the liar's own.
fn answer(id: &Value, result: &Value) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
}

fn refuse(id: &Value, code: i64) {
    let error = json!({"code": code, "message": "no", "data": {"effect": "none"}});
    say(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
}

impl Liar {
    fn new(lie: String, to_server: UnboundedSender<Vec<u8>>) -> Self {
        Self {
            lie,
            to_server,
            asked: HashMap::new(),
            acquired: 0,
            spawned: 0,
            generation: Value::Null,
            last_run: 0,
            offset: 0,
            seq: 0,
            dropped: false,
        }
    }

    fn pass(&self, line: impl Into<Vec<u8>>) {
        let _ = self.to_server.send(line.into());
    }

    /// A line from the host.
    fn incoming(&mut self, line: &[u8]) {
        let parsed = serde_json::from_slice::<Value>(line).ok();
        match self.lie.as_str() {
            "framing/carriage_returns_and_blank_lines_are_tolerated"
                if line.is_empty() || line.ends_with(b"\r") =>
            {
                exit(1)
            }
            // Only a message counts.
            "life/any_line_keeps_a_lease" if line.is_empty() => {}
            "framing/a_byte_order_mark_at_the_start_is_tolerated"
                if line.starts_with("\u{feff}".as_bytes()) =>
            {
                exit(1)
            }
            "framing/a_line_of_the_longest_length_is_read" if line.len() > 64 * 1024 => exit(1),
            "framing/a_line_that_is_too_long_fails_its_own_call" if line.len() > 2 << 20 => exit(1),
            "framing/what_is_no_message_is_dropped" if parsed.is_none() => {
                refuse(&Value::Null, -32700);
            }
            "framing/bytes_that_are_not_utf8_are_dropped" if std::str::from_utf8(line).is_err() => {
                refuse(&Value::Null, -32700);
            }
            "robustness/ten_thousand_mutated_lines_cause_no_crash_and_no_storm"
                if parsed.is_none() =>
            {
                exit(1)
            }
            "robustness/a_line_nested_without_end_is_survived" if line.len() > 100_000 => exit(1),
            _ => match parsed {
                Some(message) => self.message(line, message),
                None => self.pass(line),
            },
        }
    }

    /// A line from the host that is JSON.
    fn message(&mut self, line: &[u8], mut message: Value) {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let id = message["id"].clone();
        if let Some(id) = id.as_u64() {
            let params = message["params"].clone();
            self.asked.insert(id, (method.clone(), params));
            if method == "exec" {
                self.last_run = id;
            }
        }
        match (self.lie.as_str(), method.as_str()) {
            ("framing/absent_parameters_are_empty", _) if message["params"].is_null() => {
                return refuse(&id, -32602);
            }
            ("framing/an_id_of_null_counts_as_absent", "ping") if id.is_null() => {
                return answer(&id, &json!({}));
            }
            ("framing/a_batch_is_not_carried_out", _) if message.is_array() => {
                for member in message.as_array().into_iter().flatten() {
                    self.pass(member.to_string());
                }
                return;
            }
            ("framing/unknown_members_are_ignored", _) if !message["later"].is_null() => {
                return refuse(&id, -32600);
            }
            ("framing/an_unknown_notification_is_ignored", "x.example/later") => {
                return refuse(&Value::Null, -32601);
            }
            ("handshake/limits_out_of_range_count_as_the_nearest", "initialize")
                if message["params"]["limits"]["max_line_bytes"] == 1 =>
            {
                return refuse(&id, -32602);
            }
            ("life/a_host_that_says_nothing_for_a_lease_is_gone", "acquire") => {
                message["params"]["spec"]["lease_ms"] = Value::Null;
                return self.pass(message.to_string());
            }
            ("handshake/every_mandatory_verb_is_there", "stat_many") => return refuse(&id, -32601),
            ("idempotency/another_life_is_lost_and_untouched", _)
                if !message["params"]["generation"].is_null() =>
            {
                message["params"]["generation"] = self.generation.clone();
                return self.pass(message.to_string());
            }
            ("streams/one_window_holds_for_all_streams_together", "initialize") => {
                message["params"]["limits"]["connection_window_bytes"] = json!(100 << 20);
                return self.pass(message.to_string());
            }
            ("streams/a_stopped_stream_ends_and_the_run_does_not", "stream/stop") => {
                let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": self.last_run}});
                return self.pass(cancel.to_string());
            }
            ("streams/a_gap_in_a_stream_fails_its_call", "stream/data") => {
                let bytes = message["params"]["text"].as_str().map_or(0, str::len);
                message["params"]["seq"] = json!(self.seq);
                message["params"]["offset"] = json!(self.offset);
                (self.seq, self.offset) = (self.seq + 1, self.offset + bytes);
                return self.pass(message.to_string());
            }
            ("streams/a_stream_that_ends_early_fails_its_call", "stream/end") => {
                let stream = message["params"]["stream"].clone();
                let more = json!({"stream": stream, "seq": 1, "offset": 5, "text": "56789"});
                self.pass(
                    json!({"jsonrpc": "2.0", "method": "stream/data", "params": more}).to_string(),
                );
                let end = json!({"stream": stream, "bytes": 10});
                self.pass(
                    json!({"jsonrpc": "2.0", "method": "stream/end", "params": end}).to_string(),
                );
                return;
            }
            ("streams/what_is_for_no_stream_is_ignored", "stream/data") => exit(1),
            ("streams/input_on_a_stream_reaches_the_process", "stream/data")
                if message["params"]["offset"] != 0 =>
            {
                return;
            }
            ("cancel/a_cancelled_run_is_answered_when_nothing_is_left", "$/cancel") => {
                let run = message["params"]["id"].clone();
                let exit = json!({"status": "cancelled", "duration_us": 1});
                let output = json!({"head": {"text": "up\n"}, "total": 3});
                let result =
                    json!({"id": "p", "exit": exit, "stdout": output, "stderr": {"total": 0}});
                return answer(&run, &result);
            }
            (
                "cancel/a_cancel_right_behind_its_request_is_answered"
                | "cancel/a_cancelled_run_that_waits_for_credit_is_answered",
                "$/cancel",
            ) => return,
            ("cancel/a_cancel_too_late_is_ignored", "$/cancel") => {
                return refuse(&message["params"]["id"], -32800);
            }
            ("cancel/a_cancel_of_nothing_is_ignored", "$/cancel") => exit(1),
            ("cancel/a_cancel_that_is_repeated_is_answered_once", "$/cancel") => {
                return refuse(&message["params"]["id"], -32800);
            }
            ("deadlines/a_deadline_ends_the_run_and_is_said", "exec") => {
                message["params"]["_meta"] = json!({});
                return self.pass(message.to_string());
            }
            ("deadlines/a_deadline_that_does_not_pass_changes_nothing", "exec") => {
                return refuse(&id, 1004);
            }
            _ => {}
        }
        self.pass(line);
    }

    /// A line from the server; what is said in its place.
    fn outgoing(&mut self, line: &str) -> Vec<String> {
        let mut message: Value = serde_json::from_str(line).expect("the server writes JSON");
        let notice = message["method"].as_str().unwrap_or_default().to_owned();
        let (method, params) = message["id"]
            .as_u64()
            .and_then(|id| self.asked.get(&id).cloned())
            .unwrap_or_default();
        if method == "acquire" {
            self.acquired += 1;
            if !message["result"].is_null() {
                self.generation = message["result"]["descriptor"]["generation"].clone();
            }
        }
        self.spawned += u32::from(method == "spawn");
        let code = message["error"]["code"].as_i64().unwrap_or_default();
        // An error of one code comes out as a result.
        let forgive = |message: &mut Value, result: Value| {
            *message = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        };
        match (self.lie.as_str(), method.as_str(), notice.as_str()) {
            ("framing/a_result_that_fits_no_line_is_limit_exceeded", ..) if code == 1005 => {
                forgive(&mut message, json!({"content": {"text": ""}}));
            }
            ("framing/an_id_that_is_none_is_refused", ..) if message["id"].is_string() => {
                return Vec::new();
            }
            ("framing/an_unknown_method_is_not_found", ..) if code == -32601 => {
                forgive(&mut message, json!({}));
            }
            ("framing/an_unknown_choice_is_invalid_and_no_more", ..) if code == -32602 => {
                message["error"]["code"] = json!(-32603);
            }
            ("handshake/the_answer_says_who_it_is_and_what_it_can_do", "initialize", _) => {
                message["result"]["provider"]["version"] = json!("");
            }
            ("handshake/the_highest_common_version_is_chosen", "initialize", _)
                if params["protocol"]["majors"][0] == 999_999 =>
            {
                message["result"]["protocol"]["major"] = json!(0);
            }
            ("handshake/no_common_version_is_said_with_both_sides", ..) if code == 1001 => {
                message["error"]["message"] = json!("no");
            }
            ("handshake/what_comes_first_must_be_initialize", ..) if code == 1002 => {
                forgive(&mut message, json!({}));
            }
            ("handshake/a_second_initialize_is_refused", ..) if code == -32600 => {
                forgive(&mut message, json!({"protocol": {"major": 1}}));
            }
            ("handshake/each_start_is_another_instance", "initialize", _) => {
                message["result"]["instance"] = json!("same");
            }
            ("handshake/what_is_not_declared_is_unsupported", ..) if code == 1003 => {
                forgive(&mut message, json!({}));
            }
            ("idempotency/a_repeated_acquire_is_the_same_sandbox", "acquire", _)
                if self.acquired == 2 =>
            {
                message["result"]["descriptor"]["generation"] = json!(99);
            }
            ("idempotency/an_acquire_with_another_spec_is_a_conflict", ..) if code == 1103 => {
                forgive(&mut message, json!({"descriptor": {}}));
            }
            ("idempotency/a_repeated_release_is_done_already", "release", _) => {
                message["result"]["existed"] = json!(true);
            }
            ("idempotency/a_release_is_told", _, "sandbox/closed") => return Vec::new(),
            ("idempotency/a_new_sandbox_of_the_id_is_a_new_life", "acquire", _) => {
                message["result"]["descriptor"]["generation"] = json!(1);
            }
            ("idempotency/a_requirement_that_cannot_be_met_is_refused", "acquire", _)
                if code != 0 =>
            {
                forgive(&mut message, json!({"descriptor": {}}));
            }
            ("idempotency/a_repeated_spawn_is_the_same_process", "spawn", _)
                if self.spawned == 2 =>
            {
                message["result"]["pid"] = json!(1);
            }
            ("idempotency/input_is_taken_once_by_its_offset", "proc_stdin", _) => {
                message["result"]["next"] = json!(12);
            }
            ("idempotency/a_log_is_read_again_by_its_offset", "proc_read", _) => {
                message["result"]["offset"] = json!(0);
            }
            ("streams/live_output_comes_whole_and_before_the_answer", _, "stream/data")
                if !self.dropped =>
            {
                self.dropped = true;
                return Vec::new();
            }
            (
                "streams/a_reader_that_stalls_stops_the_producer_and_nobody_else",
                _,
                "stream/data",
            ) => {
                let credit = json!({"stream": message["params"]["stream"], "bytes": 33_280});
                self.pass(
                    json!({"jsonrpc": "2.0", "method": "stream/credit", "params": credit})
                        .to_string(),
                );
            }
            ("streams/a_file_is_read_onto_a_stream", "read", _) => {
                message["result"]["content"]["bytes"] = json!(1);
            }
            ("streams/a_file_is_written_from_a_stream_under_credit", _, "stream/credit") => {
                return Vec::new();
            }
            ("streams/several_contents_share_a_stream", "write", _) => {
                message["result"]["items"][1] = json!({"error": {"code": 1206, "message": "no"}});
            }
            ("life/shutdown_takes_no_new_work", "exec", _) if code == 1104 => {
                forgive(&mut message, json!({}));
            }
            ("life/a_daemon_that_holds_the_output_holds_no_call", "exec", _) => {
                message["result"]["exit"]["status"] = json!("timed_out");
            }
            ("life/children_do_not_inherit_the_connection", "exec", _) => {
                let held = std::fs::read_link("/proc/self/fd/0").unwrap_or_default();
                let text = format!("{}\n", held.display());
                message["result"]["stdout"]["head"] = json!({ "text": text });
            }
            ("robustness/a_thousand_pings_at_once_are_answered_once_each", "ping", _) => {
                return vec![line.to_owned(), line.to_owned()];
            }
            _ => return vec![line.to_owned()],
        }
        vec![message.to_string()]
    }
}

//! A provider at the end of two pipes, as somebody sees it who may say anything at all.
//!
//! A [`Peer`] writes the bytes it is given and judges every line that comes back: what no provider
//! may send fails the check that is under way, whatever that check is about. Data on streams is
//! accounted for as it comes: order, size, credit.
//!
//! **Invariant:** nothing here waits without a bound, and what is read is bounded by [`LONGEST`] a line.
//!
//! Not here: what is asked and expected, which is the checks'.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_host::direct::BareProvider;
use sandbox_host::error::{Ending, StderrTail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::sound::{self, Message};
use super::stream::{Reading, Streams};
use crate::check::Failure;

/// Longest that an answer is waited for that takes no time.
pub(super) const SOON: Duration = Duration::from_secs(10);
/// Longest line that is read, in bytes: what two sides can agree on, and some.
const LONGEST: u64 = 17 * 1024 * 1024;
/// Lines that may wait for the check.
const QUEUE: usize = 4096;

type Result<T> = std::result::Result<T, Failure>;

/// A sandbox that was acquired.
#[derive(Clone, Debug)]
pub(super) struct Acquired {
    pub(super) spec: Value,
    pub(super) descriptor: Value,
    /// Its workspace, where that is a directory of this machine.
    pub(super) workspace: Option<std::path::PathBuf>,
}

/// Whose answers may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// To what was asked, once each.
    ToWhatWasAsked,
    /// To ids that nobody kept count of.
    ToAnything,
}

/// A provider that runs.
pub(super) struct Peer {
    pub(super) process: BareProvider,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<std::io::Result<Vec<u8>>>,
    next_id: u64,
    asked: BTreeSet<u64>,
    answers: BTreeMap<u64, Value>,
    /// Answers whose id is no number we gave out.
    pub(super) odd: Vec<Value>,
    /// How many answers came in all.
    pub(super) answered: u64,
    pub(super) notices: Vec<(String, Value)>,
    pub(super) streams: Streams,
    pub(super) accept: Answers,
    /// The longest line it may send.
    pub(super) max_line: usize,
    /// The result of `initialize`.
    pub(super) hello: Value,
    pub(super) sandbox: Option<Acquired>,
    /// The names of the connection's pipes, where this machine tells them.
    pub(super) pipes: Vec<String>,
    reading: Option<AbortHandle>,
    last_words: Arc<Mutex<StderrTail>>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.lose();
        *self
            .last_words
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = self.process.stderr();
    }
}

impl Peer {
    pub(super) fn new(mut process: BareProvider, last_words: Arc<Mutex<StderrTail>>) -> Self {
        let input = process.input.take();
        let output = process.output.take();
        let pipes = [
            input.as_ref().map(AsRawFd::as_raw_fd),
            output.as_ref().map(AsRawFd::as_raw_fd),
        ]
        .into_iter()
        .flatten()
        .filter_map(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok())
        .filter_map(|name| name.to_str().map(str::to_owned))
        .collect();
        let (send, lines) = mpsc::channel(QUEUE);
        let reading = output.map(|output| tokio::spawn(read(output, send)).abort_handle());
        Self {
            process,
            input,
            lines,
            next_id: 100,
            asked: BTreeSet::new(),
            answers: BTreeMap::new(),
            odd: Vec::new(),
            answered: 0,
            notices: Vec::new(),
            streams: Streams::default(),
            accept: Answers::ToWhatWasAsked,
            max_line: 1024 * 1024,
            hello: Value::Null,
            sandbox: None,
            pipes,
            reading,
            last_words,
        }
    }

    /// Writes these bytes and nothing else.
    pub(super) async fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(input) = &mut self.input else {
            return Err(Failure::new("the check wrote after the end of the input"));
        };
        let writing = async {
            input.write_all(bytes).await?;
            input.flush().await
        };
        match tokio::time::timeout(SOON, writing).await {
            Ok(Ok(())) => Ok(()),
            // Why it does not read is told by what it said last and how it ended.
            Ok(Err(_)) => Err(self.gone().await),
            Err(_) => Err(Failure::new(format_args!(
                "the provider did not read its input for {} s",
                SOON.as_secs()
            ))),
        }
    }

    /// Waits until everything that was written has been taken out of the pipe.
    pub(super) async fn is_read(&mut self) -> Result<()> {
        let reading = async {
            while let Some(input) = &self.input {
                match rustix::io::ioctl_fionread(input) {
                    Ok(0) => return Ok(()),
                    Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                    Err(error) => {
                        return Err(Failure::new(format_args!(
                            "the pipe does not say whether it is read: {error}"
                        )));
                    }
                }
            }
            Ok(())
        };
        tokio::time::timeout(SOON, reading)
            .await
            .unwrap_or_else(|_| {
                Err(Failure::new(format_args!(
                    "the provider did not read its input for {} s",
                    SOON.as_secs()
                )))
            })
    }

    /// Writes one line.
    pub(super) async fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        let mut bytes = line.as_ref().to_vec();
        bytes.push(b'\n');
        self.bytes(&bytes).await
    }

    /// The end of its input.
    pub(super) fn end_input(&mut self) {
        self.input = None;
    }

    /// The end of both pipes, as when a host is killed.
    pub(super) fn lose(&mut self) {
        self.input = None;
        if let Some(reading) = self.reading.take() {
            reading.abort();
        }
    }

    /// An id that is not in use; its answer is expected from now on.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.asked.insert(self.next_id);
        self.next_id
    }

    /// A stream towards this side, on which this much credit is given.
    pub(super) fn stream(&mut self, reading: Reading) -> u64 {
        self.next_id += 1;
        let stream = self.next_id * 7919;
        self.streams.open(stream, reading);
        stream
    }

    /// A stream towards the provider.
    pub(super) fn outgoing(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id * 7919
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) -> Result<()> {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.line(message.to_string()).await
    }

    /// Sends a request, and does not wait.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<u64> {
        let id = self.id();
        let line = request(id, method, &params);
        self.line(line).await?;
        Ok(id)
    }

    /// Sends a verb of the sandbox, and does not wait.
    pub(super) async fn ask_verb(&mut self, method: &str, params: Value) -> Result<u64> {
        let params = self.verb_params(params)?;
        self.ask(method, params).await
    }

    /// The parameters of a verb of the sandbox.
    pub(super) fn verb_params(&self, mut params: Value) -> Result<Value> {
        let Some(sandbox) = &self.sandbox else {
            return Err(Failure::new("the check acquired no sandbox"));
        };
        params["sandbox"] = sandbox.descriptor["sandbox"].clone();
        params["generation"] = sandbox.descriptor["generation"].clone();
        Ok(params)
    }

    /// A request and its answer, whichever that is.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.ask(method, params).await?;
        self.answer(id, method).await
    }

    /// A request and its result.
    pub(super) async fn ok(&mut self, method: &str, params: Value) -> Result<Value> {
        let answer = self.call(method, params).await?;
        result(answer, method)
    }

    /// A verb of the sandbox and its answer.
    pub(super) async fn verb(&mut self, method: &str, params: Value) -> Result<Value> {
        let params = self.verb_params(params)?;
        self.call(method, params).await
    }

    /// A verb of the sandbox and its result.
    pub(super) async fn verb_ok(&mut self, method: &str, params: Value) -> Result<Value> {
        let answer = self.verb(method, params).await?;
        result(answer, method)
    }

    /// The answer to `id`; what else comes meanwhile is kept.
    pub(super) async fn answer(&mut self, id: u64, what: &str) -> Result<Value> {
        self.answer_within(id, what, SOON).await
    }

    /// As [`answer`](Self::answer), with another bound.
    pub(super) async fn answer_within(
        &mut self,
        id: u64,
        what: &str,
        limit: Duration,
    ) -> Result<Value> {
        let waiting = async {
            loop {
                if let Some(answer) = self.answers.remove(&id) {
                    return Ok(answer);
                }
                self.next().await?;
            }
        };
        tokio::time::timeout(limit, waiting)
            .await
            .unwrap_or_else(|_| {
                Err(Failure::new(format_args!(
                    "`{what}` was not answered within {} s",
                    limit.as_secs()
                )))
            })
    }

    /// Whether `id` has been answered by what has come so far.
    pub(super) fn is_answered(&self, id: u64) -> bool {
        self.answers.contains_key(&id)
    }

    /// Reads until nothing came for this long.
    pub(super) async fn settle(&mut self, quiet: Duration) -> Result<()> {
        while let Ok(next) = tokio::time::timeout(quiet, self.next()).await {
            next?;
        }
        Ok(())
    }

    /// Reads for this long, however much comes.
    pub(super) async fn settle_for(&mut self, time: Duration) -> Result<()> {
        let reading = async {
            loop {
                self.next().await?;
            }
        };
        tokio::time::timeout(time, reading).await.unwrap_or(Ok(()))
    }

    /// What it prints until it ends, and how it ends.
    pub(super) async fn printed(
        &mut self,
        within: Duration,
    ) -> Result<(Vec<u8>, std::process::ExitStatus)> {
        self.end_input();
        let reading = async {
            let mut all = Vec::new();
            while let Some(line) = self.lines.recv().await {
                all.extend(line.unwrap_or_default());
            }
            all
        };
        let Ok(all) = tokio::time::timeout(within, reading).await else {
            return Err(Failure::new(format_args!(
                "the provider did not end its output within {} s",
                within.as_secs()
            )));
        };
        Ok((all, self.exited(within).await?))
    }

    /// That it still answers. Whatever it had to say about earlier lines has come by then, as far
    /// as a provider that reads in order can be told.
    pub(super) async fn is_alive(&mut self) -> Result<()> {
        for _ in 0..2 {
            let pong = self.ok("ping", json!({})).await?;
            if !pong.is_object() {
                return Err(Failure::new(format_args!("`ping` was answered {pong}")));
            }
        }
        Ok(())
    }

    /// Takes one line, and acts on it. Waits without a bound.
    pub(super) async fn next(&mut self) -> Result<()> {
        let line = match self.lines.recv().await {
            Some(Ok(line)) => line,
            Some(Err(error)) => {
                return Err(Failure::new(format_args!(
                    "reading the provider's output failed: {error}"
                )));
            }
            None => return Err(self.gone().await),
        };
        match sound::judge(&line, self.max_line)? {
            Message::Answer(id, answer) => {
                self.answered += 1;
                let Some(id) = id else {
                    self.odd.push(answer);
                    return Ok(());
                };
                if self.accept == Answers::ToAnything {
                    self.answers.insert(id, answer);
                    return Ok(());
                }
                if !self.asked.remove(&id) {
                    return Err(Failure::new(format_args!(
                        "an answer came to id {id}, which is answered already or was never asked: {answer}"
                    )));
                }
                self.streams.answered(id);
                self.answers.insert(id, answer);
            }
            Message::Notice(method, params) => {
                if let Some(credit) = self.streams.take(&method, &params)? {
                    self.notify("stream/credit", credit).await?;
                }
                if method != "stream/data" {
                    self.notices.push((method, params));
                }
            }
        }
        Ok(())
    }

    /// Waits for its end.
    pub(super) async fn exited(&mut self, within: Duration) -> Result<std::process::ExitStatus> {
        // It may have something to write before it can end.
        let reading = async {
            while self.lines.recv().await.is_some() {}
            std::future::pending::<()>().await;
        };
        let waiting = async {
            tokio::select! {
                () = reading => None,
                status = self.process.exited() => status,
            }
        };
        match tokio::time::timeout(within, waiting).await {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(Failure::new("waiting for the provider failed")),
            Err(_) => Err(Failure::new(format_args!(
                "the provider was still there after {} s",
                within.as_secs()
            ))),
        }
    }

    async fn gone(&mut self) -> Failure {
        let ended = tokio::time::timeout(Duration::from_secs(1), self.process.exited()).await;
        match ended {
            Ok(Some(status)) => {
                Failure::new(format_args!("the provider ended: {}", Ending(status)))
            }
            _ => Failure::new("the provider closed its output and runs on"),
        }
    }
}

/// A request as one line without its end.
pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The result of an answer that must be none of the errors.
pub(super) fn result(mut answer: Value, what: &str) -> Result<Value> {
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(Failure::new(format_args!(
            "`{what}` failed: {}",
            answer["error"]
        ))),
    }
}

/// That an answer is an error of this code and kind.
pub(super) fn refused(answer: &Value, code: i64, kind: &str, what: &str) -> Result<Value> {
    let error = &answer["error"];
    let data = &error["data"];
    let kind_fits = data["kind"].is_null() || data["kind"] == kind;
    if error["code"] == code && kind_fits {
        return Ok(error.clone());
    }
    Err(Failure::new(format_args!(
        "{what} must be answered `{kind}` ({code}), and was answered {}",
        if error.is_null() { answer } else { error }
    )))
}

/// As [`refused`], and that nothing happened.
pub(super) fn refused_without_effect(
    answer: &Value,
    code: i64,
    kind: &str,
    what: &str,
) -> Result<Value> {
    let error = refused(answer, code, kind, what)?;
    let effect = &error["data"]["effect"];
    let implied = effect.is_null() && (-32602..=-32600).contains(&code);
    if effect == "none" || implied {
        return Ok(error);
    }
    Err(Failure::new(format_args!(
        "{what} must be refused with the effect `none`, and was refused with {error}"
    )))
}

async fn read(output: ChildStdout, to: mpsc::Sender<std::io::Result<Vec<u8>>>) {
    let mut output = BufReader::with_capacity(64 * 1024, output);
    loop {
        let mut line = Vec::new();
        let read = (&mut output)
            .take(LONGEST)
            .read_until(b'\n', &mut line)
            .await;
        let next = match read {
            Ok(0) => return,
            Ok(_) => Ok(line),
            Err(error) => Err(error),
        };
        // The one who listens is gone: so is this end of the pipe.
        if to.send(next).await.is_err() {
            return;
        }
    }
}

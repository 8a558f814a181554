//! What the parts of one connection share, and how lines and the end take effect.
//!
//! **Invariants.** Everything here returns at once. The first end is the only one: it fails what is
//! under way, ends every stream, loses every sandbox, and stops the writer, in this order, so that
//! nobody who is told of it finds something that still works.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jsonrpsee::core::client::async_client::RpcService;
use sandbox_core::{Effect, Error, ErrorKind, Generation, SandboxId, Verb};
use serde_json::value::RawValue;
use spp_link::{Fault, Lanes, Receivers, Senders};
use spp_protocol::codec::{Line, StreamChunk, stream_named, write_notification};
use spp_protocol::error::ErrorObject;
use spp_protocol::message::Notification;
use spp_protocol::message::stream::{
    Cancel, Progress, SandboxClosed, StreamCredit, StreamData, StreamEnd, StreamEnding, StreamStop,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::guard::{Answer, AnswerKind, Form, Verdict, inspect};
use crate::lease::Lease;
use crate::life::Lives;
use crate::options::{ConnectionEnd, Counters, Stats, Strictness, count};
use crate::pending::PendingCalls;

/// Calls that end others, at once.
pub(crate) const ENDING_SLOTS: usize = 64;
/// What is wrong with a line whose end is too far.
pub(crate) const LONG: &str = "the line is longer than a line may be";
/// The same of what may be an answer.
pub(crate) const LONG_ANSWER: &str =
    "an answer is longer than a line may be, and does not begin with the id of its call";
/// Bad lines within [`BAD_LINE_PERIOD`] that a connection survives.
const BAD_LINES: u32 = 100;
const BAD_LINE_PERIOD: Duration = Duration::from_secs(60);
/// How much of a bad line is logged, in bytes.
const LOGGED_BYTES: usize = 200;
/// What may come before the first answer, in bytes: a banner, a profile that prints.
const BANNER_BYTES: usize = 1024 * 1024;
/// How many faults of each kind are logged one by one; of the others the end of the connection tells
/// the number.
const TOLD: u64 = 10;

pub(crate) struct Shared {
    pub(crate) lanes: Lanes,
    pub(crate) senders: Senders,
    pub(crate) receivers: Receivers,
    pub(crate) calls: PendingCalls,
    pub(crate) lives: Lives,
    pub(crate) counters: Counters,
    /// One permit for each call that may be under way.
    pub(crate) slots: Arc<Semaphore>,
    /// The same for calls that end others.
    pub(crate) ending_slots: Arc<Semaphore>,
    /// Longest line the peer takes.
    pub(crate) max_line: AtomicUsize,
    /// Sends requests; set once the client behind us is built.
    pub(crate) service: OnceLock<RpcService>,
    pub(crate) strictness: Strictness,
    pub(crate) lease: Lease,
    opened: Instant,
    /// When the last line came, in milliseconds after `opened`.
    last_line: AtomicU64,
    bad_lines: Mutex<(Instant, u32)>,
    /// Who is at the other end, for the log.
    provider: String,
    /// Whether the handshake is done.
    ready: AtomicBool,
    /// Bytes that were dropped before it was.
    banner: AtomicUsize,
    end: OnceLock<ConnectionEnd>,
    ended: Notify,
    writer: OnceLock<AbortHandle>,
}

impl Shared {
    pub(crate) fn new(
        lanes: Lanes,
        senders: Senders,
        receivers: Receivers,
        strictness: Strictness,
        slots: usize,
        max_line: usize,
        provider: String,
    ) -> Self {
        let now = Instant::now();
        Self {
            lanes,
            senders,
            receivers,
            calls: PendingCalls::default(),
            lives: Lives::default(),
            counters: Counters::default(),
            slots: Arc::new(Semaphore::new(slots)),
            ending_slots: Arc::new(Semaphore::new(ENDING_SLOTS)),
            max_line: AtomicUsize::new(max_line),
            service: OnceLock::new(),
            strictness,
            lease: Lease::default(),
            opened: now,
            last_line: AtomicU64::new(0),
            bad_lines: Mutex::new((now, 0)),
            provider,
            ready: AtomicBool::new(false),
            banner: AtomicUsize::new(0),
            end: OnceLock::new(),
            ended: Notify::new(),
            writer: OnceLock::new(),
        }
    }

    /// Names the task that writes, to be stopped at the end.
    pub(crate) fn set_writer(&self, writer: AbortHandle) {
        if self.writer.set(writer).is_ok() && self.end.get().is_some() {
            self.stop_writer();
        }
    }

    pub(crate) fn end(&self) -> Option<&ConnectionEnd> {
        self.end.get()
    }

    /// Resolves at the end of the connection.
    pub(crate) async fn ended(&self) -> &ConnectionEnd {
        loop {
            let ended = self.ended.notified();
            if let Some(end) = self.end.get() {
                return end;
            }
            ended.await;
        }
    }

    /// Ends the connection.
    pub(crate) fn finish(&self, end: ConnectionEnd) {
        let fault = Fault {
            kind: end.kind,
            detail: end.reason.clone(),
        };
        if self.end.set(end).is_err() {
            return;
        }
        let stats = self.counters.snapshot();
        if stats == Stats::default() {
            tracing::debug!(
                provider = self.provider,
                reason = fault.detail,
                "the connection ended"
            );
        } else {
            tracing::warn!(
                provider = self.provider,
                reason = fault.detail,
                ?stats,
                "the connection ended; the provider had broken the protocol before"
            );
        }
        self.ended.notify_waiters();
        self.slots.close();
        self.ending_slots.close();
        self.senders.close();
        self.receivers.close(&fault);
        self.calls.clear();
        self.lives.lose_all(&fault.detail);
        self.stop_writer();
    }

    fn stop_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.abort();
        }
    }

    /// What a call fails with because the connection ended.
    ///
    /// - `seen`: whether the peer may have seen the request.
    pub(crate) fn end_error(&self, verb: Verb, seen: bool) -> Error {
        let (kind, reason) = match self.end.get() {
            Some(end) => (end.kind, end.reason.clone()),
            None => (ErrorKind::Disconnected, "the connection ended".into()),
        };
        let effect = if seen && changes_something(verb) {
            Effect::Unknown
        } else {
            Effect::None
        };
        Error::new(verb, kind).with_effect(effect).detail(reason)
    }

    /// Tells the peer that a call is no longer wanted.
    pub(crate) fn cancel(&self, id: u64) {
        if self.calls.cancel(id) {
            // If the writer is gone the call is about to fail.
            let _ = self.lanes.control(cancel_line(id));
        }
    }

    /// The handshake is done: what comes from now on is no banner.
    pub(crate) fn ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// A line has no end.
    pub(crate) fn endless(&self) {
        const REASON: &str = "it wrote a line without an end";
        self.finish(match self.strictness {
            Strictness::Engine => {
                ConnectionEnd::lost(format!("the engine broke the protocol: {REASON}"))
            }
            Strictness::Provider => ConnectionEnd::disconnected(format!(
                "the provider does not speak the protocol any more: {REASON}"
            )),
        });
    }

    pub(crate) fn heard(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_line.store(now, Ordering::Relaxed);
    }

    /// How long ago the last line came.
    pub(crate) fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.last_line.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(heard)
    }

    /// Acts on one line. Returns the canonical answer if it is one.
    pub(crate) fn line(&self, line: &Line<'_>) -> Option<Vec<u8>> {
        if let Line::Complete(bytes) = line
            && let Some(chunk) = StreamChunk::parse_line(bytes)
        {
            self.data(chunk);
            return None;
        }
        let shown: &[u8] = match *line {
            Line::Complete(bytes) => bytes,
            Line::TooLong { prefix } => prefix,
        };
        if self.strictness == Strictness::Engine && matches!(line, Line::TooLong { .. }) {
            self.bad_line(shown, LONG);
            return None;
        }
        match inspect(line, &self.calls) {
            Verdict::Answer(answer) => return Some(self.answer(answer)),
            Verdict::Notification { method, params } => {
                if let Err(problem) = self.notification(&method, params) {
                    if let (StreamData::METHOD | StreamEnd::METHOD, Some(stream)) =
                        (&*method, stream_named(params))
                    {
                        self.refused_data(stream.0, problem);
                        self.receivers.spoil(stream.0, problem);
                    }
                    self.bad_line(shown, problem);
                }
            }
            Verdict::Refuse(refusal) => {
                if count(&self.counters.refused_requests) < TOLD {
                    tracing::warn!(
                        provider = self.provider,
                        "the provider sent a request, which was refused: only a host sends requests"
                    );
                }
                if !self.lanes.is_congested() {
                    // If the writer is gone there is nobody to refuse.
                    let _ = self.lanes.control(refusal);
                }
            }
            Verdict::Unasked => {
                if count(&self.counters.unasked_answers) < TOLD {
                    tracing::warn!(
                        provider = self.provider,
                        "the provider answered what nobody waits for, which was dropped"
                    );
                }
            }
            Verdict::Bad(problem) => self.bad_line(shown, problem),
            Verdict::Lost(problem) => {
                self.bad_line(shown, problem);
                self.finish(ConnectionEnd::disconnected(format!(
                    "the provider does not speak the protocol any more: {problem}"
                )));
            }
        }
        None
    }

    fn answer(&self, answer: Answer) -> Vec<u8> {
        if answer.form == Form::Repaired {
            count(&self.counters.repaired_answers);
        }
        if !answer.call.streams.is_empty() {
            let failure = match answer.outcome {
                AnswerKind::Result => None,
                AnswerKind::Error => failure_of(&answer.line),
            };
            for stream in &answer.call.streams {
                let result = failure.clone().map_or(Ok(()), Err);
                self.receivers.end(*stream, None, result);
            }
        }
        answer.line
    }

    fn notification(&self, method: &str, params: &str) -> Result<(), &'static str> {
        fn read<T: Notification>(params: &str) -> Result<T, &'static str> {
            serde_json::from_str(params).map_err(|_| "a notification is malformed")
        }
        match method {
            StreamCredit::METHOD => {
                let StreamCredit { stream, bytes } = read(params)?;
                self.senders.credit(stream.0, bytes);
            }
            StreamStop::METHOD => self.senders.stop(read::<StreamStop>(params)?.stream.0),
            StreamEnd::METHOD => {
                let end: StreamEnd = read(params)?;
                let stream = end.stream.0;
                let (bytes, result) = match end.ending()? {
                    StreamEnding::Whole(bytes) => (Some(bytes), Ok(())),
                    StreamEnding::Failed(error) => (None, Err(fault_of(&error.decode(Verb::Exec)))),
                };
                self.receivers.end(stream, bytes, result);
            }
            StreamData::METHOD => {
                let chunk = StreamChunk::from_params(params);
                self.data(chunk.map_err(|_| "stream data is malformed")?);
            }
            Progress::METHOD => {
                let progress: Progress = read(params)?;
                self.calls.progress(progress.id, progress.into());
            }
            SandboxClosed::METHOD => {
                let closed: SandboxClosed = read(params)?;
                let id = SandboxId::new(&closed.sandbox)
                    .map_err(|_| "a sandbox has an id that is none")?;
                let generation = Generation(closed.generation);
                self.lives.end(&id, Some(generation), closed.decode());
            }
            // A later version's, perhaps.
            _ => {}
        }
        Ok(())
    }

    fn data(&self, chunk: StreamChunk<'_>) {
        let (stream, seq, offset) = (chunk.stream.0, chunk.seq, chunk.offset);
        match chunk.payload.into_bytes() {
            Ok(bytes) => {
                if let Err(refused) = self.receivers.data(stream, seq, offset, bytes) {
                    self.refused_data(stream, refused.problem());
                }
            }
            Err(error) => {
                let problem = error.to_string();
                self.refused_data(stream, &problem);
                self.receivers.spoil(stream, &problem);
            }
        }
    }

    fn refused_data(&self, stream: u64, problem: &str) {
        if count(&self.counters.refused_data) < TOLD {
            tracing::warn!(
                provider = self.provider,
                stream,
                problem,
                "data of a stream was refused"
            );
        }
    }

    fn bad_line(&self, line: &[u8], problem: &'static str) {
        count(&self.counters.bad_lines);
        tracing::warn!(
            provider = self.provider,
            line = %printable(line),
            problem,
            "a line of the provider was dropped"
        );
        if self.strictness == Strictness::Engine {
            self.finish(ConnectionEnd::lost(format!(
                "the engine broke the protocol: {problem}"
            )));
            return;
        }
        // A line that is too long was dropped at the length of the longest, whatever is shown of it.
        if !self.ready.load(Ordering::Relaxed)
            && (problem == LONG
                || self.banner.fetch_add(line.len(), Ordering::Relaxed) > BANNER_BYTES)
        {
            self.finish(ConnectionEnd::disconnected(
                "more came before the first answer than any banner has; what was started does not \
                 speak the protocol",
            ));
            return;
        }
        let too_many = {
            let mut bad_lines = self
                .bad_lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if bad_lines.0.elapsed() > BAD_LINE_PERIOD {
                *bad_lines = (Instant::now(), 0);
            }
            bad_lines.1 += 1;
            bad_lines.1 > BAD_LINES
        };
        if too_many {
            self.finish(ConnectionEnd::disconnected(format!(
                "the provider wrote more than {BAD_LINES} lines within a minute that are no \
                 messages, the last because {problem}; something in it prints to standard output"
            )));
        }
    }
}

/// A bad line as it may be logged. What looks like a message may hold the content of files or the
/// values of variables, which nobody may log; anything else is a print that went astray.
fn printable(line: &[u8]) -> String {
    if matches!(line.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return format!("a message of {} bytes or more", line.len());
    }
    let shown = &line[..line.len().min(LOGGED_BYTES)];
    String::from_utf8_lossy(shown).escape_debug().to_string()
}

/// What the reader of a stream is told whose call failed; `None` if nothing was begun, so that
/// nothing of the stream is missing.
fn failure_of(line: &[u8]) -> Option<Fault> {
    #[derive(serde::Deserialize)]
    struct Failed<'a> {
        #[serde(borrow)]
        error: &'a RawValue,
    }
    let object = serde_json::from_slice(line)
        .and_then(|Failed { error }| serde_json::from_str::<ErrorObject>(error.get()));
    match object {
        Ok(object) => {
            let error = object.decode(Verb::Exec);
            (error.effect() == Effect::Unknown).then(|| fault_of(&error))
        }
        // Nested too deep, for example. Its call fails, and so does whoever reads beside it.
        Err(_) => Some(Fault {
            kind: ErrorKind::Protocol,
            detail: "the provider failed the call with a malformed error".into(),
        }),
    }
}

fn fault_of(error: &Error) -> Fault {
    Fault {
        kind: error.kind(),
        detail: error.detail_text().to_owned(),
    }
}

/// Whether a verb may change something, so that not knowing whether it was done matters.
pub(crate) fn changes_something(verb: Verb) -> bool {
    use spp_protocol::method::{Changes, find};
    find(verb.name()).is_none_or(|method| method.changes != Changes::Nothing)
}

pub(crate) fn cancel_line(id: u64) -> Vec<u8> {
    let mut line = Vec::with_capacity(64);
    write_notification(&mut line, &Cancel { id });
    line
}

//! What a line means, and who acts on it.
//!
//! Notifications act here, at once. Requests are checked, registered and handed to the method of
//! their name. Whatever has an id is answered, and what has none never is: answers to garbage
//! would be garbage to the peer, and start a storm between two programs that both answer it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use jsonrpsee::core::server::{ConnectionId, Extensions, MethodCallback, MethodResponse, Methods};
use jsonrpsee::types::{ErrorObjectOwned, Id as WireId, Params};
use sandbox_core::{Error, ErrorKind, Verb};
use serde_json::value::RawValue;
use spp_link::{BULK_LINE, Fault};
use spp_protocol::codec::{
    self, Envelope, Line, Payload, StreamChunk, id_in_prefix, method_in_prefix, stream_named,
};
use spp_protocol::message::Notification;
use spp_protocol::message::stream::{
    Cancel, StreamCredit, StreamData, StreamEnd, StreamEnding, StreamStop,
};
use spp_protocol::message::value::MAX_INTEGER;

use crate::call::{Call, Id};
use crate::failure::{self, failed, wire};
use crate::session::{NotBegun, Session};

/// What became of a line.
pub(crate) enum Dispatch {
    /// Nothing is left to do.
    Done,
    /// A request was begun; the future answers it.
    Begun(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// Methods that may begin while every place is taken: they end work, or show that it goes on.
const EXEMPT: [&str; 4] = ["ping", "shutdown", "proc_stop", "release"];

/// What ends a line, beyond what its length counts.
const LINE_END: &[u8] = b"\n";

/// How much of a method that does not exist is shown, in bytes.
const SHOWN_BYTES: usize = 100;
/// The longest id that is repeated although it is none, in bytes.
const REPEATED_BYTES: usize = 256;

pub(crate) fn line(session: &Arc<Session>, methods: &Methods, line: &Line<'_>) -> Dispatch {
    let line = match line {
        Line::Complete(line) => line,
        Line::TooLong { prefix } => {
            match id_in_prefix(prefix) {
                Some(id) => {
                    let max = session.max_line();
                    let verb = method_in_prefix(prefix).and_then(spp_protocol::method::verb);
                    let verb = verb.unwrap_or(Verb::Initialize);
                    let error = Error::refused(verb, ErrorKind::TooLarge)
                        .detail(format_args!("the request's line is longer than {max} bytes; send its content on a stream"));
                    refuse(session, id, &error);
                }
                None => session
                    .junk
                    .dropped("the line is too long and has no id", prefix.len()),
            }
            return Dispatch::Done;
        }
    };
    if let Some(chunk) = StreamChunk::parse_line(line) {
        data(session, chunk);
        return Dispatch::Done;
    }
    if line.first() == Some(&b'[') {
        batch(session, line);
        return Dispatch::Done;
    }
    let Ok(envelope) = Envelope::parse(line) else {
        session.junk.dropped("the line is no message", line.len());
        return Dispatch::Done;
    };
    match (envelope.method, envelope.id) {
        (Some(method), Some(codec::Id::Number(id))) if id <= MAX_INTEGER => {
            return request(session, methods, id, &method, envelope.params);
        }
        (Some(method), None) => {
            notification(session, &method, envelope.params.map(RawValue::get));
        }
        // An answer: we asked nothing.
        (None, _) if envelope.result.is_some() || envelope.error.is_some() => {}
        (_, Some(_)) => invalid(
            session,
            line,
            "a request has a method, and an id that is an integer from 0 to 2^53 - 1",
        ),
        (None, None) => session
            .junk
            .dropped("the message has neither method nor id", line.len()),
    }
    Dispatch::Done
}

fn request(
    session: &Arc<Session>,
    methods: &Methods,
    id: Id,
    method: &str,
    params: Option<&RawValue>,
) -> Dispatch {
    let Some(MethodCallback::Async(callback)) = methods.method(method) else {
        let method = failure::beginning(method, SHOWN_BYTES);
        let message = format!("there is no method `{method}`");
        let error = ErrorObjectOwned::owned(-32601, message, None::<()>);
        answer_now(session, id, error);
        return Dispatch::Done;
    };
    let verb = spp_protocol::method::verb(method).unwrap_or(Verb::Initialize);
    if session.host().is_none() && method != "initialize" {
        let error = Error::refused(verb, ErrorKind::NotInitialized)
            .detail("`initialize` is the first request of a connection");
        refuse(session, id, &error);
        return Dispatch::Done;
    }
    if session.is_draining() && method != "ping" {
        let error = Error::refused(verb, ErrorKind::ProviderUnavailable)
            .detail("the provider is shutting down");
        refuse(session, id, &error);
        return Dispatch::Done;
    }
    let call = match session.begin(id, EXEMPT.contains(&method)) {
        Ok(call) => call,
        Err(NotBegun::DuplicateId) => {
            let error =
                ErrorObjectOwned::owned(-32600, "a request of this id is under way", None::<()>);
            answer_now(session, id, error);
            return Dispatch::Done;
        }
        Err(NotBegun::TooMany) => {
            let error = Error::refused(verb, ErrorKind::Busy).detail(format_args!(
                "{} requests are under way, which is the most at once",
                session.places()
            ));
            refuse(session, id, &error);
            return Dispatch::Done;
        }
    };
    let mut extensions = Extensions::new();
    extensions.insert(call.clone());
    let params = Params::new(params.map(RawValue::get)).into_owned();
    let max = session.max_line();
    let work = callback(WireId::Number(id), params, ConnectionId(0), max, extensions);
    let session = Arc::clone(session);
    Dispatch::Begun(Box::pin(async move {
        // A defect in one verb must not leave its caller waiting, nor take others down.
        let response = AssertUnwindSafe(work)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                tracing::error!(method = verb.name(), "a verb panicked");
                let error = failed(verb, ErrorKind::Internal)
                    .detail("the provider has a defect; its standard error says where");
                MethodResponse::error(WireId::Number(id), wire(&error))
            });
        answer(&session, &call, verb, response, max).await;
    }))
}

async fn answer(session: &Session, call: &Call, verb: Verb, response: MethodResponse, max: usize) {
    // A result does not pass through the library, which has a stand-in for it.
    let line = match call.take_line().filter(|_| response.is_success()) {
        None => line_of(response),
        Some(line) if line.len() <= max + LINE_END.len() => line,
        Some(_) => {
            let error = failed(verb, ErrorKind::TooLarge).detail(format_args!(
                "the answer is longer than a line may be, {max} bytes; ask for less"
            ));
            line_of(MethodResponse::error(
                WireId::Number(call.id()),
                wire(&error),
            ))
        }
    };
    // If the writer is gone, so is the host. The id and the place are free before the host can
    // know it.
    if line.len() > BULK_LINE || call.has_streamed() {
        session.long_answers.fetch_add(1, Ordering::SeqCst);
        session.end(call);
        let _ = session.lanes.data(line).await;
        session.long_answers.fetch_sub(1, Ordering::SeqCst);
    } else {
        session.end(call);
        let _ = session.lanes.control(line);
    }
    for stream in call.answered() {
        session.receivers.end(stream, None, Ok(()));
    }
}

fn refuse(session: &Session, id: Id, error: &Error) {
    answer_now(session, id, wire(error));
}

/// Fails a request that was not begun. The error is short.
fn answer_now(session: &Session, id: Id, error: ErrorObjectOwned) {
    let line = line_of(MethodResponse::error(WireId::Number(id), error));
    debug_assert!(line.len() <= BULK_LINE);
    // If the writer is gone, so is the host.
    let _ = session.lanes.control(line);
}

fn line_of(response: MethodResponse) -> Vec<u8> {
    let text: Box<str> = response.into_json().into();
    let mut line = String::from(text).into_bytes();
    line.extend_from_slice(LINE_END);
    line
}

/// Refuses every member of a batch that has an id. Batches are not part of the protocol: several
/// paths in one request are.
fn batch(session: &Session, line: &[u8]) {
    let Ok(members) = serde_json::from_slice::<Vec<&RawValue>>(line) else {
        session.junk.dropped("the batch is malformed", line.len());
        return;
    };
    for member in members {
        let member = member.get().as_bytes();
        if let Ok(Envelope { id: Some(_), .. }) = Envelope::parse(member) {
            invalid(session, member, "batches are not part of this protocol");
        }
    }
}

/// Answers a message that has an id but is no request we can take, and repeats the id as it came.
fn invalid(session: &Session, message: &[u8], problem: &'static str) {
    #[derive(serde::Deserialize)]
    struct OnlyId<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let Ok(OnlyId { id }) = serde_json::from_slice(message) else {
        return;
    };
    if id.get().len() > REPEATED_BYTES {
        session
            .junk
            .dropped("the id is too long to be repeated", message.len());
        return;
    }
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32600,"message":"{problem}"}}}}{}"#,
        id.get(),
        '\n'
    );
    // If the writer is gone, so is the host.
    let _ = session.lanes.control(line.into_bytes());
}

fn notification(session: &Session, method: &str, params: Option<&str>) {
    fn read<T: Notification>(params: &str) -> Result<T, &'static str> {
        serde_json::from_str(params).map_err(|_| "a notification is malformed")
    }
    let params = params.unwrap_or("{}");
    let done = match method {
        Cancel::METHOD => read(params).map(|Cancel { id }| session.cancel(id)),
        StreamCredit::METHOD => read(params)
            .map(|StreamCredit { stream, bytes }| session.senders.credit(stream.0, bytes)),
        StreamStop::METHOD => {
            read(params).map(|StreamStop { stream }| session.senders.stop(stream.0))
        }
        StreamEnd::METHOD => read(params).and_then(|end: StreamEnd| {
            let stream = end.stream.0;
            let (bytes, result) = match end.ending()? {
                StreamEnding::Whole(bytes) => (Some(bytes), Ok(())),
                StreamEnding::Failed(error) => {
                    let fault = Fault {
                        kind: ErrorKind::Cancelled,
                        detail: error.message,
                    };
                    (None, Err(fault))
                }
            };
            session.receivers.end(stream, bytes, result);
            Ok(())
        }),
        StreamData::METHOD => StreamChunk::from_params(params)
            .map(|chunk| data(session, chunk))
            .map_err(|_| "stream data is malformed"),
        // A later version's, perhaps.
        _ => Ok(()),
    };
    if let Err(problem) = done {
        // Something of the stream is lost, and its reader must not take the rest for the whole.
        if let (StreamData::METHOD | StreamEnd::METHOD, Some(stream)) =
            (method, stream_named(params))
        {
            session.receivers.spoil(stream.0, problem);
        }
        session.junk.dropped(problem, params.len());
    }
}

fn data(session: &Session, chunk: StreamChunk<'_>) {
    let (stream, seq, offset) = (chunk.stream.0, chunk.seq, chunk.offset);
    let (Payload::Text(text) | Payload::Base64(text)) = &chunk.payload;
    let bytes = text.len();
    match chunk.payload.into_bytes() {
        Ok(bytes) => {
            if let Err(refused) = session.receivers.data(stream, seq, offset, bytes) {
                tracing::debug!(stream, ?refused, "stream data was refused");
            }
        }
        Err(error) => {
            session.receivers.spoil(stream, &error.to_string());
            session
                .junk
                .dropped("stream data is not what it says", bytes);
        }
    }
}

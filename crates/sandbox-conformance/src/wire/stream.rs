//! Streams towards the host, accounted for: order, size, and credit.
//!
//! **Invariant:** what a provider sends beyond its credit, out of order, or after the answer of the
//! request that named the stream, fails the check that is under way.

use std::collections::BTreeMap;

use base64_simd::STANDARD;
use serde_json::{Value, json};

use crate::check::Failure;

/// What each message costs beside its bytes.
pub(super) const OVERHEAD: u64 = 512;
/// Most bytes in one message.
const MOST: usize = 256 * 1024;

/// What is done with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Taken as it comes: credit is given back.
    Eager,
    /// Not taken: no credit is given back.
    Stalled,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    seq: u64,
    pub(super) bytes: Vec<u8>,
    reading: Reading,
    /// Sent and not given back.
    pub(super) outstanding: u64,
    /// Whose answer ends it.
    request: Option<u64>,
    over: Over,
    /// How many bytes there were, as `stream/end` says.
    pub(super) end: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    No,
    /// The receiver wants no more; what is under way may still come.
    Stopped,
    Ended,
    Answered,
}

/// Every stream of a connection.
#[derive(Debug)]
pub(super) struct Streams {
    by_id: BTreeMap<u64, Stream>,
    /// What was offered as `stream_window_bytes`.
    pub(super) window: u64,
    /// What was offered as `connection_window_bytes`.
    pub(super) connection_window: u64,
    /// The most that ever was outstanding together.
    pub(super) most_outstanding: u64,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            window: 256 * 1024,
            connection_window: 8 * 1024 * 1024,
            most_outstanding: 0,
        }
    }
}

impl Streams {
    pub(super) fn open(&mut self, id: u64, reading: Reading) {
        let stream = Stream {
            seq: 0,
            bytes: Vec::new(),
            reading,
            outstanding: 0,
            request: None,
            over: Over::No,
            end: None,
        };
        self.by_id.insert(id, stream);
    }

    /// Says whose answer ends these streams.
    pub(super) fn of_request(&mut self, request: u64, streams: &[u64]) {
        for id in streams {
            if let Some(stream) = self.by_id.get_mut(id) {
                stream.request = Some(request);
            }
        }
    }

    pub(super) fn get(&self, id: u64) -> Result<&Stream, Failure> {
        self.by_id
            .get(&id)
            .ok_or_else(|| Failure::new("the check named no such stream"))
    }

    /// Begins to take data; returns the credit that is to be given back, if there is any.
    pub(super) fn resume(&mut self, id: u64) -> Option<Value> {
        let stream = self.by_id.get_mut(&id)?;
        stream.reading = Reading::Eager;
        give_back(id, stream)
    }

    /// The receiver says that it wants no more.
    pub(super) fn stopped(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.over = Over::Stopped;
        }
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, request: u64) {
        for stream in self.by_id.values_mut() {
            if stream.request == Some(request) {
                (stream.over, stream.outstanding) = (Over::Answered, 0);
            }
        }
    }

    /// Takes a notification that is about a stream; returns the parameters of a `stream/credit`
    /// that it makes due.
    pub(super) fn take(&mut self, method: &str, params: &Value) -> Result<Option<Value>, Failure> {
        match method {
            "stream/data" => self.data(params),
            "stream/end" => {
                let id = number(params, "stream")?;
                if let Some(stream) = self.by_id.get_mut(&id) {
                    stream.end = Some(params.clone());
                    (stream.over, stream.outstanding) = (Over::Ended, 0);
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn data(&mut self, params: &Value) -> Result<Option<Value>, Failure> {
        let (id, seq, offset) = (
            number(params, "stream")?,
            number(params, "seq")?,
            number(params, "offset")?,
        );
        let bytes = payload(params)?;
        let (window, connection) = (self.window, self.connection_window);
        let Some(stream) = self.by_id.get_mut(&id) else {
            return Err(Failure::new(format_args!(
                "data came on stream {id}, which no request named"
            )));
        };
        match stream.over {
            Over::No => {}
            Over::Stopped => return Ok(None),
            Over::Ended => {
                return Err(Failure::new(format_args!(
                    "data came on stream {id} after its `stream/end`"
                )));
            }
            Over::Answered => {
                return Err(Failure::new(format_args!(
                    "data came on stream {id} after the answer that ends it"
                )));
            }
        }
        if (seq, offset) != (stream.seq, stream.bytes.len() as u64) {
            return Err(Failure::new(format_args!(
                "stream {id} goes on with seq {seq} at offset {offset}, and should with seq {} at offset {}",
                stream.seq,
                stream.bytes.len()
            )));
        }
        stream.seq += 1;
        stream.outstanding += bytes.len() as u64 + OVERHEAD;
        stream.bytes.extend_from_slice(&bytes);
        if stream.outstanding > window {
            return Err(Failure::new(format_args!(
                "{} bytes are outstanding on stream {id}, whose window is {window}",
                stream.outstanding
            )));
        }
        let together: u64 = self.by_id.values().map(|stream| stream.outstanding).sum();
        self.most_outstanding = self.most_outstanding.max(together);
        if together > connection {
            return Err(Failure::new(format_args!(
                "{together} bytes are outstanding on all streams, and the connection's window is {connection}"
            )));
        }
        let Some(stream) = self.by_id.get_mut(&id) else {
            return Ok(None);
        };
        let due = stream.reading == Reading::Eager && stream.outstanding >= window / 2;
        Ok(due.then(|| give_back(id, stream)).flatten())
    }
}

fn give_back(id: u64, stream: &mut Stream) -> Option<Value> {
    let bytes = std::mem::take(&mut stream.outstanding);
    (bytes > 0).then(|| json!({"stream": id, "bytes": bytes}))
}

fn number(params: &Value, name: &str) -> Result<u64, Failure> {
    params[name].as_u64().ok_or_else(|| {
        Failure::new(format_args!(
            "a message about a stream has no `{name}` that is an integer: {params}"
        ))
    })
}

fn payload(params: &Value) -> Result<Vec<u8>, Failure> {
    let bytes = match (params["text"].as_str(), params["b64"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(encoded)) => STANDARD
            .decode_to_vec(encoded.as_bytes())
            .map_err(|_| Failure::new("`b64` of a stream is no base64 with padding"))?,
        _ => {
            return Err(Failure::new(
                "data of a stream has not exactly one of `text` and `b64`",
            ));
        }
    };
    if bytes.len() > MOST {
        return Err(Failure::new(format_args!(
            "one message carries {} bytes, and {MOST} is the most",
            bytes.len()
        )));
    }
    Ok(bytes)
}

//! Notifications: stream data and its credit, cancellation, progress, the end of a sandbox.
//!
//! The busiest of them, `stream/data`, is written and read by [`codec::stream_data`] without
//! building these types; [`StreamData`] here is its slow twin, for the schema and for peers' odd
//! spellings.
//!
//! [`codec::stream_data`]: crate::codec::stream_data

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Notification;
use super::open::open;
use super::value::StreamId;
use crate::error::ErrorObject;

macro_rules! notification {
    ($($name:ident = $method:literal),+ $(,)?) => {
        $(impl Notification for $name { const METHOD: &'static str = $method; })+
    };
}

notification! {
    StreamData = "stream/data",
    StreamEnd = "stream/end",
    StreamCredit = "stream/credit",
    StreamStop = "stream/stop",
    Cancel = "$/cancel",
    Progress = "$/progress",
    SandboxClosed = "sandbox/closed",
}

/// Bytes of a stream. Exactly one of `text` and `b64` is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamData {
    /// The stream.
    pub stream: StreamId,
    /// Counts the data messages of the stream from 0.
    pub seq: u64,
    /// Bytes of the stream before these.
    pub offset: u64,
    /// The bytes, where they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b64: Option<String>,
}

/// No more data follows: all of it was sent, or it ended early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEnd {
    /// The stream.
    pub stream: StreamId,
    /// How many bytes it had in all; absent where it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}

/// What a [`StreamEnd`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// All of it was sent, this many bytes.
    Whole(u64),
    /// It ended early, and why.
    Failed(Box<ErrorObject>),
}

impl StreamEnd {
    /// What it says.
    ///
    /// # Errors
    ///
    /// It says neither or both: a reader must not take what it has for the whole.
    pub fn ending(self) -> Result<StreamEnding, &'static str> {
        match (self.bytes, self.error) {
            (Some(bytes), None) => Ok(StreamEnding::Whole(bytes)),
            (None, Some(error)) => Ok(StreamEnding::Failed(Box::new(error))),
            (None, None) => {
                Err("the end of a stream says neither how long it was nor why it failed")
            }
            (Some(_), Some(_)) => {
                Err("the end of a stream says both how long it was and why it failed")
            }
        }
    }
}

/// The receiver took this much: the sender may send as much again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCredit {
    /// The stream.
    pub stream: StreamId,
    /// Cost that is given back: payload bytes and 512 for each data message.
    pub bytes: u64,
}

/// The receiver wants no more of this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamStop {
    /// The stream.
    pub stream: StreamId,
}

/// The host no longer needs an answer; one comes all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancel {
    /// The id of the request.
    pub id: u64,
}

/// Long work goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// The id of the request that works.
    pub id: u64,
    /// A stable short name of the step.
    pub phase: String,
    /// A sentence about it, for people.
    pub message: String,
}

/// A sandbox ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxClosed {
    /// The sandbox.
    pub sandbox: String,
    /// The life of it that ended.
    pub generation: u64,
    /// How.
    pub reason: CloseReason,
    /// Why, in one sentence; may be empty.
    #[serde(default)]
    pub detail: String,
}

open! {
    /// How a sandbox ended.
    pub enum CloseReason {
        /// It was released.
        Released = "released",
        /// It is gone, with what was in it.
        Lost = "lost",
    }
}

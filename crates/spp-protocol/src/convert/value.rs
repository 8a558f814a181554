//! Shared values: names and paths, digests, times, JSON text, and byte fields on streams.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use sandbox_core::{Digest, Error, ProcId, SandboxId, SandboxPath, Verb};

use super::{Invalid, integer};
use crate::error::ErrorObject;
use crate::message::Item;
use crate::message::file::{Change, WriteParams};
use crate::message::process::ProcStdinParams;
use crate::message::tree::{PullTreeParams, PushTreeParams};
use crate::message::value::{ByteField, JsonText, MAX_INLINE_BYTES, Octets, StreamId, Time};

/// Where byte fields go that do not fit the line.
///
/// A field of more than [`MAX_INLINE_BYTES`] is put on the stream, if one was named. The stream
/// carries all of them one after the other, in the order in which they were encoded.
#[derive(Debug)]
pub struct Outlet {
    stream: Option<StreamId>,
    chunks: Vec<Bytes>,
}

impl Outlet {
    /// An outlet onto this stream; without one, every field stays on the line, whatever its length.
    #[must_use]
    pub fn new(stream: Option<StreamId>) -> Self {
        Self {
            stream,
            chunks: Vec::new(),
        }
    }

    /// The stream and what is to be sent on it, in order; `None` if every field fits the line.
    #[must_use]
    pub fn into_stream(self) -> Option<(StreamId, Vec<Bytes>)> {
        self.stream
            .filter(|_| !self.chunks.is_empty())
            .map(|stream| (stream, self.chunks))
    }

    pub(crate) fn field(&mut self, bytes: Bytes) -> ByteField {
        match self.stream {
            Some(stream) if bytes.len() > MAX_INLINE_BYTES => {
                let field = ByteField::Stream {
                    stream,
                    bytes: Some(bytes.len() as u64),
                };
                self.chunks.push(bytes);
                field
            }
            _ => ByteField::Inline(bytes),
        }
    }
}

/// Where byte fields come from that did not fit the line: what a stream carried.
#[derive(Debug, Default)]
pub struct Inlet {
    stream: Option<StreamId>,
    rest: Bytes,
}

impl Inlet {
    /// No stream: every field must be on the line.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Everything that this stream carried.
    #[must_use]
    pub fn new(stream: StreamId, bytes: Bytes) -> Self {
        Self {
            stream: Some(stream),
            rest: bytes,
        }
    }

    pub(crate) fn take(&mut self, field: ByteField) -> Result<Bytes, Invalid> {
        let (stream, count) = match field {
            ByteField::Inline(bytes) => return Ok(bytes),
            ByteField::Stream { stream, bytes } => (stream, bytes),
        };
        if self.stream != Some(stream) {
            return Err(Invalid::new(format_args!(
                "stream {stream} is not the one for this field"
            )));
        }
        let count = count.ok_or_else(|| Invalid::new("`bytes` is missing beside `stream`"))?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(self.rest.split_to(count)),
            _ => Err(Invalid::new(format_args!(
                "stream {stream} has {} bytes left, and the field is {count} bytes long",
                self.rest.len()
            ))),
        }
    }

    /// Every byte that came must belong to a field.
    pub(crate) fn finish(&self) -> Result<(), Invalid> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(Invalid::new(format_args!(
                "the stream carried {count} bytes that belong to no field"
            ))),
        }
    }
}

/// The stream that byte fields of a request refer to, and how many of its bytes they are in all. The
/// receiver collects that much before it decodes.
///
/// # Errors
///
/// `InvalidArgument` if the fields name several streams, leave out their length, or are more than
/// `max` bytes in all (`TooLarge`).
pub fn referenced<'a>(
    verb: Verb,
    fields: impl IntoIterator<Item = &'a ByteField>,
    max: u64,
) -> sandbox_core::Result<Option<(StreamId, u64)>> {
    let mut found: Option<(StreamId, u64)> = None;
    for field in fields {
        let ByteField::Stream { stream, bytes } = field else {
            continue;
        };
        let bytes =
            bytes.ok_or_else(|| Invalid::new("`bytes` is missing beside `stream`").refuse(verb))?;
        let total = match found {
            None => bytes,
            Some((first, total)) if first == *stream => total.saturating_add(bytes),
            Some(_) => {
                return Err(
                    Invalid::new("byte fields of one request share one stream").refuse(verb)
                );
            }
        };
        if total > max {
            return Err(
                Error::refused(verb, sandbox_core::ErrorKind::TooLarge).detail(format_args!(
                    "the request's byte fields are at least {total} bytes, and the limit is {max}"
                )),
            );
        }
        found = Some((*stream, total));
    }
    Ok(found)
}

impl WriteParams {
    /// The byte fields, in the order in which they share a stream.
    pub fn byte_fields(&self) -> impl Iterator<Item = &ByteField> {
        self.changes.iter().flat_map(|change| match change {
            Change::Put(put) => vec![&put.content],
            Change::Edit(edit) => edit
                .replacements
                .iter()
                .flat_map(|replacement| [&replacement.find, &replacement.replace])
                .collect(),
            _ => Vec::new(),
        })
    }
}

impl ProcStdinParams {
    /// The byte fields.
    pub fn byte_fields(&self) -> impl Iterator<Item = &ByteField> {
        self.content.iter()
    }
}

impl PushTreeParams {
    /// The byte fields; the archive has a stream of its own.
    pub fn byte_fields(&self) -> impl Iterator<Item = &ByteField> {
        self.base.iter().chain(&self.removed)
    }
}

impl PullTreeParams {
    /// The byte fields.
    pub fn byte_fields(&self) -> impl Iterator<Item = &ByteField> {
        self.base.iter()
    }
}

pub(crate) fn encode_path(path: &SandboxPath) -> Octets {
    if path.is_root() {
        Octets::new(".")
    } else {
        Octets::new(path.as_bytes())
    }
}

pub(crate) fn path(octets: Octets) -> Result<SandboxPath, Invalid> {
    SandboxPath::parse(octets.0).map_err(Invalid::new)
}

pub(crate) fn absolute(octets: Octets) -> Result<SandboxPath, Invalid> {
    let path = path(octets)?;
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(Invalid::new("the path is not absolute"))
    }
}

pub(crate) fn sandbox_id(text: &str) -> Result<SandboxId, Invalid> {
    SandboxId::new(text).map_err(Invalid::new)
}

pub(crate) fn proc_id(text: &str) -> Result<ProcId, Invalid> {
    ProcId::new(text).map_err(Invalid::new)
}

pub(crate) fn digest(text: &str) -> Result<Digest, Invalid> {
    text.parse().map_err(Invalid::new)
}

pub(crate) fn mode(mode: u32) -> Result<u32, Invalid> {
    if mode & !0o7777 == 0 {
        Ok(mode)
    } else {
        Err(Invalid::new(format_args!(
            "{mode} is more than permission bits (07777)"
        )))
    }
}

pub(crate) fn encode_json(text: &str) -> JsonText {
    JsonText::parse(text).unwrap_or_else(|_| {
        // The port says that this is JSON. What is not travels as a string, and the provider refuses it.
        let quoted = serde_json::Value::from(text).to_string();
        JsonText::parse(&quoted).expect("a JSON string is JSON")
    })
}

pub(crate) fn encode_time(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time {
            s: i64::try_from(integer(after.as_secs())).unwrap_or(i64::MAX),
            ns: after.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            let s = -i64::try_from(integer(before.as_secs())).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => Time { s, ns: 0 },
                ns => Time {
                    s: s - 1,
                    ns: 1_000_000_000 - ns,
                },
            }
        }
    }
}

pub(crate) fn time(time: Time) -> Result<SystemTime, Invalid> {
    if time.ns >= 1_000_000_000 {
        return Err(Invalid::new("`ns` is less than 1000000000"));
    }
    let whole = Duration::from_secs(time.s.unsigned_abs());
    let second = if time.s >= 0 {
        UNIX_EPOCH.checked_add(whole)
    } else {
        UNIX_EPOCH.checked_sub(whole)
    };
    second
        .and_then(|second| second.checked_add(Duration::from_nanos(time.ns.into())))
        .ok_or_else(|| Invalid::new("the time is out of range"))
}

pub(crate) fn encode_item<T, U>(
    item: sandbox_core::Result<T>,
    encode: impl FnOnce(T) -> U,
) -> Item<U> {
    match item {
        Ok(value) => Item::Ok(encode(value)),
        Err(error) => Item::Error(Box::new(ErrorObject::encode(&error))),
    }
}

/// An item's own error stays in it; a malformed item spoils the whole answer.
pub(crate) fn item<T, U>(
    verb: Verb,
    item: Item<T>,
    decode: impl FnOnce(T) -> Result<U, Invalid>,
) -> Result<sandbox_core::Result<U>, Invalid> {
    match item {
        Item::Ok(value) => decode(value).map(Ok),
        Item::Error(error) => Ok(Err(error.decode(verb))),
    }
}

//! Values that many messages share: names, byte fields, times, stream ids, JSON text.
//!
//! Two forms carry bytes. [`Octets`] is for names (paths, arguments, variables): a plain string
//! where they are UTF-8, `{"b64": ...}` otherwise. [`ByteField`] is for content: `{"text": ...}` or
//! `{"b64": ...}` on the line itself, or `{"stream": ID, "bytes": N}` where it is too long for one.
//!
//! Integers stay below 2^53 so that every JSON library keeps them exact ([`MAX_INTEGER`]).

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::codec::bytes::{Encoding, decode_base64, encode_base64, encoding_of};

/// The largest integer on the wire: 2^53 - 1.
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Longest byte field that is put on a line where a stream was named for it, in bytes.
pub const MAX_INLINE_BYTES: usize = 32 * 1024;

/// Names a stream. Drawn by the host, unique in the connection, below 2^53.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct StreamId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What accompanies a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Meta {
    /// How long the host waits, in milliseconds from the moment it sent the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// A moment: whole seconds since 1970-01-01T00:00:00Z, and nanoseconds after that second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub s: i64,
    /// Nanoseconds, 0 to 999999999.
    #[serde(default)]
    pub ns: u32,
}

/// A short name as bytes: a path, an argument, a variable.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Octets(pub Vec<u8>);

impl Octets {
    /// Copies the bytes of a name.
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        Self(bytes.as_ref().to_vec())
    }
}

impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("b64", &encode_base64(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OctetsVisitor;

        impl<'de> Visitor<'de> for OctetsVisitor {
            type Value = Octets;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or {\"b64\": ...} for what is not UTF-8")
            }

            fn visit_str<E>(self, text: &str) -> Result<Octets, E> {
                Ok(Octets(text.as_bytes().to_vec()))
            }

            fn visit_string<E>(self, text: String) -> Result<Octets, E> {
                Ok(Octets(text.into_bytes()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Octets, A::Error> {
                match read_byte_field(map)? {
                    ByteField::Inline(bytes) => Ok(Octets(bytes.into())),
                    ByteField::Stream { .. } => {
                        Err(de::Error::custom("a name does not travel on a stream"))
                    }
                }
            }
        }

        deserializer.deserialize_any(OctetsVisitor)
    }
}

impl JsonSchema for Octets {
    fn schema_name() -> Cow<'static, str> {
        "Octets".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A name: a string where it is UTF-8, otherwise its bytes in base64.",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "b64": { "type": "string", "contentEncoding": "base64" } },
                    "required": ["b64"],
                },
            ],
        })
    }
}

/// Content: on the line itself, or on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByteField {
    /// These bytes.
    Inline(Bytes),
    /// The next `bytes` bytes of this stream.
    Stream {
        /// The stream.
        stream: StreamId,
        /// How many of its bytes belong to this field; absent where the field is the whole stream and its
        /// length is not known beforehand, which only `exec`'s `stdin` may be.
        bytes: Option<u64>,
    },
}

impl Serialize for ByteField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Inline(bytes) => match encoding_of(bytes) {
                Encoding::Text(text) => map.serialize_entry("text", text)?,
                Encoding::Base64 => map.serialize_entry("b64", &encode_base64(bytes))?,
            },
            Self::Stream { stream, bytes } => {
                map.serialize_entry("stream", stream)?;
                if let Some(bytes) = bytes {
                    map.serialize_entry("bytes", bytes)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ByteField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;

        impl<'de> Visitor<'de> for FieldVisitor {
            type Value = ByteField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{\"text\": ...}, {\"b64\": ...} or {\"stream\": ..., \"bytes\": ...}")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ByteField, A::Error> {
                read_byte_field(map)
            }
        }

        deserializer.deserialize_map(FieldVisitor)
    }
}

fn read_byte_field<'de, A: MapAccess<'de>>(mut map: A) -> Result<ByteField, A::Error> {
    let (mut inline, mut stream, mut count) = (None, None, None);
    let mut forms = 0;
    while let Some(key) = map.next_key::<Member>()? {
        match key {
            Member::Text => {
                forms += 1;
                inline = Some(Bytes::from(map.next_value::<String>()?));
            }
            Member::B64 => {
                forms += 1;
                let Base64(bytes) = map.next_value()?;
                inline = Some(bytes.into());
            }
            Member::Stream => {
                forms += 1;
                stream = Some(map.next_value()?);
            }
            Member::Bytes => count = map.next_value()?,
            Member::Other => {
                map.next_value::<de::IgnoredAny>()?;
            }
        }
    }
    match (inline, stream) {
        (Some(bytes), None) if forms == 1 => Ok(ByteField::Inline(bytes)),
        (None, Some(stream)) if forms == 1 => Ok(ByteField::Stream {
            stream,
            bytes: count,
        }),
        _ => Err(de::Error::custom(
            "bytes have exactly one of the members `text`, `b64` and `stream`",
        )),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Member {
    Text,
    B64,
    Stream,
    Bytes,
    #[serde(other)]
    Other,
}

/// Decoded while it is read, without a copy of the text.
struct Base64(Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64Visitor;

        impl Visitor<'_> for Base64Visitor {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes in base64")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64, E> {
                decode_base64(text.as_bytes())
                    .map(Base64)
                    .map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Base64Visitor)
    }
}

impl JsonSchema for ByteField {
    fn schema_name() -> Cow<'static, str> {
        "ByteField".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Content: text where it is UTF-8, otherwise base64, or the next `bytes` bytes of a stream.",
            "type": "object",
            "oneOf": [
                { "properties": { "text": { "type": "string" } }, "required": ["text"] },
                {
                    "properties": { "b64": { "type": "string", "contentEncoding": "base64" } },
                    "required": ["b64"],
                },
                {
                    "properties": {
                        "stream": generator.subschema_for::<StreamId>(),
                        "bytes": { "type": "integer", "minimum": 0 },
                    },
                    "required": ["stream"],
                },
            ],
        })
    }
}

/// JSON that is passed on as the text it is: big integers and repeated members survive.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(pub Box<RawValue>);

impl JsonText {
    /// Wraps JSON text. Line breaks between values become spaces, because a message is one line;
    /// nothing else changes.
    ///
    /// # Errors
    ///
    /// What a JSON parser says of the text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        // A string cannot hold a raw line break, so every one is white space between values.
        let line: String = text
            .chars()
            .map(|character| match character {
                '\n' | '\r' => ' ',
                other => other,
            })
            .collect();
        RawValue::from_string(line).map(Self)
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for JsonText {}

impl JsonSchema for JsonText {
    fn schema_name() -> Cow<'static, str> {
        "JsonText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Any JSON. It is passed on as the text it is." })
    }
}

/// No content. Members may come in later versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

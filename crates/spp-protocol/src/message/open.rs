//! Choices that a later version may extend: a value nobody here knows is kept by name instead of
//! failing the message it is in.
//!
//! On the wire a choice is a string, or, where it carries something, an object with one member that
//! is named after it: `"all"`, `{"bytes": {"offset": 0, "length": 10}}`. The macro [`open`] writes
//! the type, its serde and its schema. The schema is open as well.
//!
//! Not here: what an unknown value means. A request that carries one is refused, a result falls
//! back to its least promising value; both are [`convert`](crate::convert)'s.

use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeSeed, Deserializer, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

/// Declares a choice with its wire names. Variants that carry something name its type.
macro_rules! open {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $( $(#[doc = $doc:literal])* $variant:ident $(($payload:ty))? = $tag:literal, )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[doc = $doc])* $variant $(($payload))?, )+
            /// A value of a later version, by its name.
            Unknown(Box<str>),
        }

        impl $name {
            /// The wire names that this version knows.
            pub const NAMES: &'static [&'static str] = &[$($tag),+];
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use $crate::message::open::open;
                match self {
                    $( open!(@pattern value, $variant $(, $payload)?) => open!(@serialize serializer, value, $tag $(, $payload)?), )+
                    Self::Unknown(name) => serializer.serialize_str(name),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use $crate::message::open::{Key, expecting, open};

                struct Visitor;

                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        expecting(f, $name::NAMES)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        match text {
                            $( $tag => open!(@plain E, $name, $variant, $tag $(, $payload)?), )+
                            _ => Ok($name::Unknown(text.into())),
                        }
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut found: Option<(&'static str, $name)> = None;
                        let mut unknown: Option<Box<str>> = None;
                        let mut both: Option<Box<str>> = None;
                        while let Some(key) = map.next_key_seed(Key($name::NAMES))? {
                            match &*key {
                                $( $tag => {
                                    let value = open!(@value map, $name, $variant $(, $payload)?);
                                    if let Some((before, _)) = found.replace(($tag, value)) {
                                        both = Some(format!("{before} and {}", $tag).into());
                                    }
                                } )+
                                other => {
                                    unknown.get_or_insert_with(|| other.into());
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        match (both, found, unknown) {
                            // Which of them is meant nobody knows, least of all by their order.
                            (Some(both), _, _) => Ok($name::Unknown(both)),
                            (None, Some((_, found)), _) => Ok(found),
                            (None, None, Some(unknown)) => Ok($name::Unknown(unknown)),
                            (None, None, None) => Err(serde::de::Error::invalid_length(0, &self)),
                        }
                    }
                }

                deserializer.deserialize_any(Visitor)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use $crate::message::open::{Known, open, schema};
                schema(
                    generator,
                    &[$( Known {
                        tag: $tag,
                        doc: concat!($($doc, "\n"),*),
                        payload: open!(@payload $($payload)?),
                    } ),+],
                )
            }
        }
    };

    (@pattern $value:ident, $variant:ident) => { Self::$variant };
    (@pattern $value:ident, $variant:ident, $payload:ty) => { Self::$variant($value) };

    (@serialize $serializer:ident, $value:ident, $tag:literal) => {
        $serializer.serialize_str($tag)
    };
    (@serialize $serializer:ident, $value:ident, $tag:literal, $payload:ty) => {
        $crate::message::open::single($serializer, $tag, $value)
    };

    (@plain $error:ident, $name:ident, $variant:ident, $tag:literal) => { Ok($name::$variant) };
    (@plain $error:ident, $name:ident, $variant:ident, $tag:literal, $payload:ty) => {
        Err($error::custom(concat!("`", $tag, "` is an object here: {\"", $tag, "\": ...}")))
    };

    (@value $map:ident, $name:ident, $variant:ident) => {{
        $map.next_value::<serde::de::IgnoredAny>()?;
        $name::$variant
    }};
    (@value $map:ident, $name:ident, $variant:ident, $payload:ty) => {
        $name::$variant($map.next_value::<$payload>()?)
    };

    (@payload) => { None };
    (@payload $payload:ty) => { Some(schemars::SchemaGenerator::subschema_for::<$payload>) };
}
pub(crate) use open;

/// Names the value that an absent member stands for.
macro_rules! default {
    ($name:ident::$variant:ident) => {
        impl Default for $name {
            fn default() -> Self {
                Self::$variant
            }
        }
    };
}
pub(crate) use default;

pub(crate) fn expecting(f: &mut fmt::Formatter<'_>, names: &[&str]) -> fmt::Result {
    f.write_str("one of ")?;
    for (index, name) in names.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}`{name}`")?;
    }
    Ok(())
}

pub(crate) fn single<S: Serializer>(
    serializer: S,
    tag: &'static str,
    value: &impl Serialize,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(tag, value)?;
    map.end()
}

/// Reads a member's name without allocating for the known ones.
pub(crate) struct Key(pub(crate) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = std::borrow::Cow<'static, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = std::borrow::Cow<'static, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        expecting(f, self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        let known = self.0.iter().find(|known| **known == text);
        Ok(known.map_or_else(|| text.to_owned().into(), |known| (*known).into()))
    }
}

/// What the schema says of one known value.
pub(crate) struct Known {
    pub(crate) tag: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) payload: Option<fn(&mut SchemaGenerator) -> Schema>,
}

/// The schema of a choice: every known value, and room for later ones.
pub(crate) fn schema(generator: &mut SchemaGenerator, known: &[Known]) -> Schema {
    let mut branches: Vec<Value> = Vec::with_capacity(known.len() + 1);
    let mut objects = Vec::new();
    for Known { tag, doc, payload } in known {
        let doc = doc.split_whitespace().collect::<Vec<_>>().join(" ");
        branches.push(match payload {
            None => json!({ "const": tag, "description": doc }),
            Some(payload) => {
                objects.push(*tag);
                json!({
                    "type": "object",
                    "description": doc,
                    "properties": { *tag: payload(generator) },
                    "required": [tag],
                })
            }
        });
    }
    let strangers: Vec<Value> = objects
        .iter()
        .map(|tag| json!({ "required": [tag] }))
        .collect();
    let later = "A value of a later version.";
    branches.push(json!({
        "type": "string",
        "description": later,
        "not": { "enum": known.iter().map(|known| known.tag).collect::<Vec<_>>() },
    }));
    if !strangers.is_empty() {
        branches.push(json!({
            "type": "object",
            "description": later,
            "minProperties": 1,
            "not": { "anyOf": strangers },
        }));
    }
    json_schema!({ "anyOf": branches })
}

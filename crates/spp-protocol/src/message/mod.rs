//! Parameters and results of every method, as they are on the wire.
//!
//! These types accept whatever a peer may send and say nothing of whether it makes sense: that is
//! decided in [`convert`](crate::convert), which also gives them their `encode` and `decode`.
//! A member that is absent has the default its documentation names. Unknown members are ignored.
//!
//! Durations in requests are whole milliseconds (`*_ms`); durations that were measured are whole
//! microseconds (`*_us`). A request member that is named after a byte field of the result holds the
//! id of the stream on which that field travels if it does not fit the line.

mod open;

pub mod file;
pub mod handshake;
pub mod lifecycle;
pub mod policy;
pub mod process;
pub mod search;
pub mod stream;
pub mod tree;
pub mod value;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};

use crate::error::ErrorObject;
use value::Meta;

/// The parameters of a method that is answered.
pub trait Request: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// The method's name.
    const METHOD: &'static str;
    /// What it is answered with.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send + 'static;

    /// What accompanies the request.
    fn meta(&self) -> Option<&Meta>;

    /// The sandbox it is for, and which life of it; `None` for what concerns the provider.
    fn target(&self) -> Option<(&str, u64)> {
        None
    }
}

/// The parameters of a method that is not answered.
pub trait Notification: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// The method's name.
    const METHOD: &'static str;
}

/// One answer of several: the item's result, or its error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Item<T> {
    /// It worked.
    Ok(T),
    /// It did not.
    Error(Box<ErrorObject>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Item<T> {
    /// Not derived, because that would refuse unknown members beside the one that counts.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(bound(deserialize = "T: Deserialize<'de>"))]
        struct Members<T> {
            #[serde(default = "absent", deserialize_with = "present")]
            ok: Option<T>,
            error: Option<Box<ErrorObject>>,
        }

        fn absent<T>() -> Option<T> {
            None
        }

        // `null` is a value of `ok`, not its absence.
        fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
            deserializer: D,
        ) -> Result<Option<T>, D::Error> {
            T::deserialize(deserializer).map(Some)
        }

        let members = Members::deserialize(deserializer)?;
        match (members.ok, members.error) {
            (Some(value), None) => Ok(Self::Ok(value)),
            (None, Some(error)) => Ok(Self::Error(error)),
            _ => Err(serde::de::Error::custom(
                "an item has exactly one of the members `ok` and `error`",
            )),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Item<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Item_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let ok = generator.subschema_for::<T>();
        let error = generator.subschema_for::<ErrorObject>();
        json_schema!({
            "description": "One answer of several: the item's result, or its error.",
            "type": "object",
            "oneOf": [
                { "properties": { "ok": ok }, "required": ["ok"] },
                { "properties": { "error": error }, "required": ["error"] },
            ],
        })
    }
}

/// Declares the parameters of a verb of a sandbox: its own members, then those that all have.
macro_rules! verb {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident($method:literal) -> $result:ty {
            $( $(#[$field_attribute:meta])* pub $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub struct $name {
            /// The sandbox.
            pub sandbox: String,
            /// The life of the sandbox that is meant. Another one is answered `lost`.
            pub generation: u64,
            $( $(#[$field_attribute])* pub $field: $type, )*
            /// What accompanies the request.
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            pub meta: Option<$crate::message::value::Meta>,
        }

        impl $crate::message::Request for $name {
            const METHOD: &'static str = $method;
            type Result = $result;

            fn meta(&self) -> Option<&$crate::message::value::Meta> {
                self.meta.as_ref()
            }

            fn target(&self) -> Option<(&str, u64)> {
                Some((&self.sandbox, self.generation))
            }
        }
    };
}
pub(crate) use verb;

/// Declares the parameters of a method that concerns the provider.
macro_rules! request {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident($method:literal) -> $result:ty {
            $( $(#[$field_attribute:meta])* pub $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub struct $name {
            $( $(#[$field_attribute])* pub $field: $type, )*
            /// What accompanies the request.
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            pub meta: Option<$crate::message::value::Meta>,
        }

        impl $crate::message::Request for $name {
            const METHOD: &'static str = $method;
            type Result = $result;

            fn meta(&self) -> Option<&$crate::message::value::Meta> {
                self.meta.as_ref()
            }
        }
    };
}
pub(crate) use request;

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

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Item<T> {
    /// It worked.
    Ok(T),
    /// It did not.
    Error(Box<ErrorObject>),
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

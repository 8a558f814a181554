//! Wire values to the port's and back. Input is validated here and nowhere else.
//!
//! `encode` turns a value of the port into its wire form and cannot fail. `decode` turns what a peer
//! sent into a value of the port, or says which member is wrong: in a request that is
//! `InvalidArgument` with no effect, in a result `Protocol` with an unknown one.
//!
//! A choice that this version does not know is refused in a request. In a result it becomes the least
//! promising value there is: an unknown kind of entry is `Special`, an unknown guarantee none.
//!
//! Byte fields that do not fit a line travel on streams. Whoever encodes collects them in an
//! [`Outlet`], whoever decodes takes them from an [`Inlet`]; moving the bytes is the business of the
//! connection.

mod file;
mod handle;
mod handshake;
mod lifecycle;
mod policy;
mod process;
mod search;
mod tree;
mod value;
mod write;

use std::time::Duration;

use sandbox_core::{Error, ErrorKind, Generation, SandboxId, Verb};

pub use handshake::PATH_OF_CAPABILITY;
pub use process::{ExecArrival, ExecStreams};
pub use value::{Inlet, Outlet, referenced};

use crate::message::value::{MAX_INTEGER, Meta};

/// What a request of a sandbox's verb is for, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The life of it that is meant.
    pub generation: Generation,
    /// What accompanies the request.
    pub meta: Option<Meta>,
}

/// The `_meta` of a request that may take this long.
#[must_use]
pub fn meta(remaining: Option<Duration>) -> Option<Meta> {
    remaining.map(|remaining| Meta {
        deadline_ms: Some(milliseconds(remaining)),
        traceparent: None,
    })
}

/// A member that makes no sense, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    path: String,
    detail: String,
}

impl Invalid {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "errors and format arguments are made for this call"
    )]
    pub(crate) fn new(detail: impl ToString) -> Self {
        Self {
            path: String::new(),
            detail: detail.to_string(),
        }
    }

    /// The request is refused.
    pub(crate) fn refuse(self, verb: Verb) -> Error {
        Error::refused(verb, ErrorKind::InvalidArgument).detail(self.text())
    }

    /// The answer of a provider cannot be used.
    pub(crate) fn broken(self, verb: Verb) -> Error {
        Error::new(verb, ErrorKind::Protocol).detail(format_args!(
            "the provider's answer is malformed: {}",
            self.text()
        ))
    }

    fn text(&self) -> String {
        match self.path.as_str() {
            "" => self.detail.clone(),
            path => format!("member `{path}`: {}", self.detail),
        }
    }

    fn below(mut self, member: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => member.to_owned(),
            path if path.starts_with('[') => format!("{member}{path}"),
            path => format!("{member}.{path}"),
        };
        self
    }
}

/// Says in which member something is wrong.
pub(crate) trait Within<T> {
    fn within(self, member: &str) -> Result<T, Invalid>;
}

impl<T> Within<T> for Result<T, Invalid> {
    fn within(self, member: &str) -> Self {
        self.map_err(|invalid| invalid.below(member))
    }
}

/// Converts every element, saying which one is wrong.
pub(crate) fn each<T, U>(
    items: Vec<T>,
    member: &str,
    mut convert: impl FnMut(T) -> Result<U, Invalid>,
) -> Result<Vec<U>, Invalid> {
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| convert(item).within(&format!("[{index}]")).within(member))
        .collect()
}

/// A wire choice whose values are those of a type of the port.
pub(crate) trait Mirror: Sized {
    type Core;

    /// The value, or its name if this version does not know it.
    fn known(&self) -> Result<Self::Core, &str>;

    /// For requests: what is not known is refused.
    fn decode(&self) -> Result<Self::Core, Invalid> {
        self.known()
            .map_err(|name| Invalid::new(format_args!("`{name}` is not known here")))
    }

    /// For results: what is not known is `fallback`.
    fn decode_or(&self, fallback: Self::Core) -> Self::Core {
        self.known().unwrap_or(fallback)
    }
}

/// Implements [`Mirror`] and `From` for choices without payloads.
macro_rules! mirror {
    ($($wire:path = $core:path { $($variant:ident),+ $(,)? })+) => {
        $(
            impl From<$core> for $wire {
                fn from(core: $core) -> Self {
                    use $core as Core;
                    match core {
                        $(Core::$variant => Self::$variant,)+
                    }
                }
            }

            impl $crate::convert::Mirror for $wire {
                type Core = $core;

                fn known(&self) -> Result<$core, &str> {
                    use $core as Core;
                    match self {
                        $(Self::$variant => Ok(Core::$variant),)+
                        Self::Unknown(name) => Err(name),
                    }
                }
            }
        )+
    };
}
pub(crate) use mirror;

/// A count or a cap: what is beyond exact integers is as good as the largest of them.
pub(crate) fn integer(value: u64) -> u64 {
    value.min(MAX_INTEGER)
}

/// Whole milliseconds, rounded up so that something never becomes nothing.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).map_or(MAX_INTEGER, integer)
}

/// Whole microseconds of something that was measured.
pub(crate) fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).map_or(MAX_INTEGER, integer)
}

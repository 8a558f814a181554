//! Meeting and parting: `initialize`, `ping`, `shutdown`, and the manifest that is printed offline.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::open::{default, open};
use super::request;
use super::value::{Empty, JsonText};

request! {
    /// Opens the connection. It is the first message, and comes once.
    pub struct InitializeParams("initialize") -> InitializeResult {
        /// The versions the host speaks.
        pub protocol: Offer,
        /// Who the host is.
        pub host: Peer,
        /// What the host can do beyond this version's minimum; nothing yet.
        #[serde(default)]
        pub capabilities: CapabilityTree,
        /// What the host receives at most.
        #[serde(default)]
        pub limits: WireLimits,
        /// Least severity of what the provider logs: `error`, `warn`, `info`, `debug` or `trace`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub log_level: Option<String>,
    }
}

/// Answers `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InitializeResult {
    /// The version both speak from now on.
    pub protocol: Chosen,
    /// Who the provider is.
    pub provider: Peer,
    /// What the provider can do beyond the mandatory verbs.
    #[serde(default)]
    pub capabilities: CapabilityTree,
    /// What the provider receives at most.
    #[serde(default)]
    pub limits: WireLimits,
    /// Drawn anew at each start of the provider: another value is another process.
    pub instance: String,
}

/// Versions on offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offer {
    /// Major versions, in any order.
    pub majors: Vec<u32>,
}

/// The version chosen: the highest that both offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chosen {
    /// The major version.
    pub major: u32,
}

/// Who one side is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// A short name.
    pub name: String,
    /// A version, for people.
    pub version: String,
    /// The process id; the host's only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// Capabilities as nested objects: group, then name. What is absent, `null` or `false` is not supported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapabilityTree(pub BTreeMap<String, Value>);

/// What one side receives at most. An absent member means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireLimits {
    /// Longest line, in bytes without its end. Default 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_line_bytes: Option<u64>,
    /// Credit of each stream towards this side. Default 256 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_window_bytes: Option<u64>,
    /// Credit of all streams towards this side together. Default 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_window_bytes: Option<u64>,
    /// Requests at once. Default 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u64>,
}

request! {
    /// Asks whether the provider is there.
    pub struct PingParams("ping") -> Empty {
    }
}

request! {
    /// Announces the end: no new work, and an orderly end of what there is.
    pub struct ShutdownParams("shutdown") -> Empty {
        /// What becomes of the sandboxes. Default `keep`.
        #[serde(default)]
        pub mode: ShutdownMode,
        /// Time for running work, in milliseconds. Default 2000.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub grace_ms: Option<u64>,
    }
}

open! {
    /// What becomes of the sandboxes when their provider ends.
    pub enum ShutdownMode {
        /// Sandboxes that can outlive the connection do.
        Keep = "keep",
        /// Every sandbox is released and destroyed.
        Release = "release",
    }
}
default!(ShutdownMode::Keep);

/// What `--spp-manifest` prints, as one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// The provider's short name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The versions it speaks.
    pub protocol: Offer,
    /// What it can do beyond the mandatory verbs.
    #[serde(default)]
    pub capabilities: CapabilityTree,
    /// JSON Schema of its options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options_schema: Option<JsonText>,
}

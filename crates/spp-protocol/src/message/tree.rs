//! The verbs that move trees: `push_tree`, `pull_tree`.
//!
//! A manifest is a byte field, because the manifest of a large tree is longer than any line: its
//! bytes are one [`ManifestEntry`] as JSON a line, in path order. So are other lists that grow with the
//! tree: of paths, one name as JSON a line, and of [`Flaw`]s.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::EntryKind;
use super::open::{default, open};
use super::search::Scope;
use super::value::{ByteField, Octets, StreamId};
use super::verb;

verb! {
    /// Puts a tree into the sandbox.
    pub struct PushTreeParams("push_tree") -> PushTreeResult {
        /// The directory that will be the tree's root.
        pub destination: Octets,
        /// The stream of the tar archive, towards the provider. It ends with `stream/end`.
        pub archive: StreamId,
        /// How the archive is packed. Default `none`.
        #[serde(default)]
        pub compression: Compression,
        /// A manifest: what the sender believes is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub base: Option<ByteField>,
        /// Paths: entries of the base to remove.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub removed: Option<ByteField>,
        /// The stream for a resulting manifest that does not fit the line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub manifest: Option<StreamId>,
    }
}

open! {
    /// How an archive is packed.
    pub enum Compression {
        /// Not at all.
        None = "none",
        /// gzip.
        Gzip = "gzip",
    }
}
default!(Compression::None);

/// Answers `push_tree`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PushTreeResult {
    /// Entries put in place.
    pub applied: u64,
    /// Entries removed.
    pub removed: u64,
    /// Bytes of file content written.
    pub bytes: u64,
    /// A manifest: the tree now.
    pub manifest: ByteField,
}

verb! {
    /// Gets trees out of the sandbox.
    pub struct PullTreeParams("pull_tree") -> PullTreeResult {
        /// Which entries.
        pub scopes: Vec<Scope>,
        /// How to pack the archive. Default `none`.
        #[serde(default)]
        pub compression: Compression,
        /// A manifest: what the receiver has. Only what differs is sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub base: Option<ByteField>,
        /// The stream of the tar archive, towards the host. The result ends it.
        pub archive: StreamId,
        /// The stream for lists of the result that do not fit the line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub manifest: Option<StreamId>,
    }
}

/// Answers `pull_tree`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullTreeResult {
    /// Entries in the archive.
    pub entries: u64,
    /// Paths: entries of the base that are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<ByteField>,
    /// Flaws: entries that are not in the archive as they are in the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flaws: Option<ByteField>,
    /// A manifest: the tree now.
    pub manifest: ByteField,
}

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestEntry {
    /// Where, relative to the tree's root.
    pub path: Octets,
    /// What.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Digest of a file's content, or of a link's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// One line of a list of flaws.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flaw {
    /// Which entry, relative to the tree's root.
    pub path: Octets,
    /// What is the matter with it.
    pub cause: FlawCause,
}

open! {
    /// What is the matter with an entry of a tree.
    pub enum FlawCause {
        /// It changed while it was read; its content in the archive is cut or filled up to the size it had.
        Changed = "changed",
        /// It is a FIFO, a socket or a device, and was left out.
        Special = "special",
        /// It may not be read, and was left out; of a directory, what is in it.
        Unreadable = "unreadable",
    }
}

//! Requests and answers of the verbs that move trees: `push_tree`, `pull_tree`.
//!
//! A tree travels as a tar stream of regular files, directories and symbolic links. Nothing is
//! unpacked blindly: the receiving side checks every entry and puts the result in place with a
//! rename. With a base manifest only what differs travels.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::file::EntryKind;
use crate::search::Scope;
use crate::{ByteStream, Digest, Result, SandboxPath};

/// Puts a tree into the sandbox.
pub struct PushRequest {
    /// The directory that will be the tree's root. It is created if it is missing.
    pub destination: SandboxPath,
    /// The tar stream: the whole tree, or what differs from the base.
    pub archive: ByteStream,
    /// How the stream is packed.
    pub compression: Compression,
    /// What the sender believes is there. Entries of it that the stream does not mention stay;
    /// entries in `removed` go.
    pub base: Option<Manifest>,
    /// Entries of the base to remove.
    pub removed: Vec<SandboxPath>,
}

impl fmt::Debug for PushRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushRequest")
            .field("destination", &self.destination)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

/// How a tar stream is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
}

/// What a push did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushReceipt {
    /// Entries put in place.
    pub applied: u64,
    /// Entries removed.
    pub removed: u64,
    /// Bytes of file content written.
    pub bytes: u64,
    /// The tree now.
    pub manifest: Manifest,
}

/// Gets trees out of the sandbox.
///
/// Entries are named from the deepest directory that all scopes lie in: from its root if there is one
/// scope. That directory itself is no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// Which entries.
    pub scopes: Vec<Scope>,
    /// How to pack the stream.
    pub compression: Compression,
    /// What the receiver has; only what differs is sent.
    pub base: Option<Manifest>,
}

/// A running `pull_tree`. Dropping [`receipt`](Self::receipt) cancels it.
pub struct Pull {
    /// The tar stream.
    pub archive: ByteStream,
    /// How it ended; resolves once the stream was read to its end.
    pub receipt: Pin<Box<dyn Future<Output = Result<PullReceipt>> + Send>>,
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pull")
    }
}

/// What a pull sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullReceipt {
    /// Entries in the stream.
    pub entries: u64,
    /// Entries of the base that are gone.
    pub removed: Vec<SandboxPath>,
    /// Entries that are not in the stream as they are in the tree.
    pub flaws: Vec<Flaw>,
    /// The tree now.
    pub manifest: Manifest,
}

/// An entry that a stream could not carry as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flaw {
    /// Which, relative to the tree's root.
    pub path: SandboxPath,
    /// What is the matter with it.
    pub cause: FlawCause,
}

/// What is the matter with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlawCause {
    /// It changed while it was read: its content in the stream is of the size it had at first, cut or
    /// filled up with zeros, and may be one that it never had.
    Changed,
    /// It is a FIFO, a socket or a device, and was left out.
    Special,
    /// It may not be read, and was left out; of a directory, what is in it.
    Unreadable,
}

/// What a tree consists of, in path order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Its entries.
    pub entries: Vec<ManifestEntry>,
}

/// One entry of a [`Manifest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Where, relative to the tree's root.
    pub path: SandboxPath,
    /// What.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Digest of a file's content, or of a link's text.
    pub digest: Option<Digest>,
}

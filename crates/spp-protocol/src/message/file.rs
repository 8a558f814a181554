//! The file verbs: `read`, `read_many`, `write`, `remove`, `stat_many`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::open::{default, open};
use super::value::{ByteField, Octets, StreamId, Time};
use super::{Item, verb};

verb! {
    /// Reads one regular file, or a part of it.
    pub struct ReadParams("read") -> FileContent {
        /// The file.
        pub path: Octets,
        /// Which part. Default `all`.
        #[serde(default)]
        pub range: Range,
        /// Refuse with `limit_exceeded`, naming the size, if the part is longer than this many
        /// bytes. Default 16 MiB.
        #[serde(default = "default_read")]
        pub max: u64,
        /// The stream for a content that does not fit the line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub content: Option<StreamId>,
    }
}

fn default_read() -> u64 {
    sandbox_core::file::DEFAULT_READ_BYTES
}

open! {
    /// A part of a file.
    pub enum Range {
        /// All of it.
        All = "all",
        /// Some bytes; fewer at the end of the file.
        Bytes(ByteRange) = "bytes",
        /// Some lines, with their terminators; fewer at the end of the file.
        Lines(LineRange) = "lines",
    }
}
default!(Range::All);

/// Some bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByteRange {
    /// The first, from 0.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// Some lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineRange {
    /// The first, from 1.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileContent {
    /// The bytes of the part, as they are.
    pub content: ByteField,
    /// Where the part starts, in bytes.
    pub offset: u64,
    /// Size of the whole file, in bytes.
    pub total_bytes: u64,
    /// Lines of the whole file; there if all of it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    /// Digest of the whole file; there if all of it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Permission bits.
    pub mode: u32,
    /// Last change of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<Time>,
    /// What the bytes look like as text.
    pub text: TextFacts,
}

/// What bytes look like as text. Nothing is converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextFacts {
    /// The encoding, as far as the bytes tell.
    pub encoding: Encoding,
    /// Whether the file starts with a byte order mark.
    #[serde(default)]
    pub bom: bool,
    /// How its lines end.
    pub newline: Newline,
}

open! {
    /// An encoding that bytes can be told to be in.
    pub enum Encoding {
        /// Valid UTF-8, plain ASCII included.
        Utf8 = "utf8",
        /// UTF-16, little endian, by its byte order mark.
        Utf16Le = "utf16_le",
        /// UTF-16, big endian, by its byte order mark.
        Utf16Be = "utf16_be",
        /// None of these, or there is a NUL byte.
        Binary = "binary",
    }
}

open! {
    /// How lines end.
    pub enum Newline {
        /// There is no line end.
        None = "none",
        /// LF only.
        Lf = "lf",
        /// CR LF only.
        CrLf = "crlf",
        /// Both.
        Mixed = "mixed",
    }
}

verb! {
    /// Reads several regular files in one round trip.
    pub struct ReadManyParams("read_many") -> ReadManyResult {
        /// The files.
        pub paths: Vec<Octets>,
        /// Most bytes of content in total. Items beyond it are answered `limit_exceeded`. Default 16 MiB.
        #[serde(default = "default_read")]
        pub total_max: u64,
        /// The stream for contents that do not fit the line, one after the other in item order.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub content: Option<StreamId>,
    }
}

/// Answers `read_many`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadManyResult {
    /// One per path, in order.
    pub items: Vec<Item<FileContent>>,
}

verb! {
    /// Changes files: each change is atomic, and they are done in order.
    pub struct WriteParams("write") -> WriteResult {
        /// What to change. A change that fails does not stop the later ones. Byte fields that
        /// travel on a stream share one, in the order of their members and changes.
        pub changes: Vec<Change>,
        /// What the receipts promise. Default `cached`.
        #[serde(default)]
        pub durability: Durability,
    }
}

open! {
    /// What a receipt promises.
    pub enum Durability {
        /// Every process sees the change; a power failure may undo it.
        Cached = "cached",
        /// The change is on the disk.
        Durable = "durable",
    }
}
default!(Durability::Cached);

open! {
    /// One change.
    pub enum Change {
        /// Gives a file this content.
        Put(Put) = "put",
        /// Replaces parts of a file, reading and writing in one step.
        Edit(Edit) = "edit",
        /// Makes a directory and its parents.
        MakeDirectory(MakeDirectory) = "make_directory",
        /// Renames an entry.
        Rename(Rename) = "rename",
        /// Sets permission bits.
        SetMode(SetMode) = "set_mode",
        /// Makes a symbolic link.
        Link(Link) = "link",
    }
}

/// Gives a file this content. Missing parents are created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Put {
    /// The file.
    pub path: Octets,
    /// All of its content, at most 64 MiB.
    pub content: ByteField,
    /// Permission bits; absent for 0644 less the umask on a new file and no change on another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// What must be true before. Default `none`.
    #[serde(default)]
    pub precondition: Precondition,
}

open! {
    /// What must be true of a file before it is changed.
    pub enum Precondition {
        /// Nothing.
        None = "none",
        /// No entry is there.
        Absent = "absent",
        /// A file is there and has this digest.
        Digest(String) = "digest",
    }
}
default!(Precondition::None);

/// Replaces parts of a file. All other bytes stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edit {
    /// The file.
    pub path: Octets,
    /// What to replace, each on the result of the one before; at least one.
    pub replacements: Vec<Replacement>,
    /// What must be true before. Default `none`.
    #[serde(default)]
    pub precondition: Precondition,
}

/// One replacement of an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replacement {
    /// The text to find; not empty.
    pub find: ByteField,
    /// What to put there.
    pub replace: ByteField,
    /// How often `find` must occur. Default `one`.
    #[serde(default)]
    pub occurrences: Occurrences,
}

open! {
    /// How often the text of a replacement must occur.
    pub enum Occurrences {
        /// Exactly once.
        One = "one",
        /// At least once; all are replaced.
        All = "all",
    }
}
default!(Occurrences::One);

/// Makes a directory and its parents. One that is there already is no error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MakeDirectory {
    /// The directory.
    pub path: Octets,
    /// Permission bits of new directories; absent for 0755 less the umask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// Renames an entry. A link is renamed itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rename {
    /// The entry.
    pub from: Octets,
    /// Its new name.
    pub to: Octets,
    /// What happens to an entry that is there. Default `keep`.
    #[serde(default)]
    pub existing: Existing,
}

open! {
    /// What happens to an entry at the new name.
    pub enum Existing {
        /// The rename fails with `already_exists`.
        Keep = "keep",
        /// It is replaced.
        Replace = "replace",
    }
}
default!(Existing::Keep);

/// Sets permission bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetMode {
    /// The entry.
    pub path: Octets,
    /// Permission bits, 0 to 511 (0777).
    pub mode: u32,
}

/// Makes a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The link.
    pub path: Octets,
    /// Its text, as it is; not empty, no NUL.
    pub target: Octets,
}

/// Answers `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteResult {
    /// One per change, in order.
    pub items: Vec<Item<WriteReceipt>>,
}

/// Facts about a change, seen by the side that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteReceipt {
    /// Whether an entry was there before (for a rename: at the new name).
    pub existed: bool,
    /// Bytes of content after; 0 for what has none.
    #[serde(default)]
    pub bytes: u64,
    /// Lines after less lines before.
    #[serde(default)]
    pub line_delta: i64,
    /// Digest of the content after; absent for what has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// How many replacements an edit made.
    #[serde(default)]
    pub replaced: u64,
}

verb! {
    /// Removes an entry. A link is removed itself.
    pub struct RemoveParams("remove") -> RemoveResult {
        /// The entry; not a root.
        pub path: Octets,
        /// Whether a directory goes with what is in it. Default `no`.
        #[serde(default)]
        pub recursion: Recursion,
    }
}

open! {
    /// Whether a directory goes with what is in it.
    pub enum Recursion {
        /// Only an empty directory is removed.
        No = "no",
        /// The directory and everything below; links are not followed.
        Yes = "yes",
    }
}
default!(Recursion::No);

/// Answers `remove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoveResult {
    /// Whether the entry was there.
    pub existed: bool,
    /// Entries removed, the named one included.
    pub entries: u64,
}

verb! {
    /// Looks at several entries in one round trip. Links are described themselves.
    pub struct StatManyParams("stat_many") -> StatManyResult {
        /// The entries.
        pub paths: Vec<Octets>,
    }
}

/// Answers `stat_many`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatManyResult {
    /// One per path, in order; `null` inside `ok` where no entry is.
    pub items: Vec<Item<Option<Stat>>>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stat {
    /// Its kind.
    pub kind: EntryKind,
    /// Size in bytes; for a link, of its text.
    pub size: u64,
    /// Permission bits, without the kind.
    pub mode: u32,
    /// Last change of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<Time>,
    /// Last change of content or metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Time>,
    /// Inode number, in decimal: some file systems use all 64 bits.
    pub inode: String,
    /// Hard links.
    #[serde(default)]
    pub links: u64,
    /// The text of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Octets>,
}

open! {
    /// Kinds of entry.
    pub enum EntryKind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A symbolic link.
        Link = "link",
        /// A FIFO, socket or device: nothing that a verb reads or writes.
        Special = "special",
    }
}

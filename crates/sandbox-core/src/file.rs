//! Requests and answers of the file verbs: `read`, `read_many`, `write`, `remove`, `stat_many`.
//!
//! A link inside a root is followed as long as it stays inside a root; a link that leaves is
//! reported, never followed. A FIFO or a device never blocks a read: it is refused.

use std::time::SystemTime;

use bytes::Bytes;

use crate::{Digest, Error, Result, SandboxPath};

/// Default of [`ReadRequest::max`], in bytes.
pub const DEFAULT_READ_BYTES: u64 = 16 * 1024 * 1024;
/// Most bytes that one `read`, one `read_many` or the content of one `put` may carry. Larger files are
/// read by range, or travel as trees.
pub const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Reads one regular file, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The file.
    pub path: SandboxPath,
    /// Which part.
    pub range: Range,
    /// Refuse with `TooLarge`, naming the size, if the part is longer than this.
    pub max: u64,
}

impl ReadRequest {
    /// Reads the whole file, at most [`DEFAULT_READ_BYTES`].
    #[must_use]
    pub fn new(path: SandboxPath) -> Self {
        Self {
            path,
            range: Range::All,
            max: DEFAULT_READ_BYTES,
        }
    }
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// All of it.
    All,
    /// `length` bytes from `offset`; less at the end of the file.
    Bytes {
        /// First byte, from 0.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// `count` lines from `first`; less at the end of the file. Lines end in LF or at the end of the file
    /// and include their terminator.
    Lines {
        /// First line, from 1.
        first: u64,
        /// How many.
        count: u64,
    },
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes of the part, as they are.
    pub bytes: Bytes,
    /// Where the part starts, in bytes.
    pub offset: u64,
    /// Size of the whole file, in bytes.
    pub total_bytes: u64,
    /// Lines of the whole file; known when all of it was read.
    pub total_lines: Option<u64>,
    /// Digest of the whole file; known when all of it was read.
    pub digest: Option<Digest>,
    /// Permission bits.
    pub mode: u32,
    /// Last change of the content.
    pub modified: Option<SystemTime>,
    /// What kind of text the part is.
    pub text: TextFacts,
}

/// What the bytes look like as text. Facts only: nothing is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextFacts {
    /// The encoding, as far as the bytes tell.
    pub encoding: Encoding,
    /// Whether the file starts with a byte order mark.
    pub bom: bool,
    /// How its lines end.
    pub newline: Newline,
}

/// An encoding that bytes can be told to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Valid UTF-8, plain ASCII included.
    Utf8,
    /// UTF-16, little endian, by its byte order mark.
    Utf16Le,
    /// UTF-16, big endian, by its byte order mark.
    Utf16Be,
    /// None of these, or there is a NUL byte.
    Binary,
}

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newline {
    /// There is no line end.
    None,
    /// LF only.
    Lf,
    /// CR LF only.
    CrLf,
    /// Both.
    Mixed,
}

/// Reads several regular files in one round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadManyRequest {
    /// The files. Answers come in this order.
    pub paths: Vec<SandboxPath>,
    /// Most bytes of content in total. The item that would exceed it, and each later one that
    /// would, is answered `TooLarge`.
    pub total_max: u64,
}

/// One answer per path of a [`ReadManyRequest`], in order: one missing file fails nobody else.
pub type ReadManyResult = Vec<Result<FileContent>>;

/// Changes files: a list of changes, each atomic, done in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// What to change. A change that fails does not stop the later ones.
    pub changes: Vec<Change>,
    /// Whether a receipt waits for the disk.
    pub durability: Durability,
}

impl WriteRequest {
    /// Changes without waiting for the disk.
    pub fn new(changes: impl IntoIterator<Item = Change>) -> Self {
        Self {
            changes: changes.into_iter().collect(),
            durability: Durability::Cached,
        }
    }
}

/// What a receipt promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Every process sees the change; a power failure may undo it.
    Cached,
    /// The change is on the disk: file and directory were synced.
    Durable,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Gives a file this content. Missing parents are created, and stay if the put then fails. Readers see the old
    /// content or the new, never a mixture. An existing file keeps its mode; a link is followed inside the roots.
    Put {
        /// The file.
        path: SandboxPath,
        /// All of its content.
        content: Bytes,
        /// Permission bits of a new file (default 0644 less the umask) or, if given, of an existing one too.
        mode: Option<u32>,
        /// What must be true before.
        precondition: Precondition,
    },
    /// Replaces parts of a file, reading and writing in one step: between the two nobody else's
    /// change through this sandbox can be lost. Mode, byte order mark and all bytes outside the replaced
    /// parts stay as they are.
    Edit {
        /// The file.
        path: SandboxPath,
        /// What to replace, each on the result of the one before.
        replacements: Vec<Replacement>,
        /// What must be true before.
        precondition: Precondition,
    },
    /// Makes a directory, and its parents. One that is there already is no error.
    MakeDirectory {
        /// The directory.
        path: SandboxPath,
        /// Permission bits of new directories; default 0755 less the umask.
        mode: Option<u32>,
    },
    /// Renames an entry. A link is renamed itself, not its target.
    Rename {
        /// The entry.
        from: SandboxPath,
        /// Its new name.
        to: SandboxPath,
        /// What happens to an entry that is there.
        existing: Existing,
    },
    /// Sets permission bits (0 to 0o777; set-id bits are refused).
    SetMode {
        /// The entry. A link is followed inside the roots.
        path: SandboxPath,
        /// Permission bits.
        mode: u32,
    },
    /// Makes a symbolic link. Its text is not checked: a link that leaves the roots may be made, and is
    /// not followed by any verb.
    Link {
        /// The link.
        path: SandboxPath,
        /// Its text, as it is.
        target: Bytes,
    },
}

impl Change {
    /// A [`Put`](Self::Put) with no precondition.
    pub fn put(path: SandboxPath, content: impl Into<Bytes>) -> Self {
        Self::Put {
            path,
            content: content.into(),
            mode: None,
            precondition: Precondition::None,
        }
    }

    /// An [`Edit`](Self::Edit) with one replacement of a text that occurs once.
    pub fn edit(path: SandboxPath, find: impl Into<Bytes>, replace: impl Into<Bytes>) -> Self {
        Self::Edit {
            path,
            replacements: vec![Replacement {
                find: find.into(),
                replace: replace.into(),
                occurrences: Occurrences::One,
            }],
            precondition: Precondition::None,
        }
    }

    /// The entry that is changed; for a rename, the old name.
    #[must_use]
    pub fn path(&self) -> &SandboxPath {
        match self {
            Self::Put { path, .. }
            | Self::Edit { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::SetMode { path, .. }
            | Self::Link { path, .. }
            | Self::Rename { from: path, .. } => path,
        }
    }
}

/// What must be true of a file before it is changed; otherwise `Conflict` or `AlreadyExists`, with nothing
/// done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    None,
    /// No entry is there. Decided atomically: of two such puts one succeeds.
    Absent,
    /// A file is there and has this digest. A `Conflict` names the digest it has.
    Digest(Digest),
}

/// What happens to an entry at the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The rename fails with `AlreadyExists`.
    Keep,
    /// It is replaced.
    Replace,
}

/// One replacement of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The text to find; not empty. In a file whose lines end in CR LF a plain LF here matches CR LF.
    pub find: Bytes,
    /// What to put there; in a file whose lines all end in CR LF a plain LF here becomes CR LF.
    pub replace: Bytes,
    /// How often `find` must occur.
    pub occurrences: Occurrences,
}

/// How often the text of a replacement must occur. Anything else is a `Conflict` that says how
/// often it does, or `NotFound` if it does not occur at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// Exactly once.
    One,
    /// At least once; all are replaced.
    All,
}

/// One answer per change of a [`WriteRequest`], in order.
pub type WriteResult = Vec<Result<WriteReceipt>>;

/// Facts about a change, seen by the side that made it, so that no caller needs a `stat` that
/// could race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteReceipt {
    /// Whether an entry was there before (for a rename: at the new name).
    pub existed: bool,
    /// Bytes of content after; 0 for what has none.
    pub bytes: u64,
    /// Lines after less lines before; 0 where content did not change.
    pub line_delta: i64,
    /// Digest of the content after; `None` for what has none.
    pub digest: Option<Digest>,
    /// How many replacements an edit made.
    pub replaced: u64,
}

/// Removes an entry. A link is removed itself, not its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveRequest {
    /// The entry; not a root.
    pub path: SandboxPath,
    /// Whether a directory goes with what is in it.
    pub recursion: Recursion,
}

/// Whether a directory goes with what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recursion {
    /// Only an empty directory is removed.
    No,
    /// The directory and everything below. Links are not followed.
    Yes,
}

/// What a remove did. An entry that was not there is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveReceipt {
    /// Whether the entry was there.
    pub existed: bool,
    /// Entries removed, the named one included.
    pub entries: u64,
}

/// Looks at several entries in one round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatManyRequest {
    /// The entries. Answers come in this order.
    pub paths: Vec<SandboxPath>,
}

/// One answer per path of a [`StatManyRequest`], in order. Absence is a value.
pub type StatManyResult = Vec<Result<Option<Stat>>>;

/// What an entry is. A link is described itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: EntryKind,
    /// Size in bytes; for a link, of its text.
    pub size: u64,
    /// Permission bits, without the kind.
    pub mode: u32,
    /// Last change of the content.
    pub modified: Option<SystemTime>,
    /// Last change of content or metadata.
    pub changed: Option<SystemTime>,
    /// Inode number.
    pub inode: u64,
    /// Hard links.
    pub links: u64,
    /// The text of a link.
    pub target: Option<Bytes>,
}

/// Kinds of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, socket, or device: nothing that a verb reads or writes.
    Special,
}

/// Checks the parts of a change that no file system is needed for.
///
/// # Errors
///
/// `InvalidArgument` or `TooLarge`, without effect.
pub fn validate(change: &Change) -> Result<()> {
    let refuse = |kind, detail: String| {
        Err(Error::refused(crate::Verb::Write, kind)
            .on(change.path())
            .detail(detail))
    };
    use crate::ErrorKind::{InvalidArgument, TooLarge};
    let mode = match change {
        Change::Put { content, .. } if content.len() as u64 > MAX_FILE_BYTES => {
            return refuse(
                TooLarge,
                format!(
                    "the content has {} bytes and the limit is {MAX_FILE_BYTES}; use push_tree",
                    content.len()
                ),
            );
        }
        Change::Edit { replacements, .. } => {
            if replacements.is_empty() {
                return refuse(InvalidArgument, "the edit has no replacements".into());
            }
            if replacements
                .iter()
                .any(|replacement| replacement.find.is_empty())
            {
                return refuse(InvalidArgument, "the text to find is empty".into());
            }
            None
        }
        Change::Link { target, .. } if target.is_empty() || target.contains(&0) => {
            return refuse(
                InvalidArgument,
                "the text of a link is not empty and has no NUL".into(),
            );
        }
        Change::Put { mode, .. } | Change::MakeDirectory { mode, .. } => *mode,
        Change::SetMode { mode, .. } => Some(*mode),
        Change::Rename { .. } | Change::Link { .. } => None,
    };
    match mode {
        Some(mode) if mode & !0o777 != 0 => refuse(
            InvalidArgument,
            format!("mode {mode:o} has bits other than 0777; set-id and sticky bits are not set"),
        ),
        _ => Ok(()),
    }
}

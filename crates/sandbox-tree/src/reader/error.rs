//! Why an archive is not taken.

use std::io;

use sandbox_core::path::PathError;
use sandbox_core::{Error, ErrorKind, Verb};

/// Why reading an archive ended early.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// What the archive comes from failed, or could not be decompressed.
    #[error("the archive could not be read")]
    Source(#[source] io::Error),
    /// The archive ends before its end mark.
    #[error("the archive is cut: it ends before its end mark; send it again")]
    Cut,
    /// Something in the archive is refused.
    #[error("{}{refusal}", named(name.as_deref()))]
    Refused {
        /// The entry, as the archive names it.
        name: Option<Vec<u8>>,
        /// Why.
        refusal: Refusal,
    },
}

/// What about an archive is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A header's checksum is not that of its bytes.
    #[error("a header has the wrong checksum; the archive is damaged or is no tar archive")]
    Checksum,
    /// A header is in neither of the two formats that are read.
    #[error("a header is neither of the ustar nor of the GNU format")]
    Format,
    /// A field that is to hold a number holds something else.
    #[error("its {0} is no number")]
    Number(&'static str),
    /// A type that is not part of a tree.
    #[error("it is {}; only files, directories and symbolic links travel", type_name(*.0))]
    Type(u8),
    /// An extension record is longer than 64 KiB.
    #[error("an extension record has {0} bytes, and the limit is 65536")]
    RecordTooLong(u64),
    /// An extension record is not well formed.
    #[error("an extension record is malformed")]
    Record,
    /// An extension record has a key that is not understood.
    #[error("an extension record sets {0:?}, which is not taken")]
    Key(String),
    /// Two records say the same about one entry.
    #[error("two extension records say the same about one entry")]
    RecordTwice,
    /// An extension record that no entry follows.
    #[error("an extension record stands at the end of the archive")]
    ExtensionOfNothing,
    /// An entry without a name.
    #[error("an entry has no name")]
    NoName,
    /// A name that begins with a slash.
    #[error("its name is absolute; names are relative to the tree's root")]
    Absolute,
    /// A name that no entry may have.
    #[error("{0}")]
    Name(PathError),
    /// A file or link whose name is a directory's.
    #[error("it is no directory and is named like one")]
    NoDirectory,
    /// A directory or a link with a content.
    #[error("it has a content, and only files have one")]
    ContentWithoutFile,
    /// A file with the text of a link.
    #[error("it has the text of a link and is none")]
    LinkOfNoLink,
    /// The text of a link is empty, too long or has a NUL.
    #[error("the text of a link has 1 to 4095 bytes and no NUL")]
    LinkText,
    /// A second entry of one name.
    #[error("an entry of this name came before")]
    Twice,
    /// An entry beneath a file or a link.
    #[error("what it lies in came before as something other than a directory")]
    BeneathLeaf,
    /// Too many levels.
    #[error("it lies deeper than {0} levels")]
    TooDeep(usize),
    /// Too many entries.
    #[error("the archive has more than {0} entries")]
    TooManyEntries(u64),
    /// Too many bytes.
    #[error("the archive has more than {0} bytes")]
    TooManyBytes(u64),
    /// Something after the end mark.
    #[error("something follows the end of the archive")]
    TrailingData,
}

impl From<Refusal> for ArchiveError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused {
            name: None,
            refusal,
        }
    }
}

impl ArchiveError {
    pub(super) fn refused(name: &[u8], refusal: Refusal) -> Self {
        Self::Refused {
            name: Some(name.to_vec()),
            refusal,
        }
    }

    /// Names the entry that a refusal without one is about.
    pub(super) fn within(self, entry: &[u8]) -> Self {
        match self {
            Self::Refused {
                name: None,
                refusal,
            } => Self::refused(entry, refusal),
            other => other,
        }
    }

    /// Says it on behalf of `verb`; the effect is unknown until somebody who knows says otherwise.
    #[must_use]
    pub fn on(self, verb: Verb) -> Error {
        match self {
            Self::Source(error) => {
                // A stream that failed knows best why.
                match error.downcast::<Error>() {
                    Ok(error) => error,
                    Err(error) if is_malformed(&error) => {
                        Error::new(verb, ErrorKind::InvalidArgument)
                            .detail("the archive could not be decompressed")
                            .caused_by(error)
                    }
                    Err(error) => Error::new(verb, ErrorKind::Io)
                        .detail("the archive could not be read")
                        .caused_by(error),
                }
            }
            Self::Refused {
                refusal: Refusal::TooDeep(_) | Refusal::TooManyEntries(_) | Refusal::TooManyBytes(_),
                ..
            } => Error::new(verb, ErrorKind::TooLarge).detail(self),
            Self::Cut | Self::Refused { .. } => {
                Error::new(verb, ErrorKind::InvalidArgument).detail(self)
            }
        }
    }
}

/// Whether a decompressor did not like what it got, as opposed to getting nothing.
fn is_malformed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

fn named(name: Option<&[u8]>) -> String {
    match name {
        None => String::new(),
        // Escaped, so that a name cannot forge a line of output.
        Some(name) => format!("the entry {:?}: ", String::from_utf8_lossy(name)),
    }
}

fn type_name(flag: u8) -> String {
    match flag {
        b'1' => {
            "a hard link (pack them as files of their own: `tar --hard-dereference`)".to_owned()
        }
        b'3' => "a character device".to_owned(),
        b'4' => "a block device".to_owned(),
        b'6' => "a FIFO".to_owned(),
        b'S' => "a sparse file".to_owned(),
        b'g' => "a record that holds for all entries".to_owned(),
        other => format!("of the type {:?}", char::from(other)),
    }
}

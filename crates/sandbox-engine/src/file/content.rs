//! Giving a file new content: a put, or an edit of what is there.
//!
//! A change holds its name ([`lock`](super::lock)) from looking at what is there until the new content
//! is visible, so of two changes through this process the second sees what the first made.
//!
//! Somebody outside (an editor, a program that was started) takes no lock. What was read is therefore
//! compared with what is there, by inode, size and times, directly before it is replaced: a put with a
//! digest then is a `Conflict`, an edit begins again. What remains is a change in the moment between
//! that look and the rename, or one that leaves size and times as they were; nothing can be said
//! about that one. `Precondition::Absent` has no such moment.

use memchr::memchr_iter;
use rustix::fs::{Access, FileType, Stat};
use rustix::io::Errno;
use sandbox_core::file::{Durability, MAX_FILE_BYTES, Precondition, Replacement, WriteReceipt};
use sandbox_core::{Ctx, Digest, Effect, ErrorKind, SandboxPath};
use std::os::fd::AsFd;

use super::edit::{self, Miss};
use super::read::{append, digest, size};
use super::stage::{self, Attributes, Staged};
use super::write::Failure;
use super::{Files, call, in_place, lock, text};
use crate::root::{
    Entry, Fault, Found, Last, Missing, Opened, check_access, kind_name, open_entry,
};

/// How often a change begins again because what it saw is not there any more.
const RETRIES: u32 = 16;

/// New content for a file, and on what condition.
pub(super) struct Put<'a> {
    pub(super) path: &'a SandboxPath,
    pub(super) new: New<'a>,
    pub(super) precondition: Precondition,
    pub(super) durability: Durability,
    /// The call, which may be given up for as long as the old content is gone through.
    pub(super) ctx: &'a Ctx,
}

/// Where the new content comes from.
pub(super) enum New<'a> {
    /// It is given.
    Content {
        content: &'a [u8],
        mode: Option<u32>,
    },
    /// The old content with these replacements.
    Edit(&'a [Replacement]),
}

/// What is known of the content before.
struct Old {
    stat: Stat,
    lines: u64,
    digest: Option<Digest>,
    /// The content itself, where it is edited.
    bytes: Vec<u8>,
}

/// What became of one try.
enum Tried {
    Done(WriteReceipt),
    /// What was seen first is not what was there later.
    Again,
}

impl Files {
    /// Gives a file its new content.
    pub(super) fn give(&self, put: &Put<'_>) -> Result<WriteReceipt, Failure> {
        for _ in 0..RETRIES {
            if let Tried::Done(receipt) = self.try_give(put)? {
                return Ok(receipt);
            }
        }
        Err(Failure::new(
            ErrorKind::Conflict,
            "somebody else keeps changing it; try again later",
        ))
    }

    fn try_give(&self, put: &Put<'_>) -> Result<Tried, Failure> {
        let (entry, made) = self.destination(put)?;
        self.try_at(&entry, made, put).map_err(|failure| Failure {
            // The directories that were made for it stay.
            effect: if made {
                Effect::Unknown
            } else {
                failure.effect
            },
            ..failure
        })
    }

    /// - `made`: whether directories were made for it
    fn try_at(&self, entry: &Entry<'_>, made: bool, put: &Put<'_>) -> Result<Tried, Failure> {
        let _held = lock::hold([entry]);
        let old = match self.look(entry, put) {
            Err(Failure {
                fault: Fault::Os(Errno::LOOP),
                ..
            }) => return Ok(Tried::Again),
            old => old?,
        };
        put.check(old.as_ref())?;
        entry.root.writable()?;
        let edited;
        let (content, mode, replaced) = match (&put.new, &old) {
            (New::Content { content, mode }, _) => (*content, *mode, 0),
            (New::Edit(_), None) => return Err(Errno::NOENT.into()),
            (New::Edit(replacements), Some(old)) => {
                edited = edit::apply(&old.bytes, replacements)
                    .map_err(|miss| missed(miss, replacements.len()))?;
                (edited.bytes.as_slice(), None, edited.replaced)
            }
        };
        if old.is_some() {
            check_access(entry.dir(), entry.name(), Access::WRITE_OK)?;
        }
        let attributes = Attributes {
            mode,
            old: old.as_ref().map(|old| &old.stat),
            durability: put.durability,
        };
        let unchanged = |old: &Old| {
            Ok::<_, Fault>(
                !put.must_not_change() || entry.stat()?.is_some_and(|now| same(&now, &old.stat)),
            )
        };
        match &old {
            None => {
                let staged = Staged::write(entry.dir(), content, &attributes)?;
                match staged.publish_new(entry.name()) {
                    Err(Errno::EXIST) if put.precondition == Precondition::Absent => {
                        return Err(exists());
                    }
                    Err(Errno::EXIST) => return Ok(Tried::Again),
                    done => done.map_err(Failure::publishing)?,
                }
            }
            Some(old) if in_place::is_mounted(entry)? => {
                if !unchanged(old)? {
                    return Ok(Tried::Again);
                }
                in_place::overwrite(entry, content, &attributes)?;
            }
            Some(old) => {
                let staged = Staged::write(entry.dir(), content, &attributes)?;
                if !unchanged(old)? {
                    return Ok(Tried::Again);
                }
                staged
                    .publish_over(entry.name())
                    .map_err(Failure::publishing)?;
            }
        }
        if put.durability == Durability::Durable {
            let sync = if made {
                stage::sync_file_system
            } else {
                stage::sync_directory
            };
            sync(entry.dir()).map_err(Failure::after)?;
        }
        let before = old.as_ref().map_or(0, |old| old.lines);
        Ok(Tried::Done(WriteReceipt {
            existed: old.is_some(),
            bytes: content.len() as u64,
            line_delta: text::lines(content)
                .cast_signed()
                .saturating_sub(before.cast_signed()),
            digest: Some(digest(content)),
            replaced,
        }))
    }

    /// The name that will have the content, and whether directories were made for it.
    fn destination(&self, put: &Put<'_>) -> Result<(Entry<'_>, bool), Failure> {
        // A link is an entry too, wherever it leads.
        let last = match put.precondition {
            Precondition::Absent => Last::Keep,
            Precondition::None | Precondition::Digest(_) => Last::Follow,
        };
        let found = match self.roots.find(put.path, last, Missing::Fail) {
            Err(Fault::Os(Errno::NOENT)) if put.may_create() => {
                let found = self.roots.find(put.path, last, Missing::Make(None))?;
                return entry(found).map(|entry| (entry, true));
            }
            Err(Fault::Os(Errno::NOENT)) if matches!(put.precondition, Precondition::Digest(_)) => {
                return Err(put.gone());
            }
            found => found?,
        };
        entry(found).map(|entry| (entry, false))
    }

    /// Looks at what has the name now.
    fn look(&self, entry: &Entry<'_>, put: &Put<'_>) -> Result<Option<Old>, Failure> {
        let opened = match open_entry(entry) {
            Ok(opened) => opened,
            Err(Fault::Os(Errno::NOENT)) => return Ok(None),
            Err(Fault::Os(Errno::LOOP) | Fault::NotAFile { .. })
                if put.precondition == Precondition::Absent =>
            {
                return Err(exists());
            }
            Err(fault) => return Err(fault.into()),
        };
        Ok(Some(match put.new {
            New::Content { .. } => put.survey(&opened)?,
            New::Edit(_) => put.load(&opened)?,
        }))
    }
}

impl Put<'_> {
    fn may_create(&self) -> bool {
        matches!(self.new, New::Content { .. })
            && !matches!(self.precondition, Precondition::Digest(_))
    }

    /// Whether what is there must still be what was seen.
    fn must_not_change(&self) -> bool {
        matches!(self.new, New::Edit(_)) || matches!(self.precondition, Precondition::Digest(_))
    }

    fn check(&self, old: Option<&Old>) -> Result<(), Failure> {
        match (self.precondition, old) {
            (Precondition::None, _) | (Precondition::Absent, None) => Ok(()),
            (Precondition::Absent, Some(_)) => Err(exists()),
            (Precondition::Digest(_), None) => Err(self.gone()),
            (Precondition::Digest(expected), Some(old)) if old.digest == Some(expected) => Ok(()),
            (Precondition::Digest(_), Some(old)) => Err(Failure {
                expected: old.digest,
                ..Failure::new(
                    ErrorKind::Conflict,
                    "its content is not the one this was written for; read it again",
                )
            }),
        }
    }

    /// Refuses to go on if the call was given up; nothing was changed yet.
    fn go_on(&self) -> Result<(), Failure> {
        match call::interrupted(self.ctx) {
            None => Ok(()),
            Some(kind) => Err(Failure::new(kind, "nothing was changed")),
        }
    }

    fn gone(&self) -> Failure {
        Failure::new(
            ErrorKind::Conflict,
            "it is not there any more; put it anew without a digest",
        )
    }

    /// Goes through the old content for what the receipt and the precondition need.
    fn survey(&self, opened: &Opened) -> Result<Old, Failure> {
        let mut hasher =
            matches!(self.precondition, Precondition::Digest(_)).then(blake3::Hasher::new);
        let mut ends = 0;
        let mut last = None;
        let mut position = 0;
        let mut chunk = Vec::new();
        // Not to its end: a file that somebody adds to all the time may have none.
        let size = size(opened);
        while position < size && append(opened.file.as_fd(), &mut chunk, position)? > 0 {
            self.go_on()?;
            ends += memchr_iter(b'\n', &chunk).count() as u64;
            last = chunk.last().copied();
            if let Some(hasher) = &mut hasher {
                hasher.update(&chunk);
            }
            position += chunk.len() as u64;
            chunk.clear();
        }
        Ok(Old {
            stat: opened.stat,
            lines: ends + u64::from(last.is_some_and(|byte| byte != b'\n')),
            digest: hasher.map(|hasher| Digest::from_bytes(*hasher.finalize().as_bytes())),
            bytes: Vec::new(),
        })
    }

    /// Loads the old content.
    fn load(&self, opened: &Opened) -> Result<Old, Failure> {
        let too_large = |bytes: u64| {
            Failure::new(
                ErrorKind::TooLarge,
                format!(
                    "it has {bytes} bytes and an edit takes at most {MAX_FILE_BYTES}; run a program that edits it"
                ),
            )
        };
        let size = size(opened);
        if size > MAX_FILE_BYTES {
            return Err(too_large(size));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size + 1).unwrap_or(0));
        loop {
            let position = bytes.len() as u64;
            self.go_on()?;
            if append(opened.file.as_fd(), &mut bytes, position)? == 0 {
                break;
            }
            if bytes.len() as u64 > MAX_FILE_BYTES {
                return Err(too_large(bytes.len() as u64));
            }
        }
        Ok(Old {
            stat: opened.stat,
            lines: text::lines(&bytes),
            digest: Some(digest(&bytes)),
            bytes,
        })
    }
}

fn entry(found: Found<'_>) -> Result<Entry<'_>, Failure> {
    match found {
        Found::Entry(entry) => Ok(entry),
        Found::Directory { .. } => Err(Fault::NotAFile {
            found: kind_name(FileType::Directory),
        }
        .into()),
    }
}

fn exists() -> Failure {
    Failure::new(
        ErrorKind::AlreadyExists,
        "it must not be there for this put; put it without that condition to replace it",
    )
}

/// Whether nobody changed a file between two looks.
fn same(one: &Stat, other: &Stat) -> bool {
    let key = |stat: &Stat| {
        (
            (stat.st_dev, stat.st_ino, stat.st_size),
            (stat.st_mtime, stat.st_mtime_nsec),
            (stat.st_ctime, stat.st_ctime_nsec),
        )
    };
    key(one) == key(other)
}

fn missed(miss: Miss, of: usize) -> Failure {
    let which = |number: usize| {
        if of == 1 {
            String::new()
        } else {
            format!(" of replacement {number} of {of}")
        }
    };
    match miss {
        Miss::Absent { number, hint } => {
            let which = which(number);
            let hint = hint.unwrap_or_else(|| "read the file and take the text from it".into());
            Failure::new(
                ErrorKind::NotFound,
                format!("the text{which} does not occur; {hint}"),
            )
        }
        Miss::Several { number, count } => {
            let which = which(number);
            Failure::new(
                ErrorKind::Conflict,
                format!(
                    "the text{which} occurs {count} times and must occur once; add lines around it, or ask for all"
                ),
            )
        }
        Miss::TooLarge { bytes } => Failure::new(
            ErrorKind::TooLarge,
            format!("the file would have {bytes} bytes and the limit is {MAX_FILE_BYTES}"),
        ),
    }
}

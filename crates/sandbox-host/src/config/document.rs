//! One configuration file: its text, and a walk over its tables that knows where everything is.
//!
//! The walk is by hand rather than by derive, because every refusal has to point at file, line
//! and column, name the section, and suggest the near miss.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ConfigErrorKind, Place, Position};
use super::near::nearest;

/// Longest file accepted, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

type Result<T, E = ConfigError> = std::result::Result<T, E>;

/// A string, and where it is.
pub(super) type Text<'d> = (&'d str, Range<usize>);

/// A file that was read.
pub(super) struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    /// Reads a file, `None` if it is not there.
    ///
    /// # Errors
    ///
    /// `Unreadable` for a file that is there and cannot be read, is not a regular file, is longer
    /// than [`MAX_BYTES`] or not UTF-8.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let unreadable = |problem: &str| {
            ConfigError::new(
                ConfigErrorKind::Unreadable,
                Place::File {
                    path: path.to_owned(),
                    position: None,
                },
                problem,
            )
        };
        let failed = |error: io::Error| {
            unreadable("the file cannot be read")
                .remedy(remedy(path, &error))
                .caused_by(error)
        };
        let irregular = || unreadable("this is not a regular file").remedy("remove or rename it");
        // Looked at before it is opened, because opening alone does something to some devices, and
        // after, because somebody may have put another thing in its place.
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(irregular()),
            Err(error) if is_absence(path, &error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map(File::from)
            .map_err(|error| failed(error.into()))?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(irregular());
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(unreadable("the file is longer than 1 MiB")
                .remedy("shorten it; a configuration is a few lines"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            ConfigError::new(
                ConfigErrorKind::NotToml,
                Place::File {
                    path: path.to_owned(),
                    position: Some(position(&String::from_utf8_lossy(good), good.len())),
                },
                "the file is not UTF-8 here",
            )
            .remedy("save it as UTF-8")
        })?;
        Ok(Some(Self {
            path: path.to_owned(),
            text,
        }))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Parses the text.
    ///
    /// # Errors
    ///
    /// `NotToml`, pointing at the place.
    pub(super) fn parse(&self) -> Result<DeTable<'_>> {
        match DeTable::parse(&self.text) {
            Ok(table) => Ok(table.into_inner()),
            Err(error) => Err(self.error(
                ConfigErrorKind::NotToml,
                error.span().unwrap_or_default(),
                format!("this is not TOML: {}", error.message().trim_end()),
            )),
        }
    }

    /// The whole file as a section.
    pub(super) fn root<'d>(&'d self, table: &'d DeTable<'d>) -> Section<'d> {
        Section {
            document: self,
            name: String::new(),
            table,
            span: 0..0,
        }
    }

    /// Where a piece of the text is.
    pub(super) fn place(&self, span: Range<usize>) -> Place {
        Place::File {
            path: self.path.clone(),
            position: Some(position(&self.text, span.start)),
        }
    }

    /// An error about a piece of the text.
    pub(super) fn error(
        &self,
        kind: ConfigErrorKind,
        span: Range<usize>,
        problem: impl Into<String>,
    ) -> ConfigError {
        ConfigError::new(kind, self.place(span), problem)
    }
}

/// A table of a document.
pub(super) struct Section<'d> {
    pub(super) document: &'d Document,
    /// Its dotted name; empty for the whole file.
    pub(super) name: String,
    pub(super) table: &'d DeTable<'d>,
    pub(super) span: Range<usize>,
}

impl<'d> Section<'d> {
    /// Refuses every key that is not one of `keys`; a key of `later` is one that this version does
    /// not offer yet.
    ///
    /// # Errors
    ///
    /// `UnknownKey` with the near miss, or `NotOffered`.
    pub(super) fn allow(&self, keys: &[&str], later: &[&str]) -> Result<()> {
        for (key, _) in self.entries() {
            let name = key.get_ref().as_ref();
            if keys.contains(&name) {
                continue;
            }
            if later.contains(&name) {
                return Err(self
                    .document
                    .error(
                        ConfigErrorKind::NotOffered,
                        key.span(),
                        format!("`{name}`{} is not offered by this version", self.within()),
                    )
                    .remedy("remove it"));
            }
            let error = self.document.error(
                ConfigErrorKind::UnknownKey,
                key.span(),
                format!("unknown key `{}`{}", name.escape_debug(), self.within()),
            );
            return Err(match nearest(name, keys.iter().copied()) {
                Some(near) => error.remedy(format!("did you mean `{near}`?")),
                None => error.remedy(format!("the keys here are {}", list(keys))),
            });
        }
        Ok(())
    }

    /// The entries in the order in which they were written.
    pub(super) fn entries(
        &self,
    ) -> Vec<(
        &'d Spanned<toml::de::DeString<'d>>,
        &'d Spanned<DeValue<'d>>,
    )> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.table.get(key)
    }

    /// A table under a key.
    ///
    /// # Errors
    ///
    /// `Invalid` if something else is there.
    pub(super) fn section(&self, key: &str) -> Result<Option<Section<'d>>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => self.section_of(key, value).map(Some),
        }
    }

    /// `value`, found under `key`, as a table.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none.
    pub(super) fn section_of(
        &self,
        key: &str,
        value: &'d Spanned<DeValue<'d>>,
    ) -> Result<Section<'d>> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(Section {
                document: self.document,
                name: if self.name.is_empty() {
                    key.to_owned()
                } else {
                    format!("{}.{key}", self.name)
                },
                table,
                span: value.span(),
            }),
            _ => Err(self.wrong(key, value, "a table")),
        }
    }

    /// A string under a key, with its place.
    ///
    /// # Errors
    ///
    /// `Invalid` if something else is there.
    pub(super) fn string(&self, key: &str) -> Result<Option<Text<'d>>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::String(text) => Ok(Some((text.as_ref(), value.span()))),
                _ => Err(self.wrong(key, value, "a string")),
            },
        }
    }

    /// A list of strings under a key, each with its place.
    ///
    /// # Errors
    ///
    /// `Invalid` if something else is there.
    pub(super) fn strings(&self, key: &str) -> Result<Option<Vec<Text<'d>>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.wrong(key, value, "a list of strings"));
        };
        items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Ok((text.as_ref(), item.span())),
                _ => Err(self.wrong(key, item, "a list of strings")),
            })
            .collect::<Result<Vec<_>>>()
            .map(Some)
    }

    /// An error about a value of the wrong kind, or a number out of range.
    pub(super) fn wrong(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        expected: &str,
    ) -> ConfigError {
        let found = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            other => format!("of type {}", other.type_str()),
        };
        let within = self.within();
        self.invalid(
            value.span(),
            format!("`{key}`{within} takes {expected}, and this is {found}"),
        )
    }

    /// An error about a value that makes no sense.
    pub(super) fn invalid(&self, span: Range<usize>, problem: impl Into<String>) -> ConfigError {
        self.document.error(ConfigErrorKind::Invalid, span, problem)
    }

    /// ` in [NAME]`, or nothing for the whole file.
    pub(super) fn within(&self) -> String {
        if self.name.is_empty() {
            String::new()
        } else {
            format!(" in [{}]", self.name)
        }
    }
}

/// `a`, `b` and `c`, for messages.
pub(super) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "none".into(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Whether an error means that nothing has this name. A link that leads nowhere has it: whoever made it
/// meant something by it.
fn is_absence(path: &Path, error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory) && std::fs::symlink_metadata(path).is_err()
}

/// What to do about a file that cannot be read.
fn remedy(path: &Path, error: &io::Error) -> &'static str {
    let is_there = std::fs::symlink_metadata(path).is_ok();
    match error.kind() {
        io::ErrorKind::PermissionDenied if is_there => "make it readable for you, or remove it",
        io::ErrorKind::PermissionDenied => {
            "whether it is there cannot be told, because a directory on the way is closed to you: stand \
             in another one, or set HOME and XDG_CONFIG_HOME to your own"
        }
        io::ErrorKind::NotFound => "it is a link that leads nowhere: correct or remove it",
        _ => "correct or remove it",
    }
}

fn position(text: &str, offset: usize) -> Position {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

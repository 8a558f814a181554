//! Where configuration is looked for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::document::Document;
use super::error::{ConfigError, ConfigErrorKind, Place};
use super::{LOCATION_VARIABLE, PROJECT_FILE, Selection};
use crate::locate::SearchPath;

type Result<T, E = ConfigError> = std::result::Result<T, E>;

/// Where configuration is looked for. Everything that comes from outside is a field, so that
/// nothing here depends on who asks.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The location that the caller names.
    pub location: Option<String>,
    /// The value of `SPP_LOCATION`.
    pub location_variable: Option<OsString>,
    /// The directory from which a project file is looked for, upwards; absolute.
    pub directory: PathBuf,
    /// The user's own file.
    pub user_file: UserFile,
    /// Where installed providers are looked for.
    pub search: SearchPath,
}

/// The user's own file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserFile {
    /// There is no place for one: no home directory is known.
    None,
    /// It is here if it exists.
    Usual(PathBuf),
    /// The caller named this one, so it must exist.
    Named(PathBuf),
}

impl Sources {
    /// Looks where a program started in `directory` looks.
    ///
    /// - `location`: the location that the caller names.
    /// - `user_file`: a file to read in place of the user's usual one.
    #[must_use]
    pub fn of_process(
        directory: PathBuf,
        location: Option<String>,
        user_file: Option<PathBuf>,
    ) -> Self {
        Self {
            location,
            location_variable: std::env::var_os(LOCATION_VARIABLE),
            user_file: match user_file {
                Some(named) => UserFile::Named(directory.join(named)),
                None => usual_user_file(),
            },
            directory,
            search: SearchPath::of_process(),
        }
    }

    pub(super) fn user_document(&self) -> Result<Option<Document>> {
        match &self.user_file {
            UserFile::None => Ok(None),
            UserFile::Usual(path) => Document::read(path),
            UserFile::Named(path) => match Document::read(path)? {
                Some(document) => Ok(Some(document)),
                None => Err(ConfigError::new(
                    ConfigErrorKind::Unreadable,
                    Place::File {
                        path: path.clone(),
                        position: None,
                    },
                    "there is no such file",
                )),
            },
        }
    }

    /// The nearest project file upwards.
    pub(super) fn project_document(&self) -> Result<Option<Document>> {
        for directory in self.directory.ancestors() {
            let path = directory.join(PROJECT_FILE);
            if self.is_user_file(&path) {
                continue;
            }
            if let Some(document) = Document::read(&path)? {
                return Ok(Some(document));
            }
        }
        Ok(None)
    }

    /// The location that the caller or the environment names.
    pub(super) fn named(&self) -> Result<Option<Selection>> {
        if let Some(name) = &self.location {
            return Ok(Some(Selection {
                name: name.clone(),
                place: Place::CommandLine,
            }));
        }
        let Some(value) = self.location_variable.as_ref().filter(|v| !v.is_empty()) else {
            return Ok(None);
        };
        let Some(name) = value.to_str() else {
            return Err(ConfigError::new(
                ConfigErrorKind::Invalid,
                Place::Environment,
                "the value is not UTF-8",
            )
            .remedy("set it to the name of a location"));
        };
        Ok(Some(Selection {
            name: name.to_owned(),
            place: Place::Environment,
        }))
    }

    fn is_user_file(&self, path: &Path) -> bool {
        match &self.user_file {
            UserFile::None => false,
            UserFile::Usual(user) | UserFile::Named(user) => user == path,
        }
    }
}

/// `$XDG_CONFIG_HOME/spp/config.toml`, or `~/.config/spp/config.toml`.
fn usual_user_file() -> UserFile {
    // The XDG specification has relative values ignored.
    let base = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(home()?.join(".config")));
    match base {
        Some(base) => UserFile::Usual(base.join("spp").join("config.toml")),
        None => UserFile::None,
    }
}

/// The home directory, if there is an absolute one.
pub(super) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

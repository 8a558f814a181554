//! Finding a provider's executable.
//!
//! A configured command is used as it is configured. Otherwise `spp-provider-NAME` is looked for
//! beside the running executable, where an installation puts it, and then in `PATH`.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::config::ProviderConfig;
use crate::error::StartError;

/// What the name of a provider's executable begins with.
pub const PREFIX: &str = "spp-provider-";

/// Directories in which executables are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPath {
    /// The directory of the running executable.
    pub beside: Option<PathBuf>,
    /// The directories of `PATH`, in order. Relative ones are left out: what they mean depends on
    /// the directory somebody happens to stand in, which may be an untrusted tree.
    pub path: Vec<PathBuf>,
}

impl SearchPath {
    /// Looks where the running program's own executable is, and in its `PATH`.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            beside: std::env::current_exe()
                .ok()
                .and_then(|exe| Some(exe.parent()?.to_owned())),
            path: std::env::var_os("PATH")
                .map(|path| {
                    std::env::split_paths(&path)
                        .filter(|directory| directory.is_absolute())
                        .collect()
                })
                .unwrap_or_default(),
        }
    }

    /// The installed executable of a provider, if there is one that can be executed.
    #[must_use]
    pub fn installed(&self, provider: &str) -> Option<PathBuf> {
        self.candidates(&format!("{PREFIX}{provider}"))
            .find(|path| fault(path).is_none())
    }

    /// The names of all providers that are installed, in order.
    #[must_use]
    pub fn providers(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .directories()
            .filter_map(|directory| std::fs::read_dir(directory).ok())
            .flatten()
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let provider = name.strip_prefix(PREFIX)?;
                (crate::config::is_name(provider) && self.installed(provider).is_some())
                    .then(|| provider.to_owned())
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn directories(&self) -> impl Iterator<Item = &Path> {
        self.beside.iter().chain(&self.path).map(PathBuf::as_path)
    }

    fn candidates(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.directories()
            .map(move |directory| directory.join(name))
    }
}

/// The executable of a provider.
///
/// # Errors
///
/// [`StartError::NotFound`], [`StartError::IsADirectory`] or [`StartError::NotExecutable`].
pub fn executable(provider: &ProviderConfig, search: &SearchPath) -> Result<PathBuf, StartError> {
    let candidates: Vec<PathBuf> = match &provider.command {
        Some(path) if path.is_absolute() => vec![path.clone()],
        Some(name) => search
            .path
            .iter()
            .map(|directory| directory.join(name))
            .collect(),
        None => search
            .candidates(&format!("{PREFIX}{}", provider.name))
            .collect(),
    };
    // As a shell does: an entry that cannot be executed does not hide one further on, but it is
    // what is told if there is no other.
    let mut found_but = None;
    for path in &candidates {
        match fault(path) {
            None => return Ok(path.clone()),
            Some(Fault::Absent) => {}
            Some(fault) => {
                found_but.get_or_insert((path.clone(), fault));
            }
        }
    }
    let provider_name = provider.name.clone();
    Err(match found_but {
        Some((path, Fault::Directory)) => StartError::IsADirectory {
            provider: provider_name,
            path,
        },
        Some((path, _)) => StartError::NotExecutable {
            provider: provider_name,
            path,
        },
        None => StartError::NotFound {
            provider: provider_name,
            command: provider.command.clone(),
            beside: search.beside.clone(),
        },
    })
}

enum Fault {
    Absent,
    Directory,
    NotExecutable,
}

/// Why a file cannot be executed, as far as can be told without doing it.
fn fault(path: &Path) -> Option<Fault> {
    match std::fs::metadata(path) {
        Err(_) => Some(Fault::Absent),
        Ok(metadata) if metadata.is_dir() => Some(Fault::Directory),
        Ok(metadata) if !metadata.is_file() => Some(Fault::NotExecutable),
        Ok(_) => access(path, Access::EXEC_OK)
            .is_err()
            .then_some(Fault::NotExecutable),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn put(path: &Path, mode: u32) {
        std::fs::write(path, "#!/bin/sh\n").expect("a scratch file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    }

    #[test]
    fn an_executable_beside_the_program_is_preferred_to_one_in_the_path() {
        let beside = tempfile::tempdir().expect("a scratch directory");
        let path = tempfile::tempdir().expect("a scratch directory");
        put(&beside.path().join("spp-provider-a"), 0o755);
        put(&path.path().join("spp-provider-a"), 0o755);
        put(&path.path().join("spp-provider-b"), 0o755);
        put(&path.path().join("spp-provider-c"), 0o644);
        let search = SearchPath {
            beside: Some(beside.path().to_owned()),
            path: vec![path.path().to_owned()],
        };
        let find = |name: &str| executable(&ProviderConfig::unconfigured(name), &search);
        assert_eq!(
            find("a").expect("beside"),
            beside.path().join("spp-provider-a")
        );
        assert_eq!(find("b").expect("PATH"), path.path().join("spp-provider-b"));
        assert!(matches!(find("c"), Err(StartError::NotExecutable { .. })));
        assert!(matches!(
            find("d"),
            Err(StartError::NotFound {
                beside: Some(_),
                ..
            })
        ));
        assert_eq!(search.providers(), ["a", "b"]);
    }

    #[test]
    fn a_directory_where_an_executable_is_meant_is_told_as_one() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let config = ProviderConfig {
            command: Some(directory.path().to_owned()),
            ..ProviderConfig::unconfigured("a")
        };
        assert!(matches!(
            executable(&config, &SearchPath::default()),
            Err(StartError::IsADirectory { .. })
        ));
    }
}

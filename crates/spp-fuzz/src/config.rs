//! Configuration files, the user's and a project's.

use std::path::PathBuf;
use std::sync::LazyLock;

use sandbox_host::SearchPath;
use sandbox_host::config::{Config, Sources, UserFile};
use tempfile::TempDir;

/// One for each process, so that nothing is made for each input.
static DIRECTORY: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a scratch directory"));

/// Reads `data` as the user's file and as a project's. A refusal says which file it is about, in a sentence of some
/// length, whatever the file holds. What a project file may ask for, the user's file may too.
pub fn config(data: &[u8]) {
    let directory = DIRECTORY.path();
    std::fs::write(directory.join("user.toml"), data).expect("room in the scratch directory");
    std::fs::write(directory.join(".spp.toml"), data).expect("room in the scratch directory");
    let user = UserFile::Named(directory.join("user.toml"));
    let alone = load(PathBuf::from("/nonexistent"), user.clone());
    let project = load(directory.to_owned(), UserFile::None);
    drop(load(directory.to_owned(), user));
    if project.is_ok() {
        assert!(alone.is_ok(), "a project may ask for what the user may not");
    }
}

fn load(directory: PathBuf, user_file: UserFile) -> Result<Config, ()> {
    let sources = Sources {
        location: None,
        location_variable: None,
        directory,
        user_file,
        search: SearchPath {
            beside: None,
            path: Vec::new(),
        },
    };
    Config::load(&sources)
        .inspect(|config| assert!(!config.location().name.is_empty()))
        .map_err(|error| {
            let text = error.to_string();
            assert!(text.contains(".toml") && text.len() < 4096, "{text}");
        })
}

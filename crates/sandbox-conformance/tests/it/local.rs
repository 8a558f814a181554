//! The suite on the executable of `local`, started and spoken to as the host does.
//!
//! Each test has a provider of its own. Nothing of ours is linked in: what answers is the file that
//! `cargo xtask install` puts on the path.

use std::path::PathBuf;

use sandbox_conformance::{Failure, Harness};
use sandbox_host::SearchPath;
use sandbox_host::config::UserFile;

use crate::over_host;

/// Where the executables are: in the directory that is named, else above this test's own.
pub(crate) fn executables() -> Result<PathBuf, Failure> {
    let directory = match std::env::var_os("SPP_TEST_BIN_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => std::env::current_exe()
            .ok()
            .and_then(|test| Some(test.parent()?.parent()?.to_owned()))
            .ok_or_else(|| Failure::new("this test does not know where it is"))?,
    };
    let provider = directory.join("spp-provider-local");
    if !provider.is_file() {
        return Err(Failure::new(format_args!(
            "{} is missing: run `cargo build --bins`, or test with `cargo xtask test`",
            provider.display()
        )));
    }
    Ok(directory)
}

async fn local() -> Result<Box<dyn Harness>, Failure> {
    let search = SearchPath {
        beside: Some(executables()?),
        path: Vec::new(),
    };
    over_host::provider("local", UserFile::None, search).await
}

sandbox_conformance::suite!(local);

//! The suite on the executable of `local`, started and spoken to as the host does.
//!
//! Each test has a provider of its own. Nothing of ours is linked in: what answers is the file that
//! `cargo xtask install` puts on the path.

use std::path::PathBuf;

use sandbox_conformance::{Failure, Harness, OnThisMachine, Place};
use sandbox_core::Ctx;
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, SearchPath};

/// Sandboxes of a provider that lives as long as its host.
struct OverHost {
    _host: Host,
    sandboxes: OnThisMachine,
}

#[async_trait::async_trait]
impl Harness for OverHost {
    async fn open(&self) -> Result<Place, Failure> {
        self.sandboxes.open().await
    }

    async fn close(&self, place: Place) -> Result<(), Failure> {
        self.sandboxes.close(place).await
    }
}

/// Where the executables are: in the directory that is named, else above this test's own.
fn executables() -> Result<PathBuf, Failure> {
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
    let sources = Sources {
        location: Some("local".to_owned()),
        location_variable: None,
        directory: PathBuf::from("/"),
        user_file: UserFile::None,
        search: search.clone(),
    };
    let config = Config::load(&sources).map_err(Failure::new)?;
    let host = Host::new(config, search);
    let provider = host
        .provider(&Ctx::new(), "local")
        .await
        .map_err(Failure::new)?;
    Ok(Box::new(OverHost {
        _host: host,
        sandboxes: OnThisMachine::new(provider),
    }))
}

sandbox_conformance::suite!(local);

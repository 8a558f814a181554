//! A provider's executable, started and spoken to as the host does, for the suite to run on.

use std::path::PathBuf;
use std::sync::Arc;

use sandbox_conformance::{Failure, Harness, OnThisMachine, Place};
use sandbox_core::{Ctx, Provider};
use sandbox_host::config::{Config, Sources, UserFile};
use sandbox_host::{Host, SearchPath};

/// Sandboxes of a provider that lives as long as its host.
struct OverHost {
    _host: Host,
    sandboxes: OnThisMachine,
    /// What the provider is started from.
    _scratch: Option<tempfile::TempDir>,
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

/// The provider of a location, as the user's file configures it.
pub(crate) async fn provider(
    location: &str,
    user_file: UserFile,
    search: SearchPath,
) -> Result<Box<dyn Harness>, Failure> {
    start(location, user_file, search, OnThisMachine::new, None).await
}

/// The same for a provider that runs as another user, who owns its workspaces.
pub(crate) async fn owned(
    location: &str,
    user_file: UserFile,
    search: SearchPath,
    user: u32,
    scratch: tempfile::TempDir,
) -> Result<Box<dyn Harness>, Failure> {
    let sandboxes = |provider| OnThisMachine::new(provider).owned_by(user);
    start(location, user_file, search, sandboxes, Some(scratch)).await
}

async fn start(
    location: &str,
    user_file: UserFile,
    search: SearchPath,
    sandboxes: impl FnOnce(Arc<dyn Provider>) -> OnThisMachine,
    scratch: Option<tempfile::TempDir>,
) -> Result<Box<dyn Harness>, Failure> {
    let sources = Sources {
        location: Some(location.to_owned()),
        location_variable: None,
        directory: PathBuf::from("/"),
        user_file,
        search: search.clone(),
    };
    let config = Config::load(&sources).map_err(Failure::new)?;
    let host = Host::new(config, search);
    let provider = host
        .provider(&Ctx::new(), location)
        .await
        .map_err(Failure::new)?;
    let options = host.config().provider(location).options.clone();
    Ok(Box::new(OverHost {
        _host: host,
        sandboxes: sandboxes(provider).with_options(options),
        _scratch: scratch,
    }))
}

//! A location, open for the length of one command of `spp`.

use std::path::PathBuf;
use std::sync::Arc;

use sandbox_core::{Ctx, Disposition, Sandbox};
use sandbox_host::config::{Config, Sources};
use sandbox_host::{Host, OpenRequest, Opened, SearchPath};

use crate::args::Global;
use crate::failure::{Failure, Result};

/// A location, open for the length of one command of `spp`.
pub(crate) struct Session {
    host: Host,
    opened: Opened,
}

impl Session {
    /// Opens the location in use on the directory that the caller stands in.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from opening.
    pub(crate) async fn open(global: &Global, ctx: &Ctx) -> Result<Self> {
        let directory = directory()?;
        let root = directory.to_str().map(str::to_owned).ok_or_else(|| {
            Failure::new(format_args!(
                "the directory {} has a name that is not UTF-8; rename it, or run from another",
                directory.display()
            ))
        })?;
        let host = Host::new(config(global, directory)?, SearchPath::of_process());
        let request = OpenRequest {
            root: Some(root),
            ..OpenRequest::default()
        };
        let ctx = ctx.clone().with_progress(|progress| {
            tracing::info!(phase = progress.phase, "{}", progress.message);
        });
        match host.open(&ctx, None, request).await {
            Ok(opened) => Ok(Self { host, opened }),
            Err(error) => {
                host.shutdown().await;
                Err(error.into())
            }
        }
    }

    /// The place.
    pub(crate) fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.opened.sandbox
    }

    /// Gives everything back. What the command did stands whether or not this works, so a failure
    /// is told and nothing more.
    pub(crate) async fn close(self) {
        if let Err(error) = self.opened.release(&Ctx::new(), Disposition::Destroy).await {
            // A provider that is gone has nothing left to be given back.
            tracing::info!("{error}");
        }
        self.host.shutdown().await;
    }
}

/// The configuration as seen from `directory`.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn config(global: &Global, directory: PathBuf) -> Result<Config> {
    let sources = Sources::of_process(directory, global.location.clone(), global.config.clone());
    Ok(Config::load(&sources)?)
}

/// The directory that the caller stands in.
///
/// # Errors
///
/// When it is gone, or may not be looked at.
pub(crate) fn directory() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| {
        Failure::io(
            "find the directory you stand in; change to one that exists",
            error,
        )
    })
}

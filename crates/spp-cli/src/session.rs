//! A location, open for the length of one command of `spp`.
//!
//! **Invariant:** however a command ends, its provider is gone before `spp` is. A first signal ends what
//! is under way in order; a further one does not wait for that.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{Cancel, Ctx, Disposition, ErrorKind, Sandbox};
use sandbox_host::config::{Config, Sources};
use sandbox_host::{Host, OpenRequest, Opened, SearchPath};

use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::progress::Making;
use crate::signals::{Arrived, Signals};

/// How long a place may take to be given back.
const RELEASE: Duration = Duration::from_secs(30);

/// A location, open for the length of one command of `spp`.
pub(crate) struct Session {
    host: Host,
    opened: Opened,
}

impl Session {
    /// Opens the location in use on the directory that the caller stands in; or returns the signal that
    /// came meanwhile.
    ///
    /// - `ctx`: what the opening is done under; raising `cancel` cancels it
    ///
    /// # Errors
    ///
    /// Whatever keeps it from opening.
    pub(crate) async fn open(
        global: &Global,
        ctx: &Ctx,
        cancel: &Cancel,
        signals: &mut Signals,
    ) -> Result<std::result::Result<Self, Arrived>> {
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
        let making = Making::new(global);
        let told = making.told();
        let ctx = ctx.clone().with_progress(move |progress| {
            tracing::info!(phase = progress.phase, "{}", progress.message);
            told(&progress.message);
        });
        let opened = interruptible(host.open(&ctx, None, request), cancel, signals).await;
        drop(making);
        match opened {
            Done::Whole(Ok(opened)) => Ok(Ok(Self { host, opened })),
            Done::Whole(Err(error)) => {
                shut_down(&host, signals).await;
                Err(error.into())
            }
            Done::Interrupted(arrived, _) => {
                shut_down(&host, signals).await;
                Ok(Err(arrived))
            }
        }
    }

    /// The place.
    pub(crate) fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.opened.sandbox
    }

    /// Ends the provider at once, and with it everything it started.
    pub(crate) async fn kill(self) {
        self.host.kill().await;
    }

    /// Gives everything back. What the command did stands whether or not this works, so a failure
    /// is told and nothing more.
    pub(crate) async fn close(self, signals: &mut Signals) {
        let ctx = Ctx::new().with_timeout(RELEASE);
        let release = self.opened.release(&ctx, Disposition::Destroy);
        tokio::select! {
            released = release => {
                if let Err(error) = released {
                    // A provider that is gone has nothing left to be given back.
                    tracing::info!("{error}");
                }
                shut_down(&self.host, signals).await;
            }
            _ = signals.next() => self.host.kill().await,
        }
    }
}

/// Opens the location in use for one verb, does it, and closes it again; or returns the signal that
/// came meanwhile and kept the verb from being done.
///
/// # Errors
///
/// Those of opening and of the verb.
pub(crate) async fn once<T>(
    global: &Global,
    signals: &mut Signals,
    verb: impl AsyncFnOnce(&dyn Sandbox, &Ctx) -> sandbox_core::Result<T>,
) -> Result<std::result::Result<T, Arrived>> {
    let cancel = Cancel::new();
    let ctx = Ctx::new().with_cancel(cancel.clone());
    let session = match Session::open(global, &ctx, &cancel, signals).await? {
        Ok(session) => session,
        Err(arrived) => return Ok(Err(arrived)),
    };
    let done = verb(session.sandbox().as_ref(), &ctx);
    let done = interruptible(done, &cancel, signals).await;
    session.close(signals).await;
    match done {
        // A change that was made before the cancel reached it is told as made.
        Done::Whole(answer) | Done::Interrupted(_, Some(answer @ Ok(_))) => Ok(Ok(answer?)),
        Done::Interrupted(_, Some(Err(error))) if error.kind() != ErrorKind::Cancelled => {
            Err(error.into())
        }
        Done::Interrupted(arrived, _) => Ok(Err(arrived)),
    }
}

/// What became of work that a signal may interrupt.
pub(crate) enum Done<T> {
    /// It came to its end by itself.
    Whole(T),
    /// A signal came first; the result is there if it was waited for.
    Interrupted(Arrived, Option<T>),
}

/// Does something that a signal cancels. Its result is waited for all the same, because it says what
/// was done; a further signal ends that too.
pub(crate) async fn interruptible<T>(
    work: impl Future<Output = T>,
    cancel: &Cancel,
    signals: &mut Signals,
) -> Done<T> {
    let mut work = pin!(work);
    let arrived = tokio::select! {
        biased;
        result = &mut work => return Done::Whole(result),
        arrived = signals.next() => arrived,
    };
    cancel.cancel();
    tokio::select! {
        biased;
        result = &mut work => Done::Interrupted(arrived, Some(result)),
        _ = signals.next() => Done::Interrupted(arrived, None),
    }
}

/// Ends all providers: in order, or at once when a signal comes.
pub(crate) async fn shut_down(host: &Host, signals: &mut Signals) {
    tokio::select! {
        () = host.shutdown() => {}
        _ = signals.next() => host.kill().await,
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

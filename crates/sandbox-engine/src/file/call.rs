//! Where the work of a call runs, and how a cancel or a deadline ends it.

use sandbox_core::{Ctx, Error, ErrorKind, Result, Verb};

/// What a cancel does to work that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The answer is given at once; the work stops at its next look and had no effect.
    Abandon,
    /// The work stops at its next look and says what it did; the answer waits for that.
    Await,
}

/// Refuses to go on with a call that was cancelled or is late.
pub(crate) fn check(ctx: &Ctx, verb: Verb) -> Result<()> {
    match interrupted(ctx) {
        None => Ok(()),
        Some(ErrorKind::DeadlineExceeded) => Err(late(verb)),
        Some(_) => Err(cancelled(verb)),
    }
}

/// `Cancelled` or `DeadlineExceeded`, if the call is one that nobody waits for any more.
pub(crate) fn interrupted(ctx: &Ctx) -> Option<ErrorKind> {
    if ctx.cancel().is_cancelled() {
        return Some(ErrorKind::Cancelled);
    }
    match ctx.remaining() {
        Some(left) if left.is_zero() => Some(ErrorKind::DeadlineExceeded),
        _ => None,
    }
}

/// Does work that may wait for the disk, on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    ctx: &Ctx,
    verb: Verb,
    interrupt: Interrupt,
    work: impl FnOnce(Ctx) -> Result<T> + Send + 'static,
) -> Result<T> {
    check(ctx, verb)?;
    let own = ctx.clone();
    let work = tokio::task::spawn_blocking(move || work(own));
    let joined = match interrupt {
        Interrupt::Await => work.await,
        Interrupt::Abandon => {
            let deadline = async {
                match ctx.remaining() {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                joined = work => joined,
                () = ctx.cancel().cancelled() => return Err(cancelled(verb)),
                () = deadline => return Err(late(verb)),
            }
        }
    };
    joined.unwrap_or_else(|error| {
        Err(Error::new(verb, ErrorKind::Internal)
            .detail("the work on it broke off; please report this as a defect")
            .caused_by(error))
    })
}

fn cancelled(verb: Verb) -> Error {
    Error::refused(verb, ErrorKind::Cancelled)
}

fn late(verb: Verb) -> Error {
    Error::refused(verb, ErrorKind::DeadlineExceeded).detail("allow more time, or ask for less")
}

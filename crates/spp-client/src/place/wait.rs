//! Waiting for others, which has an end: for a call that has the same sandbox, and for an engine.

use std::time::Duration;

use sandbox_core::{Ctx, Error, ErrorKind, Result, SandboxId, Verb};

/// Waits for what another call does, or the end of a sandbox, for as long as this one is wanted.
///
/// # Errors
///
/// `Cancelled`, `DeadlineExceeded`; nothing was done then.
pub async fn within<T>(
    ctx: &Ctx,
    verb: Verb,
    id: &SandboxId,
    waited: impl Future<Output = T>,
) -> Result<T> {
    let refused = |kind| {
        Error::refused(verb, kind)
            .on(id)
            .detail("a sandbox of this id was still being made or ended")
    };
    let deadline = async {
        match ctx.remaining() {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        done = waited => Ok(done),
        () = ctx.cancel().cancelled() => Err(refused(ErrorKind::Cancelled)),
        () = deadline => Err(refused(ErrorKind::DeadlineExceeded)),
    }
}

/// Waits for an engine, which may never answer.
///
/// # Errors
///
/// The engine's, as this verb's; `ProviderUnavailable` once the limit has passed. What the engine did by then is not known
/// here: whoever asked ends it.
pub async fn answered<T>(
    limit: Duration,
    verb: Verb,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    let late = |_| {
        Error::new(verb, ErrorKind::ProviderUnavailable).detail(format_args!(
            "the engine did not answer within {} s; see whether this machine is overloaded",
            limit.as_secs()
        ))
    };
    tokio::time::timeout(limit, answer)
        .await
        .map_err(late)?
        .map_err(|error| error.with_verb(verb))
}

#[cfg(test)]
mod tests {
    use sandbox_core::Effect;

    use super::*;

    #[tokio::test]
    async fn an_engine_that_never_answers_is_not_waited_for_for_ever() {
        let never = std::future::pending::<Result<()>>();
        let answer = answered(Duration::ZERO, Verb::Acquire, never).await;
        let error = answer.expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::ProviderUnavailable);
        assert_ne!(error.effect(), Effect::None, "nobody knows what it did");
        assert!(error.to_string().contains("did not answer"), "{error}");
    }
}

//! The operating system's side of a place that has answered: its end is noticed, told, and brought about.

use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::first::First;
use super::start::NotEnded;
use super::words::Words;
use crate::Connection;

/// How long an engine may take to end by itself once its input is closed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the other ends of its pipes may stay open after the process was waited for.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long it may take to ask why a place ended.
const WHY: Duration = Duration::from_secs(2);
/// How long the end of the output is held back for the process to be waited for.
const HELD: Duration = Duration::from_secs(5);

/// What has become of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    There,
    /// Nothing of it is left.
    Gone,
    /// What was started is gone, and something that it held is not.
    Left,
}

/// Whoever started a place that is no child of this process.
#[async_trait]
pub trait Outside: Send + Sync + 'static {
    /// Whether this process is the first one of the place.
    ///
    /// - `pid`: as this process sees it
    async fn is_first(&self, pid: u32) -> bool;

    /// Whether it runs, as far as is known.
    async fn is_running(&self) -> bool;

    /// Ends the place, whatever it does.
    async fn kill(&self);
}

/// Says why a place ended, beside how its process did. `None` if there is nothing more to say.
#[derive(Clone)]
pub struct Why(Arc<Asked>);

type Asked = dyn Fn() -> Pin<Box<dyn Future<Output = Option<String>> + Send>> + Send + Sync;

impl Why {
    /// Asks by this, once the place has ended by itself. It is waited for a few seconds.
    pub fn new(
        ask: impl Fn() -> Pin<Box<dyn Future<Output = Option<String>> + Send>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ask))
    }
}

impl std::fmt::Debug for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Why")
    }
}

/// What a place ends with.
pub(super) enum Held {
    /// A child, and the first process of the place beneath it, if it is such a one.
    Child { child: Child, first: Option<First> },
    /// Somebody else's.
    Outside {
        first: First,
        outside: Arc<dyn Outside>,
    },
}

impl Held {
    /// Waits for its end.
    async fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Child { child, .. } => child.wait().await.map(Some),
            Self::Outside { first, .. } => first.wait().await.map(|()| None),
        }
    }

    async fn kill(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Child { child, .. } => {
                let _ = child.start_kill();
                child.wait().await.map(Some)
            }
            Self::Outside { outside, .. } => {
                outside.kill().await;
                Ok(None)
            }
        }
    }

    /// Whether nothing is left, once what was started has ended.
    async fn is_gone(&self) -> bool {
        match self {
            Self::Child { first: None, .. } => true,
            Self::Child {
                first: Some(first), ..
            }
            | Self::Outside { first, .. } => first.ended().await,
        }
    }
}

/// See the [module](self).
pub(super) struct Life {
    pub(super) held: Held,
    pub(super) connection: Arc<Connection>,
    pub(super) drained: JoinHandle<()>,
    pub(super) words: Words,
    pub(super) why: Option<Why>,
}

impl Life {
    pub(super) async fn watch(mut self, tell: watch::Sender<State>) {
        let (ended, is_by_itself) = tokio::select! {
            ended = self.held.ended() => (ended, true),
            // The engine's input is closed with the connection, and that ends it.
            _ = self.connection.closed() => match timeout(GRACE, self.held.ended()).await {
                Ok(ended) => (ended, false),
                Err(_) => (self.held.kill().await, false),
            },
        };
        let state = match self.held.is_gone().await {
            true => State::Gone,
            false => State::Left,
        };
        let told = match &self.why {
            Some(why) if is_by_itself => timeout(WHY, (why.0)()).await.ok().flatten(),
            Some(_) | None => None,
        };
        let _ = timeout(LAST_WORDS, self.drained).await;
        let words = self.words.text();
        let mut ended = match (ended, told) {
            (Ok(Some(status)), Some(told)) => format!("the place ended ({status}): {told}"),
            (Ok(Some(status)), None) => format!("the place ended ({status})"),
            (Ok(None), Some(told)) => format!("the place ended: {told}"),
            (Ok(None), None) => "the place ended".to_owned(),
            (Err(error), _) => format!("the place cannot be watched: {error}"),
        };
        if state == State::Left {
            tracing::error!("{NotEnded}");
            ended = format!("{ended}; {NotEnded}");
        }
        self.connection.lose(match words.lines().last() {
            Some(last) => format!("{ended}; its last words: {last}"),
            None => ended,
        });
        tell.send_replace(state);
    }
}

/// A reader whose end comes once the process is gone, or does not go.
pub(super) struct HeldEnd<R> {
    inner: R,
    gone: watch::Receiver<State>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<R> HeldEnd<R> {
    pub(super) fn new(inner: R, gone: watch::Receiver<State>) -> Self {
        Self {
            inner,
            gone,
            end: None,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for HeldEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.is_none() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut gone = self.gone.clone();
            self.end = Some(Box::pin(async move {
                let _ = timeout(HELD, gone.wait_for(|state| *state != State::There)).await;
            }));
        }
        match &mut self.end {
            Some(end) => end.as_mut().poll(context).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}

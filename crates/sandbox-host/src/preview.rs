//! What the host itself wants to know of a provider's output: how it begins, and that it ended.
//!
//! When a handshake fails, how the output begins says why: a header, a banner, a stack trace. The
//! connection itself has no use for that, so a reader in front of it remembers.
//!
//! The end is held back for a moment. Usually the process is exiting, and whoever waits for it is
//! about to end the connection with its status and last words, which say more than a closed pipe.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Sleep, sleep};

/// How much is kept, in bytes.
const KEPT: usize = 200;
/// How long the end is held back: longer than what the process wrote at its end takes to be read.
const HELD: Duration = Duration::from_millis(50);
/// How a message begins at programs that frame like an editor's language server.
const HEADER: &[u8] = b"content-length:";

/// A reader that remembers how its stream began.
pub(crate) struct Preview<R> {
    inner: R,
    beginning: Beginning,
    full: bool,
    end: Option<Pin<Box<Sleep>>>,
}

/// How a stream began, and whether it ended.
#[derive(Clone, Default)]
pub(crate) struct Beginning(Arc<Shared>);

#[derive(Default)]
struct Shared {
    bytes: Mutex<Vec<u8>>,
    framed: Notify,
    ended: watch::Sender<bool>,
    abandoned: AtomicBool,
}

impl<R> Drop for Preview<R> {
    fn drop(&mut self) {
        self.beginning.0.abandoned.store(true, Ordering::Relaxed);
    }
}

impl<R> Preview<R> {
    pub(crate) fn new(inner: R) -> (Self, Beginning) {
        let beginning = Beginning::default();
        let preview = Self {
            inner,
            beginning: beginning.clone(),
            full: false,
            end: None,
        };
        (preview, beginning)
    }
}

impl Beginning {
    /// Resolves if the stream turns out to begin with a `Content-Length` header.
    pub(crate) async fn framed(&self) {
        self.0.framed.notified().await;
    }

    /// Whether it begins with a `Content-Length` header.
    pub(crate) fn is_framed(&self) -> bool {
        is_header(&self.bytes())
    }

    /// The first line if it cannot be a message.
    pub(crate) fn babble(&self) -> Option<String> {
        let bytes = self.bytes();
        let bytes = bytes.trim_ascii_start();
        let line = bytes.split(|&byte| byte == b'\n').next()?;
        (!line.is_empty() && !line.starts_with(b"{"))
            .then(|| String::from_utf8_lossy(line).into_owned())
    }

    /// Whether the stream has ended: its writer closed it, or is gone.
    pub(crate) fn has_ended(&self) -> bool {
        *self.0.ended.borrow()
    }

    /// Whether this side gave it up before it ended, so that its writer could not write on.
    pub(crate) fn was_given_up(&self) -> bool {
        self.0.abandoned.load(Ordering::Relaxed) && !self.has_ended()
    }

    /// Resolves once it has ended.
    pub(crate) async fn ended(&self) {
        // The sender is part of what this holds, so it cannot be gone.
        let _ = self.0.ended.subscribe().wait_for(|ended| *ended).await;
    }

    fn bytes(&self) -> Vec<u8> {
        self.0
            .bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps a piece of the beginning, and says whether there is room for more.
    fn push(&self, piece: &[u8]) -> bool {
        let mut bytes = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        if is_header(&bytes) {
            self.0.framed.notify_one();
        }
        bytes.len() < KEPT
    }
}

fn is_header(bytes: &[u8]) -> bool {
    bytes
        .trim_ascii_start()
        .get(..HEADER.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(HEADER))
}

impl<R: AsyncRead + Unpin> AsyncRead for Preview<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if let Some(end) = &mut self.end {
            return end.as_mut().poll(context).map(Ok);
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if buffer.filled().len() == before && buffer.remaining() > 0 {
            self.beginning.0.ended.send_replace(true);
            let end = self.end.insert(Box::pin(sleep(HELD)));
            return end.as_mut().poll(context).map(Ok);
        }
        if !self.full {
            self.full = !self.beginning.push(&buffer.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    async fn begin(output: &'static [u8]) -> Beginning {
        let (mut preview, beginning) = Preview::new(output);
        let mut all = Vec::new();
        preview.read_to_end(&mut all).await.expect("reading memory");
        assert_eq!(all, output, "the preview changed the stream");
        assert!(beginning.has_ended());
        beginning
    }

    #[tokio::test]
    async fn how_the_output_begins_tells_headers_and_babble_from_messages() {
        let message = begin(b"\n{\"jsonrpc\":\"2.0\"}\nWelcome").await;
        assert_eq!((message.babble(), message.is_framed()), (None, false));
        let banner = begin(b"Welcome to box\n{\"jsonrpc\":\"2.0\"}\n").await;
        assert_eq!(banner.babble().as_deref(), Some("Welcome to box"));
        let framed = begin(b"content-Length: 52\r\n\r\n{}").await;
        assert!(framed.is_framed());
        framed.framed().await;
        let endless = begin(&[b'y'; 100_000]).await;
        assert_eq!(endless.babble().map(|line| line.len()), Some(KEPT));
        assert_eq!(begin(b"").await.babble(), None);
    }
}

//! From a pipe into its log, and to whoever reads along.
//!
//! Each stream has its own pump, so that no stream waits for another. A reader that does not pull
//! makes its pump wait, and so, once the pipe is full, the process: that is the back-pressure. A
//! reader that went away is no reason to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use sandbox_core::ByteStream;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use super::log::{Added, Log};

/// Most bytes of one read, and of one chunk.
const CHUNK: usize = 32 * 1024;
/// Most bytes of the first read. Most streams end within it, and two large buffers that are had and
/// given back for every run cost the allocator more than the run's own memory does.
const FIRST: usize = 1024;
/// Chunks that wait for a reader.
const WAITING: usize = 8;

/// What a pump and its overseer tell each other.
#[derive(Debug)]
pub(super) struct Flow {
    stalled: AtomicBool,
    detached: watch::Sender<bool>,
}

impl Flow {
    pub(super) fn new() -> Self {
        Flow {
            stalled: AtomicBool::new(false),
            detached: watch::Sender::new(false),
        }
    }

    /// Whether the pump waits for its reader.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Ends the reader's stream. The log goes on.
    pub(super) fn detach(&self) {
        self.detached.send_replace(true);
    }
}

/// Both ends of what a reader gets.
pub(super) fn live() -> (mpsc::Sender<Bytes>, ByteStream) {
    let (sender, mut receiver) = mpsc::channel(WAITING);
    let stream = futures_util::stream::poll_fn(move |context| {
        receiver.poll_recv(context).map(|chunk| chunk.map(Ok))
    });
    (sender, Box::pin(stream))
}

/// A stream with nothing in it.
pub(super) fn nothing() -> ByteStream {
    Box::pin(futures_util::stream::empty())
}

/// Reads the pipe to its end, and gives it back: closing it is nothing that an answer waits for.
///
/// - `over`: called when the log is full and the policy wants the process ended
pub(super) async fn pump(
    mut pipe: pipe::Receiver,
    log: Arc<Log>,
    flow: Arc<Flow>,
    mut reader: Option<mpsc::Sender<Bytes>>,
    over: impl Fn() + Send,
) -> pipe::Receiver {
    let mut buffer = BytesMut::new();
    let mut detached = flow.detached.subscribe();
    let mut told = false;
    let mut size = FIRST;
    loop {
        let room = wait_for_room(&log).await;
        buffer.reserve(size);
        let most = size.min(usize::try_from(room).unwrap_or(usize::MAX));
        let mut limited = (&mut buffer).limit(most);
        let read = tokio::select! {
            read = pipe.read_buf(&mut limited) => read,
            _ = detached.wait_for(|detached| *detached), if reader.is_some() => {
                reader = None;
                continue;
            }
        };
        // A terminal whose other side is closed says EIO where a pipe says nothing.
        let Ok(1..) = read else { break };
        size = CHUNK;
        if log.add(&buffer) == Added::Over && !told {
            told = true;
            over();
        }
        match &reader {
            None => buffer.clear(),
            Some(sender) => {
                if !deliver(sender, buffer.split().freeze(), &flow).await {
                    reader = None;
                }
            }
        }
    }
    log.end();
    pipe
}

async fn wait_for_room(log: &Log) -> u64 {
    loop {
        let changed = log.changed();
        match log.room() {
            0 => changed.await,
            room => return room,
        }
    }
}

/// Hands a chunk to the reader. `false` if there is none any more.
async fn deliver(sender: &mpsc::Sender<Bytes>, chunk: Bytes, flow: &Flow) -> bool {
    let mut detached = flow.detached.subscribe();
    if *detached.borrow_and_update() {
        return false;
    }
    let chunk = match sender.try_send(chunk) {
        Ok(()) => return true,
        Err(mpsc::error::TrySendError::Closed(_)) => return false,
        Err(mpsc::error::TrySendError::Full(chunk)) => chunk,
    };
    flow.stalled.store(true, Ordering::Relaxed);
    let delivered = tokio::select! {
        sent = sender.send(chunk) => sent.is_ok(),
        _ = detached.changed() => false,
    };
    flow.stalled.store(false, Ordering::Relaxed);
    delivered
}

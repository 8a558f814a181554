//! Standard output and standard error, written by threads of their own.
//!
//! A reader that is slow, or that stands still, must stop neither the timers nor the signals, and
//! the descriptors are shared with other programs, so they must not be made non-blocking. A thread
//! blocks in their place, and a short queue in front of it passes the pressure on to the command.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use rustix::fd::BorrowedFd;
use sandbox_core::ByteStream;
use tokio::sync::{mpsc, oneshot};

use crate::failure::{Failure, Result};
use crate::signals::Signals;

/// Chunks under way to a thread.
const QUEUE: usize = 2;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Stdout,
    Stderr,
}

impl Target {
    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        }
    }

    fn descriptor(self) -> BorrowedFd<'static> {
        match self {
            Self::Stdout => rustix::stdio::stdout(),
            Self::Stderr => rustix::stdio::stderr(),
        }
    }
}

/// How writing failed.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Nobody reads any more.
    Closed,
    /// In another way.
    Failed(io::Error),
    /// The stream that is written ended early.
    Stream(sandbox_core::Error),
}

/// A thread that writes what it is sent, at once and as it is.
pub(crate) struct Sink {
    queue: mpsc::Sender<Bytes>,
    end: oneshot::Receiver<io::Result<()>>,
}

impl Sink {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system's, if it has no room for a thread.
    pub(crate) fn open(target: Target) -> io::Result<Self> {
        let (queue, mut chunks) = mpsc::channel::<Bytes>(QUEUE);
        let (told, end) = oneshot::channel();
        std::thread::Builder::new()
            .name(target.name().into())
            .spawn(move || {
                let mut result = Ok(());
                while result.is_ok()
                    && let Some(chunk) = chunks.blocking_recv()
                {
                    result = write_all(target.descriptor(), &chunk);
                }
                // The receiver is gone only when nobody cares any more.
                let _ = told.send(result);
            })?;
        Ok(Self { queue, end })
    }

    /// Queues a chunk, waiting for room.
    ///
    /// # Errors
    ///
    /// [`Broken`], once an earlier chunk could not be written.
    pub(crate) async fn write(&mut self, chunk: Bytes) -> std::result::Result<(), Broken> {
        match self.queue.send(chunk).await {
            Ok(()) => Ok(()),
            Err(_) => Err(broken(&mut self.end).await),
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(crate) async fn finish(mut self) -> std::result::Result<(), Broken> {
        drop(self.queue);
        match (&mut self.end).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(classify(error)),
            Err(_) => Err(Broken::Closed),
        }
    }
}

/// Writes a whole stream.
///
/// # Errors
///
/// [`Broken`]. The rest of the stream is dropped then.
pub(crate) async fn copy(mut from: ByteStream, target: Target) -> std::result::Result<(), Broken> {
    let mut sink = Sink::open(target).map_err(Broken::Failed)?;
    while let Some(chunk) = from.next().await {
        sink.write(chunk.map_err(Broken::Stream)?).await?;
    }
    sink.finish().await
}

async fn broken(end: &mut oneshot::Receiver<io::Result<()>>) -> Broken {
    match end.await {
        Ok(Err(error)) => classify(error),
        _ => Broken::Closed,
    }
}

fn classify(error: io::Error) -> Broken {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Broken::Closed
    } else {
        Broken::Failed(error)
    }
}

/// Writes on a descriptor that may have been made non-blocking by whoever shares it.
fn write_all(descriptor: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    while !bytes.is_empty() {
        match rustix::io::write(descriptor, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(&descriptor, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes what a command of `spp` itself has to say on standard output, and returns `code`: the exit
/// status. A reader that left is no failure; a signal that comes while nobody reads gives its own
/// status.
///
/// # Errors
///
/// Any other failure to write.
pub(crate) async fn print(text: impl Into<Bytes>, signals: &mut Signals, code: u8) -> Result<u8> {
    let writing = async {
        let mut sink = Sink::open(Target::Stdout).map_err(Broken::Failed)?;
        sink.write(text.into()).await?;
        sink.finish().await
    };
    tokio::select! {
        written = writing => match written {
            Ok(()) | Err(Broken::Closed) => Ok(code),
            Err(Broken::Failed(error)) => Err(Failure::io("write standard output", error)),
            Err(Broken::Stream(error)) => Err(error.into()),
        },
        arrived = signals.next() => Ok(arrived.code()),
    }
}

/// As [`print()`], where nothing runs that could look at signals.
///
/// # Errors
///
/// Failures to write; a reader that left is none.
pub(crate) fn print_last(text: &[u8]) -> Result<()> {
    match write_all(rustix::stdio::stdout(), text).map_err(classify) {
        Err(Broken::Failed(error)) => Err(Failure::io("write standard output", error)),
        _ => Ok(()),
    }
}

//! Standard input, read by a thread of its own and only as far as somebody takes it.
//!
//! The thread may stay behind in a read that never ends, on a pipe that nobody closes; the program's
//! end ends it.

use bytes::Bytes;
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::termios::isatty;
use sandbox_core::process::Stdin;
use sandbox_core::{Error, ErrorKind, Verb};
use tokio::sync::mpsc;

use crate::failure::{Failure, Result};

/// Bytes of one read.
const CHUNK: usize = 32 * 1024;

/// What a command gets as its input: nothing from a terminal, otherwise everything.
///
/// # Errors
///
/// The system's, if it has no room for a thread.
pub(crate) fn stdin() -> Result<Stdin> {
    let descriptor = rustix::stdio::stdin();
    // A closed descriptor and /dev/null have nothing to say; no thread is needed to hear it.
    let nothing = match fstat(descriptor) {
        Err(_) => true,
        Ok(stat) => {
            FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
                && (isatty(descriptor) || is_null(stat.st_rdev))
        }
    };
    if nothing {
        return Ok(Stdin::Null);
    }
    let chunks = chunks()?;
    Ok(Stdin::Stream(Box::pin(futures_util::stream::unfold(
        chunks,
        |mut chunks| async move {
            let chunk = chunks.recv().await?;
            let chunk = chunk.map_err(|error| {
                Error::new(Verb::Exec, ErrorKind::Io)
                    .on("standard input")
                    .caused_by(error)
            });
            Some((chunk, chunks))
        },
    ))))
}

/// Reads standard input until it ends or fails, at most one chunk ahead.
///
/// # Errors
///
/// The system's, if it has no room for a thread.
pub(crate) fn chunks() -> Result<mpsc::Receiver<std::io::Result<Bytes>>> {
    let (queue, chunks) = mpsc::channel(1);
    std::thread::Builder::new()
        .name("standard input".into())
        .spawn(move || {
            let mut buffer = vec![0; CHUNK];
            loop {
                let read = match rustix::io::read(rustix::stdio::stdin(), &mut buffer[..]) {
                    Ok(0) => break,
                    Ok(count) => Ok(Bytes::copy_from_slice(&buffer[..count])),
                    Err(Errno::INTR) => continue,
                    // Whoever shares the descriptor made it non-blocking.
                    Err(Errno::AGAIN) => match wait() {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error.into()),
                };
                let last = read.is_err();
                if queue.blocking_send(read).is_err() || last {
                    break;
                }
            }
        })
        .map_err(|error| Failure::io("read standard input", error))?;
    Ok(chunks)
}

fn wait() -> std::io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdin = rustix::stdio::stdin();
    poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None)?;
    Ok(())
}

fn is_null(device: rustix::fs::Dev) -> bool {
    cfg!(target_os = "linux") && (rustix::fs::major(device), rustix::fs::minor(device)) == (1, 3)
}

//! The protocol's two pipes, taken away from everybody else.
//!
//! A library that prints, a child that inherits, a stray debugging line: any of them would corrupt
//! the protocol if it shared standard output with it. So the two descriptors are moved to private
//! numbers that no child inherits; afterwards standard input is `/dev/null` and standard output
//! is standard error, where a stray print is a log line.
//!
//! Not here: what is said on the pipes ([`serve`](mod@crate::serve)).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Private descriptors start here, far from those a program opens by itself.
const PRIVATE_FROM: i32 = 100;

/// How long the last output may take to leave when it does not go to a pipe or socket.
const FLUSH: Duration = Duration::from_secs(2);

/// What the provider reads requests from.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
/// What the provider writes answers to.
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// The two ends of the connection that a provider was started with.
pub struct Stdio {
    /// Requests.
    pub reader: Reader,
    /// Answers.
    pub writer: Writer,
    flushed: Option<mpsc::Receiver<()>>,
}

impl std::fmt::Debug for Stdio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stdio")
    }
}

/// Takes standard input and output for the protocol. Call it once, first thing, inside a runtime:
/// afterwards the process's standard input is empty and its standard output is standard error.
///
/// # Errors
///
/// What the operating system says of duplicating a descriptor or opening `/dev/null`.
pub fn stdio() -> io::Result<Stdio> {
    let input = private(rustix::stdio::stdin())?;
    let output = private(rustix::stdio::stdout())?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let reader = reader(input)?;
    let (writer, flushed) = writer(output)?;
    Ok(Stdio {
        reader,
        writer,
        flushed,
    })
}

impl Stdio {
    /// Splits into reader, writer, and a wait for the last output to have left. To be called after
    /// the writer was dropped.
    #[must_use]
    pub fn into_parts(self) -> (Reader, Writer, Flushed) {
        (self.reader, self.writer, Flushed(self.flushed))
    }
}

/// Waits for output that a helper thread still carries.
#[derive(Debug)]
pub struct Flushed(Option<mpsc::Receiver<()>>);

impl Flushed {
    /// Blocks until everything has left, two seconds at most.
    pub fn wait(self) {
        if let Some(done) = self.0 {
            // An error means that the thread is gone, which is what is waited for.
            let _ = done.recv_timeout(FLUSH);
        }
    }
}

fn private(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match rustix::io::fcntl_dupfd_cloexec(descriptor, PRIVATE_FROM) {
        // There are not that many: the limit on open files is lower.
        Err(rustix::io::Errno::INVAL) => Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?),
        private => Ok(private?),
    }
}

fn kind(descriptor: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(
        rustix::fs::fstat(descriptor)?.st_mode,
    ))
}

fn reader(input: OwnedFd) -> io::Result<Reader> {
    match kind(&input)? {
        FileType::Fifo => Ok(Box::pin(pipe::Receiver::from_owned_fd(input)?)),
        FileType::Socket => Ok(Box::pin(socket(input)?)),
        // A file or a terminal cannot be waited for, so a thread reads it.
        _ => {
            let (from, mut to) = io::pipe()?;
            std::thread::spawn(move || io::copy(&mut File::from(input), &mut to));
            Ok(Box::pin(pipe::Receiver::from_owned_fd(from.into())?))
        }
    }
}

fn writer(output: OwnedFd) -> io::Result<(Writer, Option<mpsc::Receiver<()>>)> {
    match kind(&output)? {
        FileType::Fifo => Ok((Box::pin(pipe::Sender::from_owned_fd(output)?), None)),
        FileType::Socket => Ok((Box::pin(socket(output)?), None)),
        _ => {
            let (mut from, to) = io::pipe()?;
            let (done, flushed) = mpsc::channel();
            std::thread::spawn(move || {
                let copied = io::copy(&mut from, &mut File::from(output));
                drop(done);
                copied
            });
            let to = pipe::Sender::from_owned_fd(to.into())?;
            Ok((Box::pin(to), Some(flushed)))
        }
    }
}

fn socket(descriptor: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(descriptor);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

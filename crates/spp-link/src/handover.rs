//! How an engine that is reached through a socket gets its standard input, output and error.
//!
//! A process that is started by somebody else's daemon has no pipes of its provider's. It connects to a socket that was
//! put where it is, once, and is handed three descriptors there. From then on it is like any other engine, and the socket
//! is of no more use to anybody.
//!
//! **Invariant:** nothing is taken of whoever cannot show the secret that this process was started with. Who answers at a
//! path may be anybody who can replace what lies there.
//!
//! Not here: how the other side knows who has connected, which is its own business.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Environment variable that tells an engine the secret of whoever is to hand it its descriptors: [`SECRET_BYTES`] bytes
/// of text.
pub const SECRET_VARIABLE: &str = "SPP_CHANNEL";
/// Exit status of an engine that could not connect, or was handed nothing that it could take.
pub const EXIT_NOT_REACHED: u8 = 71;
/// Length of the secret: 256 bits as hexadecimal digits.
pub const SECRET_BYTES: usize = 64;
/// How long an engine waits for what it is to be handed once it has connected.
const WAIT: Duration = Duration::from_secs(5);
/// Standard input, output and error.
const COUNT: usize = 3;

/// Hands over standard input, output and error, in this order.
///
/// # Errors
///
/// What the system says. `WouldBlock` cannot be: what is sent fits into any socket.
pub fn give(
    to: BorrowedFd<'_>,
    secret: &str,
    descriptors: [BorrowedFd<'_>; COUNT],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let text = [IoSlice::new(secret.as_bytes())];
    let sent = rustix::net::sendmsg(to, &text, &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == secret.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Connects to `path`, and makes what is handed over there this process's standard input, output and error.
///
/// # Errors
///
/// Nobody listens there, or may be connected to; nothing came within five seconds; `PermissionDenied`: whoever answered
/// does not know `secret`.
pub fn take(path: &Path, secret: &str) -> io::Result<()> {
    let socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(WAIT))?;
    let [input, output, errors] = receive(&socket, secret)?;
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(errors)?;
    Ok(())
}

#[cfg(target_os = "linux")]
const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
/// No engine is placed elsewhere: there this is only compiled.
#[cfg(not(target_os = "linux"))]
const RECEIVE: RecvFlags = RecvFlags::empty();

fn receive(socket: &UnixStream, secret: &str) -> io::Result<[OwnedFd; COUNT]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    // One more than is wanted, so that something longer is not taken for it.
    let mut text = [0; SECRET_BYTES + 1];
    let mut slices = [IoSliceMut::new(&mut text)];
    let received = rustix::net::recvmsg(socket.as_fd(), &mut slices, &mut ancillary, RECEIVE)?;
    let mut given = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            given.extend(descriptors);
        }
    }
    if received.bytes == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "whoever listens there wants another peer",
        ));
    }
    if !is_same(&text[..received.bytes], secret.as_bytes()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "whoever listens there is not who started this engine",
        ));
    }
    <[OwnedFd; COUNT]>::try_from(given).map_err(|given| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} descriptors were handed over", given.len()),
        )
    })
}

/// Whether two texts are the same, in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && one.len() == SECRET_BYTES && differences == 0
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// What is received of somebody who hands over these descriptors with this secret.
    fn received(secret: &str, count: usize) -> io::Result<[OwnedFd; COUNT]> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(Duration::from_secs(1)))?;
        let (reader, _writer) = io::pipe()?;
        if count == COUNT {
            give(theirs.as_fd(), secret, [reader.as_fd(); COUNT])?;
        } else {
            (&theirs).write_all(secret.as_bytes())?;
        }
        drop(theirs);
        receive(&ours, SECRET)
    }

    #[test]
    fn descriptors_are_taken_of_who_knows_the_secret_and_of_nobody_else() {
        assert!(received(SECRET, COUNT).is_ok());
        let other = SECRET.replace('0', "1");
        for wrong in [&*other, &SECRET[1..], &format!("{SECRET}0"), "x"] {
            let error = received(wrong, COUNT).expect_err("it is not the secret");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{wrong}");
        }
        let error = received(SECRET, 0).expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let error = received("", 0).expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn no_secret_at_all_is_none() {
        assert!(!is_same(b"", b""));
    }

    #[test]
    fn where_nobody_listens_nothing_is_taken() {
        let error = take(Path::new("/nothing/is/here"), SECRET).expect_err("nobody");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}

//! A socket at which a place that somebody else starts is waited for: in a directory of this user alone, for one peer.
//!
//! Whoever starts the place puts the socket into it. Its first process connects, before anything else can run there, is
//! handed its pipes, and the door is closed for good.
//!
//! **Invariants.** Nobody but the first process of the place is handed anything: the kernel says which process has connected,
//! and whoever made the place whether it is that one. What it is handed comes with a secret, so that it knows in turn whom it
//! has connected to: another process of this user may have put another socket in the place of this one. Nothing can be
//! connected to once one peer was there, whatever becomes of it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use spp_link::handover::{self, SECRET_BYTES};
use tokio::net::unix::pipe;
use tokio::net::{UnixListener, UnixStream};

/// What it is called in its directory.
const SOCKET: &str = "s";

/// A socket that waits for one peer. It is gone when this is dropped.
#[derive(Debug)]
pub struct Door {
    directory: PathBuf,
    listener: UnixListener,
    secret: String,
}

/// This side's ends of what a peer was handed.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) input: pipe::Sender,
    pub(super) output: pipe::Receiver,
    pub(super) errors: pipe::Receiver,
}

impl Door {
    /// Makes a directory that only this user may enter, and listens in it. To be called inside a runtime.
    ///
    /// - `directory`: what is not there yet; its parent is
    ///
    /// # Errors
    ///
    /// What the system says; nothing is left.
    pub fn open(directory: PathBuf) -> io::Result<Self> {
        let mut drawn = [0; SECRET_BYTES / 2];
        getrandom::fill(&mut drawn).map_err(|error| io::Error::other(error.to_string()))?;
        let secret = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        rustix::fs::mkdir(&directory, Mode::RWXU)?;
        match listen(&directory) {
            Ok(listener) => Ok(Self {
                directory,
                listener,
                secret,
            }),
            Err(error) => {
                take_away(&directory);
                Err(error)
            }
        }
    }

    /// The socket, for whoever puts it into the place.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// What the peer has to be told ahead, where nobody else can read it.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Waits for the peer.
    pub(super) async fn peer(&self) -> io::Result<Peer> {
        let (socket, _) = self.listener.accept().await?;
        let pid = socket.peer_cred()?.pid();
        Ok(Peer {
            pid: pid.and_then(|pid| u32::try_from(pid).ok()),
            socket,
        })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        take_away(&self.directory);
    }
}

/// Somebody who has connected.
#[derive(Debug)]
pub(super) struct Peer {
    socket: UnixStream,
    /// Its number here, if it has one.
    pub(super) pid: Option<u32>,
}

impl Peer {
    /// Hands it its pipes.
    pub(super) fn admit(self, secret: &str) -> io::Result<Pipes> {
        let pair = || -> io::Result<(OwnedFd, OwnedFd)> {
            Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
        };
        let (input, output, errors) = (pair()?, pair()?, pair()?);
        let theirs = [input.0.as_fd(), output.1.as_fd(), errors.1.as_fd()];
        // It fits into the socket of somebody who has sent nothing and was sent nothing.
        handover::give(self.socket.as_fd(), secret, theirs)?;
        Ok(Pipes {
            input: pipe::Sender::from_owned_fd(input.1)?,
            output: pipe::Receiver::from_owned_fd(output.0)?,
            errors: pipe::Receiver::from_owned_fd(errors.0)?,
        })
    }
}

fn listen(directory: &Path) -> io::Result<UnixListener> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, Mode::empty())?;
    // Whatever the directory is called: the name of a socket may not be longer than a hundred bytes.
    let number = std::os::fd::AsRawFd::as_raw_fd(&held);
    let listener = StdUnixListener::bind(format!("/proc/self/fd/{number}/{SOCKET}"))?;
    // Who enters the directory is settled by the directory. In the place it may be any user who connects.
    let everybody = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(directory.join(SOCKET), everybody)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Removes a door's directory and what it holds. What cannot be removed is left: it is empty, or nobody listens there.
pub fn take_away(directory: &Path) {
    let removed = std::fs::remove_file(directory.join(SOCKET));
    let removed = removed.and_then(|()| std::fs::remove_dir(directory));
    if let Err(error) = removed {
        tracing::debug!(directory = %directory.display(), %error, "a door was left");
        let _ = std::fs::remove_dir(directory);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream as StdUnixStream;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("spp-door-{name}-{}", std::process::id()))
    }

    #[tokio::test]
    async fn nobody_else_may_enter_and_nothing_is_left() {
        let directory = scratch("mode");
        let door = Door::open(directory.clone()).expect("a door");
        let mode = directory.metadata().expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o7777, 0o700);
        assert_eq!(door.secret().len(), SECRET_BYTES);
        let again = Door::open(directory.clone()).expect_err("it is taken");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(door.socket().exists(), "a second one took the first away");
        drop(door);
        assert!(!directory.exists());
    }

    #[tokio::test]
    async fn the_peer_is_known_and_once_the_door_is_closed_nobody_can_connect() {
        let door = Door::open(scratch("peer")).expect("a door");
        // As a place has it: under another name, which stays.
        let inside = scratch("inside");
        std::fs::hard_link(door.socket(), &inside).expect("a link");
        let _peer = StdUnixStream::connect(&inside).expect("it listens");
        let peer = door.peer().await.expect("it has come");
        assert_eq!(peer.pid, Some(std::process::id()));
        drop(door);
        let refused = StdUnixStream::connect(&inside).expect_err("nobody listens");
        std::fs::remove_file(&inside).expect("it is ours");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}

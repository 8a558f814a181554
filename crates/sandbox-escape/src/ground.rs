//! What the hostile program is told of the outside: where what it is after would be, and never what it is.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How every secret begins. What follows is known outside alone.
pub const SECRET: &str = "spp-secret-";

/// What the hostile program is told. Paths are the outside's, except where it says otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ground {
    /// A file that holds a secret, in the directory that the workspace is in.
    pub secret: PathBuf,
    /// A file outside of every root, for whoever can change it.
    pub outside: PathBuf,
    /// A directory that is to be read-only, as it is seen inside. It holds `file` and `helper`.
    pub readonly: PathBuf,
    /// A directory that is listed by whoever comes after this session.
    pub beside: PathBuf,
    /// The executable that does the verbs.
    pub engine: PathBuf,
    /// The process that drives the column, in the machine's numbers. It is no target.
    pub driver: i32,
    /// A process of the same user outside.
    pub bystander: i32,
    /// A TCP service on the machine's loopback.
    pub tcp: u16,
    /// A UDP service on the machine's loopback.
    pub udp: u16,
    /// The name of an abstract socket, without the NUL, and of a message queue.
    pub abstract_socket: String,
    /// A socket that somebody outside listens on, outside of every root.
    pub socket: PathBuf,
    /// One that lies in the workspace, relative to that.
    pub shared_socket: PathBuf,
    /// A FIFO that somebody outside reads, outside of every root.
    pub fifo: PathBuf,
    /// The key of shared memory that holds a secret, and of a message queue.
    pub shared_memory: i32,
    /// Whether signals to everybody reach nothing but the column, as far as that keeps what it promises.
    pub everybody: bool,
    /// A terminal of the same user.
    pub terminal: PathBuf,
}

impl Ground {
    /// Reads what was written for it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is none of these.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Writes it where the hostile program will find it.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }
}

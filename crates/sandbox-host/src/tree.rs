//! Directories of this machine, pushed to a sandbox and pulled from it.
//!
//! The verbs carry archives; this makes them of a directory and makes a directory of them, on a thread that may
//! wait for the disk, while the archive travels. Memory does not grow with the size of files.
//!
//! **Invariant:** what comes from a sandbox is not trusted. It is received as
//! [`Receiver::Host`] says: links that may lead out and `.git` are left out and named, and of permission
//! bits the execute bit alone is kept.
//!
//! Not here: the archive itself (`sandbox_tree`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::path::Path;

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use sandbox_core::search::Scope;
use sandbox_core::transfer::{
    Compression, Manifest, Pull, PullReceipt, PullRequest, PushReceipt, PushRequest,
};
use sandbox_core::{Ctx, Error, ErrorKind, Result, Sandbox, SandboxPath, Verb};
use sandbox_tree::listing::{Listing, list};
use sandbox_tree::pack::{Packed, Packer, Tree, unwanted};
use sandbox_tree::reader::{Limits, Reader};
use sandbox_tree::unpack::Receiver;
use sandbox_tree::unpack::place::{self, Placed};
use sandbox_tree::walk;
use tokio::sync::mpsc;

/// Bytes that are handed on at once.
const PIECE: usize = 64 * 1024;
/// Pieces that may wait for whoever takes them.
const WAITING: usize = 4;

/// Pushes what git would not ignore in `directory` to `destination`.
///
/// - `base`: what is known to be there, from the receipt of an earlier push. Only what differs travels, and
///   what is not in `directory` any more is removed there. `None` if there is nothing yet.
///
/// Returns what the sandbox did, and what was packed: its flaws name what could not be read.
///
/// # Errors
///
/// Those of [`Sandbox::push_tree`], and those of reading `directory`, which have no effect until
/// the archive is whole.
pub async fn push(
    ctx: &Ctx,
    sandbox: &dyn Sandbox,
    directory: File,
    destination: SandboxPath,
    base: Option<Manifest>,
) -> Result<(PushReceipt, Packed)> {
    let own = ctx.clone();
    let (directory, listed) = working(Verb::PushTree, move || {
        let scope = Scope::new(SandboxPath::root());
        let listed = list(Verb::PushTree, &own, &scope, &walk::Place::new(&directory))?;
        Ok((directory, listed))
    })
    .await?;
    let removed = base.as_ref().map_or_else(Vec::new, |base| {
        let gone = |path: &&SandboxPath| listed.paths.binary_search(path).is_err();
        let known = base.entries.iter().map(|entry| &entry.path);
        known.filter(gone).cloned().collect()
    });
    let (sender, mut pieces) = mpsc::channel(WAITING);
    let known = base.clone();
    let packing = tokio::task::spawn_blocking(move || {
        let packed = pack(directory, &listed, known.as_ref(), &sender);
        if let Err(error) = &packed {
            let told = Error::new(error.verb(), error.kind())
                .on(error.subject())
                .detail(error.detail_text());
            // Nobody is left to be told if it fails.
            let _ = sender.blocking_send(Err(told));
        }
        packed
    });
    let request = PushRequest {
        destination,
        archive: Box::pin(futures_util::stream::poll_fn(move |context| {
            pieces.poll_recv(context)
        })),
        compression: Compression::None,
        base,
        removed,
    };
    let receipt = sandbox.push_tree(ctx, request).await?;
    Ok((receipt, joined(Verb::PushTree, packing.await)?))
}

/// Pulls what git would not ignore in `path` to a directory of this machine.
///
/// Returns what the sandbox sent, and what was made of it: what was left out is named there.
///
/// # Errors
///
/// Those of [`Sandbox::pull_tree`], and those of [`place::create`] and [`place::merge`]. Without
/// a success there is no part of the tree at `to`.
pub async fn pull(
    ctx: &Ctx,
    sandbox: &dyn Sandbox,
    path: SandboxPath,
    to: Destination,
) -> Result<(PullReceipt, Placed)> {
    let request = PullRequest {
        scopes: vec![Scope::new(path)],
        compression: Compression::None,
        base: None,
    };
    let Pull {
        mut archive,
        receipt,
    } = sandbox.pull_tree(ctx, request).await?;
    let (sender, pieces) = mpsc::channel(WAITING);
    let unpacking = tokio::task::spawn_blocking(move || to.unpack(pieces));
    let carrying = async {
        while let Some(piece) = archive.next().await {
            if sender.send(piece).await.is_err() {
                break;
            }
        }
        drop((sender, archive));
    };
    let ((), placed, receipt) = futures_util::join!(carrying, unpacking, receipt);
    let placed = joined(Verb::PullTree, placed);
    // A pull that failed says why; the archive only that it ended.
    Ok((receipt?, placed?))
}

/// Where a pulled tree goes, opened before anything is asked of the sandbox.
#[derive(Debug)]
pub enum Destination {
    /// A directory, which has to be empty.
    There(File),
    /// A name in a directory, which is not there yet.
    New(File, OsString),
}

impl Destination {
    /// Opens `path`, or the directory that it will be in.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Ok(directory) => Ok(Self::There(directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = path.file_name().ok_or(error)?;
                let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
                let parent = File::open(parent.unwrap_or(Path::new(".")))?;
                Ok(Self::New(parent, name.to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    fn unpack(self, pieces: mpsc::Receiver<Result<Bytes>>) -> Result<Placed> {
        let rest = Bytes::new();
        let source = Pieces { pieces, rest };
        let mut reader = Reader::open(source, Compression::None, Limits::default());
        let (verb, host) = (Verb::PullTree, Receiver::Host);
        let mut go_on = || Ok(());
        match self {
            Self::There(directory) => {
                place::merge(verb, directory.as_fd(), None, host, &mut reader, &mut go_on)
            }
            Self::New(parent, name) => {
                place::create(verb, parent.into(), &[&name], host, &mut reader, &mut go_on)
            }
        }
    }
}

async fn working<T: Send + 'static>(
    verb: Verb,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    joined(verb, tokio::task::spawn_blocking(work).await)
}

fn joined<T>(
    verb: Verb,
    done: std::result::Result<Result<T>, tokio::task::JoinError>,
) -> Result<T> {
    done.unwrap_or_else(|error| Err(Error::new(verb, ErrorKind::Internal).caused_by(error)))
}

fn pack(
    directory: File,
    listed: &Listing,
    base: Option<&Manifest>,
    pieces: &mpsc::Sender<Result<Bytes>>,
) -> Result<Packed> {
    let mut tree = Tree::new(directory.into(), SandboxPath::root());
    let buffer = Vec::with_capacity(PIECE);
    let mut packer = Packer::new(Verb::PushTree, Pipe { pieces, buffer }, base);
    for path in &listed.paths {
        packer.entry(&mut tree, path, &mut || Ok(()))?;
    }
    if let Some(path) = &listed.unreadable {
        packer.unreadable(path);
    }
    let (packed, mut pipe) = packer.finish()?;
    pipe.flush()
        .map_err(|error| Error::refused(Verb::PushTree, ErrorKind::Cancelled).caused_by(error))?;
    Ok(packed)
}

/// A writer whose bytes come out of a channel.
struct Pipe<'a> {
    pieces: &'a mpsc::Sender<Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (PIECE - self.buffer.len()).min(bytes.len());
        self.buffer.extend_from_slice(&bytes[..room]);
        if self.buffer.len() == PIECE {
            self.flush()?;
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        self.pieces
            .blocking_send(Ok(piece.into()))
            .map_err(|_| unwanted(Verb::PushTree))
    }
}

/// What comes out of a channel, as a reader.
struct Pieces {
    pieces: mpsc::Receiver<Result<Bytes>>,
    rest: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.rest = piece.map_err(io::Error::other)?,
            }
        }
        let read = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}

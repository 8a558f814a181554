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

mod tally;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use bytes::Bytes;
use futures_util::StreamExt as _;
use sandbox_core::search::Scope;
use sandbox_core::transfer::{
    Compression, Manifest, Pull, PullReceipt, PullRequest, PushReceipt, PushRequest,
};
use sandbox_core::{Ctx, Error, ErrorKind, Result, Sandbox, SandboxPath, Verb};
use sandbox_tree::listing::{Listing, list};
use sandbox_tree::pack::{Packed, Packer, Tree, unwanted};
use sandbox_tree::pieces::{PieceReader, PieceWriter};
use sandbox_tree::reader::{Limits, Reader};
use sandbox_tree::unpack::Receiver;
use sandbox_tree::unpack::place::{self, Placed};
use sandbox_tree::walk;
use tokio::sync::mpsc;

pub use tally::Tally;

/// Pieces that may wait for whoever takes them.
const WAITING: usize = 4;

/// What a push meets at its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Onto {
    /// Nothing: the destination is missing or empty, and anything else is an error.
    Nothing,
    /// What an earlier push left there, by its receipt. Only what differs from it travels, and what is not in the
    /// directory any more is removed there.
    Known(Manifest),
    /// Whatever is there, which the sandbox is asked for first. Only what differs travels. What is there and
    /// not in the directory stays.
    WhatIsThere,
}

/// Pushes what git would not ignore in `directory` to `destination`.
///
/// - `tally`: where it is counted how far it has come
///
/// Returns what the sandbox did, and what was packed: its flaws name what could not be read.
///
/// With [`Onto::WhatIsThere`] it is two round trips. Nobody's change is lost between them: what is replaced has to be
/// what the sandbox said it is. What the destination's own ignore rules hide is not asked for, and a
/// `Conflict` if it is in the way. Of files that differ the sandbox sends the content it has, which is thrown
/// away.
///
/// # Errors
///
/// Those of [`Sandbox::push_tree`], with [`Onto::WhatIsThere`] those of [`Sandbox::pull_tree`], and those of reading
/// `directory`, which have no effect until the archive is whole.
pub async fn push(
    ctx: &Ctx,
    sandbox: &dyn Sandbox,
    directory: File,
    destination: SandboxPath,
    onto: Onto,
    tally: &Tally,
) -> Result<(PushReceipt, Packed)> {
    let own = ctx.clone();
    let (directory, listed) = working(Verb::PushTree, move || {
        let scope = Scope::new(SandboxPath::root());
        let listed = list(Verb::PushTree, &own, &scope, &walk::Place::new(&directory));
        // Its subject would be read as a path at the sandbox.
        let listed = listed.map_err(|error| {
            let detail = error.detail_text().to_owned();
            error
                .on("")
                .detail(format_args!("the directory that is pushed: {detail}"))
        });
        Ok((directory, listed?))
    })
    .await?;
    tally.expect(listed.paths.len());
    let here = |path: &SandboxPath| listed.paths.binary_search(path).is_ok();
    let (base, removed) = match onto {
        Onto::Nothing => (None, Vec::new()),
        Onto::Known(base) => {
            let known = base.entries.iter().map(|entry| &entry.path);
            let removed = known.filter(|path| !here(path)).cloned().collect();
            (Some(base), removed)
        }
        Onto::WhatIsThere => {
            let directory = again(&directory)?;
            let there = what_is_there(ctx, sandbox, directory, &listed, &destination).await?;
            let base = there.map(|mut there| {
                there.entries.retain(|entry| here(&entry.path));
                there
            });
            (base, Vec::new())
        }
    };
    let (sender, mut pieces) = mpsc::channel(WAITING);
    let known = base.clone();
    let counted = tally.clone();
    let packing = tokio::task::spawn_blocking(move || {
        let packed = pack(directory, &listed, known.as_ref(), &sender, &counted);
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

/// What is at the destination; `None` if nothing is. The sandbox is told what is here, so that of what is the same no
/// content travels.
async fn what_is_there(
    ctx: &Ctx,
    sandbox: &dyn Sandbox,
    directory: File,
    listed: &Listing,
    destination: &SandboxPath,
) -> Result<Option<Manifest>> {
    let (own, paths) = (ctx.clone(), listed.paths.clone());
    let here = working(Verb::PushTree, move || {
        let mut tree = Tree::new(directory.into(), SandboxPath::root());
        let mut packer = Packer::new(Verb::PushTree, io::sink(), None);
        let mut go_on = || match own.cancel().is_cancelled() {
            true => Err(Error::refused(Verb::PushTree, ErrorKind::Cancelled)),
            false => Ok(()),
        };
        for path in &paths {
            go_on()?;
            packer.entry(&mut tree, path, &mut go_on)?;
        }
        Ok(packer.finish()?.0.manifest)
    });
    let request = PullRequest {
        scopes: vec![Scope::new(destination.clone())],
        compression: Compression::None,
        base: Some(here.await?),
    };
    let pulled = async {
        let Pull {
            mut archive,
            receipt,
        } = sandbox.pull_tree(ctx, request).await?;
        let thrown_away = async { while let Some(Ok(_)) = archive.next().await {} };
        futures_util::join!(thrown_away, receipt).1
    };
    match pulled.await {
        Ok(receipt) => Ok(Some(receipt.manifest)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn again(directory: &File) -> Result<File> {
    let again = directory.try_clone();
    again.map_err(|error| {
        Error::refused(Verb::PushTree, ErrorKind::Io)
            .detail("the directory could not be opened once more")
            .caused_by(error)
    })
}

/// Pulls what git would not ignore in `path` to a directory of this machine.
///
/// - `tally`: where it is counted how far it has come
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
    tally: &Tally,
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
    let counted = tally.clone();
    let unpacking = tokio::task::spawn_blocking(move || to.unpack(pieces, &counted));
    let carrying = async {
        let mut taken = true;
        while taken && let Some(piece) = archive.next().await {
            taken = sender.send(piece).await.is_ok();
        }
        drop((sender, archive));
        taken
    };
    let (taken, placed, receipt) = futures_util::join!(carrying, unpacking, receipt);
    let placed = joined(Verb::PullTree, placed);
    // Who fails first knows why: the sandbox, of which the archive only says that it ended, or whoever made the
    // directory and took no more, of which the sandbox only knows that.
    if taken {
        Ok((receipt?, placed?))
    } else {
        let placed = placed?;
        Ok((receipt?, placed))
    }
}

/// Opens a directory of this machine. Anything else is not waited for: a FIFO may never have another end.
///
/// # Errors
///
/// What the system says.
pub fn open_directory(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
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
        match open_directory(path) {
            Ok(directory) => Ok(Self::There(directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = path.file_name().ok_or(error)?;
                let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
                let parent = open_directory(parent.unwrap_or(Path::new(".")))?;
                Ok(Self::New(parent, name.to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    fn unpack(self, mut pieces: mpsc::Receiver<Result<Bytes>>, tally: &Tally) -> Result<Placed> {
        let counted = tally.clone();
        let source = PieceReader::new(move || {
            let piece = pieces.blocking_recv().transpose();
            let piece = piece.map_err(io::Error::other)?;
            counted.carried(piece.as_ref().map_or(0, Bytes::len));
            Ok(piece)
        });
        let mut reader = Reader::open(source, Compression::None, Limits::default())
            .counting(tally.entries_counter());
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
    tally: &Tally,
) -> Result<Packed> {
    let mut tree = Tree::new(directory.into(), SandboxPath::root());
    let out = PieceWriter::new(|piece: Bytes| {
        let length = piece.len();
        let sent = pieces.blocking_send(Ok(piece));
        sent.map_err(|_| unwanted(Verb::PushTree))?;
        tally.carried(length);
        Ok(())
    });
    let mut packer = Packer::new(Verb::PushTree, out, base);
    for path in &listed.paths {
        packer.entry(&mut tree, path, &mut || Ok(()))?;
        tally.done();
    }
    if let Some(path) = &listed.unreadable {
        packer.unreadable(path);
    }
    let (packed, mut out) = packer.finish()?;
    out.flush()
        .map_err(|error| Error::refused(Verb::PushTree, ErrorKind::Cancelled).caused_by(error))?;
    Ok(packed)
}

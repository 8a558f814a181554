//! `spp push`: a directory of this machine becomes a tree at the location.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;
use sandbox_core::search::Scope;
use sandbox_core::transfer::{Compression, FlawCause, PushReceipt, PushRequest};
use sandbox_core::{
    ByteStream, Ctx, Error, ErrorKind, Result as Answer, Sandbox, SandboxPath, Verb,
};
use sandbox_tree::pack::{Packed, Packer, Tree, unwanted};
use sandbox_tree::walk::{Entry, Place, Visitor, Walk};
use serde_json::json;
use tokio::sync::mpsc;

use crate::args::{Global, Push};
use crate::failure::{Failure, Result, note};
use crate::session::once;
use crate::signals::Signals;
use crate::{output, report};

/// Bytes that are handed on at once.
const PIECE: usize = 64 * 1024;

/// Pushes it, and returns the exit status.
pub(crate) async fn push(global: &Global, args: &Push) -> Result<u8> {
    let directory = File::open(&args.directory)
        .map_err(|error| Failure::io(format_args!("open {}", args.directory.display()), error))?;
    let mut signals = Signals::listen()?;
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| {
        let (sender, mut pieces) = mpsc::channel(4);
        let own = ctx.clone();
        let packing = tokio::task::spawn_blocking(move || pack(&own, &directory, &sender));
        let archive: ByteStream = Box::pin(futures_util::stream::poll_fn(move |context| {
            pieces.poll_recv(context)
        }));
        let request = PushRequest {
            destination: args.destination.clone(),
            archive,
            compression: Compression::None,
            base: None,
            removed: Vec::new(),
        };
        let receipt = sandbox.push_tree(ctx, request).await?;
        let packed = packing
            .await
            .map_err(|error| Error::new(Verb::PushTree, ErrorKind::Internal).caused_by(error))??;
        Ok((receipt, packed))
    };
    let (receipt, packed) = match once(global, &mut signals, verb).await? {
        Ok(done) => done,
        Err(arrived) => return Ok(arrived.code()),
    };
    let mut code = 0;
    for flaw in &packed.flaws {
        note(format_args!("{}: {}", flaw.path, why(flaw.cause)));
        if flaw.cause != FlawCause::Special {
            code = 1;
        }
    }
    let text = if global.json {
        report::line(&describe(args, &receipt, &packed))
    } else {
        format!(
            "pushed {} to {}: {} entries, {} bytes\n",
            args.directory.display(),
            args.destination,
            receipt.applied,
            receipt.bytes
        )
    };
    output::print(text, &mut signals, code).await
}

/// What is the matter with an entry, for people.
pub(crate) fn why(cause: FlawCause) -> &'static str {
    match cause {
        FlawCause::Changed => "it changed while it was read, and may be a mixture there",
        FlawCause::Special => "left out: it is a FIFO, a socket or a device",
        FlawCause::Unreadable => "left out: it may not be read",
    }
}

fn describe(args: &Push, receipt: &PushReceipt, packed: &Packed) -> serde_json::Value {
    let flaws: Vec<_> = packed
        .flaws
        .iter()
        .map(|flaw| json!({ "path": report::path(&flaw.path), "why": why(flaw.cause) }))
        .collect();
    json!({
        "destination": report::path(&args.destination),
        "entries": receipt.applied,
        "bytes": receipt.bytes,
        "flaws": flaws,
    })
}

/// Packs what git would not ignore into `pieces`, in path order.
fn pack(ctx: &Ctx, directory: &File, pieces: &mpsc::Sender<Answer<Bytes>>) -> Answer<Packed> {
    let packed = packed(ctx, directory, pieces);
    if let Err(error) = &packed {
        let told = Error::new(error.verb(), error.kind())
            .on(error.subject())
            .detail(error.detail_text());
        // Nobody is left to be told if it fails.
        let _ = pieces.blocking_send(Err(told));
    }
    packed
}

fn packed(ctx: &Ctx, directory: &File, pieces: &mpsc::Sender<Answer<Bytes>>) -> Answer<Packed> {
    const VERB: Verb = Verb::PushTree;
    let failed = |errno| sandbox_tree::errno::os_error(VERB, errno);
    let walk = Walk::new(&Scope::new(SandboxPath::root()))
        .map_err(|error| Error::refused(VERB, ErrorKind::InvalidArgument).detail(error))?;
    let (found, summary) = walk
        .run(ctx, &Place::new(directory), Names::default)
        .map_err(failed)?;
    let mut names: Vec<_> = found.into_iter().flat_map(|names| names.0).collect();
    names.sort_unstable();
    let handle = directory
        .try_clone()
        .map_err(|error| Error::refused(VERB, ErrorKind::Io).caused_by(error))?;
    let mut tree = Tree::new(handle.into(), SandboxPath::root());
    let pipe = Pipe {
        pieces,
        buffer: Vec::with_capacity(PIECE),
    };
    let mut packer = Packer::new(VERB, pipe, None);
    for name in &names {
        packer.entry(&mut tree, name, &mut || Ok(()))?;
    }
    if let Some((path, _)) = &summary.unreadable.first
        && let Ok(path) = SandboxPath::parse(if path.is_empty() { b"." } else { &path[..] })
    {
        packer.unreadable(&path);
    }
    let (packed, mut pipe) = packer.finish()?;
    pipe.flush()
        .map_err(|error| Error::refused(VERB, ErrorKind::Cancelled).caused_by(error))?;
    Ok(packed)
}

#[derive(Default)]
struct Names(Vec<SandboxPath>);

impl Visitor for Names {
    fn visit(&mut self, entry: &Entry<'_>) -> std::ops::ControlFlow<()> {
        let is_under_way = |name: &[u8]| sandbox_tree::unpack::is_staging(name);
        if !entry.path().split(|&byte| byte == b'/').any(is_under_way)
            && let Ok(path) = SandboxPath::parse(entry.path())
        {
            self.0.push(path);
        }
        std::ops::ControlFlow::Continue(())
    }
}

/// A writer whose bytes come out of a channel.
struct Pipe<'a> {
    pieces: &'a mpsc::Sender<Answer<Bytes>>,
    buffer: Vec<u8>,
}

impl io::Write for Pipe<'_> {
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

/// Where a new directory goes: the directory it will be in, and its name.
pub(crate) fn split(path: &Path) -> (&Path, Option<&std::ffi::OsStr>) {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    (parent.unwrap_or(Path::new(".")), path.file_name())
}

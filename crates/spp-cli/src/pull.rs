//! `spp pull`: a tree at the location becomes a directory of this machine.
//!
//! What comes is not trusted: it is made by [`unpack`](sandbox_tree::unpack) for a host, and what that leaves out
//! is told.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use sandbox_core::search::Scope;
use sandbox_core::transfer::{Compression, FlawCause, Pull as Pulling, PullReceipt, PullRequest};
use sandbox_core::{Ctx, Error, ErrorKind, Result as Answer, Sandbox, Verb};
use sandbox_tree::reader::{Limits, Reader};
use sandbox_tree::unpack::place::{self, Placed};
use sandbox_tree::unpack::{Omission, Receiver};
use serde_json::json;
use tokio::sync::mpsc;

use crate::args::{Global, Pull};
use crate::failure::{Failure, Result, note};
use crate::push::{split, why};
use crate::session::once;
use crate::signals::Signals;
use crate::{output, report};

/// Pulls it, and returns the exit status.
pub(crate) async fn pull(global: &Global, args: &Pull) -> Result<u8> {
    let to = Destination::open(args)?;
    let mut signals = Signals::listen()?;
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| {
        let request = PullRequest {
            scopes: vec![Scope::new(args.path.clone())],
            compression: Compression::None,
            base: None,
        };
        let Pulling {
            mut archive,
            receipt,
        } = sandbox.pull_tree(ctx, request).await?;
        let (sender, pieces) = mpsc::channel(4);
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
        let placed = placed
            .map_err(|error| Error::new(Verb::PullTree, ErrorKind::Internal).caused_by(error))?;
        // A pull that failed says why; the archive only that it ended.
        Ok((receipt?, placed?))
    };
    let (receipt, placed) = match once(global, &mut signals, verb).await? {
        Ok(done) => done,
        Err(arrived) => return Ok(arrived.code()),
    };
    let mut code = 0;
    for flaw in &receipt.flaws {
        note(format_args!("{}: {}", flaw.path, why(flaw.cause)));
        if flaw.cause != FlawCause::Special {
            code = 1;
        }
    }
    for omitted in &placed.unpacked.omitted {
        note(format_args!(
            "{}: {}",
            omitted.path,
            left_out(&omitted.reason)
        ));
    }
    let text = if global.json {
        report::line(&describe(args, &receipt, &placed))
    } else {
        format!(
            "pulled {} to {}: {} entries, {} bytes\n",
            args.path,
            args.directory.display(),
            placed.unpacked.entries.len(),
            placed.unpacked.bytes
        )
    };
    output::print(text, &mut signals, code).await
}

fn left_out(reason: &Omission) -> &'static str {
    match reason {
        Omission::LinkOut { .. } => "left out: a link that may lead out of the directory",
        Omission::Git => "left out: settings and hooks of git are programs that would run here",
    }
}

fn describe(args: &Pull, receipt: &PullReceipt, placed: &Placed) -> serde_json::Value {
    let flaws: Vec<_> = receipt
        .flaws
        .iter()
        .map(|flaw| json!({ "path": report::path(&flaw.path), "why": why(flaw.cause) }))
        .collect();
    let omitted: Vec<_> = placed
        .unpacked
        .omitted
        .iter()
        .map(|omitted| {
            json!({ "path": report::path(&omitted.path), "why": left_out(&omitted.reason) })
        })
        .collect();
    json!({
        "path": report::path(&args.path),
        "entries": placed.unpacked.entries.len(),
        "bytes": placed.unpacked.bytes,
        "flaws": flaws,
        "omitted": omitted,
    })
}

/// Where it goes, opened before anything is asked of the location.
enum Destination {
    There(File),
    New(File, std::ffi::OsString),
}

impl Destination {
    fn open(args: &Pull) -> Result<Self> {
        let failed = |error| Failure::io(format_args!("open {}", args.directory.display()), error);
        match File::open(&args.directory) {
            Ok(directory) => Ok(Self::There(directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (parent, name) = split(&args.directory);
                let name = name.ok_or_else(|| failed(error))?;
                Ok(Self::New(
                    File::open(parent).map_err(failed)?,
                    name.to_owned(),
                ))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn unpack(self, pieces: mpsc::Receiver<Answer<Bytes>>) -> Answer<Placed> {
        let source = Pieces {
            pieces,
            rest: Bytes::new(),
        };
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

/// What comes out of a channel, as a reader.
struct Pieces {
    pieces: mpsc::Receiver<Answer<Bytes>>,
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

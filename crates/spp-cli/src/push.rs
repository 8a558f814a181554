//! `spp push`: a directory of this machine becomes a tree at the location.

use sandbox_core::transfer::{FlawCause, PushReceipt};
use sandbox_core::{Ctx, Error, ErrorKind, Sandbox};
use sandbox_host::tree::{self, Onto, Tally};
use sandbox_tree::pack::Packed;
use serde_json::json;

use crate::args::{Global, Push};
use crate::failure::{Failure, Result, note};
use crate::progress::Line;
use crate::session::once;
use crate::signals::Signals;
use crate::{output, report};

/// Pushes it, and returns the exit status.
pub(crate) async fn push(global: &Global, args: &Push) -> Result<u8> {
    let directory = tree::open_directory(&args.directory)
        .map_err(|error| Failure::io(format_args!("open {}", args.directory.display()), error))?;
    let mut signals = Signals::listen()?;
    let tally = Tally::new();
    let line = Line::show(global, "pushing", &tally);
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| {
        let destination = args.destination.clone();
        let onto = if args.update {
            Onto::WhatIsThere
        } else {
            Onto::Nothing
        };
        let pushed = tree::push(ctx, sandbox, directory, destination, onto, &tally).await;
        pushed.map_err(advised)
    };
    let done = once(global, &mut signals, verb).await;
    drop(line);
    let (receipt, packed) = match done? {
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
            "pushed {} to {}: {}, {}\n",
            args.directory.display(),
            args.destination,
            report::entries(receipt.applied),
            report::byte_count(receipt.bytes)
        )
    };
    output::print(text, &mut signals, code).await
}

/// Says which flag helps.
fn advised(error: Error) -> Error {
    if error.kind() != ErrorKind::NotEmpty {
        return error;
    }
    let detail = error.detail_text().to_owned();
    error.detail(format_args!(
        "{detail}; or add --update, which replaces what differs and removes nothing"
    ))
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

//! `spp pull`: a tree at the location becomes a directory of this machine.
//!
//! What comes is not trusted: it is made by [`unpack`](sandbox_tree::unpack) for a host, and what that leaves out
//! is told.

use sandbox_core::transfer::{FlawCause, PullReceipt};
use sandbox_core::{Ctx, Sandbox};
use sandbox_host::tree::{self, Destination, Tally};
use sandbox_tree::unpack::Omission;
use sandbox_tree::unpack::place::Placed;
use serde_json::json;

use crate::args::{Global, Pull};
use crate::failure::{Failure, Result, note};
use crate::progress::Line;
use crate::push::why;
use crate::session::once;
use crate::signals::Signals;
use crate::{output, report};

/// Pulls it, and returns the exit status.
pub(crate) async fn pull(global: &Global, args: &Pull) -> Result<u8> {
    let to = Destination::open(&args.directory)
        .map_err(|error| Failure::io(format_args!("open {}", args.directory.display()), error))?;
    let mut signals = Signals::listen()?;
    let tally = Tally::new();
    let line = Line::show(global, "pulling", &tally);
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| {
        tree::pull(ctx, sandbox, args.path.clone(), to, &tally).await
    };
    let done = once(global, &mut signals, verb).await;
    drop(line);
    let (receipt, placed) = match done? {
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
            "pulled {} to {}: {}, {}\n",
            args.path,
            args.directory.display(),
            report::entries(placed.unpacked.entries.len() as u64),
            report::byte_count(placed.unpacked.bytes)
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

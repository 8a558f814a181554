//! `spp write`: standard input becomes a file's content.

use std::io::Read as _;

use bytes::Bytes;
use sandbox_core::file::{Change, MAX_FILE_BYTES, Precondition, WriteReceipt};
use sandbox_core::{Ctx, Sandbox, SandboxExt as _};
use serde_json::json;

use crate::args::{Global, Write};
use crate::failure::{Failure, Result};
use crate::session::once;
use crate::signals::Signals;
use crate::{output, report};

/// Writes it, and returns the exit status.
pub(crate) async fn write(global: &Global, args: &Write) -> Result<u8> {
    // Before anything is opened: an input that fails must leave the file as it is.
    let content = content()?;
    let mut signals = Signals::listen()?;
    let change = Change::Put {
        path: args.path.clone(),
        content,
        mode: args.mode,
        precondition: match (args.create_new, args.if_digest) {
            (true, _) => Precondition::Absent,
            (false, Some(digest)) => Precondition::Digest(digest),
            (false, None) => Precondition::None,
        },
    };
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| sandbox.change(ctx, change).await;
    let receipt = match once(global, &mut signals, verb).await? {
        Ok(receipt) => receipt,
        Err(arrived) => return Ok(arrived.code()),
    };
    let text = if global.json {
        report::line(&describe(args, &receipt))
    } else {
        sentence(args, &receipt)
    };
    output::print(text, &mut signals, 0).await
}

fn content() -> Result<Bytes> {
    let mut content = Vec::new();
    std::io::stdin()
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut content)
        .map_err(|error| Failure::io("read standard input", error))?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::new(format_args!(
            "standard input is longer than {MAX_FILE_BYTES} bytes, which is the most that one write carries; nothing was written"
        )));
    }
    Ok(content.into())
}

fn sentence(args: &Write, receipt: &WriteReceipt) -> String {
    let WriteReceipt {
        existed,
        bytes,
        line_delta,
        ..
    } = receipt;
    let verb = if *existed { "replaced" } else { "created" };
    let digest = receipt
        .digest
        .map(|digest| format!(", digest {digest}"))
        .unwrap_or_default();
    format!(
        "{verb} {}: {bytes} bytes, {line_delta:+} lines{digest}\n",
        args.path
    )
}

fn describe(args: &Write, receipt: &WriteReceipt) -> serde_json::Value {
    json!({
        "path": report::path(&args.path),
        "existed": receipt.existed,
        "bytes": receipt.bytes,
        "line_delta": receipt.line_delta,
        "digest": receipt.digest.map(|digest| digest.to_string()),
    })
}

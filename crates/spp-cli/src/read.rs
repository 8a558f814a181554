//! `spp read`: a file, or a part of it, as it is.

use sandbox_core::file::{Encoding, FileContent, MAX_FILE_BYTES, Newline, Range, ReadRequest};
use sandbox_core::{Ctx, Sandbox};
use serde_json::json;

use crate::args::{Global, Read};
use crate::failure::Result;
use crate::session::once;
use crate::signals::Signals;
use crate::{output, report};

/// Reads it, and returns the exit status.
pub(crate) async fn read(global: &Global, args: &Read) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let request = ReadRequest {
        path: args.path.clone(),
        range: match (args.lines, args.bytes) {
            (Some((first, count)), _) => Range::Lines { first, count },
            (None, Some((offset, length))) => Range::Bytes { offset, length },
            (None, None) => Range::All,
        },
        max: MAX_FILE_BYTES,
    };
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| sandbox.read(ctx, request).await;
    let content = match once(global, &mut signals, verb).await? {
        Ok(content) => content,
        Err(arrived) => return Ok(arrived.code()),
    };
    let text = if global.json {
        report::line(&describe(args, &content)).into()
    } else {
        content.bytes
    };
    output::print(text, &mut signals, 0).await
}

fn describe(args: &Read, content: &FileContent) -> serde_json::Value {
    json!({
        "path": report::path(&args.path),
        "content": report::bytes(&content.bytes),
        "offset": content.offset,
        "total_bytes": content.total_bytes,
        "total_lines": content.total_lines,
        "digest": content.digest.map(|digest| digest.to_string()),
        "mode": format!("{:o}", content.mode),
        "encoding": match content.text.encoding {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16Le => "utf-16le",
            Encoding::Utf16Be => "utf-16be",
            Encoding::Binary => "binary",
        },
        "bom": content.text.bom,
        "newline": match content.text.newline {
            Newline::None => "none",
            Newline::Lf => "lf",
            Newline::CrLf => "crlf",
            Newline::Mixed => "mixed",
        },
    })
}

//! `spp read`: a file, or a part of it, as it is.

use sandbox_core::Ctx;
use sandbox_core::file::{Encoding, FileContent, MAX_FILE_BYTES, Newline, Range, ReadRequest};
use serde_json::json;

use crate::args::{Global, Read};
use crate::failure::Result;
use crate::session::Session;
use crate::{output, report};

/// Reads it, and returns the exit status.
pub(crate) async fn read(global: &Global, args: &Read) -> Result<u8> {
    let ctx = Ctx::new();
    let session = Session::open(global, &ctx).await?;
    let request = ReadRequest {
        path: args.path.clone(),
        range: match (args.lines, args.bytes) {
            (Some((first, count)), _) => Range::Lines { first, count },
            (None, Some((offset, length))) => Range::Bytes { offset, length },
            (None, None) => Range::All,
        },
        max: MAX_FILE_BYTES,
    };
    let content = session.sandbox().read(&ctx, request).await;
    session.close().await;
    let content = content?;
    if global.json {
        report::print(&describe(args, &content))?;
    } else {
        output::print(&content.bytes)?;
    }
    Ok(0)
}

fn describe(args: &Read, content: &FileContent) -> serde_json::Value {
    json!({
        "path": args.path.to_string(),
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

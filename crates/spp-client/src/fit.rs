//! Whether an answer fits its question.
//!
//! A provider may be wrong about its place, and nobody here can know. It may also answer what it was
//! not asked: more bytes, an earlier offset, an entry that lies elsewhere, a digest of something
//! else. Whoever slices, sums up or compares by such an answer would be wrong with it, so it is
//! no answer.
//!
//! **Invariant:** everything that fails here is [`ErrorKind::Protocol`], on what was asked about.
//!
//! Not here: whether a message can be read at all (`spp_protocol::convert`), and what travels beside
//! it ([`spp_link`]).

use std::fmt::Display;

use sandbox_core::file::{FileContent, Range, ReadManyRequest, ReadManyResult, ReadRequest};
use sandbox_core::process::{
    MAX_PROC_READ_BYTES, Outcome, Output, OutputPolicy, ProcChunk, ProcReadRequest,
};
use sandbox_core::search::{GlobRequest, GlobResult, GrepRequest, GrepResult, Lines};
use sandbox_core::{Digest, Error, ErrorKind, Result, SandboxPath, Verb};

/// An item for each that was asked for.
pub(crate) fn items<T>(verb: Verb, asked: usize, items: Vec<T>) -> Result<Vec<T>> {
    if items.len() == asked {
        return Ok(items);
    }
    Err(Error::new(verb, ErrorKind::Protocol).detail(format_args!(
        "{asked} items were sent, and {} came back",
        items.len()
    )))
}

/// The part of the file that was asked for.
pub(crate) fn file(request: &ReadRequest, content: FileContent) -> Result<FileContent> {
    let length = content.bytes.len() as u64;
    let misfit = |what: &str| misfit(Verb::Read, &request.path, what);
    if length > request.max {
        return Err(misfit("more bytes than were asked for"));
    }
    let fits = match request.range {
        Range::All => content.offset == 0,
        Range::Bytes {
            offset,
            length: most,
        } => length <= most && (content.offset == offset || length == 0),
        Range::Lines { .. } => true,
    };
    if !fits {
        return Err(misfit("another part of the file than was asked for"));
    }
    whole(Verb::Read, &request.path, &content)?;
    Ok(content)
}

/// A content for each path, and no more in all than was asked for.
pub(crate) fn files(request: &ReadManyRequest, found: ReadManyResult) -> Result<ReadManyResult> {
    let found = items(Verb::ReadMany, request.paths.len(), found)?;
    let mut total = 0u64;
    for (path, content) in request.paths.iter().zip(&found) {
        let Ok(content) = content else { continue };
        total = total.saturating_add(content.bytes.len() as u64);
        if total > request.total_max {
            let what = "more bytes than were asked for";
            return Err(misfit(Verb::ReadMany, path, what));
        }
        whole(Verb::ReadMany, path, content)?;
    }
    Ok(found)
}

/// Whether what is said of the whole file is true of what came.
fn whole(verb: Verb, path: &SandboxPath, content: &FileContent) -> Result<()> {
    let length = content.bytes.len() as u64;
    let end = content.offset.checked_add(length);
    if length > 0 && end.is_none_or(|end| end > content.total_bytes) {
        return Err(misfit(verb, path, "bytes beyond the end of the file"));
    }
    if content.offset == 0
        && length == content.total_bytes
        && let Some(digest) = content.digest
        && digest != Digest::from_bytes(*blake3::hash(&content.bytes).as_bytes())
    {
        return Err(misfit(
            verb,
            path,
            "a digest that is not that of the bytes beside it",
        ));
    }
    Ok(())
}

/// What was asked for of an output, or what comes after where that is gone.
pub(crate) fn chunk(request: &ProcReadRequest, chunk: ProcChunk) -> Result<ProcChunk> {
    let length = chunk.bytes.len() as u64;
    let end = chunk.offset.checked_add(length);
    let misfit = |what: &str| misfit(Verb::ProcRead, &request.id, what);
    if length > request.max.min(MAX_PROC_READ_BYTES) {
        return Err(misfit("more bytes than were asked for"));
    }
    if chunk.offset < request.from {
        return Err(misfit("an earlier part of the output than was asked for"));
    }
    if length > 0 && end.is_none_or(|end| end > chunk.total) {
        return Err(misfit("more bytes than the process wrote"));
    }
    Ok(chunk)
}

/// No more entries than were asked for.
pub(crate) fn glob(request: &GlobRequest, found: GlobResult) -> Result<GlobResult> {
    if found.entries.len() as u64 > request.limit {
        let what = "more entries than were asked for";
        return Err(misfit(Verb::Glob, &request.scope.root, what));
    }
    Ok(found)
}

/// No more matches than were asked for, and no longer lines. A match over several lines may be told
/// on each of them, so there its number is not known.
pub(crate) fn grep(request: &GrepRequest, found: GrepResult) -> Result<GrepResult> {
    let misfit = |what: &str| misfit(Verb::Grep, &request.scope.root, what);
    let lines = || found.files.iter().flat_map(|file| &file.lines);
    if lines().any(|line| line.text.len() as u64 > request.max_line_bytes) {
        return Err(misfit("longer lines than were asked for"));
    }
    let matches: u64 = lines().map(|line| line.matches.len() as u64).sum();
    if request.pattern.lines == Lines::Single && matches > request.limit {
        return Err(misfit("more matches than were asked for"));
    }
    Ok(found)
}

/// As much of each output as was asked for, and a sum that comes out.
pub(crate) fn outcome(policy: &OutputPolicy, outcome: Outcome) -> Result<Outcome> {
    for (name, output) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        if let Some(what) = output_misfit(policy, output) {
            return Err(Error::new(Verb::Exec, ErrorKind::Protocol)
                .on(&outcome.id)
                .detail(format_args!("the provider answered with {what} of {name}")));
        }
    }
    Ok(outcome)
}

fn output_misfit(policy: &OutputPolicy, output: &Output) -> Option<&'static str> {
    let (head, tail) = (output.head.len() as u64, output.tail.len() as u64);
    if head.saturating_add(tail) > policy.head.saturating_add(policy.tail) {
        return Some("more bytes than were asked for");
    }
    let kept = head.saturating_add(tail);
    (kept.saturating_add(output.dropped) != output.total)
        .then_some("another number of bytes than its parts have")
}

fn misfit(verb: Verb, subject: impl Display, what: &str) -> Error {
    Error::new(verb, ErrorKind::Protocol)
        .on(subject)
        .detail(format_args!("the provider answered with {what}"))
}

//! `grep`: text in files.
//!
//! The threads of the walk search the files they find. They count matches and the bytes of the answer
//! together; whoever goes over a limit ends the search for all.

use std::ops::ControlFlow;

use grep_regex::RegexMatcher;
use rustix::io::Errno;
use sandbox_core::file::EntryKind;
use sandbox_core::path::MAX_PATH_BYTES;
use sandbox_core::search::{Completeness, FileMatches, GrepRequest, GrepResult};
use sandbox_core::{Ctx, Error, ErrorKind, Result, SandboxPath, Verb};
use sandbox_tree::walk::{End, Entry, Place, Summary, Trouble, Visitor, Walk};

use super::answer;
use super::file::{FileSearch, Matches, Unsearched};
use super::lines::Tally;
use super::{join, or, refuse_cancelled};
use crate::root::{Cached, Fault, Roots};

/// Bytes that are around the matches of a file.
const FILE_BYTES: u64 = 48;

pub(super) fn grep(
    roots: &Roots,
    ctx: &Ctx,
    walk: &Walk,
    matcher: &RegexMatcher,
    request: &GrepRequest,
) -> Result<GrepResult> {
    let root = &request.scope.root;
    let failed = |fault: Fault| fault.on(Verb::Grep, root);
    let place = roots.place(root).map_err(failed)?;
    let tally = Tally::default();
    let visitor = || Visit {
        search: FileSearch::new(request, matcher.clone(), &tally, ctx),
        root,
        found: Vec::new(),
        searched: 0,
        unreadable: Trouble::default(),
        changed: Trouble::default(),
        too_large: Trouble::default(),
        too_long: 0,
    };
    let base = place.base();
    let start = Place::new(&base).below(&place.below);
    let (visitors, mut summary) = match walk.run(ctx, &start, visitor) {
        Ok(done) => done,
        // A file was named itself.
        Err(Errno::NOTDIR) => {
            let opened = roots.open_file(root, Cached::No).map_err(failed)?;
            let mut visit = visitor();
            let searched = visit.search.file(opened.file, &opened.stat);
            let flow = visit.note(b"", searched);
            let summary = Summary {
                end: if flow.is_break() {
                    End::Stopped
                } else {
                    End::Complete
                },
                unreadable: Trouble::default(),
                changed: Trouble::default(),
            };
            (vec![visit], summary)
        }
        Err(errno) => return Err(failed(errno.into())),
    };
    refuse_cancelled(Verb::Grep, &summary)?;
    if ctx.cancel().is_cancelled() {
        return Err(Error::refused(Verb::Grep, ErrorKind::Cancelled));
    }
    let mut files = Vec::new();
    let (mut searched, mut too_long, mut too_large) = (0, 0, Trouble::default());
    for visitor in visitors {
        files.extend(visitor.found);
        searched += visitor.searched;
        too_long += visitor.too_long;
        too_large.merge(visitor.too_large);
        summary.unreadable.merge(visitor.unreadable);
        summary.changed.merge(visitor.changed);
    }
    if !tally.is_done() && summary.end == End::Stopped {
        summary.end = End::Late;
    }
    files.sort_unstable_by(|a: &FileMatches, b| a.path.cmp(&b.path));
    Ok(GrepResult {
        files,
        searched,
        complete: complete(request, &tally, &summary, &too_large, too_long),
    })
}

/// Whether the matches are all there are.
fn complete(
    request: &GrepRequest,
    tally: &Tally,
    summary: &Summary,
    too_large: &Trouble,
    too_long: u64,
) -> Completeness {
    if tally.is_over_limit() {
        return answer::limited(format!(
            "there are more than the {} matches that were asked for; narrow the scope or the pattern, or raise the limit",
            request.limit
        ));
    }
    if tally.is_full() {
        return answer::limited(
            "there are more matches than fit one answer; narrow the scope, or ask for less of each line or file",
        );
    }
    let rest = || match (&too_large.first, too_long) {
        (Some((path, _)), _) => answer::limited(format!(
            "{} could not be searched to the end, being one long line or too large to be held in memory, such as {}",
            too_large.count,
            join(&request.scope.root, path).map_or_else(String::new, |path| path.to_string()),
        )),
        (None, 0) => Completeness::Complete,
        (None, some) => answer::limited(format!(
            "{some} have a path of more than {MAX_PATH_BYTES} bytes, which cannot be named; start further in"
        )),
    };
    or(summary.completeness(), rest)
}

struct Visit<'a> {
    search: FileSearch<'a>,
    root: &'a SandboxPath,
    found: Vec<FileMatches>,
    searched: u64,
    unreadable: Trouble,
    changed: Trouble,
    too_large: Trouble,
    too_long: u64,
}

impl Visitor for Visit<'_> {
    const GRAIN: usize = 4;

    fn visit(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
        if entry.kind() != EntryKind::File {
            return ControlFlow::Continue(());
        }
        if self.search.tally.is_done() {
            return ControlFlow::Break(());
        }
        let searched = self.search.entry(entry);
        self.note(entry.path(), searched)
    }
}

impl Visit<'_> {
    fn note(
        &mut self,
        path: &[u8],
        (matches, result): (Option<Matches>, Result<(), Unsearched>),
    ) -> ControlFlow<()> {
        if let Some(matches) = matches {
            match join(self.root, path) {
                Some(path) => {
                    let cost = FILE_BYTES + answer::text(path.as_bytes().len());
                    // Lines that fitted are told: what a thread adds for its last file is left room for.
                    if self.search.tally.bytes_fit(cost) || !matches.lines.is_empty() {
                        self.found.push(FileMatches {
                            path,
                            lines: matches.lines,
                            binary: matches.binary,
                        });
                    }
                }
                None => self.too_long += 1,
            }
        }
        match result {
            Ok(()) => self.searched += 1,
            Err(Unsearched::Changed(errno)) => self.changed.add(path, errno),
            Err(Unsearched::Unreadable(errno)) => self.unreadable.add(path, errno),
            Err(Unsearched::TooLarge) => self.too_large.add(path, Errno::FBIG),
            Err(Unsearched::Stopped) => return ControlFlow::Break(()),
        }
        if self.search.tally.is_done() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

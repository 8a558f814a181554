//! Doubles that are wrong about finding text in files.

use sandbox_core::file::EntryKind;
use sandbox_core::search::{
    Case, Completeness, FileMatches, GrepResult, IgnoreRules, Lines, MatchedLine, PatternSyntax,
};
use sandbox_core::{Error, ErrorKind, SandboxExt, SandboxPath, Verb};

use super::doubles;

/// Changes every line of an answer.
fn each_line(result: &mut GrepResult, change: impl FnMut(&mut MatchedLine)) {
    let files = result.files.iter_mut();
    files.flat_map(|file| &mut file.lines).for_each(change);
}

fn bad_request() -> Error {
    Error::refused(Verb::Grep, ErrorKind::InvalidArgument).detail("not today")
}

doubles! {
    text_is_found_in_every_file: "what lies deep is not searched"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        result.files.retain(|file| file.path.components().count() < 3);
        Ok(result)
    }

    lines_are_numbered_from_one: "lines are numbered from zero"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        each_line(&mut result, |line| line.number -= 1);
        Ok(result)
    }

    a_line_says_where_it_starts_in_bytes: "a line says where it starts in characters"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        each_line(&mut result, |line| line.offset = line.offset.saturating_sub(1));
        Ok(result)
    }

    matches_are_ranges_of_bytes_in_their_line: "only the first match of a line is told"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        each_line(&mut result, |line| line.matches.truncate(1));
        Ok(result)
    }

    literal_text_has_no_meaning: "literal text is an expression"
    grep(honest, ctx, mut request) {
        request.pattern.syntax = PatternSyntax::Regex;
        honest.grep(&ctx, request).await
    }

    letters_compare_as_asked: "letters always compare exactly"
    grep(honest, ctx, mut request) {
        request.pattern.case = Case::Sensitive;
        honest.grep(&ctx, request).await
    }

    lines_around_a_match_come_with_it: "a match comes alone"
    grep(honest, ctx, mut request) {
        (request.before, request.after) = (0, 0);
        honest.grep(&ctx, request).await
    }

    matches_of_a_file_are_limited_when_asked: "matches of a file are not limited"
    grep(honest, ctx, mut request) {
        request.max_per_file = None;
        honest.grep(&ctx, request).await
    }

    a_search_that_is_cut_says_so: "a search that is cut looks complete"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        result.complete = Completeness::Complete;
        Ok(result)
    }

    a_limit_is_of_matches_in_total: "a limit is of each file"
    grep(honest, ctx, mut request) {
        request.max_per_file = request.max_per_file.or(Some(request.limit));
        request.limit = 10_000;
        let limit = request.max_per_file.unwrap_or(0);
        let mut result = honest.grep(&ctx, request).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        if result.files.iter().any(|file| file.lines.len() >= most) && limit > 1 {
            result.complete = Completeness::Incomplete {
                reason: "a limit".into(),
                cause: sandbox_core::search::IncompleteCause::Limit,
            };
        }
        Ok(result)
    }

    a_long_line_is_cut_and_said_to_be: "a line that is cut looks whole"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        each_line(&mut result, |line| line.cut = false);
        Ok(result)
    }

    what_looks_binary_is_said_to_match: "what looks binary is passed over"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        result.files.retain(|file| !file.binary);
        Ok(result)
    }

    a_match_may_span_lines_when_asked: "a match never spans lines"
    grep(honest, ctx, mut request) {
        request.pattern.lines = Lines::Single;
        honest.grep(&ctx, request).await
    }

    a_pattern_that_cannot_be_read_is_refused: "a pattern that cannot be read finds nothing"
    grep(honest, ctx, request) {
        let multi = request.pattern.lines;
        match honest.grep(&ctx, request).await {
            Err(error) if error.kind() == ErrorKind::InvalidArgument && multi == Lines::Single => {
                Ok(GrepResult {
                    files: Vec::new(),
                    searched: 0,
                    complete: Completeness::Complete,
                })
            }
            result => result,
        }
    }

    ignored_files_are_not_searched: "ignored files are searched"
    grep(honest, ctx, mut request) {
        request.scope.ignore = IgnoreRules::Off;
        let mut result = honest.grep(&ctx, request).await?;
        result.files.retain(|file| file.path.as_str() != Some(".gitignore"));
        Ok(result)
    }

    only_files_that_a_glob_takes_are_searched: "every file is searched"
    grep(honest, ctx, mut request) {
        request.scope.include = Vec::new();
        honest.grep(&ctx, request).await
    }

    a_line_comes_without_what_ends_it: "a line comes with its carriage return"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        for file in &mut result.files {
            let content = honest.read_file(&ctx, file.path.clone()).await?;
            if content.bytes.ends_with(b"\r\n") {
                file.lines.iter_mut().for_each(|line| line.text.push(b'\r'));
            }
        }
        Ok(result)
    }

    a_fifo_never_blocks_a_search: "a FIFO fails a search"
    grep(honest, ctx, request) {
        let fifo = SandboxPath::parse("fifo").map_err(|_| bad_request())?;
        match honest.look(&ctx, &fifo).await {
            Some(stat) if stat.kind == EntryKind::Special => Err(bad_request()),
            _ => honest.grep(&ctx, request).await,
        }
    }

    a_file_can_be_searched_by_its_name: "a file is searched with all that lies beside it"
    grep(honest, ctx, mut request) {
        if let Some(parent) = request.scope.root.parent() {
            request.scope.root = parent;
        }
        honest.grep(&ctx, request).await
    }

    a_search_never_follows_a_link_out: "a link out is followed"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        let hole = SandboxPath::parse("hole").map_err(|_| bad_request())?;
        if let Some(target) = honest.link(&ctx, &hole).await {
            let text = std::fs::read(target).unwrap_or_default();
            result.files.push(FileMatches {
                path: hole,
                binary: false,
                lines: vec![MatchedLine {
                    number: 1,
                    offset: 0,
                    text,
                    cut: false,
                    matches: vec![(0, 1)],
                }],
            });
        }
        Ok(result)
    }

    a_search_says_how_many_files_it_looked_at: "only files with matches are counted"
    grep(honest, ctx, request) {
        let mut result = honest.grep(&ctx, request).await?;
        result.searched = result.files.len() as u64;
        Ok(result)
    }
}

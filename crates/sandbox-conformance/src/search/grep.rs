//! Checks of `grep`.

use sandbox_core::search::{
    Case, Completeness, GrepRequest, GrepResult, IncompleteCause, Lines, MatchedLine, Pattern,
    PatternSyntax, Scope,
};
use sandbox_core::{Error, ErrorKind, SandboxPath};

use crate::check::{Failure, Verdict};
use crate::harness::{CANARY, Place};
use crate::support::{path, refused, soon};

async fn ask(
    place: &Place,
    pattern: &str,
    change: impl FnOnce(&mut GrepRequest),
) -> Result<GrepResult, Error> {
    let mut request = GrepRequest {
        scope: Scope::new(SandboxPath::root()),
        pattern: Pattern {
            text: pattern.to_owned(),
            syntax: PatternSyntax::Regex,
            case: Case::Sensitive,
            lines: Lines::Single,
        },
        before: 0,
        after: 0,
        max_per_file: None,
        limit: 10_000,
        max_line_bytes: 4096,
    };
    change(&mut request);
    place.sandbox.grep(&place.ctx(), request).await
}

/// What is found, as `path:text`, sorted.
async fn found(
    place: &Place,
    pattern: &str,
    change: impl FnOnce(&mut GrepRequest),
) -> Result<Vec<String>, Failure> {
    let result = ask(place, pattern, change).await?;
    let mut lines = Vec::new();
    for file in &result.files {
        for line in &file.lines {
            let text = String::from_utf8_lossy(&line.text);
            lines.push(format!("{}:{text}", file.path));
        }
    }
    lines.sort();
    Ok(lines)
}

/// The one line that must be found.
async fn line(
    place: &Place,
    pattern: &str,
    change: impl FnOnce(&mut GrepRequest),
) -> Result<MatchedLine, Failure> {
    let result = ask(place, pattern, change).await?;
    let mut lines: Vec<_> = result
        .files
        .into_iter()
        .flat_map(|file| file.lines)
        .collect();
    match (lines.pop(), lines.len()) {
        (Some(line), 0) => Ok(line),
        (_, more) => Err(Failure::new(format_args!(
            "one line, and found more or none ({more})"
        ))),
    }
}

pub(crate) async fn text_is_found_in_every_file(place: &Place) -> Verdict {
    place
        .script("mkdir -p a/b; echo needle 1 >f; echo needle 2 >a/b/f; echo other >g")
        .await?;
    let lines = found(place, "needle [0-9]", |_| {}).await?;
    ensure_eq!(lines, ["a/b/f:needle 2", "f:needle 1"], "what is found");
    Ok(())
}

pub(crate) async fn lines_are_numbered_from_one(place: &Place) -> Verdict {
    place.script("seq 10 >f").await?;
    ensure_eq!(line(place, "^7$", |_| {}).await?.number, 7, "line number");
    Ok(())
}

pub(crate) async fn a_line_says_where_it_starts_in_bytes(place: &Place) -> Verdict {
    place.script("printf 'é\\nneedle\\n' >f").await?;
    ensure_eq!(
        line(place, "needle", |_| {}).await?.offset,
        3,
        "offset of a line"
    );
    Ok(())
}

pub(crate) async fn matches_are_ranges_of_bytes_in_their_line(place: &Place) -> Verdict {
    place.script("printf 'é1 22\\n' >f").await?;
    let ranges = line(place, "[0-9]+", |_| {}).await?.matches;
    ensure_eq!(ranges, [(2, 3), (4, 6)], "ranges");
    Ok(())
}

pub(crate) async fn literal_text_has_no_meaning(place: &Place) -> Verdict {
    place.script("printf 'a.c(\\nabc(\\n' >f").await?;
    let lines = found(place, "a.c(", |request| {
        request.pattern.syntax = PatternSyntax::Literal;
    })
    .await;
    ensure_eq!(
        lines,
        Ok(vec!["f:a.c(".to_owned()]),
        "what is found literally"
    );
    Ok(())
}

pub(crate) async fn letters_compare_as_asked(place: &Place) -> Verdict {
    place.script("printf 'Ä\\n' >f").await?;
    let lines = found(place, "ä", |request| {
        request.pattern.case = Case::Insensitive;
    })
    .await?;
    ensure_eq!(lines, ["f:Ä"], "what is found without regard to case");
    Ok(())
}

pub(crate) async fn lines_around_a_match_come_with_it(place: &Place) -> Verdict {
    place.script("seq 9 >f").await?;
    let lines = found(place, "5", |request| {
        (request.before, request.after) = (1, 2);
    })
    .await?;
    ensure_eq!(lines, ["f:4", "f:5", "f:6", "f:7"], "a match with context");
    Ok(())
}

pub(crate) async fn matches_of_a_file_are_limited_when_asked(place: &Place) -> Verdict {
    place.script("seq 9 >f; seq 9 >g").await?;
    let lines = found(place, ".", |request| request.max_per_file = Some(1)).await?;
    ensure_eq!(lines, ["f:1", "g:1"], "one match a file");
    Ok(())
}

pub(crate) async fn a_search_that_is_cut_says_so(place: &Place) -> Verdict {
    place.script("seq 9 >f").await?;
    let cut = ask(place, ".", |request| request.limit = 3).await?;
    ensure!(
        matches!(
            cut.complete,
            Completeness::Incomplete {
                cause: IncompleteCause::Limit,
                ..
            }
        ),
        "an answer that was cut looks complete"
    );
    Ok(())
}

pub(crate) async fn a_limit_is_of_matches_in_total(place: &Place) -> Verdict {
    place.script("seq 9 >f; seq 9 >g").await?;
    let lines = found(place, "[0-9]", |request| request.limit = 12).await?;
    ensure_eq!(lines.len(), 12, "matches in total");
    Ok(())
}

pub(crate) async fn a_long_line_is_cut_and_said_to_be(place: &Place) -> Verdict {
    place.script("printf '%0100d\\n' 7 >f").await?;
    let line = line(place, "7", |request| request.max_line_bytes = 10).await?;
    ensure_eq!(
        (line.text.len(), line.cut),
        (10, true),
        "length, and whether it is cut"
    );
    Ok(())
}

pub(crate) async fn what_looks_binary_is_said_to_match(place: &Place) -> Verdict {
    place.script("printf 'needle\\n\\0' >f").await?;
    let result = ask(place, "needle", |_| {}).await?;
    let facts: Vec<_> = result
        .files
        .iter()
        .map(|file| (file.binary, file.lines.len()))
        .collect();
    ensure_eq!(facts, [(true, 0)], "binary, and lines shown");
    Ok(())
}

pub(crate) async fn a_match_may_span_lines_when_asked(place: &Place) -> Verdict {
    place.script("printf 'a\\nb\\nc\\n' >f").await?;
    let lines = found(place, "a\\nb", |request| {
        request.pattern.lines = Lines::Multi;
    })
    .await;
    ensure_eq!(
        lines,
        Ok(vec!["f:a".to_owned(), "f:b".to_owned()]),
        "a match of two lines"
    );
    Ok(())
}

pub(crate) async fn a_pattern_that_cannot_be_read_is_refused(place: &Place) -> Verdict {
    for pattern in ["a(", "a)(b", "[", "(?=x)"] {
        let result = ask(place, pattern, |_| {}).await;
        refused(
            result,
            ErrorKind::InvalidArgument,
            &format!("the pattern {pattern}"),
        )?;
    }
    Ok(())
}

pub(crate) async fn ignored_files_are_not_searched(place: &Place) -> Verdict {
    place
        .script("echo '*.log' >.gitignore; echo needle >a.log; echo needle >a.txt")
        .await?;
    let lines = found(place, "needle", |_| {}).await?;
    ensure_eq!(lines, ["a.txt:needle"], "what is not ignored");
    Ok(())
}

pub(crate) async fn only_files_that_a_glob_takes_are_searched(place: &Place) -> Verdict {
    place.script("echo needle >a.rs; echo needle >a.md").await?;
    let lines = found(place, "needle", |request| {
        request.scope.include = vec!["**/*.rs".to_owned()];
    })
    .await?;
    ensure_eq!(lines, ["a.rs:needle"], "what the glob takes");
    Ok(())
}

pub(crate) async fn a_line_comes_without_what_ends_it(place: &Place) -> Verdict {
    place.script("printf 'needle\\r\\n' >f").await?;
    let lines = found(place, "needle$", |_| {}).await?;
    ensure_eq!(lines, ["f:needle"], "a line that ends in CR LF");
    Ok(())
}

pub(crate) async fn a_fifo_never_blocks_a_search(place: &Place) -> Verdict {
    place.script("mkfifo fifo; echo needle >f").await?;
    let lines = soon("a search beside a FIFO", found(place, "needle", |_| {})).await??;
    ensure_eq!(lines, ["f:needle"], "what is found beside a FIFO");
    Ok(())
}

pub(crate) async fn a_file_can_be_searched_by_its_name(place: &Place) -> Verdict {
    place
        .script("mkdir -p d; echo needle >d/f; echo needle >d/g")
        .await?;
    let lines = found(place, "needle", |request| request.scope.root = path("d/f")).await?;
    ensure_eq!(lines, ["d/f:needle"], "what is found in one file");
    Ok(())
}

pub(crate) async fn a_search_never_follows_a_link_out(place: &Place) -> Verdict {
    place.outside()?.link_to_outside("hole", Some(CANARY))?;
    let lines = found(place, "what stands outside", |_| {}).await?;
    ensure!(lines.is_empty(), "text from outside was found: {lines:?}");
    Ok(())
}

pub(crate) async fn a_search_says_how_many_files_it_looked_at(place: &Place) -> Verdict {
    place.script("touch a b; echo needle >c").await?;
    let result = ask(place, "needle", |_| {}).await?;
    ensure_eq!(result.searched, 3, "files searched");
    Ok(())
}

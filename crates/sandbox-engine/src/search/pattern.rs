//! From the pattern of a request to a matcher.
//!
//! The expressions are those of the `regex` crate: their time is linear in the text. What they cost to compile
//! is bounded here.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ast::parse::ParserBuilder;
use sandbox_core::search::{Case, Lines, Pattern, PatternSyntax};
use sandbox_core::{Error, ErrorKind, Result, Verb};

/// Most bytes of a compiled expression, and of what each thread remembers of it while it searches.
const COMPILED: usize = 10 << 20;
/// How deep groups may be nested.
const NESTING: u32 = 128;

/// Compiles a pattern.
///
/// # Errors
///
/// `InvalidArgument`, without effect: it cannot be read, and where; or it is too large.
pub(super) fn matcher(pattern: &Pattern) -> Result<RegexMatcher> {
    if pattern.syntax == PatternSyntax::Regex {
        parse(&pattern.text)?;
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(pattern.case == Case::Insensitive)
        .fixed_strings(pattern.syntax == PatternSyntax::Literal)
        .multi_line(true)
        .unicode(true)
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .nest_limit(NESTING);
    // The end of a line is before its `\r`, too. This costs time, so it is asked for only where it matters.
    // It sets the line terminator as well.
    let ends = pattern.syntax == PatternSyntax::Regex && pattern.text.contains('$');
    builder.crlf(ends);
    match pattern.lines {
        Lines::Single if ends => {}
        Lines::Single => {
            builder.line_terminator(Some(b'\n'));
        }
        Lines::Multi => {
            builder.line_terminator(None);
        }
    }
    builder
        .build(&pattern.text)
        .map_err(|error| refused(explain(&error.to_string(), pattern.lines)))
}

/// Refuses what is no expression by itself: the compiler puts it into a group, out of which `a)(b` would lead.
fn parse(text: &str) -> Result<()> {
    let parsed = ParserBuilder::new().nest_limit(NESTING).build().parse(text);
    parsed.map(drop).map_err(|error| {
        let place = error.span().start;
        let at = if text.contains('\n') {
            format!("line {}, column {}", place.line, place.column)
        } else {
            format!("column {}", place.column)
        };
        refused(format!("it cannot be read at {at}: {}", error.kind()))
    })
}

fn refused(detail: impl std::fmt::Display) -> Error {
    Error::refused(Verb::Grep, ErrorKind::InvalidArgument)
        .on("the pattern")
        .detail(detail)
}

/// One sentence from what the compiler says in several lines.
fn explain(text: &str, lines: Lines) -> String {
    let reason = text
        .lines()
        .find_map(|line| line.strip_prefix("error: "))
        .map_or_else(
            || text.split_whitespace().collect::<Vec<_>>().join(" "),
            str::to_owned,
        );
    if text.contains("not allowed in a regex") && lines == Lines::Single {
        return format!("{reason} that matches within a line; ask for matches over several lines");
    }
    if reason.contains("size limit") {
        return format!("{reason}; use smaller repetitions or fewer alternatives");
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let error = matcher(&Pattern {
            text: text.to_owned(),
            syntax: PatternSyntax::Regex,
            case: Case::Sensitive,
            lines: Lines::Single,
        })
        .expect_err("a bad pattern");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.effect(), sandbox_core::Effect::None);
        error.detail_text().to_owned()
    }

    #[test]
    fn a_bad_pattern_is_pointed_at() {
        assert!(refusal("ab(c").contains("column 3"), "{}", refusal("ab(c"));
        assert!(refusal("a\\").contains("column 2"), "{}", refusal("a\\"));
        assert!(refusal("a)(b").contains("column 2"), "{}", refusal("a)(b"));
        assert!(refusal("(?=x)").contains("look-around"));
        assert!(
            refusal("a\nb").contains("several lines"),
            "{}",
            refusal("a\nb")
        );
    }

    #[test]
    fn a_pattern_that_explodes_is_refused() {
        let large = refusal("(?:a{1000}){1000}");
        assert!(large.contains("size limit"), "{large}");
        assert!(!refusal(&"(".repeat(1000)).is_empty());
        assert!(!refusal(&format!("{}x{}", "(".repeat(1000), ")".repeat(1000))).is_empty());
    }
}

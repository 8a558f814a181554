//! `spp glob` and `spp grep`: entries by name, and text in files.
//!
//! Each path that is given is one call. What was found is printed as it is known from other tools: a path a
//! line, or `path:line:text`. An answer that is cut short is said to be on standard error, and makes the
//! exit status 2, as an error does.

use std::io::IsTerminal as _;

use sandbox_core::search::{
    Case, Completeness, FileMatches, FoundEntry, GlobRequest, GrepRequest, Hidden, IgnoreRules,
    Lines, MatchedLine, Pattern, PatternSyntax, Scope, Sort, WithStat,
};
use sandbox_core::{Ctx, Sandbox, SandboxPath};
use serde_json::{Value, json};

use crate::args::{Glob, Global, Grep, Where};
use crate::failure::{Failure, Result, note};
use crate::session::once;
use crate::signals::Signals;
use crate::{output, report};

/// Nothing was found.
const NONE: u8 = 1;
/// Something went wrong, or may be missing.
const TROUBLE: u8 = 2;

/// Lists entries, and returns the exit status.
pub(crate) async fn glob(global: &Global, args: &Glob) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let mut scope = scope(SandboxPath::root(), &args.scope);
    scope.include = args.patterns.iter().map(|glob| anywhere(glob)).collect();
    let request = GlobRequest {
        scope,
        sort: if args.newest {
            Sort::Modified
        } else {
            Sort::Path
        },
        limit: args.scope.limit.unwrap_or(u64::MAX >> 11),
        stat: WithStat::No,
    };
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| sandbox.glob(ctx, request).await;
    let found = match once(global, &mut signals, verb).await.map_err(trouble)? {
        Ok(found) => found,
        Err(arrived) => return Ok(arrived.code()),
    };
    let code = status(found.entries.is_empty(), &[&found.complete]);
    let text = if global.json {
        let entries: Vec<_> = found
            .entries
            .iter()
            .map(|entry| report::path(&entry.path))
            .collect();
        report::line(&json!({ "entries": entries, "complete": complete(&found.complete) })).into()
    } else {
        let mut text = Vec::new();
        for FoundEntry { path, .. } in &found.entries {
            text.extend_from_slice(name(path));
            text.push(b'\n');
        }
        text
    };
    output::print(text, &mut signals, code).await
}

/// Searches text, and returns the exit status.
pub(crate) async fn grep(global: &Global, args: &Grep) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let roots = match &args.paths[..] {
        [] => vec![SandboxPath::root()],
        paths => paths.to_vec(),
    };
    let verb = async |sandbox: &dyn Sandbox, ctx: &Ctx| {
        let mut answers = Vec::new();
        let mut left = args.scope.limit.unwrap_or(u64::MAX >> 11);
        for root in roots {
            let answer = sandbox.grep(ctx, request(args, root, left)).await?;
            left = left.saturating_sub(count(&answer.files));
            answers.push(answer);
        }
        Ok(answers)
    };
    let answers = match once(global, &mut signals, verb).await.map_err(trouble)? {
        Ok(answers) => answers,
        Err(arrived) => return Ok(arrived.code()),
    };
    let completeness: Vec<_> = answers.iter().map(|answer| &answer.complete).collect();
    let code = status(
        answers.iter().all(|answer| answer.files.is_empty()),
        &completeness,
    );
    let text = if global.json {
        let searched: u64 = answers.iter().map(|answer| answer.searched).sum();
        let files: Vec<_> = answers
            .iter()
            .flat_map(|answer| &answer.files)
            .map(file_json)
            .collect();
        let worst = completeness
            .iter()
            .find(|one| ***one != Completeness::Complete);
        report::line(&json!({
            "files": files,
            "searched": searched,
            "complete": worst.map_or(json!("complete"), |one| complete(one)),
        }))
        .into()
    } else {
        let style = Style::of_standard_output(args);
        let mut text = Vec::new();
        for file in answers.iter().flat_map(|answer| &answer.files) {
            style.file(file, &mut text);
        }
        text
    };
    output::print(text, &mut signals, code).await
}

fn request(args: &Grep, root: SandboxPath, limit: u64) -> GrepRequest {
    let mut scope = scope(root, &args.scope);
    scope.include = args.glob.iter().map(|glob| anywhere(glob)).collect();
    let around = args.context.unwrap_or(0);
    GrepRequest {
        scope,
        pattern: Pattern {
            text: args.pattern.clone(),
            syntax: if args.fixed_strings {
                PatternSyntax::Literal
            } else {
                PatternSyntax::Regex
            },
            case: if args.ignore_case {
                Case::Insensitive
            } else {
                Case::Sensitive
            },
            lines: if args.multiline {
                Lines::Multi
            } else {
                Lines::Single
            },
        },
        before: args.before_context.unwrap_or(around),
        after: args.after_context.unwrap_or(around),
        max_per_file: args.max_count,
        limit,
        max_line_bytes: args.max_columns,
    }
}

fn scope(root: SandboxPath, options: &Where) -> Scope {
    let mut scope = Scope::new(root);
    scope.exclude = options.exclude.iter().map(|glob| anywhere(glob)).collect();
    if !options.hidden {
        scope.hidden = Hidden::Exclude;
    }
    scope.ignore = if options.no_ignore {
        IgnoreRules::Off
    } else {
        IgnoreRules::GitAndGlobal
    };
    scope.max_depth = options.max_depth;
    scope
}

/// A glob without a slash means a name at any level; one that begins with a slash, one at the top.
fn anywhere(glob: &str) -> String {
    match glob.strip_prefix('/') {
        Some(rest) => rest.to_owned(),
        None if glob.contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    }
}

fn count(files: &[FileMatches]) -> u64 {
    let matching = |file: &FileMatches| {
        let lines = file.lines.iter().filter(|line| !line.matches.is_empty());
        lines.count() as u64 + u64::from(file.binary)
    };
    files.iter().map(matching).sum()
}

/// The exit status, once what is missing was said.
fn status(nothing: bool, answers: &[&Completeness]) -> u8 {
    let mut code = if nothing { NONE } else { 0 };
    for answer in answers {
        if let Completeness::Incomplete { reason, .. } = answer {
            note(format_args!("the answer is not complete: {reason}"));
            code = TROUBLE;
        }
    }
    code
}

fn trouble(failure: Failure) -> Failure {
    failure.code(TROUBLE)
}

fn complete(complete: &Completeness) -> Value {
    match complete {
        Completeness::Complete => "complete".into(),
        Completeness::Incomplete { reason, cause } => json!({
            "incomplete": { "reason": reason, "cause": format!("{cause:?}").to_lowercase() }
        }),
    }
}

fn file_json(file: &FileMatches) -> Value {
    let line = |line: &MatchedLine| {
        json!({
            "number": line.number,
            "offset": line.offset,
            "line": report::bytes(&line.text),
            "cut": line.cut,
            "matches": line.matches,
        })
    };
    json!({
        "path": report::path(&file.path),
        "binary": file.binary,
        "lines": file.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

fn name(path: &SandboxPath) -> &[u8] {
    if path.is_root() {
        b"."
    } else {
        path.as_bytes()
    }
}

/// How matches are shown.
struct Style {
    colours: bool,
    /// Lines around matches were asked for, and a line of dashes between what is not together.
    context: bool,
}

impl Style {
    fn of_standard_output(args: &Grep) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colours: !plain && std::io::stdout().is_terminal(),
            context: [args.before_context, args.after_context, args.context]
                .iter()
                .any(|lines| lines.is_some_and(|lines| lines > 0)),
        }
    }

    fn file(&self, file: &FileMatches, text: &mut Vec<u8>) {
        if file.binary {
            text.extend_from_slice(name(&file.path));
            text.extend_from_slice(b": binary file matches\n");
            return;
        }
        if self.context && !text.is_empty() {
            text.extend_from_slice(b"--\n");
        }
        let mut last = None;
        for line in &file.lines {
            if self.context && last.is_some_and(|last| line.number > last + 1) {
                text.extend_from_slice(b"--\n");
            }
            last = Some(line.number);
            self.line(file, line, text);
        }
    }

    fn line(&self, file: &FileMatches, line: &MatchedLine, text: &mut Vec<u8>) {
        let mark = if line.matches.is_empty() { b'-' } else { b':' };
        self.paint("35", name(&file.path), text);
        text.push(mark);
        self.paint("32", line.number.to_string().as_bytes(), text);
        text.push(mark);
        let mut at = 0;
        for &(start, end) in &line.matches {
            let index = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
            let (start, end) = (index(start), index(end));
            // The client checked that ranges lie in the line; that they do not overlap is ours to see.
            if let (Some(plain), Some(found)) =
                (line.text.get(at..start), line.text.get(start..end))
            {
                text.extend_from_slice(plain);
                self.paint("1;31", found, text);
                at = end;
            }
        }
        text.extend_from_slice(line.text.get(at..).unwrap_or_default());
        if line.cut {
            text.extend_from_slice(b" [...]");
        }
        text.push(b'\n');
    }

    fn paint(&self, colour: &str, shown: &[u8], text: &mut Vec<u8>) {
        if !self.colours || shown.is_empty() {
            text.extend_from_slice(shown);
            return;
        }
        text.extend_from_slice(format!("\x1b[{colour}m").as_bytes());
        text.extend_from_slice(shown);
        text.extend_from_slice(b"\x1b[0m");
    }
}

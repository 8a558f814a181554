//! `grep` and `glob` of a large tree, against ripgrep in the same tree.
//!
//! ripgrep gets the flags that make it do the same work: the port considers hidden names, follows
//! git's ignore rules outside a repository too, and knows no excludes of the user.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use sandbox_core::search::{
    Case, Completeness, GlobRequest, GrepRequest, Lines, Pattern, PatternSyntax, Scope, Sort,
    WithStat,
};
use sandbox_core::{Ctx, SandboxPath};

use super::{Place, Result};
use crate::harness::{Side, ours_first, quiet, time};
use crate::report::{Row, ratio};
use crate::tree::{self, command};

const ROUNDS: usize = 9;
const MOST: f64 = 1.0;

/// In one file only.
const LITERAL: &str = "a needle that only this file has";
/// Has no literal part that could be searched for in its place.
const REGEX: &str = r"\b[0-9]{6}[a-f]{2}[0-9]{3,5}\b";

const SAME_WORK: [&str; 5] = [
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-dot",
    "--glob=!.git",
];

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let directory = place.root.join("searched");
    tree::build(&directory).await?;
    // What both look for is there, whatever sources this machine has.
    let hay = format!("hay\n{LITERAL}\n123456ab7890\nhay\n");
    std::fs::write(directory.join("hay.txt"), hay)?;
    let rows = [
        (
            "grep of a rare literal, against rg",
            Search::Grep(LITERAL, PatternSyntax::Literal),
        ),
        (
            "grep of a regular expression, against rg",
            Search::Grep(REGEX, PatternSyntax::Regex),
        ),
        // All of `**/*.rs` would be more than one answer holds.
        (
            "glob of **/lib.rs, against rg --files",
            Search::Glob("**/lib.rs"),
        ),
    ];
    let mut measured = Vec::new();
    for (name, search) in rows {
        measured.push(row(name, &compare(place, &directory, search).await?));
    }
    Ok(measured)
}

/// What is looked for, by us and by ripgrep.
#[derive(Clone, Copy)]
enum Search {
    Grep(&'static str, PatternSyntax),
    Glob(&'static str),
}

async fn compare(place: &Place, directory: &Path, search: Search) -> Result<(Side, Side)> {
    let (mut ours, mut peer) = (Side::default(), Side::default());
    // Once each, so that both find everything in memory, and have to find the same.
    let (_, found) = searched(place, search).await?;
    let (_, expected) = peers(directory, search).await?;
    if found != expected || found == 0 {
        return Err(format!("{found} found, and {expected} by rg").into());
    }
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            let (side, (taken, _)) = if turn {
                (&mut ours, searched(place, search).await?)
            } else {
                (&mut peer, peers(directory, search).await?)
            };
            side.round(vec![taken]);
        }
    }
    Ok((ours, peer))
}

/// How long it took, and how many lines or entries were found.
async fn searched(place: &Place, search: Search) -> Result<(Duration, usize)> {
    let mut scope = Scope::new(SandboxPath::parse("searched")?);
    let ctx = Ctx::new();
    let (taken, found, complete) = match search {
        Search::Grep(text, syntax) => {
            let pattern = Pattern {
                text: text.into(),
                syntax,
                case: Case::Sensitive,
                lines: Lines::Single,
            };
            let request = GrepRequest {
                scope,
                pattern,
                before: 0,
                after: 0,
                max_per_file: None,
                limit: 1_000_000,
                max_line_bytes: 4096,
            };
            let (taken, answer) = time(place.sandbox.grep(&ctx, request)).await;
            let answer = answer?;
            let lines = answer.files.iter().map(|file| file.lines.len()).sum();
            (taken, lines, answer.complete)
        }
        Search::Glob(glob) => {
            scope.include = vec![glob.into()];
            let request = GlobRequest {
                scope,
                sort: Sort::None,
                limit: 1_000_000,
                stat: WithStat::No,
            };
            let (taken, answer) = time(place.sandbox.glob(&ctx, request)).await;
            let answer = answer?;
            (taken, answer.entries.len(), answer.complete)
        }
    };
    if complete != Completeness::Complete {
        return Err(format!("{complete:?}").into());
    }
    Ok((taken, found))
}

async fn peers(directory: &Path, search: Search) -> Result<(Duration, usize)> {
    let mut peer = command("rg");
    peer.args(SAME_WORK)
        .current_dir(directory)
        .stdin(Stdio::null());
    match search {
        Search::Grep(text, PatternSyntax::Literal) => {
            peer.args(["--line-number", "--fixed-strings", text, "."])
        }
        Search::Grep(text, PatternSyntax::Regex) => peer.args(["--line-number", text, "."]),
        Search::Glob(glob) => peer.args(["--files", "--glob", glob]),
    };
    // `output` starts the child when it is called, not when it is first polled.
    let (taken, output) = time(async { peer.output().await }).await;
    let output = output?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`rg` failed: {said}").into());
    }
    let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    Ok((taken, lines))
}

fn row(name: &'static str, (ours, peer): &(Side, Side)) -> Row {
    let (ours, peer) = (ours.p50(), peer.p50());
    let ratio = ratio(ours.as_secs_f64(), peer.as_secs_f64());
    let millis = |taken: Duration| format!("{:.0} ms", taken.as_secs_f64() * 1e3);
    Row {
        row: name,
        ours: millis(ours),
        peer: Some(millis(peer)),
        ratio,
        bar: "at most 1.0x",
        holds: ratio.is_some_and(|ratio| ratio <= MOST),
    }
}

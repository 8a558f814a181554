//! The outside, the columns, the judgement, the table.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`mod@column`] | the places that the hostile program is run in, and who starts them |
//! | `prepare` | what needs root, or more than one user: directories, copies, the set-user-id helper |
//! | `daemon` | the container daemon of some columns, and their image |
//! | `handed` | control groups for a column's user |
//! | `outside` | what is to be reached, and what was reached of it |
//! | `place`, `naive`, `location` | running one attempt in a column |
//! | `strain` | judging what uses things up |
//! | `life` | judging what outlives what it was started by |
//! | `worker` | one column from its beginning to its end, as its user |
//! | [`gaps`] | what a location does not promise |
//! | [`table`] | what all of it comes to |

pub mod column;
pub mod gaps;
pub mod table;

mod daemon;
mod handed;
mod life;
mod location;
mod naive;
mod outside;
mod place;
mod prepare;
mod strain;
mod worker;

use std::io::{BufRead as _, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;

use crate::attempt;
use column::{COLUMNS, Column, Starter};
use prepare::Prepared;
use table::{Heard, Table};

/// Runs a hostile program in every column, and says what it got away with.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask escape")]
struct Arguments {
    /// What to try: names such as F01, or kinds such as F; everything if nothing is named.
    ids: Vec<String>,
    /// Print one JSON object in place of the table.
    #[arg(long)]
    json: bool,
    /// Be the process of one column.
    #[arg(long, hide = true)]
    column: Option<String>,
}

/// How long an attempt may take, and a bit.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a healthy place takes to answer, at most, on a busy machine.
const ANSWER: Duration = Duration::from_secs(5);

/// Why the suite could not be run.
type Failure = Box<dyn std::error::Error>;

/// Is the suite. The exit status says whether everything was kept that a location promises to keep.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_unknown = |id: &&String| selected(std::slice::from_ref(*id)).is_empty();
    if let Some(unknown) = arguments.ids.iter().find(is_unknown) {
        eprintln!("escape: there is no attempt `{unknown}`; without any, all are tried and listed");
        return ExitCode::from(2);
    }
    let done = match &arguments.column {
        Some(name) => be_column(name, &arguments.ids).map(|()| true),
        None => whole(&arguments.ids).map(|table| {
            print(&table, arguments.json);
            table.holds()
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("escape: {failure}");
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this is for")]
fn print(table: &Table, json: bool) {
    if json {
        println!("{}", table.json());
    } else {
        print!("{}", table.text());
    }
}

fn be_column(name: &str, ids: &[String]) -> Result<(), Failure> {
    let column = Column::named(name).ok_or("there is no such column")?;
    worker::run(column, &selected(ids))
}

fn selected(ids: &[String]) -> Vec<&'static attempt::Attempt> {
    attempt::all()
        .filter(|it| ids.is_empty() || ids.iter().any(|id| id == it.id || *id == it.id[..1]))
        .collect()
}

/// Runs every column, one after the other.
///
/// # Errors
///
/// What keeps it from being prepared. A column that cannot be had is none: the table says so.
fn whole(ids: &[String]) -> Result<Table, Failure> {
    let prepared = Prepared::new()?;
    let mut table = Table::new(selected(ids));
    for column in COLUMNS {
        eprintln!("trying: {}", column.title);
        let heard = match prepared.column(column) {
            // Whoever is in the groups has ended before they are removed.
            Ok((command, _handed)) => listen(column, command, ids),
            Err(reason) => vec![Heard::LeftOut(reason.to_string())],
        };
        table.add(column, heard);
    }
    Ok(table)
}

/// What the process of a column tells, line by line.
fn listen(column: &Column, mut command: std::process::Command, ids: &[String]) -> Vec<Heard> {
    command.arg("--column").arg(column.name).args(ids);
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return vec![Heard::LeftOut(format!("it could not be started: {error}"))],
    };
    let mut heard: Vec<Heard> = Vec::new();
    if let Some(output) = child.stdout.take() {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        heard.extend(lines.filter_map(|line| serde_json::from_str(&line).ok()));
    }
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => heard.push(Heard::Failed(format!(
            "the column's process ended early ({status})"
        ))),
        Err(error) => heard.push(Heard::Failed(error.to_string())),
    }
    heard
}

/// Whether this process can be anybody.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user that a column is started by.
fn user_of(starter: Starter) -> Option<u32> {
    (is_root() && starter == Starter::Ordinary).then_some(prepare::ORDINARY)
}

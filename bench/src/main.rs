//! Measures the rows that hold speed and memory; started by `cargo xtask bench`.
//!
//! Nothing here is a timed test: a row compares with a peer, or with a floor, in the same run on
//! the same machine, and only `--check` turns a missed bar into a failure.

mod delay;
mod harness;
mod memory;
mod report;
mod rows;
mod tree;

use std::process::ExitCode;

use clap::Parser;

use rows::{ALL, Measure, Place};

/// Measures speed and memory as ratios against a peer or the floor in the same run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", after_help = rows_help())]
struct Arguments {
    /// Rows to measure; all of them if none is named.
    rows: Vec<String>,
    /// Print a JSON list of {row, ours, peer, ratio, bar, holds} in place of the table.
    #[arg(long)]
    json: bool,
    /// Exit with 1 if a row misses its bar.
    #[arg(long)]
    check: bool,
}

fn rows_help() -> String {
    let rows: String = ALL
        .iter()
        .map(|row| format!("  {:7} {}\n", row.name, row.about))
        .collect();
    format!(
        "Rows:\n{rows}\nExamples:\n  cargo xtask bench exec read\n  cargo xtask bench --json --check"
    )
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let selected: Vec<&Measure> = if arguments.rows.is_empty() {
        ALL.iter().collect()
    } else {
        let mut selected = Vec::new();
        for name in &arguments.rows {
            let Some(row) = ALL.iter().find(|row| row.name == name) else {
                eprintln!("bench: there is no row `{name}`; `--help` lists them");
                return ExitCode::from(2);
            };
            selected.push(row);
        }
        selected
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (measured, broken) = match runtime.block_on(measure(&selected)) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    print(&measured, arguments.json);
    let missed = arguments.check && measured.iter().any(|row| !row.holds);
    if broken || missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// What was measured, and whether something could not be. Minutes of measuring are not lost for one row.
async fn measure(selected: &[&Measure]) -> rows::Result<(Vec<report::Row>, bool)> {
    let scratch = tempfile::tempdir()?;
    let (mut measured, mut broken) = (Vec::new(), false);
    for row in selected {
        eprintln!("measuring {} ({})", row.name, row.about);
        if !harness::quiet().await {
            eprintln!("  the machine is busy; figures will be worse than they are");
        }
        match measured_alone(row, scratch.path()).await {
            Ok(rows) => measured.extend(rows),
            Err(error) => {
                eprintln!("bench: {}: {error}", row.name);
                broken = true;
            }
        }
    }
    Ok((measured, broken))
}

async fn measured_alone(
    row: &Measure,
    scratch: &std::path::Path,
) -> rows::Result<Vec<report::Row>> {
    let place = Place::open(scratch, row.name).await?;
    let rows = (row.run)(&place).await;
    place.close().await;
    rows
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn print(rows: &[report::Row], json: bool) {
    if json {
        let text = serde_json::to_string_pretty(rows).unwrap_or_default();
        println!("{text}");
    } else {
        print!("{}", report::table(rows));
    }
}

//! The line on a terminal that says how far long work has come.
//!
//! It is on standard error, and only if that is a terminal: in a pipe or a file nobody waits in front of it. It is
//! gone when the work is, however it ends, so that what is said then stands by itself.
//!
//! Not here: counting ([`Tally`]).

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressFinish, ProgressState, ProgressStyle};
use sandbox_host::tree::Tally;

use crate::args::Global;
use crate::report;

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);

/// The line; dropping it clears it.
pub(crate) struct Line {
    bar: ProgressBar,
}

impl Line {
    /// Shows how far the work that is counted in `tally` has come: `pushing 120 of 4000 entries, 3.20 MiB`.
    ///
    /// Shows nothing if standard error is no terminal, nor with `--json` or `--verbose`, whose lines it would
    /// break.
    pub(crate) fn show(global: &Global, doing: &'static str, tally: &Tally) -> Self {
        let wanted = !global.json && global.verbose == 0 && std::io::stderr().is_terminal();
        if !wanted {
            return Self {
                bar: ProgressBar::hidden(),
            };
        }
        let tally = tally.clone();
        let told = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            // A line that cannot be made is drawn as far as it goes.
            let _ = out.write_str(&text(doing, &tally));
        };
        let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {tally}") {
            bar.set_style(style.with_key("tally", told));
        }
        bar.tick();
        bar.enable_steady_tick(EVERY);
        Self { bar }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn text(doing: &str, tally: &Tally) -> String {
    let done = tally.entries();
    let entries = match tally.expected() {
        Some(expected) => format!("{done} of {}", report::entries(expected)),
        None => report::entries(done),
    };
    format!("{doing} {entries}, {}", HumanBytes(tally.bytes()))
}

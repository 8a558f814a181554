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
        if !is_wanted(global) {
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

/// What a place says as it is made, such as how far an image has come; dropping it clears it.
///
/// Shows nothing where [`Line::show`] would not, and nothing before something is said.
pub(crate) struct Making {
    bar: ProgressBar,
}

impl Making {
    pub(crate) fn new(global: &Global) -> Self {
        let bar = match is_wanted(global) {
            true => ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear),
            false => ProgressBar::hidden(),
        };
        Self { bar }
    }

    /// Takes what is said from now on.
    pub(crate) fn told(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let bar = self.bar.clone();
        move |message| {
            // What moves a cursor is not the provider's to say.
            bar.set_message(message.replace(char::is_control, " "));
            bar.enable_steady_tick(EVERY);
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn is_wanted(global: &Global) -> bool {
    !global.json && global.verbose == 0 && std::io::stderr().is_terminal()
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

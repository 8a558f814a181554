//! Doubles that are wrong about output at the end of a run.

use bytes::Bytes;
use sandbox_core::process::{Descendants, Status};

use super::doubles;

doubles! {
    both_streams_come_back_apart: "a short standard error is not counted"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if outcome.stderr.total < 100 {
            outcome.stderr.total = 0;
        }
        Ok(outcome)
    }

    binary_output_is_not_touched: "output of what fails is made text"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if outcome.exit.status != Status::Exited(0) {
            let text = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
            outcome.stdout.head = text.into();
        }
        Ok(outcome)
    }

    long_output_keeps_head_and_tail_and_counts_the_rest: "only the head of long output is kept"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if outcome.stdout.dropped > 50_000 {
            outcome.stdout.tail = Bytes::new();
        }
        Ok(outcome)
    }

    output_that_fits_is_not_cut: "output that just fits is cut"
    outcome(process, outcome) {
        let mut outcome = outcome?;
        let stdout = &mut outcome.stdout;
        if stdout.total == process.output.head + process.output.tail && stdout.dropped == 0 {
            stdout.head.truncate(stdout.head.len().saturating_sub(1));
            stdout.dropped = 1;
        }
        Ok(outcome)
    }

    a_cut_never_splits_a_character: "a cut splits a character"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        let stdout = &mut outcome.stdout;
        if stdout.dropped > 0 && !stdout.head.is_ascii() {
            stdout.head = [&stdout.head[..], b"\xe2"].concat().into();
            stdout.dropped -= 1;
        }
        Ok(outcome)
    }

    much_output_on_both_streams_stalls_nothing: "standard error is counted up to a size"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        outcome.stderr.total = outcome.stderr.total.min(500_000);
        Ok(outcome)
    }

    output_before_a_timeout_is_returned: "a timeout loses what was on standard error"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if outcome.exit.status == Status::TimedOut {
            outcome.stderr.head = Bytes::new();
        }
        Ok(outcome)
    }

    bytes_that_no_log_keeps_are_counted: "what no log keeps is not counted"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        outcome.stdout.unlogged = 0;
        Ok(outcome)
    }

    output_beyond_its_limit_ends_the_tree_when_asked: "too much output is called a timeout"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if outcome.exit.status == Status::OutputLimit {
            outcome.exit.status = Status::TimedOut;
        }
        Ok(outcome)
    }

    what_a_child_still_says_is_heard: "nothing that comes late is heard"
    outcome(_, outcome) {
        let mut outcome = outcome?;
        if outcome.stdout.head.ends_with(b"late\n") {
            outcome.stdout.head.truncate(outcome.stdout.head.len() - 5);
        }
        Ok(outcome)
    }

    what_is_left_on_request_is_named_and_runs_on: "nothing is left, whatever is asked"
    process(process) {
        process.descendants = Descendants::Kill;
    }

    a_terminal_has_the_size_it_was_given: "rows and columns are confused"
    process(process) {
        if let Some(size) = &mut process.pty {
            (size.rows, size.columns) = (size.columns, size.rows);
        }
    }

    a_terminal_is_all_three_streams_and_has_a_name: "a terminal has no name"
    process(process) {
        if process.pty.is_some() {
            process.env.push(sandbox_core::EnvChange::set("TERM", ""));
        }
    }

    without_a_terminal_there_is_none: "what asks for a terminal gets one"
    process(process) {
        if process.argv.last().is_some_and(|line| line.ends_with(b"echo tty; true")) {
            process.pty = Some(sandbox_core::process::PtySize { rows: 24, columns: 80 });
        }
    }

    the_end_of_a_terminal_loses_nothing: "the end of a terminal's long output is lost"
    outcome(process, outcome) {
        let mut outcome = outcome?;
        if process.pty.is_some() && outcome.stdout.total > 10_000 {
            outcome.stdout.head.truncate(10_000);
        }
        Ok(outcome)
    }
}

//! What all of it comes to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::column::{Column, Role};
use super::gaps;
use crate::attempt::Attempt;

/// What the process of a column tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Heard {
    /// What came of an attempt.
    Verdict {
        /// Which one.
        id: String,
        /// What came of it.
        verdict: Verdict,
    },
    /// The column cannot be had on this machine, with the reason.
    LeftOut(String),
    /// It was begun, and not ended as it should be.
    Failed(String),
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It worked, as seen here.
    Escaped(String),
    /// It did not, with what kept it.
    Blocked(String),
    /// It cannot be tried there.
    NotApplicable(String),
}

/// All attempts, in all columns.
#[derive(Debug)]
pub struct Table {
    attempts: Vec<&'static Attempt>,
    columns: Vec<Filled>,
}

#[derive(Debug)]
struct Filled {
    column: &'static Column,
    verdicts: BTreeMap<String, Verdict>,
    left_out: Option<String>,
    failed: Option<String>,
}

/// What one attempt in one guarded column means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Nothing that is promised is broken.
    Kept,
    /// It worked, and it is promised that it does not.
    Escape,
    /// It worked, and that is said.
    ByDesign,
    /// It is said to work, and does not.
    Stale,
}

impl Table {
    pub(super) fn new(attempts: Vec<&'static Attempt>) -> Self {
        Self {
            attempts,
            columns: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, column: &'static Column, heard: Vec<Heard>) {
        let mut filled = Filled {
            column,
            verdicts: BTreeMap::new(),
            left_out: None,
            failed: None,
        };
        for one in heard {
            match one {
                Heard::Verdict { id, verdict } => drop(filled.verdicts.insert(id, verdict)),
                Heard::LeftOut(reason) => filled.left_out = Some(reason),
                Heard::Failed(reason) => filled.failed = Some(reason),
            }
        }
        let missing = self.attempts.len() - filled.verdicts.len();
        if missing > 0 && filled.left_out.is_none() && filled.failed.is_none() {
            filled.failed = Some(format!("nothing was heard of {missing} attempts"));
        }
        self.columns.push(filled);
    }

    /// Whether everything was tried, and everything kept that is promised.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.problems().is_empty()
    }

    /// Everything that is not as it should be, a sentence each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for filled in &self.columns {
            let title = filled.column.title;
            if let Some(reason) = &filled.failed {
                problems.push(format!("{title}: {reason}"));
            }
            if filled.column.role == Role::Control {
                continue;
            }
            for attempt in &self.attempts {
                let seen = match filled.verdicts.get(attempt.id) {
                    Some(Verdict::Escaped(seen) | Verdict::Blocked(seen)) => seen,
                    _ => continue,
                };
                match self.meaning(filled, attempt) {
                    Meaning::Escape => problems.push(format!("{title}: {} ({}): {seen}", attempt.id, attempt.title)),
                    Meaning::Stale => problems.push(format!(
                        "{title}: {} ({}) is listed as a gap and is kept away: {seen}; take it from the list",
                        attempt.id, attempt.title
                    )),
                    Meaning::Kept | Meaning::ByDesign => {}
                }
            }
        }
        problems
    }

    fn meaning(&self, filled: &Filled, attempt: &Attempt) -> Meaning {
        let gap = gaps::of(filled.column.name, attempt.id);
        match (filled.verdicts.get(attempt.id), gap) {
            (Some(Verdict::Escaped(_)), None) => Meaning::Escape,
            (Some(Verdict::Escaped(_)), Some(_)) => Meaning::ByDesign,
            (Some(Verdict::Blocked(_)), Some(_)) if self.counts(attempt) => Meaning::Stale,
            _ => Meaning::Kept,
        }
    }

    /// Whether it works in a control, so that it means something where it does not.
    fn counts(&self, attempt: &Attempt) -> bool {
        self.columns.iter().any(|filled| {
            filled.column.role == Role::Control
                && matches!(filled.verdicts.get(attempt.id), Some(Verdict::Escaped(_)))
        })
    }

    /// In a guarded column: how many that count were tried and not said to be gaps, and how many of those worked.
    fn figures(&self, filled: &Filled) -> (usize, usize) {
        let counted = self.attempts.iter().filter(|attempt| {
            self.counts(attempt)
                && gaps::of(filled.column.name, attempt.id).is_none()
                && !matches!(
                    filled.verdicts.get(attempt.id),
                    Some(Verdict::NotApplicable(_)) | None
                )
        });
        let succeeded = counted
            .clone()
            .filter(|attempt| self.meaning(filled, attempt) == Meaning::Escape);
        (counted.clone().count(), succeeded.count())
    }

    /// The table as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from(
            "X: it worked   .: it did not   -: it worked, and is not promised away   ?: it cannot be tried there\n\n",
        );
        let widest = self
            .attempts
            .iter()
            .map(|it| it.title.len())
            .max()
            .unwrap_or(0);
        for (number, filled) in self.columns.iter().enumerate() {
            let role = match filled.column.role {
                Role::Control => "control",
                Role::Guarded => "guarded",
            };
            let _ = write!(text, "  {}  {role}  {}", number + 1, filled.column.title);
            if let Some(reason) = filled.left_out.as_ref().or(filled.failed.as_ref()) {
                let _ = write!(text, ": left out: {reason}");
            }
            text.push('\n');
        }
        let (counting, silent): (Vec<_>, Vec<_>) =
            self.attempts.iter().partition(|it| self.counts(it));
        let head: String = (1..=self.columns.len())
            .map(|number| format!(" {number}"))
            .collect();
        let _ = writeln!(text, "\n{:5} {:widest$} {head}", "", "");
        for attempt in counting {
            self.line(&mut text, attempt, widest);
        }
        if !silent.is_empty() {
            text.push_str("\nNo control succeeds here, so these prove nothing on this machine:\n");
            for attempt in silent {
                self.line(&mut text, attempt, widest);
            }
        }
        text.push('\n');
        let rows = self.attempts.iter().filter(|it| self.counts(it)).count();
        let _ = writeln!(text, "{rows} of {} count", self.attempts.len());
        for filled in self.columns.iter().filter(|it| it.left_out.is_none()) {
            let (tried, succeeded) = self.figures(filled);
            let _ = writeln!(
                text,
                "{}: tried {tried}, succeeded {succeeded}",
                filled.column.title
            );
        }
        self.not_tried(&mut text);
        for gap in gaps::GAPS {
            let _ = writeln!(
                text,
                "by design ({}; {}): {}",
                gap.ids.join(", "),
                gap.columns.join(", "),
                gap.sentence
            );
        }
        for problem in self.problems() {
            let _ = writeln!(text, "PROBLEM {problem}");
        }
        text
    }

    /// Why something was not tried in a guarded column.
    fn not_tried(&self, text: &mut String) {
        for filled in &self.columns {
            if filled.column.role == Role::Control {
                continue;
            }
            for (id, verdict) in &filled.verdicts {
                if let Verdict::NotApplicable(reason) = verdict {
                    let _ = writeln!(text, "not tried ({id}; {}): {reason}", filled.column.name);
                }
            }
        }
    }

    fn line(&self, text: &mut String, attempt: &Attempt, widest: usize) {
        let marks: String = self
            .columns
            .iter()
            .map(|filled| match filled.verdicts.get(attempt.id) {
                Some(Verdict::Escaped(_)) if self.meaning(filled, attempt) == Meaning::ByDesign => {
                    " -"
                }
                Some(Verdict::Escaped(_)) => " X",
                Some(Verdict::Blocked(_)) => " .",
                Some(Verdict::NotApplicable(_)) => " ?",
                None => "  ",
            })
            .collect();
        let _ = writeln!(text, "{:5} {:widest$} {marks}", attempt.id, attempt.title);
    }

    /// The same as one JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|filled| {
                let (tried, succeeded) = self.figures(filled);
                json!({
                    "name": filled.column.name,
                    "title": filled.column.title,
                    "control": filled.column.role == Role::Control,
                    "left_out": filled.left_out,
                    "failed": filled.failed,
                    "tried": tried,
                    "succeeded": succeeded,
                    "verdicts": filled.verdicts,
                })
            })
            .collect();
        let attempts: Vec<_> = self
            .attempts
            .iter()
            .map(|it| json!({"id": it.id, "title": it.title, "source": it.source, "counts": self.counts(it)}))
            .collect();
        json!({"attempts": attempts, "columns": columns, "problems": self.problems()}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    fn escaped() -> Verdict {
        Verdict::Escaped("it was seen".into())
    }

    fn blocked() -> Verdict {
        Verdict::Blocked("refused".into())
    }

    /// A table of one attempt, in a control and in a guarded column.
    fn table(id: &str, control: Verdict, name: &str, guarded: Verdict) -> Table {
        let mut table = Table::new(vec![attempt::named(id).expect("it is tried")]);
        for (name, verdict) in [("bare", control), (name, guarded)] {
            let heard = vec![Heard::Verdict {
                id: id.into(),
                verdict,
            }];
            table.add(Column::named(name).expect("there is one"), heard);
        }
        table
    }

    #[test]
    fn what_works_in_a_guarded_column_fails_whether_or_not_a_control_shows_it() {
        for control in [escaped(), blocked()] {
            let table = table("F01", control, "bubblewrap-user", escaped());
            assert!(!table.holds());
            assert!(
                table.problems()[0].contains("F01"),
                "{:?}",
                table.problems()
            );
        }
        assert!(table("F01", escaped(), "bubblewrap-user", blocked()).holds());
    }

    #[test]
    fn a_gap_that_is_named_holds_as_long_as_it_is_one() {
        assert!(table("F01", escaped(), "local", escaped()).holds());
        let stale = table("F01", escaped(), "local", blocked());
        assert!(
            stale.problems()[0].contains("take it from the list"),
            "{:?}",
            stale.problems()
        );
        // Where nothing shows that it could work, nothing shows that it no longer does.
        assert!(table("F01", blocked(), "local", blocked()).holds());
    }

    #[test]
    fn a_column_that_ends_early_or_says_too_little_fails() {
        for heard in [vec![], vec![Heard::Failed("it ended".into())]] {
            let mut table = Table::new(vec![attempt::named("F01").expect("it is tried")]);
            table.add(Column::named("local").expect("there is one"), heard);
            assert!(!table.holds());
        }
    }

    #[test]
    fn rows_that_no_control_shows_are_listed_apart_and_not_counted() {
        let shown = table("F01", escaped(), "bubblewrap-user", blocked()).text();
        assert!(shown.contains("tried 1, succeeded 0"), "{shown}");
        let silent = table("F01", blocked(), "bubblewrap-user", blocked()).text();
        assert!(silent.contains("No control succeeds here"), "{silent}");
        assert!(silent.contains("tried 0, succeeded 0"), "{silent}");
    }

    #[test]
    fn every_gap_is_of_something_that_is_tried_in_a_column_that_there_is() {
        for gap in gaps::GAPS {
            for id in gap.ids {
                assert!(attempt::named(id).is_some(), "{id}");
            }
            for name in gap.columns {
                let column = Column::named(name).unwrap_or_else(|| panic!("{name}"));
                assert_eq!(column.role, Role::Guarded, "{name}");
            }
        }
    }

    #[test]
    fn no_two_attempts_have_one_name() {
        let mut names: Vec<_> = attempt::all().map(|it| it.id).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

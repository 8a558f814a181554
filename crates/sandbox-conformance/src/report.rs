//! What a run found: as text for people while it goes on, and as one JSON object for programs.
//!
//! **Invariant:** a run passes only if no check failed unexpectedly and no expected failure is stale;
//! whether it was a run of everything is said beside that.

use std::fmt::Write as _;
use std::time::Duration;

use sandbox_core::Capability;
use sandbox_host::error::visible;
use serde_json::{Value, json};

use crate::catalogue::Item;

/// What became of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The promise is kept.
    Passed,
    /// The promise is not made: this is not declared, and what needs it answers `unsupported`.
    NotDeclared(Capability),
    /// The promise is about what lies beside the workspace, where nobody can look.
    OutOfSight,
    /// The promise is not kept.
    Failed,
    /// The promise is not kept, and the list of expected failures says why.
    ExpectedFailure(String),
    /// The promise is kept, and the list of expected failures says that it is not.
    Stale,
}

impl Outcome {
    /// Whether this fails the run.
    #[must_use]
    pub fn fails(&self) -> bool {
        matches!(self, Self::Failed | Self::Stale)
    }

    /// One word for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::NotDeclared(_) => "not_declared",
            Self::OutOfSight => "out_of_sight",
            Self::Failed => "failed",
            Self::ExpectedFailure(_) => "expected_failure",
            Self::Stale => "stale_expectation",
        }
    }
}

/// One check that ran.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The check.
    pub item: Item,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it failed; empty if it did not.
    pub failure: String,
    /// The end of the provider's standard error, if it failed.
    pub stderr: String,
    /// What else is to be said: that the provider ended and was started again.
    pub note: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Who was looked at.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The command.
    pub command: Vec<String>,
    /// The provider's name and version, as it says.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it declares, by name.
    pub capabilities: Vec<String>,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Who was looked at.
    pub about: About,
    /// What was found, in order.
    pub findings: Vec<Finding>,
    /// How many checks there are, of which this may be a part.
    pub all: usize,
}

impl Report {
    /// Whether nothing failed that was not expected to, and all that was did.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.findings.iter().any(|finding| finding.outcome.fails())
    }

    /// Whether every check ran.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.findings.len() == self.all
    }

    fn count(&self, name: &str) -> usize {
        let has = |finding: &&Finding| finding.outcome.name() == name;
        self.findings.iter().filter(has).count()
    }

    /// The end of the text: counts, and the verdict.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!(
            "\n{} checks: {} passed",
            self.findings.len(),
            self.count("passed")
        );
        for (name, words) in [
            ("not_declared", "not declared"),
            ("out_of_sight", "could not look"),
            ("expected_failure", "failed as expected"),
            ("failed", "FAILED"),
            ("stale_expectation", "passed although expected to FAIL"),
        ] {
            let count = self.count(name);
            if count > 0 {
                let _ = write!(text, ", {count} {words}");
            }
        }
        text.push('\n');
        let failing = self
            .findings
            .iter()
            .filter(|finding| finding.outcome.fails());
        for finding in failing {
            let _ = writeln!(text, "  {} {}", finding.outcome.name(), finding.item.id());
        }
        if !self.is_complete() {
            let _ = writeln!(
                text,
                "only {} of {} checks ran: this says nothing of the others",
                self.findings.len(),
                self.all
            );
        }
        text
    }

    /// All of it for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let counts: serde_json::Map<String, Value> = [
            "passed",
            "not_declared",
            "out_of_sight",
            "expected_failure",
            "failed",
            "stale_expectation",
        ]
        .into_iter()
        .map(|name| (name.to_owned(), self.count(name).into()))
        .collect();
        json!({
            "suite": { "name": "spp-conformance", "version": env!("CARGO_PKG_VERSION"), "protocol": 1 },
            "command": self.about.command,
            "provider": {
                "name": self.about.name,
                "version": self.about.version,
                "capabilities": self.about.capabilities,
            },
            "passed": self.passed(),
            "complete": self.is_complete(),
            "counts": counts,
            "checks": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }
}

impl Finding {
    /// Its line of the text, and what follows a failure.
    #[must_use]
    pub fn text(&self) -> String {
        let name = self.item.name();
        let mut text = match &self.outcome {
            Outcome::Passed => format!("  ok    {name}\n"),
            Outcome::NotDeclared(capability) => {
                format!("  --    {name} ({capability:?} is not declared)\n")
            }
            Outcome::OutOfSight => {
                format!("  --    {name} (nobody can look beside the workspace)\n")
            }
            Outcome::Failed => format!(
                "  FAIL  {name} (clause {})\n",
                self.item.clauses().join(", ")
            ),
            Outcome::ExpectedFailure(reason) => {
                format!("  known {name} (expected: {})\n", visible(reason))
            }
            Outcome::Stale => {
                format!(
                    "  FAIL  {name}: passes, and is listed as an expected failure; take it off the list\n"
                )
            }
        };
        if self.outcome == Outcome::Failed {
            for line in self.failure.lines() {
                let _ = writeln!(text, "        {}", visible(line));
            }
            if !self.stderr.is_empty() {
                text.push_str("        its standard error ends:\n");
                for line in self.stderr.lines() {
                    let _ = writeln!(text, "          {}", visible(line));
                }
            }
        }
        if let Some(note) = &self.note {
            let _ = writeln!(text, "        note: {}", visible(note));
        }
        text
    }

    fn json(&self) -> Value {
        let mut json = json!({
            "id": self.item.id(),
            "clauses": self.item.clauses(),
            "outcome": self.outcome.name(),
            "duration_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        });
        match &self.outcome {
            Outcome::NotDeclared(capability) => {
                json["capability"] = format!("{capability:?}").into();
            }
            Outcome::ExpectedFailure(reason) => {
                json["reason"] = reason.as_str().into();
            }
            _ => {}
        }
        for (name, text) in [("failure", &self.failure), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                json[name] = text.as_str().into();
            }
        }
        if let Some(note) = &self.note {
            json["note"] = note.as_str().into();
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(outcome: Outcome) -> Finding {
        Finding {
            item: Item::all().next().expect("there are checks"),
            outcome,
            failure: "found \u{1b}[31m1".into(),
            stderr: "one\ntwo".into(),
            note: None,
            took: Duration::from_millis(5),
        }
    }

    fn report(findings: Vec<Finding>, all: usize) -> Report {
        Report {
            about: About::default(),
            findings,
            all,
        }
    }

    #[test]
    fn a_stale_expectation_fails_a_run_and_an_expected_failure_does_not() {
        let expected = Outcome::ExpectedFailure("known".into());
        for (outcome, passes) in [
            (Outcome::Passed, true),
            (Outcome::OutOfSight, true),
            (Outcome::NotDeclared(Capability::Pty), true),
            (expected, true),
            (Outcome::Failed, false),
            (Outcome::Stale, false),
        ] {
            let report = report(vec![finding(outcome.clone())], 1);
            assert_eq!(report.passed(), passes, "{outcome:?}");
            assert_eq!(report.json()["passed"], passes, "{outcome:?}");
        }
    }

    #[test]
    fn a_part_of_the_checks_is_said_to_be_a_part() {
        let report = report(vec![finding(Outcome::Passed)], 2);
        assert!(
            report.summary().contains("only 1 of 2"),
            "{}",
            report.summary()
        );
        assert_eq!(report.json()["complete"], false);
    }

    #[test]
    fn a_failure_shows_the_clause_and_the_last_words_and_commands_no_terminal() {
        let text = finding(Outcome::Failed).text();
        assert!(
            text.contains("clause 2.1") && text.contains("          two"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

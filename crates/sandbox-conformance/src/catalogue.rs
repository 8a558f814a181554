//! All checks of both kinds, under ids that stay, and the clauses of docs/protocol.md they are about.
//!
//! An id is `GROUP/NAME`. What is expected to fail, and what a report says, refers to checks by it.
//!
//! **Invariants.** No two checks have one id. Every clause that a check names exists, and every clause
//! that says MUST is checked here or listed as not checkable with the reason; a test holds both.

use std::borrow::Cow;

use crate::CHECKS;
use crate::check::Check;
use crate::wire::{WIRE_CHECKS, WireCheck};

/// A check of either kind.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// Of the protocol itself.
    Wire(&'static WireCheck),
    /// Of what verbs do.
    Behaviour(&'static Check),
}

impl Item {
    /// Every check: first of the wire, without which nothing else means much.
    pub fn all() -> impl Iterator<Item = Self> {
        let wire = WIRE_CHECKS.iter().map(Self::Wire);
        wire.chain(CHECKS.iter().map(Self::Behaviour))
    }

    /// What it is about, in one word.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Wire(check) => check.group,
            Self::Behaviour(check) => check.group,
        }
    }

    /// The promise as a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wire(check) => check.name,
            Self::Behaviour(check) => check.name,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(self) -> String {
        format!("{}/{}", self.group(), self.name())
    }

    /// The clauses it is about, as docs/protocol.md numbers them.
    #[must_use]
    pub fn clauses(self) -> Cow<'static, [&'static str]> {
        match self {
            Self::Wire(check) => check.clauses.into(),
            Self::Behaviour(check) => {
                let contained = (check.group == "containment").then_some("4.4");
                clause_of(check.clause)
                    .into_iter()
                    .chain(contained)
                    .collect()
            }
        }
    }

    /// Whether `wanted`, an id or a group, means it.
    #[must_use]
    pub fn is_meant_by(self, wanted: &str) -> bool {
        match wanted.split_once('/') {
            None => wanted == self.group(),
            Some((group, name)) => (group, name) == (self.group(), self.name()),
        }
    }
}

/// The clause that a part of the contract stands in, by the verb before the colon.
fn clause_of(part: &str) -> Option<&'static str> {
    let (about, _) = part.split_once(':')?;
    Some(match about {
        "read" => "7.1.1",
        "read_many" => "7.2.1",
        "write" => "7.3.1",
        "remove" => "7.4.1",
        "stat_many" => "7.5.1",
        "search" | "scope" => "7.6.1",
        "glob" => "7.6.3",
        "grep" => "7.6.4",
        "fingerprint" => "7.6.5",
        "changes" => "7.6.6",
        "bases" => "7.6.7",
        "exec" => "7.7.1",
        "outcome" => "7.7.2",
        "output" => "7.7.4",
        "track" => "7.7.5",
        "spawn" | "proc_*" => "7.8.1",
        "proc_read" => "7.8.2",
        "proc_stdin" => "7.8.3",
        "proc_stop" => "7.8.4",
        "trees" | "archive" => "7.9.1",
        "manifest" => "7.9.2",
        "push_tree" => "7.9.3",
        "pull_tree" => "7.9.4",
        "every file verb" | "paths" => "4.3",
        "containment" => "4.4",
        "every verb" => "9.3",
        "errors" => "9.1",
        "acquire" | "descriptor" => "8.1",
        "policy" => "8.2",
        "closed" => "8.3",
        "release" => "8.4",
        "attach" | "capture_state" => "8.5",
        "probe" => "8.6",
        "list" | "prepare" | "update" => "8.7",
        "capabilities" => "3.3",
        _ => return None,
    })
}

/// Clauses with a MUST that no check of a provider can see, each with the reason.
pub const NOT_CHECKABLE: &[(&str, &str)] = &[
    ("1.5", "it binds the host, which reads standard error"),
    (
        "13.1",
        "what must not be logged is not known to who reads the log",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Each numbered clause of the document, with its text.
    fn clauses() -> BTreeMap<String, String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
        let text = std::fs::read_to_string(path).expect("the protocol's document");
        let mut clauses: BTreeMap<String, String> = BTreeMap::new();
        let mut current = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("**")
                && let Some(number) = rest.split([' ', '*']).next()
                && number.contains('.')
                && number.chars().all(|it| it.is_ascii_digit() || it == '.')
            {
                current = Some(number.to_owned());
            } else if line.starts_with('#') {
                current = None;
            }
            if let Some(number) = &current {
                let clause = clauses.entry(number.clone()).or_default();
                clause.push_str(line);
                clause.push('\n');
            }
        }
        clauses
    }

    #[test]
    fn no_two_checks_have_one_id() {
        let ids: BTreeSet<_> = Item::all().map(Item::id).collect();
        assert_eq!(ids.len(), Item::all().count());
    }

    #[test]
    fn every_check_names_clauses_that_exist() {
        let clauses = clauses();
        assert!(clauses.len() > 60, "{:?}", clauses.keys());
        for item in Item::all() {
            assert!(!item.clauses().is_empty(), "{} names none", item.id());
            for clause in item.clauses().iter() {
                assert!(
                    clauses.contains_key(*clause),
                    "{} names clause {clause}, which docs/protocol.md does not have",
                    item.id()
                );
            }
        }
    }

    #[test]
    fn every_must_is_checked_or_said_not_to_be_checkable() {
        let checked: BTreeSet<_> = Item::all()
            .flat_map(|item| item.clauses().into_owned())
            .collect();
        let unchecked: BTreeSet<_> = NOT_CHECKABLE.iter().map(|(clause, _)| *clause).collect();
        let both: Vec<_> = checked.intersection(&unchecked).collect();
        assert!(
            both.is_empty(),
            "checked, and said not to be checkable: {both:?}"
        );
        let clauses = clauses();
        for (clause, text) in &clauses {
            let clause = clause.as_str();
            assert!(
                !text.contains("MUST") || checked.contains(clause) || unchecked.contains(clause),
                "no check is about clause {clause}, which says MUST: {text}"
            );
        }
        for clause in unchecked {
            assert!(
                clauses
                    .get(clause)
                    .is_some_and(|text| text.contains("MUST")),
                "clause {clause} has no MUST"
            );
        }
    }
}

//! Failures that are known: a strict list.
//!
//! An entry that does not fail any more, and one whose id nobody has, fails the run as an
//! unexpected failure does: a list that only grows hides what it was made for.
//!
//! The file has one entry a line: an id, white space, and the reason. Blank lines and lines that begin
//! with `#` are comments.

use std::collections::BTreeMap;

use crate::catalogue::Item;

/// Ids that are expected to fail, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected(BTreeMap<String, String>);

/// What is wrong with a list, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Counted from one.
    pub line: usize,
    /// What is wrong, in one sentence.
    pub problem: String,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for Malformed {}

impl Expected {
    /// Reads a list.
    ///
    /// # Errors
    ///
    /// An entry without a reason, an id twice, or one that no check has.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut entries = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed = |problem: String| Malformed {
                line: index + 1,
                problem,
            };
            let Some((id, reason)) = line.split_once(char::is_whitespace) else {
                return Err(malformed(format!("`{line}` has no reason behind its id")));
            };
            if !Item::all().any(|item| item.id() == id) {
                return Err(malformed(format!(
                    "no check has the id `{id}`; --list shows all"
                )));
            }
            let reason = reason.trim().to_owned();
            if entries.insert(id.to_owned(), reason).is_some() {
                return Err(malformed(format!("`{id}` is listed twice")));
            }
        }
        Ok(Self(entries))
    }

    /// Why this check is expected to fail, if it is.
    #[must_use]
    pub fn reason(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "framing/a_message_may_come_in_pieces";

    #[test]
    fn an_entry_is_an_id_and_a_reason() {
        let list = Expected::parse(&format!("# known\n\n{ID}   not yet done\n")).expect("good");
        assert_eq!(list.reason(ID), Some("not yet done"));
        assert_eq!(list.reason("framing/other"), None);
    }

    #[test]
    fn what_is_no_entry_is_said_with_its_line() {
        for (text, line, word) in [
            (ID.to_owned(), 1, "reason"),
            (
                "\nframing/nothing a reason".to_owned(),
                2,
                "framing/nothing",
            ),
            (format!("{ID} a\n{ID} b"), 2, "twice"),
        ] {
            let malformed = Expected::parse(&text).expect_err(&text);
            assert_eq!(malformed.line, line);
            assert!(malformed.problem.contains(word), "{malformed}");
        }
    }
}

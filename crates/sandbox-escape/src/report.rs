//! The one line that an attempt is told in, by the hostile program to whoever judges.

use serde::{Deserialize, Serialize};

/// How an attempt went, as the one who made it saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// It worked, with what was had by it.
    Succeeded(String),
    /// It did not, with what kept it.
    Blocked(String),
    /// It cannot be tried here, with the reason.
    NotApplicable(String),
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which one.
    pub id: String,
    /// How it went.
    pub told: Told,
}

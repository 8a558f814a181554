//! How much fits one answer.
//!
//! An answer travels in one piece, whose length is limited. A text of n bytes never takes more than
//! four thirds of that and some, however it is written; what is counted here is that upper bound, so that an
//! answer that is not over the budget surely fits.

use sandbox_core::search::{Completeness, IncompleteCause};

/// Most bytes of an answer as it may be written: what every peer takes in one message, less some for what
/// is around it.
pub(super) const BUDGET: u64 = (1 << 20) - (64 << 10);

/// Bytes that a text may take.
pub(super) fn text(length: usize) -> u64 {
    // Quotes, a name for the form, and what rounding adds.
    length as u64 * 4 / 3 + 24
}

/// A limit cut the answer short.
pub(super) fn limited(reason: impl Into<String>) -> Completeness {
    Completeness::Incomplete {
        reason: reason.into(),
        cause: IncompleteCause::Limit,
    }
}

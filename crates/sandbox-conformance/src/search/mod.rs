//! Checks of the verbs that look at many entries.
//!
//! Order is a promise only where it was asked for, so that what is found is compared as a sorted list
//! everywhere else.

pub(crate) mod glob;
pub(crate) mod grep;

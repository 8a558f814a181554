//! Checks of the file verbs: `read`, `read_many`, `write`, `remove`, `stat_many`.
//!
//! Each is about what a caller with an ordinary tree sees. What tries to leave the tree is in
//! [`containment`](crate::containment).

pub(crate) mod directory;
pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod put;
pub(crate) mod read;

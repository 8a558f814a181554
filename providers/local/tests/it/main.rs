//! The real executable: by hand, offline, and served over its pipes.

mod alone;
mod served;

//! The escape suite, as `cargo xtask escape` runs it.

mod escape;

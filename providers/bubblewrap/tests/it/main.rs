//! The executable, served over its pipes.

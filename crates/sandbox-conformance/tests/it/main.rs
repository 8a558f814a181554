//! The suite on what this workspace offers, and the proof that the suite can fail.

mod engine;
mod local;
mod matrix;

//! The suite on what this workspace offers, and the proof that the suite can fail.

mod command;
mod engine;
mod local;
mod matrix;

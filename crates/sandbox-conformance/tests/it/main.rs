//! The suite on what this workspace offers, and the proof that the suite can fail.

mod command;
mod engine;
mod guide;
mod local;
mod matrix;
mod over_host;
mod python;

//! The suite on what this workspace offers, and the proof that the suite can fail.

mod acts;
mod bubblewrap;
mod chaos;
mod command;
mod counting;
mod cutting;
mod docker;
mod engine;
mod guide;
mod lies;
mod local;
mod matrix;
mod over_host;
mod python;
mod ssh;
mod wired;

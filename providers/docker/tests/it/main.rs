//! The real executable on a real daemon, started and spoken to as a host does.
//!
//! The daemon is the one that `cargo xtask test` brings up, and names in `SPP_TEST_DOCKER`. A test that finds none
//! fails: nothing here is skipped.

mod channel;
mod daemon;
mod far;
mod frozen;
mod gc;
mod life;
mod limits;
mod owners;
mod podman;
mod refused;
mod seen;
mod streams;
mod support;

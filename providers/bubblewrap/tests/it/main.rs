//! The real executable: by hand, served over its pipes, and ended in every way.
//!
//! What starts it matters more here than anywhere: each promise is tried for whoever runs the tests and, if that is
//! root, for an ordinary user too ([`support::each`]).

mod alone;
mod copies;
mod hostile;
mod life;
mod limits;
mod mounts;
mod owners;
mod refused;
mod seen;
mod support;

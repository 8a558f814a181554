//! One behaviour suite for everything that offers sandboxes.
//!
//! What the port promises is written down here a second time, as checks that run: each one opens a
//! fresh sandbox, asks it for something, and looks at what really happened, where it can also from
//! outside the sandbox. The same checks run on the engine in process, on each provider's real
//! executable, and at every location, so that "works the same everywhere" is a result and not a
//! hope.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`suite`](mod@suite) | the one list of checks, and [`suite!`], which expands it to tests |
//! | [`check`] | what a check is, and how one is run |
//! | [`harness`] | how a check gets its sandbox, and what it may see of it from outside |
//! | [`double`] | sandboxes that are wrong in exactly one way, to show that the checks can fail |
//! | `file`, `containment`, `process`, `lifecycle`, `undeclared` | the checks |
//!
//! To put a provider under the suite, write a factory and name it:
//!
//! ```no_run
//! # mod demonstration {
//! # async fn my_provider() -> std::sync::Arc<dyn sandbox_core::Provider> { std::future::pending().await }
//! use sandbox_conformance::{Failure, Harness, OnThisMachine};
//!
//! async fn mine() -> Result<Box<dyn Harness>, Failure> {
//!     Ok(Box::new(OnThisMachine::new(my_provider().await)))
//! }
//!
//! sandbox_conformance::suite!(mine);
//! # }
//! ```
//!
//! **Invariants.** No provider can leave a check out: the list is one macro, and both the tests and
//! [`CHECKS`] are expanded from it. A capability that is not declared is not skipped: in place
//! of the check it is shown that the verb answers `Unsupported`. A mandatory verb has no capability
//! and cannot be left out at all.
//!
//! Not here: how the engine resists hostile guests, and faults of the wire, which the crates that
//! own them test.

#[macro_use]
mod support;

pub mod check;
mod containment;
pub mod double;
mod file;
pub mod harness;
mod lifecycle;
mod process;
pub mod suite;
mod undeclared;

pub use check::{Check, Failure, Need, Passed, Verdict, run_by_name};
pub use harness::{Harness, OnThisMachine, Outside, Place};
pub use suite::CHECKS;

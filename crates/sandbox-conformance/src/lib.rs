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
//! | [`relay`] | what stands between a host and a provider, counts messages and cuts at any of them |
//! | `file`, `containment`, `fingerprint`, `process`, `lifecycle`, `transfer`, `undeclared` | the checks |
//! | [`wire`] | checks of the protocol itself, on the bytes of a provider's pipes |
//! | [`catalogue`] | all checks of both kinds under stable ids, and the clauses they are about |
//! | [`runner`], [`report`], [`expected`], [`orphans`] | what `spp-conformance` is made of |
//!
//! `spp-conformance COMMAND...` runs all of it on an executable, in whatever language it is written.
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
//! Not here: how the engine resists hostile guests, and what a host does about a provider that lies,
//! which the crates that own them test.

#[macro_use]
mod support;

pub mod catalogue;
pub mod check;
mod containment;
pub mod double;
pub mod expected;
mod file;
mod fingerprint;
pub mod harness;
mod lifecycle;
pub mod orphans;
mod process;
pub mod relay;
pub mod report;
pub mod runner;
mod search;
pub mod suite;
mod transfer;
mod undeclared;
pub mod wire;

pub use check::{Check, Failure, Need, Passed, Verdict, run_by_name};
pub use harness::{Elsewhere, Harness, OnThisMachine, Outside, Place};
pub use suite::CHECKS;

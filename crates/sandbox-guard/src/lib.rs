//! What a process is kept from by the kernel, from its start on: writing elsewhere, the network, other
//! processes, and the parts of the kernel that no developer's tool needs.
//!
//! A [`Guard`] is prepared once, from a [`GuardSpec`], where memory may be allocated and errors be told. It
//! is put on in two steps, each a few system calls on memory that is there already, so that both may be done
//! after a fork of a process with threads:
//!
//! 1. [`Guard::install_filters`], in a process that others are forked from. They inherit the filters for
//!    nothing, while putting them on costs a compilation in the kernel each time.
//! 2. [`Domain::enter`], in each process that is to be guarded and not in the one it is forked from. So that
//!    one stays outside: what is guarded can neither trace it nor, from Linux 6.12 on, signal it.
//!
//! What was put on can never be taken off again, by nobody, and everything that is started inherits it.
//! Whether it really keeps away what it should is tried out by [`Guard::prove`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | `spec` | what is asked for |
//! | `guard` | the prepared guard |
//! | `filter` | system calls that are refused (seccomp), the lists among them |
//! | `domain` | files and processes that are out of reach (Landlock) |
//! | `proof` | a child that tries |
//! | `neighbour` | a process that it tries it on |
//! | `sys` | the system calls that have no safe wrapper elsewhere |
//!
//! **Invariants.**
//! - Whatever is not asked to be left open is refused. A part that the kernel does not have is an error or
//!   a missing line in the [`Proof`], never silence.
//! - Nothing here looks at a path when it matters: directories are given as open descriptors.
//!
//! Not here: resource limits, namespaces, and what a location makes of a proof.

mod domain;
mod error;
mod filter;
mod guard;
mod neighbour;
mod proof;
mod spec;
mod sys;

pub use domain::{Domain, Landlock, MOST_RULES};
pub use error::GuardError;
pub use guard::Guard;
pub use proof::Proof;
pub use spec::{GuardSpec, Neighbours, NetworkUse, Writes};

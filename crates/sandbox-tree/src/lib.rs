//! Trees as they lie on a disk: walked under ignore rules, packed into an archive, unpacked strictly.
//!
//! Both ends of a transfer need the same three things: the engine for its verbs, and the caller's
//! side for the tree it sends and the one it receives. The caller's side must not depend on the
//! engine, so what they share is here, once. Everything works beneath a directory handle that the
//! caller opened; nothing here takes a path from `/`, but for patterns that git keeps elsewhere (`walk::repository`).
//!
//! Not here: deciding which directory may be touched (`sandbox_engine::root`, the host's
//! configuration), and how a tree travels (`spp_protocol`).

pub mod clear;
pub mod copy;
pub mod errno;
pub mod held;
pub mod listing;
pub mod pack;
pub mod pieces;
pub mod reader;
pub mod unpack;
pub mod walk;

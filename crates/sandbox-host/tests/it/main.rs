//! The host against real providers: small shell scripts, each with one fault; and trees, with an engine.

mod fixture;
mod life;
mod start;
mod traffic;
mod tree;

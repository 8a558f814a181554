//! The host against real providers: small shell scripts, each with one fault.

mod fixture;
mod life;
mod start;
mod traffic;

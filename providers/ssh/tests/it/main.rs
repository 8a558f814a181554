//! The executable against a real server, with accounts that are difficult each in a way of its own.

mod difficult;
mod life;
mod placing;
mod refused;
mod support;

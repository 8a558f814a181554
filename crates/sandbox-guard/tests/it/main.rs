//! Integration tests of the guard: each thing that it keeps away is really tried, with and without it.

mod attempts;
mod calls;
mod capabilities;
mod domain;
mod support;

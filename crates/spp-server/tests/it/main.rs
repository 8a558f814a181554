//! A server against raw lines, as a host in any language might write them, and on real pipes.

mod broken;
mod floods;
mod host;
mod lines;
mod logs;
#[path = "../../../spp-client/tests/it/memory.rs"]
mod memory;
mod pipes;
mod pressure;
#[path = "../../../spp-client/tests/it/programs.rs"]
mod programs;
mod refusals;

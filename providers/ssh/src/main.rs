//! `spp-provider-ssh`: sandboxes on machines that `ssh` reaches, in a directory there, with the account's privileges.
//!
//! It has the `ssh` program connect once for each sandbox, sees to it over that connection that the engine is there, and
//! is a client of it from then on. It has no verb of its own, and knows nothing of keys, hosts and networks: that is the
//! program's, and its configuration's.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `maker` | how a place is made and removed |
//! | `options` | what the configuration says of the machine and the directory |
//! | `plan` | what a spec asks for, and what of it can be had |
//! | `client` | the program, and the arguments that it is given always |
//! | `engines` | the executables that can be placed, with their digests |
//! | `script` | what a shell over there does until the engine runs |
//! | `bootstrap` | this side of that |
//! | `refusal` | why there is no place, and what to do about it |
//!
//! **Invariants.** No name of a machine is taken for an option. Nobody is asked on a terminal. An engine that is not the
//! one beside this provider, byte for byte, is not started. What comes from over there is hostile input.
//!
//! Not here: what an engine is and how one is spoken to (`spp_client::place`).

mod bootstrap;
mod client;
mod engines;
mod maker;
mod options;
mod plan;
mod refusal;
mod script;

use std::process::ExitCode;
use std::sync::Arc;

use spp_client::place::{Keeper, provider_capabilities};
use spp_server::ProviderMain;

fn main() -> ExitCode {
    spp_server::main(ProviderMain {
        name: maker::NAME,
        version: env!("CARGO_PKG_VERSION"),
        about: "Sandboxes on machines that ssh reaches, in a directory there.",
        capabilities: provider_capabilities(),
        options_schema: Some(options::SCHEMA),
        arguments: None,
        provider: Box::new(|| Ok(Arc::new(Keeper::new(maker::Ssh::new()?)))),
    })
}

//! `spp-provider-bubblewrap`: sandboxes that are namespaces of this machine, made by bubblewrap.
//!
//! It places the engine as the first process of new namespaces, once for each sandbox, and is a client of it. It has
//! no verb of its own.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `provider` | how places are made, described and cleared |
//! | `place` | an engine in a place of its own: its start |
//! | `copies` | private copies of workspaces |
//! | `spec` | what a spec asks for, and what of it can be had |
//! | `shown` | what of this machine the workspace and the mounts show, and what is hidden of that |
//! | `view` | what a sandbox sees of this machine |
//! | `environment` | the variables of what runs there |
//! | `bwrap` | the program that makes the namespaces: where it is, and whether it is one to use |
//! | `launch` | the process between this one and bwrap: mounts, then another user, then bwrap; and one that mounts more in the place |
//! | `limits` | the control group of a sandbox |
//! | `refusal` | why a sandbox could not be made, and what to do about it |
//!
//! **Invariants.** bwrap never runs with the machine's user 0. Nothing falls back to less isolation than was asked
//! for.
//!
//! Not here: what an engine is and how one is spoken to (`spp_client::place`).

mod bwrap;
mod copies;
mod environment;
mod launch;
mod limits;
mod place;
mod provider;
mod refusal;
mod shown;
mod spec;
mod view;

use std::process::ExitCode;
use std::sync::Arc;

use spp_client::place::{Keeper, provider_capabilities};
use spp_server::ProviderMain;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == launch::ARGUMENT)
    {
        return launch::run();
    }
    spp_server::main(ProviderMain {
        name: provider::NAME,
        version: env!("CARGO_PKG_VERSION"),
        about: "Sandboxes that are namespaces of this machine, made by bubblewrap.",
        capabilities: provider_capabilities(),
        options_schema: Some(spec::OPTIONS),
        arguments: None,
        provider: Box::new(|| Ok(Arc::new(Keeper::new(provider::Bubblewrap::new()?)))),
    })
}

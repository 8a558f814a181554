//! `spp-provider-docker`: sandboxes that are containers, made by docker or any program with its command line.
//!
//! It places the engine as the first process of a container, once for each sandbox, and is a client of it through a
//! socket or over the pipes of an attached client. It has no verb of its own, and no library of any daemon.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `maker` | how a place is made and removed |
//! | `options` | what the configuration says of the program and the image |
//! | `left` | what others have made, and what of it nobody has any more |
//! | `limits` | what the daemon is asked to limit, and what it says of that |
//! | `plan` | what a spec asks for, and what of it can be had |
//! | `container` | a container: what it is made with, and how it is made and removed |
//! | `channel` | how the engine in it is reached |
//! | `marked` | directories that say in their names who made them |
//! | `mapped` | a workspace of root's, shown as another user's |
//! | `watched` | one that runs without a client: its first process, and its end |
//! | `store` | what holds the volumes of one whose daemon does not see this machine's files |
//! | `cli` | the program: asking it, and how long |
//! | `owner` | whose container it is, and whether they still live |
//! | `pull` | the image: having it fetched, and how far it has come |
//! | `refusal` | why a container could not be made, and what to do about it |
//!
//! **Invariants.** What is inside never runs as user 0. No container is removed that this provider, or one that is
//! known to be dead, did not make. Nothing falls back to less isolation than was asked for.
//!
//! Not here: what an engine is and how one is spoken to (`spp_client::place`).

mod channel;
mod cli;
mod container;
mod left;
mod limits;
mod maker;
mod mapped;
mod marked;
mod options;
mod owner;
mod plan;
mod pull;
mod refusal;
mod store;
mod watched;

use std::process::ExitCode;
use std::sync::Arc;

use spp_client::place::{Keeper, provider_capabilities};
use spp_server::ProviderMain;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == mapped::ARGUMENT)
    {
        return mapped::run();
    }
    spp_server::main(ProviderMain {
        name: maker::NAME,
        version: env!("CARGO_PKG_VERSION"),
        about: "Sandboxes that are containers, made by docker or any program with its command line.",
        capabilities: provider_capabilities(),
        options_schema: Some(options::SCHEMA),
        arguments: None,
        provider: Box::new(|| Ok(Arc::new(Keeper::new(maker::Docker::new()?)))),
    })
}

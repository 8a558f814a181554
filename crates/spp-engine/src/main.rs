//! `spp-engine`: the engine as one static executable, placed where the tools are to run.
//!
//! It answers as a provider of sandboxes on the machine it is on, so that whoever placed it may pass
//! lines on as they are. It installs no handler for any signal that ends a process: as the first
//! process of a place it would become mortal by it, to what it is there to watch.
//!
//! Who placed it says on the command line what the place is (`arguments`).
//!
//! Not here: any verb (`sandbox_engine`), and what keeps the place apart from the rest of the
//! machine, which is the business of whoever placed it.

mod arguments;

use std::process::ExitCode;
use std::sync::Arc;

use sandbox_engine::provider::capabilities;
use sandbox_engine::{EngineProvider, ProviderOptions};
use spp_server::ProviderMain;

/// An engine that others can look into must not serve: the first process of a place holds the pipe that
/// every result travels on.
const EXIT_UNSAFE: u8 = 70;

fn main() -> ExitCode {
    #[expect(
        unsafe_code,
        reason = "inherited descriptors are closed before any is opened"
    )]
    // SAFETY: this is the first thing that is done, and nothing is open but 0, 1 and 2.
    let hardened = unsafe { sandbox_engine::harden() };
    if hardened.is_err() {
        return ExitCode::from(EXIT_UNSAFE);
    }
    let (place, rest) = match arguments::place(std::env::args_os().skip(1)) {
        Ok(read) => read,
        Err(problem) => return spp_server::usage(&problem),
    };
    let main = ProviderMain {
        name: "engine",
        version: env!("CARGO_PKG_VERSION"),
        about: "The engine of sandboxes, to be placed where the tools run.",
        capabilities: capabilities(),
        options_schema: Some(r#"{"type":"object","additionalProperties":false}"#),
        arguments: Some(arguments::HELP),
        provider: Box::new(move || {
            Ok(Arc::new(EngineProvider::new(ProviderOptions {
                name: "engine".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                place,
            })))
        }),
    };
    spp_server::main_with(main, &rest)
}

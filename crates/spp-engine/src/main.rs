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
use sandbox_engine::{EngineProvider, LimitGroup, PassedLimit, ProviderOptions};
use spp_server::ProviderMain;

use arguments::Said;

/// An engine that others can look into must not serve: the first process of a place holds the pipe that
/// every result travels on.
const EXIT_UNSAFE: u8 = 70;

fn main() -> ExitCode {
    let said = arguments::place(std::env::args_os().skip(1));
    let kept = said.iter().flat_map(|said| &said.limited);
    let kept = kept.flat_map(PassedLimit::descriptors);
    #[expect(
        unsafe_code,
        reason = "inherited descriptors are closed before any is opened"
    )]
    // SAFETY: nothing was done before but to read arguments, so nothing is open but 0, 1, 2, and what they name.
    let hardened = unsafe { sandbox_engine::harden(kept) };
    if hardened.is_err() {
        return ExitCode::from(EXIT_UNSAFE);
    }
    let Said {
        place,
        limited,
        dial,
        rest,
    } = match said {
        Ok(said) => said,
        Err(problem) => return spp_server::usage(&problem),
    };
    #[expect(
        unsafe_code,
        reason = "descriptors come from whoever started this process"
    )]
    // SAFETY: they were open when this process began and are named once each, as `place` sees to; nobody has opened
    // any since.
    let group = match unsafe { LimitGroup::given(&limited) } {
        Ok(group) => (!limited.is_empty()).then_some(group),
        Err(problem) => return spp_server::usage(&format!("--limited: {problem}")),
    };
    if let Some(socket) = dial
        && let Err(status) = spp_server::reached_through(&socket)
    {
        return status;
    }
    let main = ProviderMain {
        name: "engine",
        version: env!("CARGO_PKG_VERSION"),
        about: "The engine of sandboxes, to be placed where the tools run.",
        capabilities: capabilities(),
        options_schema: Some(r#"{"type":"object","additionalProperties":false}"#),
        arguments: Some(arguments::HELP),
        provider: Box::new(move || {
            let provider = EngineProvider::new(ProviderOptions {
                name: "engine".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                place,
            });
            Ok(Arc::new(match group {
                Some(group) => provider.limited_by(group),
                None => provider,
            }))
        }),
    };
    spp_server::main_with(main, &rest)
}

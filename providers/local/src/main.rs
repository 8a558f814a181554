//! `spp-provider-local`: sandboxes that are directories of this machine, with your own privileges.
//!
//! Nothing is isolated here, and every descriptor says so. What a policy asks for and would need
//! isolation is refused (`sandbox_engine::provider`).
//!
//! Not here: any verb. The engine does them, in this process.

use std::process::ExitCode;
use std::sync::Arc;

use sandbox_engine::provider::capabilities;
use sandbox_engine::{EngineProvider, Place, ProviderOptions};
use spp_server::ProviderMain;

fn main() -> ExitCode {
    #[expect(
        unsafe_code,
        reason = "inherited descriptors are closed before any is opened"
    )]
    // SAFETY: this is the first thing that is done, and nothing is open but 0, 1 and 2.
    let hardened = unsafe { sandbox_engine::harden([]) };
    spp_server::main(ProviderMain {
        name: "local",
        version: env!("CARGO_PKG_VERSION"),
        about: "Sandboxes that are directories of this machine, with your own privileges.",
        capabilities: capabilities(),
        options_schema: Some(r#"{"type":"object","additionalProperties":false}"#),
        arguments: None,
        provider: Box::new(|| {
            // Told here, where the log has been started and nothing was asked for yet.
            if let Err(error) = hardened {
                tracing::warn!("this process can be looked into by others of this user: {error}");
            }
            Ok(Arc::new(EngineProvider::new(ProviderOptions {
                name: "local".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                place: Place {
                    notes: vec![
                        "commands run in your own tree and with your own privileges; nothing is kept away that no policy asks for"
                            .into(),
                    ],
                    ..Place::open("local")
                },
            })))
        }),
    })
}

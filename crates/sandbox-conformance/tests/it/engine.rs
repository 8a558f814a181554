//! The suite on the engine, in this process and without a wire.

use std::sync::Arc;

use sandbox_conformance::{Failure, Harness, OnThisMachine};
use sandbox_engine::{EngineProvider, Place, ProviderOptions};

/// The engine as a provider of this process.
pub(crate) fn provider() -> Arc<EngineProvider> {
    Arc::new(EngineProvider::new(ProviderOptions {
        name: "engine".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        place: Place::open("engine"),
    }))
}

async fn engine() -> Result<Box<dyn Harness>, Failure> {
    Ok(Box::new(OnThisMachine::new(provider())))
}

sandbox_conformance::suite!(engine);

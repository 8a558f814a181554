//! A provider's log: one JSON object a line on standard error, as severe as the host asks for.
//!
//! Not here: what becomes of the lines. The host drains them, whatever they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::{Layer, Registry, fmt};

use crate::serve::LogLevel;

/// Severities by how much they let through.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];
/// Until the host says otherwise: `info`.
const DEFAULT: usize = 2;

/// Starts logging for this process. Returns how to change the severity; a name that is not known
/// changes nothing.
pub(crate) fn start() -> LogLevel {
    let severity = Severity(Arc::new(AtomicUsize::new(DEFAULT)));
    let lines = fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr)
        .with_filter(severity.clone());
    // A provider that logs in its own way keeps it.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(lines));
    Arc::new(move |name| {
        if let Some(level) = LEVELS.iter().position(|(known, _)| *known == name) {
            severity.0.store(level, Ordering::Relaxed);
            tracing::callsite::rebuild_interest_cache();
        }
    })
}

#[derive(Clone)]
struct Severity(Arc<AtomicUsize>);

impl Severity {
    fn level(&self) -> LevelFilter {
        LEVELS[self.0.load(Ordering::Relaxed)].1
    }
}

impl<S> Filter<S> for Severity {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        *metadata.level() <= self.level()
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if *metadata.level() <= self.level() {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level())
    }
}

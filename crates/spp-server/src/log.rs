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

    fn lets_through(&self, metadata: &Metadata<'_>) -> bool {
        // The JSON-RPC library traces whole messages, and those hold what nobody may log: the
        // values of variables, the content of files.
        let level = if metadata.target().starts_with("jsonrpsee") {
            self.level().min(LevelFilter::WARN)
        } else {
            self.level()
        };
        *metadata.level() <= level
    }
}

impl<S> Filter<S> for Severity {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.lets_through(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.lets_through(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What passes, at a severity of that name.
    fn passed(name: &str) -> Vec<String> {
        #[derive(Default, Clone)]
        struct Seen(Arc<Mutex<Vec<String>>>);

        impl<S: tracing::Subscriber> Layer<S> for Seen {
            fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
                let metadata = event.metadata();
                let text = format!("{} {}", metadata.target(), metadata.level());
                self.0.lock().expect("not poisoned").push(text);
            }
        }

        let level = LEVELS
            .iter()
            .position(|(known, _)| *known == name)
            .expect("a severity");
        let seen = Seen::default();
        let layer = seen.clone().with_filter(Severity(Arc::new(level.into())));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            tracing::callsite::rebuild_interest_cache();
            tracing::warn!(target: "ours", "x");
            tracing::trace!(target: "ours", "x");
            tracing::warn!(target: "jsonrpsee-client", "x");
            tracing::trace!(target: "jsonrpsee-client", "a whole message");
        });
        let seen = seen.0.lock().expect("not poisoned");
        seen.clone()
    }

    #[test]
    fn the_host_chooses_the_severity_and_messages_are_never_logged() {
        assert_eq!(passed("error"), [""; 0]);
        assert_eq!(passed("info"), ["ours WARN", "jsonrpsee-client WARN"]);
        assert_eq!(
            passed("trace"),
            ["ours WARN", "ours TRACE", "jsonrpsee-client WARN"]
        );
    }
}

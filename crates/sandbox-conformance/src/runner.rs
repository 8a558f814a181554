//! Running checks on an executable, one after the other.
//!
//! Checks of the wire start a process each. Checks of behaviour share one, through a client as a host
//! has it; when it ends or hangs, it is started again for the next check, and that is said.
//!
//! **Invariants.** No check takes longer than its limit, whatever the provider does. After
//! [`Runner::finish`] nothing is left of what was started.
//!
//! Not here: what is printed ([`report`](crate::report)).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::{Ctx, Provider};
use sandbox_host::StartError;
use sandbox_host::direct::{Connected, DirectProvider};
use serde_json::Value;

use crate::catalogue::Item;
use crate::check::{Check, Failure, Passed};
use crate::expected::Expected;
use crate::harness::{Elsewhere, Harness, OnThisMachine};
use crate::orphans::Orphans;
use crate::report::{About, Finding, Outcome};
use crate::wire::Subject;
use crate::wire::subject::Workspaces;

/// What checks are run with.
pub struct RunOptions {
    /// Where workspaces come from.
    pub workspaces: Workspaces,
    /// A directory for workspaces; removing it is the caller's.
    pub scratch: PathBuf,
    /// The provider's own options, as JSON text.
    pub options: Option<String>,
    /// How long one check may take.
    pub limit: Duration,
    /// Failures that are known.
    pub expected: Expected,
}

/// Runs checks.
pub struct Runner {
    provider: Arc<DirectProvider>,
    subject: Subject,
    connected: Option<Connected>,
    orphans: Arc<Orphans>,
    options: RunOptions,
}

impl Runner {
    /// Starts nothing.
    #[must_use]
    pub fn new(provider: DirectProvider, options: RunOptions) -> Self {
        let provider = Arc::new(provider);
        let orphans = Arc::new(Orphans::adopt());
        let for_wire: Option<Value> = options
            .options
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok());
        Self {
            subject: Subject::new(
                Arc::clone(&provider),
                options.workspaces,
                options.scratch.clone(),
                for_wire,
                Arc::clone(&orphans),
            ),
            provider,
            connected: None,
            orphans,
            options,
        }
    }

    /// Starts the provider once, and says who it is.
    ///
    /// # Errors
    ///
    /// It could not be started, or did not answer as a provider does.
    pub async fn meet(&mut self, command: Vec<String>) -> Result<About, StartError> {
        let connected = self.provider.connect(&Ctx::new()).await?;
        let info = connected.provider().info();
        connected.stop().await;
        Ok(About {
            command,
            name: info.name.clone(),
            version: info.version.clone(),
            capabilities: info
                .capabilities
                .iter()
                .map(|capability| format!("{capability:?}"))
                .collect(),
        })
    }

    /// Runs one check.
    pub async fn run(&mut self, item: Item) -> Finding {
        let start = Instant::now();
        let (result, stderr, note) = match item {
            Item::Wire(check) => {
                // One process at a time, so that what is left behind has one author.
                self.disconnect().await;
                let looked = tokio::time::timeout(self.options.limit, check.look(&self.subject));
                let result = looked.await.unwrap_or_else(|_| Err(self.too_long()));
                let stderr = self.subject.take_last_words();
                self.provider.ended().await;
                self.orphans.sweep().await;
                (result, stderr.0, None)
            }
            Item::Behaviour(check) => self.behave(check).await,
        };
        let expected = self.options.expected.reason(&item.id());
        let (outcome, failure) = match (result, expected) {
            (Ok(_), Some(_)) => (Outcome::Stale, String::new()),
            (Ok(Passed::Kept), None) => (Outcome::Passed, String::new()),
            (Ok(Passed::NotDeclared(capability)), None) => {
                (Outcome::NotDeclared(capability), String::new())
            }
            (Ok(Passed::OutOfSight), None) => (Outcome::OutOfSight, String::new()),
            (Err(failure), Some(reason)) => (
                Outcome::ExpectedFailure(reason.to_owned()),
                failure.to_string(),
            ),
            (Err(failure), None) => (Outcome::Failed, failure.to_string()),
        };
        Finding {
            stderr: if outcome == Outcome::Failed {
                String::from_utf8_lossy(&stderr).trim_end().to_owned()
            } else {
                String::new()
            },
            item,
            outcome,
            failure,
            note,
            took: start.elapsed(),
        }
    }

    /// Ends everything that was started, and waits until it is gone.
    pub async fn finish(&mut self) {
        self.disconnect().await;
        self.provider.ended().await;
        self.orphans.sweep().await;
    }

    async fn behave(
        &mut self,
        check: &'static Check,
    ) -> (Result<Passed, Failure>, Vec<u8>, Option<String>) {
        let mut note = None;
        let provider = match self.connect().await {
            Ok(provider) => provider,
            Err(error) => {
                let failure =
                    Failure::new(format_args!("the provider could not be started: {error}"));
                return (Err(failure), Vec::new(), None);
            }
        };
        let harness = self.harness(provider);
        let limit = self.options.limit;
        // The check bounds each of its steps; this bounds them together.
        let looked = tokio::time::timeout(limit * 2, check.run(&*harness, limit)).await;
        let result = looked.unwrap_or_else(|_| Err(self.too_long()));
        let mut stderr = Vec::new();
        if let Some(connected) = &self.connected {
            stderr = connected.stderr().0;
            if let Some(end) = connected.end() {
                note = Some(format!("{end}; it is started again for the next check"));
                self.disconnect().await;
            } else if result.is_err() {
                // What a failed check left behind, or broke, must not fail the next one.
                self.disconnect().await;
            }
        }
        (result, stderr, note)
    }

    async fn connect(&mut self) -> Result<Arc<dyn Provider>, StartError> {
        if let Some(connected) = &self.connected {
            if connected.end().is_none() {
                return Ok(connected.provider());
            }
            self.disconnect().await;
        }
        let connected = self.provider.connect(&Ctx::new()).await?;
        let provider = connected.provider();
        self.connected = Some(connected);
        Ok(provider)
    }

    async fn disconnect(&mut self) {
        if let Some(connected) = self.connected.take() {
            connected.stop().await;
            self.orphans.sweep().await;
        }
    }

    fn harness(&self, provider: Arc<dyn Provider>) -> Box<dyn Harness> {
        let options = self.options.options.clone();
        match self.options.workspaces {
            Workspaces::Here => Box::new(
                OnThisMachine::new(provider)
                    .with_options(options)
                    .within(self.options.scratch.clone()),
            ),
            Workspaces::Theirs => Box::new(Elsewhere::new(provider, options)),
        }
    }

    fn too_long(&self) -> Failure {
        Failure::new(format_args!(
            "the check did not end within {} s",
            self.options.limit.as_secs()
        ))
    }
}

//! What the `main` of a provider does.
//!
//! ```no_run
//! # use std::process::ExitCode;
//! # use std::sync::Arc;
//! # use sandbox_core::{Capabilities, Provider, Result};
//! # fn capabilities() -> Capabilities { Capabilities::mandatory() }
//! # fn provider() -> Result<Arc<dyn Provider>> { unimplemented!() }
//! fn main() -> ExitCode {
//!     spp_server::main(spp_server::ProviderMain {
//!         name: "thing",
//!         version: env!("CARGO_PKG_VERSION"),
//!         about: "Sandboxes on a thing of yours.",
//!         capabilities: capabilities(),
//!         options_schema: None,
//!         arguments: None,
//!         provider: Box::new(provider),
//!     })
//! }
//! ```
//!
//! Started by hand, without the cookie that a host sets, it explains itself: a provider that waits in
//! silence for JSON on a terminal helps nobody.
//!
//! **Invariant:** nothing is made, asked or started for `--spp-manifest`, `--version` and `--help`,
//! so they answer offline and without what the provider needs.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use sandbox_core::{Cancel, Capabilities, Provider, Result};
use spp_link::handover::{self, EXIT_NOT_REACHED, SECRET_VARIABLE};
use spp_protocol::message::handshake::{CapabilityTree, Manifest, Offer};
use spp_protocol::message::value::JsonText;
use spp_protocol::{EXIT_NOT_A_HOST, HOST_PID_VARIABLE, HOST_VARIABLE, version};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::serve::{Ended, ServeError, ServeOptions, serve};
use crate::stdio::{Flushed, stdio};

/// How often a provider looks whether its host is still there, beside waiting for the end of its
/// input.
const HOST_CHECK: Duration = Duration::from_secs(5);
/// A provider that failed to start, or to serve.
const EXIT_FAILED: u8 = 70;
/// Arguments that make no sense.
const EXIT_USAGE: u8 = 64;

/// What [`main`] needs to know.
pub struct ProviderMain {
    /// Its short name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it is, in one sentence, for `--help`.
    pub about: &'static str,
    /// What it can do beyond the mandatory verbs, for `--spp-manifest`.
    pub capabilities: Capabilities,
    /// JSON Schema of its options, as JSON text, for `--spp-manifest`.
    pub options_schema: Option<&'static str>,
    /// Arguments of its own, one a line and described as those of every provider are, for `--help`.
    /// Whoever has some reads them before calling [`main_with`], and leaves the rest to it.
    pub arguments: Option<&'static str>,
    /// Makes the provider. Called once, inside the runtime, when a host is served.
    pub provider: Box<dyn FnOnce() -> Result<Arc<dyn Provider>>>,
}

impl std::fmt::Debug for ProviderMain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderMain")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Does what the command line asks: serves a host, or answers `--spp-manifest`, `--version`, `--help`.
///
/// Exit status 0 when done or when the host went away; 64 for a start by hand and for arguments that
/// make no sense; 70 if the provider could not be made or served.
#[must_use]
pub fn main(provider: ProviderMain) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    main_with(provider, &arguments)
}

/// As [`main`], with these arguments in place of the command line's.
#[must_use]
pub fn main_with(provider: ProviderMain, arguments: &[OsString]) -> ExitCode {
    let argument = match arguments {
        [] => None,
        [one] => Some(one.to_string_lossy().into_owned()),
        _ => return usage("more than one argument was given"),
    };
    match argument.as_deref() {
        None if std::env::var_os(HOST_VARIABLE).is_some_and(|value| value == "1") => host(provider),
        None => by_hand(&provider),
        Some("--spp-manifest") => manifest(&provider),
        Some("--version") => print(&format!("{} {}", provider.name, provider.version)),
        Some("--help" | "-h") => help(&provider),
        Some(other) => usage(&format!("there is no option `{other}`")),
    }
}

/// How long a thread that waited for a disk waits for more such work. One that waits costs some 100 KiB, and there may be a
/// thousand engines that do nothing; to make one costs some 20 us.
const THREADS_WAIT: Duration = Duration::from_secs(1);

fn host(main: ProviderMain) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(THREADS_WAIT)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("failed to start: {error}")),
    };
    let served = runtime.block_on(serve_stdio(main));
    // A thread of the provider's that is stuck must not keep the process.
    runtime.shutdown_background();
    let (ended, flushed) = match served {
        Ok(served) => served,
        Err(reason) => return failed(&reason),
    };
    flushed.wait();
    match ended {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

async fn serve_stdio(main: ProviderMain) -> Result<(Result<Ended, ServeError>, Flushed), String> {
    let log_level = crate::log::start();
    let stdio = stdio().map_err(|error| format!("failed to take the protocol's pipes: {error}"))?;
    let provider = (main.provider)().map_err(|error| error.to_string())?;
    let (reader, writer, flushed) = stdio.into_parts();
    let options = ServeOptions {
        log_level: Some(log_level),
        ..ServeOptions::default()
    };
    tokio::spawn(watch_host(options.stop.clone()));
    // The first process of a place is spared by the kernel every signal from inside that it has no handler for. With
    // one, whatever runs there could end it.
    if !rustix::process::getpid().is_init() {
        let terminate = signal(SignalKind::terminate())
            .map_err(|error| format!("failed to listen for SIGTERM: {error}"))?;
        tokio::spawn(watch_signal(terminate, options.stop.clone()));
    }
    // As a task, because waking the future that a thread blocks on costs a system call each time,
    // even from that thread itself: three of them in every call that runs something.
    let served = tokio::spawn(async move { serve(provider, reader, writer, options).await });
    let ended = served
        .await
        .map_err(|error| format!("failed while serving: {error}"))?;
    Ok((ended, flushed))
}

/// Notices the end of a host whose pipes somebody else still holds open. Only where the host is the
/// parent: a provider that was started through something else has the end of its input to go by.
async fn watch_host(stop: Cancel) {
    let parent = rustix::process::getppid();
    let host = std::env::var(HOST_PID_VARIABLE)
        .ok()
        .and_then(|pid| pid.parse().ok())
        .and_then(Pid::from_raw);
    if host.is_none() || parent != host {
        return;
    }
    while rustix::process::getppid() == parent {
        tokio::time::sleep(HOST_CHECK).await;
    }
    tracing::warn!("the host is gone");
    stop.cancel();
}

/// SIGTERM means what the end of the input means. Without this it would end the process where it
/// stands, and what it made would be left.
async fn watch_signal(mut terminate: Signal, stop: Cancel) {
    terminate.recv().await;
    tracing::info!("SIGTERM came");
    stop.cancel();
}

fn by_hand(main: &ProviderMain) -> ExitCode {
    let name = main.name;
    complain(&format!(
        "{name} is a provider of sandboxes. It speaks the Sandbox Provider Protocol with the program \
         that starts it, and does nothing by itself.\n\
         To use it: `spp run --location {name} -- COMMAND`, or `spp doctor` to see whether it works \
         here.\n\
         --help says more."
    ));
    ExitCode::from(EXIT_NOT_A_HOST)
}

fn manifest(main: &ProviderMain) -> ExitCode {
    let options_schema = match main.options_schema.map(JsonText::parse).transpose() {
        Ok(schema) => schema,
        Err(error) => return failed(&format!("the schema of the options is no JSON: {error}")),
    };
    let manifest = Manifest {
        name: main.name.into(),
        version: main.version.into(),
        protocol: Offer {
            majors: version::MAJORS.to_vec(),
        },
        capabilities: CapabilityTree::encode(&main.capabilities),
        options_schema,
    };
    print(&serde_json::to_string(&manifest).expect("a manifest has string keys only"))
}

fn help(main: &ProviderMain) -> ExitCode {
    let (own, listed) = match main.arguments {
        Some(arguments) => (" [ARGUMENTS]", format!("\n\n{arguments}")),
        None => ("", String::new()),
    };
    print(&format!(
        "{about}\n\n\
         Usage: {name}{own} [--spp-manifest | --version | --help]\n\n\
         Without an option it serves the Sandbox Provider Protocol on standard input and output; \
         the host that starts it sets {HOST_VARIABLE}=1.\n\n\
         --spp-manifest  print name, version, capabilities and the schema of the options as JSON\n\
         --version       print name and version\n\
         --help          print this{listed}",
        about = main.about,
        name = main.name,
    ))
}

fn print(text: &str) -> ExitCode {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

/// Says that an argument makes no sense, and returns the status to exit with.
#[must_use]
pub fn usage(problem: &str) -> ExitCode {
    complain(&format!("{problem}; see --help"));
    ExitCode::from(EXIT_USAGE)
}

/// Connects to a socket, and takes what is handed over there for this process's standard input, output and error. To be
/// called before [`main_with`], by an engine that somebody else's daemon has started.
///
/// # Errors
///
/// The status to exit with: [`EXIT_NOT_REACHED`]; why is said on standard error.
pub fn reached_through(socket: &Path) -> Result<(), ExitCode> {
    let secret = std::env::var(SECRET_VARIABLE).unwrap_or_default();
    handover::take(socket, &secret).map_err(|error| {
        complain(&format!("{} cannot be reached: {error}", socket.display()));
        ExitCode::from(EXIT_NOT_REACHED)
    })
}

fn failed(reason: &str) -> ExitCode {
    complain(reason);
    ExitCode::from(EXIT_FAILED)
}

fn complain(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

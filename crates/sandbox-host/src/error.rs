//! Why a provider could not be started, and why a location could not be opened.
//!
//! Each fault is a variant of its own, because each needs something else done about it, and the
//! text says what. Standard error of the provider is part of the text: it is the only witness of
//! most failures.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use sandbox_core::{Error, ErrorKind, Verb};

use crate::config::ConfigError;

/// Why a location could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration does not allow it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its provider could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its provider could not give a sandbox.
    #[error(transparent)]
    Sandbox(#[from] Error),
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Config(error) => {
                Error::refused(Verb::Acquire, ErrorKind::InvalidArgument).detail(error)
            }
            OpenError::Start(error) => error.into(),
            OpenError::Sandbox(error) => error,
        }
    }
}

/// Why a provider could not be started. Nothing was acquired.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such executable.
    #[error("the provider `{provider}` was not found: {}; {}", where_looked(provider, .command.as_deref(), .beside.as_deref()), how_to_get(.command.as_deref(), provider))]
    NotFound {
        /// The provider.
        provider: String,
        /// The configured command, if there is one.
        command: Option<PathBuf>,
        /// The directory of the running executable, which was looked in first.
        beside: Option<PathBuf>,
    },
    /// The file is there and you may not execute it.
    #[error("the provider `{provider}` cannot be executed: {} is not an executable file for you; set its mode with `chmod +x`, or point `command` at another", path.display())]
    NotExecutable {
        /// The provider.
        provider: String,
        /// The file.
        path: PathBuf,
    },
    /// A directory is there.
    #[error("the provider `{provider}` cannot be executed: {} is a directory; point `command` at the executable in it", path.display())]
    IsADirectory {
        /// The provider.
        provider: String,
        /// The directory.
        path: PathBuf,
    },
    /// A variable that its configuration refers to is not set.
    #[error(
        "the provider `{provider}` was not started: `{name}` is configured as `${{env:{missing}}}`, and {missing} is not set; set it, or remove `{name}` from the provider's `env`"
    )]
    VariableNotSet {
        /// The provider.
        provider: String,
        /// The variable to be set.
        name: String,
        /// The variable that is not set.
        missing: String,
    },
    /// The operating system refused to start it.
    #[error("the provider `{provider}` could not be started: executing {} failed", path.display())]
    Spawn {
        /// The provider.
        provider: String,
        /// The executable.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It ended before it had answered.
    #[error("the provider `{provider}` ended before it answered: {ending}{stderr}")]
    Ended {
        /// The provider.
        provider: String,
        /// How it ended.
        ending: Ending,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// It said nothing in time.
    #[error(
        "the provider `{provider}` did not answer within {waited:?}; run its executable with `--spp-manifest` to see whether it is a provider at all{stderr}"
    )]
    Silent {
        /// The provider.
        provider: String,
        /// How long it was waited for.
        waited: Duration,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// It closed its output and ran on.
    #[error("the provider `{provider}` closed its standard output before it answered{stderr}")]
    Closed {
        /// The provider.
        provider: String,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// It speaks with headers in front of its messages.
    #[error(
        "the provider `{provider}` frames its messages with `Content-Length` headers; this protocol is one JSON message a line"
    )]
    Framed {
        /// The provider.
        provider: String,
    },
    /// It writes something that is no message of the protocol.
    #[error(
        "the provider `{provider}` does not speak the protocol; its output begins {}{stderr}",
        quoted(begins)
    )]
    Babble {
        /// The provider.
        provider: String,
        /// How its standard output begins.
        begins: String,
        /// The end of its standard error.
        stderr: StderrTail,
        /// What the connection made of it.
        source: Error,
    },
    /// The two sides share no major version of the protocol.
    #[error(
        "the provider `{provider}` and this host share no version of the protocol: this host speaks {}; update the older of the two{stderr}",
        majors()
    )]
    Version {
        /// The provider.
        provider: String,
        /// The end of its standard error.
        stderr: StderrTail,
        /// The versions of both sides.
        source: Error,
    },
    /// It refused the handshake in another way.
    #[error("the provider `{provider}` failed the handshake{stderr}")]
    Handshake {
        /// The provider.
        provider: String,
        /// The end of its standard error.
        stderr: StderrTail,
        /// How it failed.
        source: Error,
    },
    /// It failed too often to be started again.
    #[error("the provider `{provider}` failed {failures} times within {} and is not started again for {} s; last: {last}", minutes(*within), retry_after.as_secs())]
    GaveUp {
        /// The provider.
        provider: String,
        /// How often it failed.
        failures: usize,
        /// In what time.
        within: Duration,
        /// When it may be tried again.
        retry_after: Duration,
        /// Its last failure.
        last: String,
    },
    /// The caller cancelled, or the call's deadline passed, while it was waited for.
    #[error(transparent)]
    Stopped(Error),
}

impl From<StartError> for Error {
    /// As the port tells it: nothing happened, and the whole text is the detail.
    fn from(error: StartError) -> Self {
        let (kind, retry_after) = match &error {
            StartError::Stopped(_) => (ErrorKind::Cancelled, None),
            StartError::Version { .. } => (ErrorKind::UnsupportedVersion, None),
            StartError::GaveUp { retry_after, .. } => {
                (ErrorKind::ProviderUnavailable, Some(*retry_after))
            }
            _ => (ErrorKind::ProviderUnavailable, None),
        };
        if let StartError::Stopped(error) = error {
            return error;
        }
        let told = Error::refused(Verb::Acquire, kind).detail(&error);
        let told = match retry_after {
            Some(time) => told.retry_after_ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            None => told,
        };
        match error {
            StartError::Spawn { source, .. } => told.caused_by(source),
            StartError::Babble { source, .. }
            | StartError::Version { source, .. }
            | StartError::Handshake { source, .. } => told.caused_by(source),
            _ => told,
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending(pub ExitStatus);

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::unix::process::ExitStatusExt as _;
        match (self.0.code(), self.0.signal()) {
            (Some(code), _) => write!(f, "it exited with {code}"),
            (None, Some(signal)) => write!(f, "signal {signal} ended it"),
            (None, None) => write!(f, "{}", self.0),
        }
    }
}

/// The end of what a provider wrote on standard error; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrTail(pub Vec<u8>);

impl fmt::Display for StderrTail {
    /// As an indented block under a line of its own, or nothing if there is nothing. Control
    /// characters are escaped: what a provider writes must not reach a terminal as commands.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        let text = text.trim_end();
        if text.is_empty() {
            return Ok(());
        }
        f.write_str("; its standard error ends:")?;
        for line in text.lines() {
            write!(f, "\n    {}", visible(line))?;
        }
        Ok(())
    }
}

/// A line without control characters other than tabs, and without characters that nobody sees: what
/// a provider wrote must neither command the terminal that it is shown on, nor read there as
/// something else than it is.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let hidden = (character.is_control() && character != '\t') || is_deceptive(character);
            let escaped = hidden.then(|| character.escape_default());
            let plain = (!hidden).then_some(character);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Whether a character changes the order of what is around it, breaks the line, or takes no space.
/// The joiners that scripts and emoji need are none of these.
fn is_deceptive(character: char) -> bool {
    matches!(
        character,
        '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

fn majors() -> String {
    let majors: Vec<String> = spp_protocol::version::MAJORS
        .iter()
        .map(u32::to_string)
        .collect();
    majors.join(", ")
}

fn quoted(text: &str) -> String {
    format!("`{}`", visible(text.trim_end()))
}

fn minutes(time: Duration) -> String {
    format!("{} min", time.as_secs() / 60)
}

fn where_looked(
    provider: &str,
    command: Option<&std::path::Path>,
    beside: Option<&std::path::Path>,
) -> String {
    let program = match command {
        Some(path) if path.is_absolute() => return format!("there is no {}", path.display()),
        Some(name) => return format!("there is no `{}` in PATH", name.display()),
        None => format!("{}{provider}", crate::locate::PREFIX),
    };
    match beside {
        Some(directory) => format!(
            "there is no `{program}` in {}, nor in PATH",
            directory.display()
        ),
        None => format!("there is no `{program}` in PATH"),
    }
}

fn how_to_get(command: Option<&std::path::Path>, provider: &str) -> String {
    match command {
        Some(_) => "correct `command` in your configuration file".to_owned(),
        None => format!(
            "install `{}{provider}`, or set `command` under [sandbox.providers.{provider}] in your configuration file",
            crate::locate::PREFIX
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_wrote_cannot_command_a_terminal() {
        let tail = StderrTail(b"one\n\x1b[31mtwo\tthree\r\n\n".to_vec());
        assert_eq!(
            tail.to_string(),
            "; its standard error ends:\n    one\n    \\u{1b}[31mtwo\tthree"
        );
        assert_eq!(StderrTail::default().to_string(), "");
    }

    #[test]
    fn what_a_provider_wrote_does_not_read_as_something_else() {
        assert_eq!(
            visible("exe.\u{202e}txt\u{2066}\u{200b}\u{feff}\u{2028}ok\u{e0041}"),
            "exe.\\u{202e}txt\\u{2066}\\u{200b}\\u{feff}\\u{2028}ok\\u{e0041}"
        );
        for plain in ["naïve", "e\u{301}", "नमस्ते", "👩\u{200d}👩", "a\tb"] {
            assert_eq!(visible(plain), plain);
        }
    }
}

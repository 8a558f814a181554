//! How `spp` says that it failed: one sentence, its causes, and an exit status.

use std::error::Error as StdError;
use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};

use sandbox_core::{Effect, Error, ErrorKind, Verb};
use sandbox_host::OpenError;
use sandbox_host::error::visible;
use serde_json::json;

/// Shorthand for results of commands.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// What `spp run` and `spp shell` exit with when `spp` itself failed.
pub(crate) const OWN_FAILURE: u8 = 125;

/// A failure of `spp` itself, as opposed to one of the command it ran.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Box<dyn StdError + Send + Sync>,
    code: Option<u8>,
}

impl Failure {
    /// A failure that is one sentence.
    pub(crate) fn new(sentence: impl fmt::Display) -> Self {
        Self {
            error: sentence.to_string().into(),
            code: None,
        }
    }

    /// A failed input or output, and what was being done.
    pub(crate) fn io(doing: impl fmt::Display, error: std::io::Error) -> Self {
        Self {
            error: Box::new(Io {
                doing: doing.to_string(),
                error,
            }),
            code: None,
        }
    }

    /// Sets the exit status.
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = Some(code);
        self
    }

    /// Gives a failure of `verb` to start `command` the exit status that shells give it, and any other
    /// the status of a failure of `spp` itself.
    pub(crate) fn of_start(self, verb: Verb, command: &[OsString]) -> Self {
        let program = command.first().map(|program| program.to_string_lossy());
        let code = match self.verb() {
            Some(error) if error.verb() == verb && Some(error.subject()) == program.as_deref() => {
                match error.kind() {
                    ErrorKind::NotFound => 127,
                    ErrorKind::SpawnFailed
                    | ErrorKind::PermissionDenied
                    | ErrorKind::NotAFile
                    | ErrorKind::NotADirectory
                    | ErrorKind::OutsideRoot
                    | ErrorKind::TooLarge => 126,
                    _ => OWN_FAILURE,
                }
            }
            _ => OWN_FAILURE,
        };
        self.code(code)
    }

    /// The exit status, or `default` if none was set.
    pub(crate) fn code_or(&self, default: u8) -> u8 {
        self.code.unwrap_or(default)
    }

    /// The failed verb, if it is one.
    pub(crate) fn verb(&self) -> Option<&Error> {
        self.error.downcast_ref()
    }

    /// The failure and its causes on one line.
    pub(crate) fn sentence(&self) -> String {
        let mut text = self.error.to_string();
        for cause in self.causes() {
            text.push_str(": ");
            text.push_str(&cause);
        }
        text
    }

    fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        causes
    }

    /// Says it on standard error.
    pub(crate) fn say(&self) {
        let mut text = format!("{}\n", continued(&self.error.to_string()));
        for cause in self.causes() {
            text.push_str(&format!("  caused by: {}\n", continued(&cause)));
        }
        if let Some(error) = self.verb()
            && error.effect() == Effect::Unknown
        {
            text.push_str("  whether it had any effect is not known; look before doing it again\n");
        }
        tell(&text);
    }

    /// Says it as a JSON object.
    pub(crate) fn json(&self) -> serde_json::Value {
        let causes = self.causes();
        let mut object = json!({ "message": self.error.to_string() });
        if !causes.is_empty() {
            object["causes"] = causes.into();
        }
        if let Some(error) = self.verb() {
            object["verb"] = error.verb().name().into();
            object["kind"] = snake(&format!("{:?}", error.kind())).into();
            object["effect"] = match error.effect() {
                Effect::None => "none".into(),
                Effect::Unknown => "unknown".into(),
            };
            object["retryable"] = error.is_retryable().into();
            if let Some(expected) = error.expected_value() {
                object["expected"] = expected.into();
            }
        }
        json!({ "error": object })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error: Box::new(error),
            code: None,
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Sandbox(error) => error.into(),
            other => Self {
                error: Box::new(other),
                code: None,
            },
        }
    }
}

impl From<sandbox_host::config::ConfigError> for Failure {
    fn from(error: sandbox_host::config::ConfigError) -> Self {
        OpenError::from(error).into()
    }
}

/// `NotFound` as `not_found`, which is how kinds are written everywhere outside of Rust.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

#[derive(Debug)]
struct Io {
    doing: String,
    error: std::io::Error,
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}", self.doing)
    }
}

impl StdError for Io {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.error)
    }
}

/// Says something that is no failure, on standard error.
pub(crate) fn note(sentence: impl fmt::Display) {
    tell(&format!("{sentence}\n"));
}

/// `spp: `, in colour on a terminal unless `NO_COLOR` is set.
fn prefix() -> &'static str {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || !std::io::stderr().is_terminal();
    if plain {
        "spp: "
    } else {
        "\x1b[1;31mspp:\x1b[0m "
    }
}

/// A text as a part of one of ours: lines after its first are indented, so that none of them passes for
/// a line of `spp` itself. Some of it is what a provider wrote.
pub(crate) fn continued(text: &str) -> String {
    let mut lines = text.lines();
    let mut joined = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        joined.push('\n');
        if !line.starts_with(' ') {
            joined.push_str("    ");
        }
        joined.push_str(line);
    }
    joined
}

/// A text of several lines for a terminal. Some of it is what a provider wrote.
pub(crate) fn shown(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    lines.join("\n")
}

fn tell(text: &str) {
    let text = format!("{}{}", prefix(), shown(text));
    // Nobody is left to be told that standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_a_provider_adds_does_not_pass_for_one_of_ours() {
        assert_eq!(continued("no\r\nspp: fine\n"), "no\n    spp: fine");
        let tail = "ended; its standard error ends:\n    out of cheese";
        assert_eq!(continued(tail), tail);
        assert_eq!(continued(""), "");
    }
}

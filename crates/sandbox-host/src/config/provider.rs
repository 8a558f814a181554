//! `[sandbox.providers.NAME]`: how a provider is started and what it is told.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::document::{Section, list};
use super::error::ConfigError;
use super::policy::variable;
use super::template::Template;
use super::{DEFAULT_LOCATION, options};

type Result<T, E = ConfigError> = std::result::Result<T, E>;

/// How a provider is started and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfig {
    /// Its name, which is the location's.
    pub name: String,
    /// Its executable; `None` to look for `spp-provider-NAME`.
    pub command: Option<PathBuf>,
    /// Arguments of the executable.
    pub args: Vec<String>,
    /// Variables of its environment, on top of the few that every provider gets.
    pub env: Vec<(String, Template)>,
    /// Whether sandboxes share a process of it.
    pub pool: Pool,
    /// Its own options: JSON text, passed through untouched.
    pub options: Option<String>,
}

/// Whether sandboxes share a process of their provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// All sandboxes of a host use one process.
    Shared,
    /// Each sandbox has a process of its own, for providers that can serve only one.
    PerSession,
}

impl ProviderConfig {
    /// What holds for a provider that is not configured.
    #[must_use]
    pub fn unconfigured(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            pool: Pool::Shared,
            options: None,
        }
    }

    /// Whether this is the location `local` as it comes with the program, which runs in the caller's own place.
    #[must_use]
    pub fn is_own_place(&self) -> bool {
        self.command.is_none() && self.name == DEFAULT_LOCATION
    }

    pub(super) fn read(name: &str, section: &Section<'_>, directory: &Path) -> Result<Self> {
        section.allow(
            &["command", "args", "env", "pool", "options"],
            &["transport"],
        )?;
        let command = match section.string("command")? {
            None => None,
            Some((text, span)) => Some(command(text, directory).ok_or_else(|| {
                section
                    .invalid(span, "this is not the name of a program")
                    .remedy("write a path, or a name to look up in PATH; arguments go into `args`")
            })?),
        };
        let mut args = Vec::new();
        for (argument, span) in section.strings("args")?.unwrap_or_default() {
            if argument.contains('\0') {
                return Err(section.invalid(span, "an argument has no NUL"));
            }
            args.push(argument.to_owned());
        }
        let mut env = Vec::new();
        if let Some(table) = section.section("env")? {
            for (key, value) in table.entries() {
                let name = variable(&table, key.get_ref(), key.span())?;
                let DeValue::String(text) = value.get_ref() else {
                    return Err(table.wrong(&name, value, "a string"));
                };
                let template = Template::parse(text)
                    .map_err(|problem| table.invalid(value.span(), problem))?;
                env.push((name, template));
            }
        }
        let pool = match section.string("pool")? {
            None | Some(("shared", _)) => Pool::Shared,
            Some(("per-session", _)) => Pool::PerSession,
            Some((_, span)) => {
                return Err(section.invalid(
                    span,
                    format!("`pool` is one of {}", list(&["shared", "per-session"])),
                ));
            }
        };
        let options = match section.section("options")? {
            None => None,
            Some(table) => Some(
                options::json(table.table)
                    .map_err(|refusal| section.invalid(refusal.span, refusal.problem))?,
            ),
        };
        Ok(Self {
            name: name.to_owned(),
            command,
            args,
            env,
            pool,
            options,
        })
    }
}

/// A command as written: a name to look up, or a path, which is relative to the file it is
/// written in and may begin with `~/`.
fn command(text: &str, directory: &Path) -> Option<PathBuf> {
    if text.is_empty() || text.contains('\0') || text.ends_with('/') {
        return None;
    }
    if let Some(below_home) = text.strip_prefix("~/") {
        return Some(super::sources::home()?.join(below_home));
    }
    if text.contains('/') {
        return Some(directory.join(text));
    }
    Some(PathBuf::from(text))
}

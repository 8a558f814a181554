//! What the configuration says of the machine and the directory.
//!
//! The machine's name ends up as an argument of a program, and in commands that the program's configuration has it run
//! (`ProxyCommand` with `%h`), so it is made of characters that mean nothing to a shell.

use std::path::PathBuf;

use sandbox_core::{Error, ErrorKind, Result, Verb};
use serde::Deserialize;

/// The options as JSON Schema, for whoever asks this executable offline.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["host", "root"],
  "properties": {
    "host": {"type": "string", "description": "the machine, as one would write it behind `ssh`: a name of its configuration, HOST, USER@HOST or ssh://USER@HOST:PORT"},
    "root": {"type": "string", "description": "the directory over there: absolute, `~` or beneath `~/`; or `caller`, for the caller's by the name that it has here"},
    "config": {"type": "string", "description": "a configuration file of ssh, absolute, in place of the usual ones"},
    "cache": {"type": "string", "description": "the directory over there to keep the engine in, absolute; made if it is missing; of the usual ones the first that will do by default"}
  }
}"#;

/// What stands for the directory that the caller names.
const CALLERS: &str = "caller";

/// Characters of a machine's name besides letters and digits.
const IN_HOSTS: &str = "-._:@%+/[]";

/// The options, checked. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) host: String,
    pub(crate) root: RootOption,
    pub(crate) config: Option<PathBuf>,
    pub(crate) cache: Option<String>,
}

/// The directory to work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RootOption {
    /// This one, absolute.
    At(String),
    /// This one beneath the account's home; may be empty.
    BeneathHome(String),
    /// The caller's.
    Callers,
}

/// As they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    host: String,
    #[serde(default)]
    root: String,
    config: Option<String>,
    cache: Option<String>,
}

impl Options {
    /// Reads the options of a spec.
    ///
    /// # Errors
    ///
    /// `UnsupportedSpec`, which says what to write.
    pub(crate) fn read(text: Option<&str>) -> Result<Self> {
        let invalid = |detail: String| {
            Error::refused(Verb::Acquire, ErrorKind::UnsupportedSpec)
                .on("the options of `ssh`")
                .detail(detail)
        };
        let written: Written = serde_json::from_str(text.unwrap_or("{}"))
            .map_err(|error| invalid(error.to_string()))?;
        Self::check(written).map_err(invalid)
    }

    fn check(written: Written) -> std::result::Result<Self, String> {
        if written.host.is_empty() {
            return Err(
                "there is no `host`; name the machine in the configuration: \
                 `[sandbox.providers.ssh.options]` and beneath it `host = \"devbox\"`, whatever `ssh devbox` means"
                    .to_owned(),
            );
        }
        host(&written.host)?;
        for (name, value) in [
            ("root", Some(&written.root)),
            ("cache", written.cache.as_ref()),
        ] {
            if value.is_some_and(|value| value.contains(char::is_control)) {
                return Err(format!("`{name}` holds control characters"));
            }
        }
        if let Some(cache) = &written.cache
            && !cache.starts_with('/')
        {
            return Err(format!("`cache` is {cache:?}, and has to be absolute"));
        }
        let config = written.config.map(PathBuf::from);
        if let Some(config) = &config
            && !config.is_absolute()
        {
            return Err(format!("`config` is {config:?}, and has to be absolute"));
        }
        Ok(Self {
            root: root(&written.root, &written.host)?,
            host: written.host,
            config,
            cache: written.cache,
        })
    }
}

/// Whether a name can be nothing but a machine's, to `ssh` and to every shell.
fn host(host: &str) -> std::result::Result<(), String> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || IN_HOSTS.contains(character);
    let address = host.strip_prefix("ssh://").unwrap_or(host);
    // A part that begins with a dash would be an option to what a configuration hands it to.
    let parts = address.split(['@', '/', ':']);
    if !host.chars().all(is_plain) || parts.into_iter().any(|part| part.starts_with('-')) {
        return Err(format!(
            "`host` is {host:?}, and may hold letters, digits and {IN_HOSTS} only, with no dash at the beginning of a part; give \
             the machine such a name by `Host` in ~/.ssh/config"
        ));
    }
    Ok(())
}

fn root(root: &str, host: &str) -> std::result::Result<RootOption, String> {
    if root == CALLERS {
        return Ok(RootOption::Callers);
    }
    if root == "~" {
        return Ok(RootOption::BeneathHome(String::new()));
    }
    if let Some(beneath) = root.strip_prefix("~/") {
        return Ok(RootOption::BeneathHome(beneath.to_owned()));
    }
    if root.starts_with('/') {
        return Ok(RootOption::At(root.to_owned()));
    }
    let said = match root {
        "" => "there is no `root`, and the directory you stand in is on this machine".to_owned(),
        other => format!("`root` is {other:?}, which is neither absolute nor beneath `~/`"),
    };
    Err(format!(
        "{said}; name the directory to work in on {host}: `root = \"~/project\"`, or `root = \"caller\"` if it has the same \
         name on both machines"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Options::read(Some(text)).expect_err(text).to_string()
    }

    fn root_of(root: &str) -> RootOption {
        let text = format!(r#"{{"host": "box", "root": "{root}"}}"#);
        Options::read(Some(&text)).expect(root).root
    }

    #[test]
    fn a_machine_and_a_directory_have_to_be_named() {
        assert!(refused("{}").contains("host = \"devbox\""));
        assert!(refused(r#"{"host": "box"}"#).contains("root = \"~/project\""));
        assert!(refused(r#"{"host": "box", "root": "project"}"#).contains("absolute"));
        assert!(refused(r#"{"host": "box", "root": "~other/x"}"#).contains("absolute"));
        assert_eq!(root_of("/srv/x"), RootOption::At("/srv/x".into()));
        assert_eq!(root_of("~"), RootOption::BeneathHome(String::new()));
        assert_eq!(root_of("~/x/y"), RootOption::BeneathHome("x/y".into()));
        assert_eq!(root_of("caller"), RootOption::Callers);
    }

    #[test]
    fn no_name_of_a_machine_is_an_option_or_means_anything_to_a_shell() {
        for host in [
            "-oProxyCommand=x",
            "me@-oProxyCommand=x",
            "ssh://-oProxyCommand=x",
            "ssh://me@-l",
            "a b",
            "a;b",
            "$(x)",
            "`x`",
            "a|b",
            "a'b",
            "a&b",
            "a>b",
            "a*",
            "a!b",
            "a\\\\b",
            "a\\nb",
            "bo\u{308}x",
        ] {
            let text = format!(r#"{{"host": "{host}", "root": "/"}}"#);
            assert!(refused(&text).contains("`host`"), "{host}");
        }
        for host in [
            "devbox",
            "me@10.0.0.1",
            "ssh://me@box.example.org:2222",
            "fe80::1%eth0",
            "me@[::1]",
            "a-b_c",
        ] {
            let text = format!(r#"{{"host": "{host}", "root": "/"}}"#);
            assert_eq!(Options::read(Some(&text)).expect(host).host, host);
        }
    }

    #[test]
    fn what_nobody_knows_and_what_is_not_absolute_is_refused_by_name() {
        assert!(refused(r#"{"host": "x", "root": "/", "prot": 1}"#).contains("prot"));
        assert!(refused(r#"{"host": "x", "root": "/", "config": "c"}"#).contains("`config`"));
        assert!(refused(r#"{"host": "x", "root": "/", "cache": "~/c"}"#).contains("`cache`"));
        assert!(refused(r#"{"host": "x", "root": "/a\nb"}"#).contains("control"));
    }
}

//! What the configuration says of the program and the image.
//!
//! Everything here ends up as an argument of a program, so a value that begins with a dash is refused, and so is an
//! extra argument that would take back what keeps a container apart.

use std::fmt;

use sandbox_core::{Error, ErrorKind, Result, Verb};
use serde::Deserialize;

use crate::channel::Wish;

/// The options as JSON Schema, for whoever asks this executable offline.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["image"],
  "properties": {
    "image": {"type": "string", "description": "the image; it may hold nothing at all"},
    "program": {"type": "string", "default": "docker", "description": "docker, podman, or a path"},
    "context": {"type": "string", "description": "a context of the program"},
    "host": {"type": "string", "description": "the daemon's address, such as unix:///run/docker.sock"},
    "pull": {"enum": ["missing", "never", "always"], "default": "missing"},
    "user": {"type": "string", "description": "UID or UID:GID of what runs; the owner of the workspace by default"},
    "workspace": {"enum": ["bound", "volume"], "default": "bound",
                  "description": "the directory itself, or a volume of the daemon's that is empty at first and gone with the sandbox"},
    "channel": {"enum": ["auto", "socket", "attached"], "default": "auto",
                "description": "how the engine is reached: a socket where there can be one, only so, or an attached client"},
    "runtime": {"type": "string", "description": "a runtime that the daemon knows, such as runsc"},
    "args": {"type": "array", "items": {"type": "string"},
             "description": "further arguments of `run`, each as --NAME or --NAME=VALUE"}
  }
}"#;

/// The largest number of a user or a group.
const MOST: u32 = i32::MAX.cast_unsigned();

/// What to write where there is no image.
const EXAMPLE: &str = "name one in the configuration: `[sandbox.providers.docker.options]` and beneath it `image = \"debian:12\"`";

/// Arguments of `create` that take nothing back of what keeps a container apart. Every other is refused: what programs
/// with docker's command line will have tomorrow is not known today.
const ALLOWED: [&str; 20] = [
    "add-host",
    "blkio-weight",
    "cpu-shares",
    "cpuset-cpus",
    "cpuset-mems",
    "dns",
    "dns-opt",
    "dns-option",
    "dns-search",
    "domainname",
    "env",
    "expose",
    "hostname",
    "ip",
    "ip6",
    "mac-address",
    "memory-swappiness",
    "platform",
    "read-only",
    "ulimit",
];
/// The one of them that needs no value.
const BARE: &str = "read-only";

/// When an image is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pull {
    /// If the daemon has none of this name.
    #[default]
    Missing,
    Never,
    /// Before each container.
    Always,
}

/// What the workspace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum View {
    /// The directory of this machine.
    #[default]
    Bound,
    /// A volume of the daemon's, for one that does not see this machine's files.
    Volume,
}

/// The options. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    #[serde(default)]
    pub(crate) image: String,
    #[serde(default = "docker")]
    pub(crate) program: String,
    pub(crate) context: Option<String>,
    pub(crate) host: Option<String>,
    #[serde(default)]
    pub(crate) pull: Pull,
    pub(crate) user: Option<User>,
    #[serde(default)]
    pub(crate) workspace: View,
    #[serde(default)]
    pub(crate) channel: Wish,
    pub(crate) runtime: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
}

fn docker() -> String {
    "docker".to_owned()
}

/// Who runs inside, in the machine's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct User {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.user, self.group)
    }
}

impl TryFrom<String> for User {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        let (user, group) = text.split_once(':').unwrap_or((&text, &text));
        let number = |text: &str| {
            text.parse()
                .map_err(|_| "`user` has to be UID or UID:GID, in numbers".to_owned())
        };
        let (user, group) = (number(user)?, number(group)?);
        // The kernel has signed numbers in places, and programs take a larger one for none.
        if user > MOST || group > MOST {
            return Err(format!("`user` is above {MOST}"));
        }
        if user == 0 || group == 0 {
            return Err(
                "`user` may be neither user 0 nor group 0: outside of the container they are root's"
                    .to_owned(),
            );
        }
        Ok(Self { user, group })
    }
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
                .on("the options of `docker`")
                .detail(detail)
        };
        let options: Self = serde_json::from_str(text.unwrap_or("{}"))
            .map_err(|error| invalid(error.to_string()))?;
        options.check().map_err(invalid)?;
        Ok(options)
    }

    /// Reads the options for what they say of the daemon: an image need not be named.
    ///
    /// # Errors
    ///
    /// As of [`read`](Self::read).
    pub(crate) fn of_daemon(text: &str) -> Result<Self> {
        let mut options: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(options) = options.as_object_mut() {
            let image = options.entry("image");
            image.or_insert_with(|| "none".into());
        }
        Self::read(Some(&options.to_string()))
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.image.is_empty() {
            return Err(format!("there is no `image`; {EXAMPLE}"));
        }
        let texts = [
            ("image", Some(&self.image)),
            ("program", Some(&self.program)),
            ("context", self.context.as_ref()),
            ("host", self.host.as_ref()),
            ("runtime", self.runtime.as_ref()),
        ];
        for (name, value) in texts {
            let Some(value) = value else { continue };
            if value.is_empty() || value.starts_with('-') || value.contains(char::is_control) {
                return Err(format!(
                    "`{name}` is {value:?}, and may neither be empty, nor begin with a dash, nor hold control characters"
                ));
            }
        }
        if self.context.is_some() && self.host.is_some() {
            return Err("`context` and `host` both name a daemon; keep one of them".to_owned());
        }
        self.args.iter().try_for_each(|argument| extra(argument))
    }
}

/// Whether an extra argument may be given.
fn extra(argument: &str) -> std::result::Result<(), String> {
    let given = argument
        .strip_prefix("--")
        .filter(|_| !argument.contains('\0'));
    let (name, value) = match given.map(|given| given.split_once('=')) {
        Some(Some((name, value))) => (name, Some(value)),
        _ => (given.unwrap_or_default(), None),
    };
    // A core may hold what is in the environment, and where it is put is not the container's.
    let leaves_cores = name == "ulimit" && value.is_some_and(|value| value.starts_with("core"));
    let is_allowed = ALLOWED.contains(&name) && !leaves_cores;
    if is_allowed && (value.is_some() || name == BARE) {
        return Ok(());
    }
    if is_allowed {
        return Err(format!(
            "`args` has to say the value of --{name} as --{name}=VALUE"
        ));
    }
    Err(format!(
        "`args` may not hold {argument:?}: what keeps the container apart is decided by the policy and by this provider; allowed \
         are --{}",
        ALLOWED.join(", --")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Options::read(Some(text)).expect_err(text).to_string()
    }

    #[test]
    fn an_image_is_all_that_has_to_be_named() {
        let options = Options::read(Some(r#"{"image": "debian:12"}"#)).expect("it is enough");
        assert_eq!((&*options.program, options.pull), ("docker", Pull::Missing));
        assert!(refused("{}").contains("image = \"debian:12\""));
        assert!(Options::read(None).is_err());
    }

    #[test]
    fn a_key_that_nobody_knows_is_refused_by_name() {
        assert!(refused(r#"{"image": "x", "imgae": "y"}"#).contains("imgae"));
    }

    #[test]
    fn no_value_is_taken_for_an_argument() {
        for key in ["image", "program", "context", "host", "runtime"] {
            let text = format!(r#"{{"image": "x", "{key}": "--privileged"}}"#)
                .replace(r#""image": "x", "image""#, r#""image""#);
            assert!(refused(&text).contains("dash"), "{key}");
        }
    }

    #[test]
    fn nobody_inside_is_root_outside() {
        for user in [
            "0",
            "0:0",
            "1000:0",
            "0:1000",
            "root",
            "",
            "-1",
            "4294967296",
        ] {
            let text = format!(r#"{{"image": "x", "user": "{user}"}}"#);
            assert!(refused(&text).contains("`user`"), "{user}");
        }
        let options = Options::read(Some(r#"{"image": "x", "user": "1000"}"#)).expect("a number");
        assert_eq!(
            options.user.map(|user| user.to_string()).as_deref(),
            Some("1000:1000")
        );
    }

    #[test]
    fn no_argument_takes_back_what_keeps_a_container_apart() {
        for argument in [
            "--privileged",
            "--privileged=true",
            "--cap-add=ALL",
            "--pid=host",
            "--network=host",
            "--net=host",
            "--userns=host",
            "--ipc=host",
            "--uts=host",
            "--security-opt=seccomp=unconfined",
            "--device=/dev/kvm",
            "--volume=/var/run/docker.sock:/s",
            "--volumes-from=other",
            "--mount=type=bind,src=/,dst=/h",
            "--user=0",
            "--use-api-socket",
            "--health-cmd=/bin/sh",
            "--tmpfs=/workspace",
            "--shm-size=20g",
            "--ulimit=core=-1",
            "--label=spp.owner=x",
            "--runtime=runc",
            "--pod=x",
            "--env-host",
            "--http-proxy",
            "--systemd=always",
            "--gpus=all",
            "--hostname",
            "--help",
            "--entrypoint=/bin/sh",
            "--tty",
            "-v/:/h",
            "-it",
            "ubuntu",
            "--",
            "",
        ] {
            let text = format!(r#"{{"image": "x", "args": ["{argument}"]}}"#);
            assert!(refused(&text).contains("`args`"), "{argument}");
        }
        let text =
            r#"{"image": "x", "args": ["--hostname=box", "--add-host=a:1.2.3.4", "--read-only"]}"#;
        assert_eq!(Options::read(Some(text)).expect("harmless").args.len(), 3);
    }
}

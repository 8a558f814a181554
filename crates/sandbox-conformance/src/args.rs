//! The command line: what there is to say, and the words that explain it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use sandbox_conformance::catalogue::Item;
use sandbox_conformance::expected::Expected;
use sandbox_conformance::wire::subject::Workspaces;
use sandbox_host::StartError;
use serde_json::Value;

/// Check a provider of sandboxes: what it says on its pipes, and what its verbs do.
///
/// COMMAND is started as a host starts a provider: SPP_HOST=1 is set, and of the environment only what
/// every provider gets (PATH, HOME and the like) and what --env names is passed on.
#[derive(Debug, Parser)]
#[command(
    name = "spp-conformance",
    version,
    after_help = "\
Exit status: 0 passed, 1 a check failed, 2 the command line or a file makes no sense, 3 the
provider could not be started, 128 + n ended by signal n.

Examples:
  spp-conformance ./my-provider
  spp-conformance python3 my_provider.py
  spp-conformance --only framing --only handshake ./my-provider
  spp-conformance --workspaces theirs --options '{\"region\":\"eu\"}' --env API_TOKEN ./my-provider
  spp-conformance --expected-failures known.txt --json report.json ./my-provider
  spp-conformance --list"
)]
pub(crate) struct Args {
    /// Run only this check, or this group of checks. May be given more than once.
    #[arg(long, value_name = "GROUP|ID")]
    pub(crate) only: Vec<String>,
    /// List the checks, each with its clauses of docs/protocol.md, and run none.
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the report as JSON to this file; `-` for standard output, and then the text goes to
    /// standard error.
    #[arg(long, value_name = "FILE", value_parser = json)]
    pub(crate) json: Option<Json>,
    /// Failures that are known: an id and a reason a line. One that passes, or is no check, fails the run.
    #[arg(long, value_name = "FILE")]
    pub(crate) expected_failures: Option<PathBuf>,
    /// The provider's own options for every sandbox, as a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) options: Option<String>,
    /// A variable for the provider: its value, or the name of one that is set here. May be given more
    /// than once.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Where workspaces come from.
    #[arg(long, value_enum, default_value_t = Where::Here)]
    pub(crate) workspaces: Where,
    /// How long one check may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// The provider and its arguments.
    #[arg(
        value_name = "COMMAND",
        required_unless_present = "list",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<String>,
}

/// Where workspaces come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// New directories of this machine, named to the provider as `root`.
    Here,
    /// The provider makes its own; what lies beside them is not looked at.
    Theirs,
}

impl From<Where> for Workspaces {
    fn from(place: Where) -> Self {
        match place {
            Where::Here => Self::Here,
            Where::Theirs => Self::Theirs,
        }
    }
}

/// Where the report for programs goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Stdout,
    File(PathBuf),
}

#[expect(clippy::unnecessary_wraps, reason = "a parser of clap's may fail")]
fn json(text: &str) -> Result<Json, String> {
    Ok(match text {
        "-" => Json::Stdout,
        path => Json::File(path.into()),
    })
}

/// Why nothing was checked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked makes no sense.
    Usage(String),
    /// The provider, or this program, could not begin.
    NotStarted(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Usage(text) | Self::NotStarted(text)) = self;
        f.write_str(text)
    }
}

/// A report that is to be written. Opened before anything runs, so that a path that cannot be written
/// is known before minutes have passed.
pub(crate) enum JsonFile {
    Stdout,
    File(File, PathBuf),
}

impl JsonFile {
    pub(crate) fn write(&mut self, report: &Value) -> Result<(), Failure> {
        let text = format!("{report:#}\n");
        let (written, name) = match self {
            Self::Stdout => (
                std::io::stdout().write_all(text.as_bytes()),
                "standard output".to_owned(),
            ),
            Self::File(file, path) => (file.write_all(text.as_bytes()), path.display().to_string()),
        };
        written.map_err(|error| {
            Failure::Usage(format!(
                "the report could not be written to {name}: {error}"
            ))
        })
    }
}

impl Args {
    /// The checks that are meant.
    pub(crate) fn items(&self) -> Result<Vec<Item>, Failure> {
        if let Some(unknown) = self
            .only
            .iter()
            .find(|wanted| !Item::all().any(|item| item.is_meant_by(wanted)))
        {
            return Err(Failure::Usage(format!(
                "no check and no group is called `{unknown}`; --list shows all"
            )));
        }
        let is_meant = |item: &Item| {
            self.only.is_empty() || self.only.iter().any(|wanted| item.is_meant_by(wanted))
        };
        Ok(Item::all().filter(is_meant).collect())
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    /// What the provider is called in messages.
    pub(crate) fn name(&self) -> String {
        let program = self.command.first().map(String::as_str).unwrap_or_default();
        let name = std::path::Path::new(program).file_name();
        name.map_or_else(
            || program.to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    /// The executable: a path as this program sees it, or a name for `PATH`.
    pub(crate) fn program(&self) -> Result<PathBuf, Failure> {
        let program = self.command.first().map(String::as_str).unwrap_or_default();
        if !program.contains('/') {
            return Ok(program.into());
        }
        std::path::absolute(program)
            .map_err(|error| Failure::Usage(format!("there is no current directory: {error}")))
    }

    pub(crate) fn env(&self) -> Result<Vec<(OsString, OsString)>, Failure> {
        let variable = |text: &String| match text.split_once('=') {
            Some(("", _)) => Err(Failure::Usage(format!("--env {text} names no variable"))),
            Some((name, value)) => Ok((name.into(), value.into())),
            None => match std::env::var_os(text) {
                Some(value) => Ok((text.into(), value)),
                None => Err(Failure::Usage(format!(
                    "--env {text} passes a variable on that is not set here"
                ))),
            },
        };
        self.env.iter().map(variable).collect()
    }

    /// The provider's options as JSON text.
    pub(crate) fn provider_options(&self) -> Result<Option<String>, Failure> {
        let Some(text) = &self.options else {
            return Ok(None);
        };
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(_)) => Ok(Some(text.clone())),
            Ok(_) => Err(Failure::Usage("--options must be a JSON object".to_owned())),
            Err(error) => Err(Failure::Usage(format!("--options is no JSON: {error}"))),
        }
    }

    pub(crate) fn expected(&self) -> Result<Expected, Failure> {
        let Some(path) = &self.expected_failures else {
            return Ok(Expected::default());
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::Usage(format!("{} could not be read: {error}", path.display()))
        })?;
        Expected::parse(&text)
            .map_err(|problem| Failure::Usage(format!("{}, {problem}", path.display())))
    }

    pub(crate) fn json_file(&self) -> Result<Option<JsonFile>, Failure> {
        match &self.json {
            None => Ok(None),
            Some(Json::Stdout) => Ok(Some(JsonFile::Stdout)),
            Some(Json::File(path)) => match File::create(path) {
                Ok(file) => Ok(Some(JsonFile::File(file, path.clone()))),
                Err(error) => Err(Failure::Usage(format!(
                    "the report could not be written to {}: {error}",
                    path.display()
                ))),
            },
        }
    }
}

/// Why the provider could not be started, with the causes.
pub(crate) fn start_failure(args: &Args, error: &StartError) -> String {
    if matches!(error, StartError::NotFound { .. }) {
        let program = args.command.first().map(String::as_str).unwrap_or_default();
        return format!(
            "there is no `{program}` to be started; give a path, or a name that is in PATH"
        );
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

//! The program: asking it, and how long.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use spp_client::place::Spawner;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use crate::options::Options;

/// How long the program may take over a question.
pub(crate) const ASK: Duration = Duration::from_secs(30);
/// Most bytes of an answer that are looked at.
const MAX_ANSWER: u64 = 1 << 20;

/// A program with the command line of docker, and the daemon that it is to speak to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cli {
    program: String,
    target: Vec<String>,
}

/// What it answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    /// What it wrote on standard error.
    pub(crate) words: String,
}

impl Answer {
    /// Whether it says that there is nothing of that name.
    pub(crate) fn says_missing(&self) -> bool {
        let words = self.words.to_ascii_lowercase();
        let says = [
            "no such image",
            "no such container",
            "no such object",
            "image not known",
            "no container with name",
        ];
        says.iter().any(|says| words.contains(says))
    }
}

impl Cli {
    pub(crate) fn of(options: &Options) -> Self {
        let flag = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("--{name}={value}"))
        };
        let context = flag("context", &options.context);
        Self {
            program: options.program.clone(),
            target: context
                .into_iter()
                .chain(flag("host", &options.host))
                .collect(),
        }
    }

    /// The program's name, for people.
    pub(crate) fn name(&self) -> &str {
        &self.program
    }

    /// The command with these arguments, which is not started.
    pub(crate) fn command(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        #[expect(
            clippy::disallowed_methods,
            reason = "started by the one door for places, `Spawner`"
        )]
        let mut command = Command::new(&self.program);
        command.args(&self.target).args(arguments);
        // What it says is looked at, and would be in another language otherwise.
        command.env("LC_ALL", "C");
        command
    }

    /// Asks something, and ends what does not answer within `limit`.
    ///
    /// # Errors
    ///
    /// It cannot be started, or did not answer in time (`TimedOut`).
    pub(crate) async fn ask(
        &self,
        spawner: &Spawner,
        arguments: &[impl AsRef<OsStr>],
        limit: Duration,
    ) -> io::Result<Answer> {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // It is killed by being dropped.
        let mut child = spawner.spawn(command).await?;
        let (output, words) = (child.stdout.take(), child.stderr.take());
        let answered = async {
            let (output, words) = tokio::join!(all(output), all(words));
            let status = child.wait().await?;
            Ok(Answer {
                status,
                output,
                words,
            })
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(limit, answered).await.map_err(late)?
    }
}

/// What comes, as far as it is looked at.
async fn all(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let mut from = from.take(MAX_ANSWER);
        // What came before it failed is all there is.
        let _ = from.read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut from.into_inner(), &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

//! The program: asking it, and how long.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use spp_client::place::{Spawner, find_program};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::Command;

use crate::container::PROXIES;
use crate::options::Options;

/// How long the program may take over a question.
pub(crate) const ASK: Duration = Duration::from_secs(30);
/// How long a question may be without an answer before the daemon is asked for a sign of life, and how long that may take.
const QUIET: Duration = Duration::from_secs(5);
const ALIVE: Duration = Duration::from_secs(10);
/// How long an image may take to come or to go.
pub(crate) const PULL: Duration = Duration::from_secs(30 * 60);
/// How long what it said may take to come once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Most bytes of an answer that are looked at.
const MAX_ANSWER: u64 = 1 << 20;

/// A program with the command line of docker, and the daemon that it is to speak to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cli {
    program: String,
    /// Where it was found.
    path: PathBuf,
    target: Vec<String>,
}

/// Whose program it is, as far as its arguments differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Docker's own, and what is like it in all that we ask.
    Docker,
    /// Podman, by whatever name.
    Podman,
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
        // Only where an error begins: what follows may be a name that somebody chose.
        let mut errors = self.words.lines().filter_map(|line| {
            let line = line.trim_start().to_ascii_lowercase();
            let error = line.strip_prefix("error response from daemon: ");
            let error = error.or_else(|| line.strip_prefix("error: "));
            error.map(str::to_owned)
        });
        let says = [
            "no such image",
            "no such container",
            "no such object",
            "image not known",
            "no container with name",
        ];
        errors.any(|error| says.iter().any(|says| error.starts_with(says)))
    }
}

impl Cli {
    /// Finds the program.
    ///
    /// # Errors
    ///
    /// There is none of that name (`NotFound`).
    pub(crate) fn of(options: &Options) -> io::Result<Self> {
        let flag = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("--{name}={value}"))
        };
        let context = flag("context", &options.context);
        Ok(Self {
            path: find_program(&options.program, std::env::var_os("PATH").as_deref())?,
            program: options.program.clone(),
            target: context
                .into_iter()
                .chain(flag("host", &options.host))
                .collect(),
        })
    }

    /// The program's name, for people.
    pub(crate) fn name(&self) -> &str {
        &self.program
    }

    /// Whether the daemon is known to be on another machine.
    pub(crate) fn is_far(&self) -> bool {
        let host = self.target.iter().find_map(|it| it.strip_prefix("--host="));
        host.and_then(|host| host.split_once("://"))
            .is_some_and(|(scheme, _)| scheme != "unix" && scheme != "fd")
    }

    /// Whose program this is. It says so itself: its name may be a link of another.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(crate) async fn family(&self, spawner: &Spawner) -> io::Result<Family> {
        let answer = self.ask(spawner, &["--version"], ASK).await?;
        let is_podman = answer.output.starts_with("podman ");
        Ok(if is_podman {
            Family::Podman
        } else {
            Family::Docker
        })
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
        let mut command = Command::new(&self.path);
        command.args(&self.target).args(arguments);
        // What it is to do does not depend on where this process stands, which may be somebody's workspace.
        command.current_dir("/");
        // What it says is looked at, and would be in another language otherwise.
        command.env("LC_ALL", "C");
        for variable in PROXIES {
            command.env_remove(variable);
        }
        command
    }

    /// Asks something, and ends what does not answer within `limit`, or sooner if the daemon does not answer anything.
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
        let asked = self.answer(spawner, self.command(arguments), Vec::new(), limit);
        let mut asked = std::pin::pin!(asked);
        let stopped = async {
            loop {
                tokio::time::sleep(QUIET).await;
                let version = self.command(["version", "--format={{.Server.Version}}"]);
                let alive = self.answer(spawner, version, Vec::new(), ALIVE).await;
                if alive.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            answer = &mut asked => answer,
            () = stopped => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Has a command answer that was made before, and ends it if it does not within `limit`.
    ///
    /// - `input`: what it reads
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(crate) async fn answer(
        &self,
        spawner: &Spawner,
        mut command: Command,
        input: Vec<u8>,
        limit: Duration,
    ) -> io::Result<Answer> {
        command
            .stdin(match input.is_empty() {
                true => Stdio::null(),
                false => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // It is killed by being dropped.
        let mut child = spawner.spawn(command).await?;
        let (output, words) = (child.stdout.take(), child.stderr.take());
        let answered = async {
            let said = tokio::spawn(async { tokio::join!(all(output), all(words)) });
            if let Some(mut to) = child.stdin.take() {
                // One that takes no more of it says why.
                let _ = to.write_all(&input).await;
            }
            let status = child.wait().await?;
            // What it started may hold its pipes for ever.
            let said = tokio::time::timeout(LAST_WORDS, said).await;
            let (output, words) = said.unwrap_or_else(|_| Ok(Default::default()))?;
            Ok(Answer {
                status,
                output,
                words,
            })
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(limit, answered).await.map_err(late)?
    }

    /// Asks something that takes long, and tells each line of its answer as it comes.
    ///
    /// - `tell`: takes each line
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(crate) async fn follow(
        &self,
        spawner: &Spawner,
        arguments: &[impl AsRef<OsStr>],
        limit: Duration,
        mut tell: impl FnMut(&str),
    ) -> io::Result<Answer> {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // It is killed by being dropped.
        let mut child = spawner.spawn(command).await?;
        let (output, words) = (child.stdout.take(), tokio::spawn(all(child.stderr.take())));
        let followed = async {
            if let Some(output) = output {
                let mut lines = BufReader::new(output.take(MAX_ANSWER)).lines();
                // One that cannot be read is the last: how it ended says more.
                while let Ok(Some(line)) = lines.next_line().await {
                    tell(&line);
                }
                let mut rest = lines.into_inner().into_inner().into_inner();
                let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
            }
            let status = child.wait().await?;
            let words = tokio::time::timeout(LAST_WORDS, words).await;
            Ok(Answer {
                status,
                output: String::new(),
                words: words.unwrap_or_else(|_| Ok(String::new()))?,
            })
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(limit, followed).await.map_err(late)?
    }

    /// Asks something that is answered line by line, and ends it once a line is the last that is wanted.
    ///
    /// - `is_last`: takes each line
    ///
    /// # Errors
    ///
    /// It cannot be started, or went on beyond `limit` (`TimedOut`).
    pub(crate) async fn read(
        &self,
        spawner: &Spawner,
        arguments: &[impl AsRef<OsStr>],
        limit: Duration,
        mut is_last: impl FnMut(&str) -> bool,
    ) -> io::Result<()> {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // It is killed by being dropped.
        let mut child = spawner.spawn(command).await?;
        let Some(output) = child.stdout.take() else {
            return Ok(());
        };
        let mut lines = BufReader::new(output.take(MAX_ANSWER)).lines();
        let read = async {
            while let Some(line) = lines.next_line().await? {
                if is_last(&line) {
                    break;
                }
            }
            Ok(())
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(limit, read).await.map_err(late)?
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_says_that_something_is_missing_and_no_name_in_one() {
        let says = |words: &str| {
            let (output, words) = (String::new(), words.to_owned());
            let status = ExitStatus::default();
            Answer {
                status,
                output,
                words,
            }
            .says_missing()
        };
        assert!(says("Error response from daemon: No such container: x\n"));
        assert!(says("Error: no such object: x"));
        assert!(!says(
            "Error response from daemon: /no such container/x is busy"
        ));
        assert!(!says("no such container"));
    }
}

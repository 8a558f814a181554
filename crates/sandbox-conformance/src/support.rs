//! What checks are written with: assertions that are values, and shorthands on a [`Place`].
//!
//! The shorthands are for getting things into position and for looking afterwards. The verb that a
//! check is about is called in the check itself, where the request can be seen.
//!
//! A place is expected to have a POSIX shell, which its descriptor names, and the usual utilities
//! beside it (`cat`, `head`, `seq`, `sleep`, `mkfifo`, `ln`, `setsid`).

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::file::{FileContent, Stat, StatManyRequest, WriteReceipt};
use sandbox_core::process::{
    ExecRequest, Execution, ExitReport, Outcome, OutputStream, ProcReadRequest, ProcStatus,
    ProcStopRequest, ProcessSpec, SpawnReceipt, SpawnRequest, SpawnStdin, Status, Stop,
};
use sandbox_core::{
    ByteStream, Capability, Ctx, Digest, Effect, Error, ErrorKind, ProcId, SandboxExt, SandboxPath,
};

use crate::check::{Failure, Verdict};
use crate::harness::{Outside, Place};

/// Longest that a check waits for something that takes no time. Checks never assert that
/// something is fast, only that it is not held up by what must not hold it up.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// Fails the check with a sentence unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($sentence:tt)+) => {
        if !$condition {
            return Err($crate::check::Failure::new(format_args!($($sentence)+)));
        }
    };
}

/// Fails the check with a sentence and both values unless they are equal.
macro_rules! ensure_eq {
    ($found:expr, $expected:expr, $($sentence:tt)+) => {
        match (&$found, &$expected) {
            (found, expected) if found == expected => {}
            (found, expected) => {
                return Err($crate::check::Failure::new(format_args!(
                    "{}: found {found:?}, expected {expected:?}",
                    format_args!($($sentence)+),
                )));
            }
        }
    };
}

/// A path that is written in a check.
pub(crate) fn path(text: impl AsRef<[u8]>) -> SandboxPath {
    SandboxPath::parse(text).expect("checks spell their paths well")
}

/// A process id that is written in a check.
pub(crate) fn proc_id(text: &str) -> ProcId {
    ProcId::new(text).expect("checks spell their ids well")
}

/// The digest that the contract means.
pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// Fails unless a digest is the one of `bytes`, or is left to the provider to tell: without preconditions nothing
/// can be done with it, and not every language has the function.
pub(crate) fn tells_digest(place: &Place, found: Option<Digest>, bytes: &[u8]) -> Verdict {
    let capabilities = &place.provider.info().capabilities;
    if found.is_some() || capabilities.has(Capability::Precondition) {
        ensure_eq!(found, Some(digest_of(bytes)), "digest");
    }
    Ok(())
}

/// The error of something that must have been refused without effect, with this kind.
pub(crate) fn refused<T>(
    result: Result<T, Error>,
    kind: ErrorKind,
    what: &str,
) -> Result<Error, Failure> {
    let Err(error) = result else {
        return Err(Failure::new(format_args!("{what} was accepted")));
    };
    ensure_eq!(
        (error.kind(), error.effect()),
        (kind, Effect::None),
        "{what} was refused in the wrong way ({error})"
    );
    Ok(error)
}

/// The value of something that must end soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(SOON, future).await.map_err(|_| {
        Failure::new(format_args!(
            "{what} was held up for more than {} s",
            SOON.as_secs()
        ))
    })
}

/// Everything a stream carries.
pub(crate) async fn drain(mut stream: ByteStream) -> Result<Bytes, Failure> {
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all.into())
}

/// What a stream carries up to and including `text`.
pub(crate) async fn drain_until(stream: &mut ByteStream, text: &str) -> Result<String, Failure> {
    let mut all = String::new();
    while !all.contains(text) {
        let Some(chunk) = stream.next().await else {
            return Err(Failure::new(format_args!(
                "the stream ended at {all:?}, before {text:?}"
            )));
        };
        all.push_str(&String::from_utf8_lossy(&chunk?));
    }
    Ok(all)
}

impl Place {
    /// A context without a deadline.
    pub(crate) fn ctx(&self) -> Ctx {
        Ctx::new()
    }

    /// What lies outside; a check that asks for it lists `Outside` among its needs.
    pub(crate) fn outside(&self) -> Result<&Outside, Failure> {
        self.outside
            .as_ref()
            .ok_or_else(|| Failure::new("the check must list `Outside` among its needs"))
    }

    /// A command line for the place's shell.
    pub(crate) fn line(&self, line: &str) -> Result<ProcessSpec, Failure> {
        let descriptor = self.sandbox.descriptor();
        let shell = descriptor
            .shell
            .as_ref()
            .ok_or_else(|| Failure::new("the suite needs a place with a POSIX shell"))?;
        Ok(ProcessSpec::new([shell.as_bytes(), b"-c", line.as_bytes()]))
    }

    /// Runs something to its end, however it ends.
    pub(crate) async fn run(&self, process: ProcessSpec) -> Result<Outcome, Failure> {
        Ok(self.sandbox.run(&self.ctx(), process).await?)
    }

    /// Starts something with its output delivered or kept as the request says.
    pub(crate) async fn start(&self, request: ExecRequest) -> Result<Execution, Failure> {
        Ok(self.sandbox.exec(&self.ctx(), request).await?)
    }

    /// Runs a command line that must succeed, and returns what it printed.
    pub(crate) async fn script(&self, line: &str) -> Result<String, Failure> {
        let outcome = self.run(self.line(line)?).await?;
        ensure!(
            outcome.exit.status == Status::Exited(0),
            "`{line}` {}: {}",
            outcome.exit.status,
            outcome.stderr.to_text()
        );
        Ok(outcome.stdout.to_text())
    }

    /// Gives a file this content.
    pub(crate) async fn put(
        &self,
        name: impl AsRef<[u8]>,
        content: impl Into<Bytes>,
    ) -> Result<WriteReceipt, Failure> {
        Ok(self
            .sandbox
            .put(&self.ctx(), path(name), content.into())
            .await?)
    }

    /// Reads a whole file.
    pub(crate) async fn read(&self, name: impl AsRef<[u8]>) -> Result<FileContent, Failure> {
        Ok(self.sandbox.read_file(&self.ctx(), path(name)).await?)
    }

    /// The bytes of a whole file.
    pub(crate) async fn content(&self, name: impl AsRef<[u8]>) -> Result<Bytes, Failure> {
        Ok(self.read(name).await?.bytes)
    }

    /// What an entry is, if it is there.
    pub(crate) async fn stat(&self, name: impl AsRef<[u8]>) -> Result<Option<Stat>, Failure> {
        let request = StatManyRequest {
            paths: vec![path(name)],
        };
        let mut stats = self.sandbox.stat_many(&self.ctx(), request).await?;
        ensure_eq!(stats.len(), 1, "one entry was asked about; answers");
        Ok(stats.remove(0)?)
    }

    /// The permission bits of an entry that must be there.
    pub(crate) async fn mode(&self, name: &str) -> Result<u32, Failure> {
        let stat = self.stat(name).await?;
        Ok(stat
            .ok_or_else(|| Failure::new(format_args!("{name} is gone")))?
            .mode)
    }

    /// Whether something is at `name`.
    pub(crate) async fn exists(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.stat(name).await?.is_some())
    }

    /// Waits until something is at `name`.
    pub(crate) async fn appears(&self, name: &str) -> Result<(), Failure> {
        soon(&format!("the file {name}"), async {
            while !self.exists(name).await? {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        })
        .await?
    }

    /// Fails if one of the processes whose pids were written to these files, one a line, is still
    /// there, be it as a zombie. A process may be there although this command may not signal it.
    pub(crate) async fn all_gone(&self, files: &[&str]) -> Result<(), Failure> {
        let pids = files.join(" ");
        let line = format!(
            "cat {pids} | while read pid; do \
             {{ kill -0 \"$pid\" 2>/dev/null || test -e \"/proc/$pid\"; }} && echo \"$pid\"; done; true"
        );
        let alive = self.script(&line).await?;
        ensure!(
            alive.is_empty(),
            "these processes are still there: {}",
            alive.trim().replace('\n', ", ")
        );
        Ok(())
    }

    /// Waits until these processes are gone; see [`all_gone`](Self::all_gone).
    pub(crate) async fn end(&self, files: &[&str]) -> Result<(), Failure> {
        soon("the end of what was started", async {
            while self.all_gone(files).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
    }

    /// Starts a command line under `id`.
    pub(crate) async fn spawn(
        &self,
        id: &str,
        line: &str,
        stdin: SpawnStdin,
    ) -> Result<SpawnReceipt, Failure> {
        let request = SpawnRequest {
            stdin,
            ..SpawnRequest::new(proc_id(id), self.line(line)?)
        };
        Ok(self.sandbox.spawn(&self.ctx(), request).await?)
    }

    /// Reads a stream of a process to its end.
    pub(crate) async fn log(
        &self,
        id: &ProcId,
        stream: OutputStream,
    ) -> Result<(Bytes, ExitReport), Failure> {
        soon(&format!("the end of {id}"), async {
            let mut all = Vec::new();
            loop {
                let request = read_log(id, stream, all.len() as u64, Duration::from_secs(2));
                let chunk = self.sandbox.proc_read(&self.ctx(), request).await?;
                ensure_eq!(chunk.offset, all.len() as u64, "the log of {id} has a gap");
                all.extend_from_slice(&chunk.bytes);
                if let (true, ProcStatus::Ended(exit)) = (chunk.end, chunk.status) {
                    return Ok((Bytes::from(all), exit));
                }
                if chunk.bytes.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        })
        .await?
    }

    /// Waits until the standard output of a process contains `text`.
    pub(crate) async fn says(&self, id: &str, text: &str) -> Result<(), Failure> {
        let id = proc_id(id);
        soon(&format!("{text:?} from {id}"), async {
            loop {
                let request = read_log(&id, OutputStream::Stdout, 0, Duration::ZERO);
                let chunk = self.sandbox.proc_read(&self.ctx(), request).await?;
                if String::from_utf8_lossy(&chunk.bytes).contains(text) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await?
    }

    /// Ends a process.
    pub(crate) async fn kill(&self, id: &str) -> Result<(), Failure> {
        let request = ProcStopRequest {
            id: proc_id(id),
            stop: Stop::Kill,
        };
        self.sandbox.proc_stop(&self.ctx(), request).await?;
        Ok(())
    }
}

/// Asks for as much of a log as one call may return.
pub(crate) fn read_log(
    id: &ProcId,
    stream: OutputStream,
    from: u64,
    wait: Duration,
) -> ProcReadRequest {
    ProcReadRequest {
        id: id.clone(),
        stream,
        from,
        max: sandbox_core::process::MAX_PROC_READ_BYTES,
        wait,
    }
}

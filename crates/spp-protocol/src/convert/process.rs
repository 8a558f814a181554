//! What to run and how it ended, and `exec`. The verbs with a handle are in `handle`.

use std::time::Duration;

use bytes::Bytes;
use sandbox_core::process as core;
use sandbox_core::{Result, Verb};

use super::policy::{decode_env, encode_env};
use super::value::{Inlet, Outlet, encode_path, path, proc_id};
use super::{Invalid, Mirror, Target, Within, each, integer, microseconds, milliseconds, mirror};
use crate::message::process as wire;
use crate::message::search::{Changes, FingerprintScope};
use crate::message::value::{ByteField, MAX_INLINE_BYTES, Octets, StreamId};

mirror! {
    wire::BeyondLog = core::BeyondLog { Drop, Block, Kill }
    wire::Descendants = core::Descendants { Kill, Leave }
    wire::Delivery = core::Delivery { AtEnd, Live }
}

impl wire::ProcessSpec {
    pub(crate) fn encode(spec: &core::ProcessSpec) -> Self {
        Self {
            argv: spec.argv.iter().map(Octets::new).collect(),
            cwd: encode_path(&spec.cwd),
            env: encode_env(&spec.env),
            pty: spec.pty.map(Into::into),
            timeout_ms: spec.timeout.map(milliseconds),
            grace_ms: milliseconds(spec.grace),
            output: wire::OutputPolicy {
                head: integer(spec.output.head),
                tail: integer(spec.output.tail),
                log: integer(spec.output.log),
                beyond: spec.output.beyond.into(),
            },
            descendants: spec.descendants.into(),
        }
    }

    pub(crate) fn decode(self) -> Result<core::ProcessSpec, Invalid> {
        if self.argv.is_empty() {
            return Err(Invalid::new(
                "there is no program; the first argument names it",
            ))
            .within("argv");
        }
        Ok(core::ProcessSpec {
            argv: each(self.argv, "argv", |Octets(argument)| {
                if argument.contains(&0) {
                    return Err(Invalid::new("an argument cannot contain a NUL byte"));
                }
                Ok(argument)
            })?,
            cwd: path(self.cwd).within("cwd")?,
            env: each(self.env, "env", decode_env)?,
            pty: self.pty.map(Into::into),
            timeout: self.timeout_ms.map(Duration::from_millis),
            grace: Duration::from_millis(self.grace_ms),
            output: core::OutputPolicy {
                head: self.output.head,
                tail: self.output.tail,
                log: self.output.log,
                beyond: self.output.beyond.decode().within("output.beyond")?,
            },
            descendants: self.descendants.decode().within("descendants")?,
        })
    }
}

impl From<core::PtySize> for wire::PtySize {
    fn from(size: core::PtySize) -> Self {
        Self {
            rows: size.rows,
            columns: size.columns,
        }
    }
}

impl From<wire::PtySize> for core::PtySize {
    fn from(size: wire::PtySize) -> Self {
        Self {
            rows: size.rows,
            columns: size.columns,
        }
    }
}

/// The streams that a host names for an `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecStreams {
    /// For standard input, where it does not fit the line.
    pub stdin: StreamId,
    /// For standard output.
    pub stdout: StreamId,
    /// For standard error.
    pub stderr: StreamId,
}

/// An `exec` that arrived: the request, and the streams that belong to it.
#[derive(Debug)]
pub struct ExecArrival {
    /// The request. Where `stdin` below is a stream, its standard input is still to be set.
    pub request: core::ExecRequest,
    /// The stream that standard input comes on, and its length if that is known beforehand.
    pub stdin: Option<(StreamId, Option<u64>)>,
    /// The stream for standard output.
    pub stdout: Option<StreamId>,
    /// The stream for standard error.
    pub stderr: Option<StreamId>,
}

impl wire::ExecParams {
    /// The wire form. If its `stdin` is a stream, the caller sends the request's standard input on it.
    #[must_use]
    pub fn encode(target: &Target, request: &core::ExecRequest, streams: ExecStreams) -> Self {
        let stream = |bytes| ByteField::Stream {
            stream: streams.stdin,
            bytes,
        };
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            id: request.id.as_ref().map(ToString::to_string),
            process: wire::ProcessSpec::encode(&request.process),
            stdin: match &request.stdin {
                core::Stdin::Null => None,
                core::Stdin::Bytes(bytes) if bytes.len() > MAX_INLINE_BYTES => {
                    Some(stream(Some(bytes.len() as u64)))
                }
                core::Stdin::Bytes(bytes) => Some(ByteField::Inline(bytes.clone())),
                core::Stdin::Stream(_) => Some(stream(None)),
            },
            delivery: request.delivery.into(),
            stdout: Some(streams.stdout),
            stderr: Some(streams.stderr),
            track: request.track.as_ref().map(FingerprintScope::encode),
            meta: target.meta.clone(),
        }
    }

    /// The request and its streams.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<ExecArrival> {
        let arrival = || {
            let delivery = self.delivery.decode().within("delivery")?;
            let pty = self.process.pty.is_some();
            if delivery == core::Delivery::Live
                && (self.stdout.is_none() || (self.stderr.is_none() && !pty))
            {
                return Err(Invalid::new(
                    "live output needs the streams `stdout` and `stderr`",
                ))
                .within("delivery");
            }
            if self.stdout.is_some() && self.stdout == self.stderr {
                return Err(Invalid::new("both outputs cannot have one stream")).within("stderr");
            }
            let (stdin, stream) = match self.stdin {
                None => (core::Stdin::Null, None),
                Some(ByteField::Inline(bytes)) => (core::Stdin::Bytes(bytes), None),
                Some(ByteField::Stream { stream, bytes }) => {
                    (core::Stdin::Null, Some((stream, bytes)))
                }
            };
            Ok(ExecArrival {
                request: core::ExecRequest {
                    id: self.id.as_deref().map(proc_id).transpose().within("id")?,
                    process: self.process.decode().within("process")?,
                    stdin,
                    delivery,
                    track: self
                        .track
                        .map(FingerprintScope::decode)
                        .transpose()
                        .within("track")?,
                },
                stdin: stream,
                stdout: self.stdout,
                stderr: self.stderr,
            })
        };
        arrival().map_err(|invalid: Invalid| invalid.refuse(Verb::Exec))
    }
}

impl wire::ExecResult {
    /// The wire form. With [`core::Delivery::Live`] heads and tails stay here: every byte of them has travelled.
    #[must_use]
    pub fn encode(
        outcome: core::Outcome,
        delivery: core::Delivery,
        stdout: &mut Outlet,
        stderr: &mut Outlet,
    ) -> Self {
        Self {
            id: outcome.id.to_string(),
            exit: wire::ExitReport::encode(outcome.exit),
            stdout: encode_output(outcome.stdout, delivery, stdout),
            stderr: encode_output(outcome.stderr, delivery, stderr),
            changes: outcome.changes.map(Changes::encode),
        }
    }

    /// The outcome. Heads and tails that are absent are empty.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self, stdout: &mut Inlet, stderr: &mut Inlet) -> Result<core::Outcome> {
        let outcome = || {
            Ok(core::Outcome {
                id: proc_id(&self.id).within("id")?,
                exit: self.exit.decode(),
                stdout: decode_output(self.stdout, stdout).within("stdout")?,
                stderr: decode_output(self.stderr, stderr).within("stderr")?,
                changes: self
                    .changes
                    .map(Changes::decode)
                    .transpose()
                    .within("changes")?,
            })
        };
        outcome().map_err(|invalid: Invalid| invalid.broken(Verb::Exec))
    }
}

fn encode_output(
    output: core::Output,
    delivery: core::Delivery,
    outlet: &mut Outlet,
) -> wire::Output {
    let mut field = |bytes: Bytes, needed: bool| {
        (delivery == core::Delivery::AtEnd && needed).then(|| outlet.field(bytes))
    };
    let has_tail = !output.tail.is_empty();
    wire::Output {
        head: field(output.head, true),
        tail: field(output.tail, has_tail),
        dropped: output.dropped,
        total: output.total,
        unlogged: output.unlogged,
        log_failure: output.log_failure,
    }
}

fn decode_output(output: wire::Output, inlet: &mut Inlet) -> Result<core::Output, Invalid> {
    let mut field = |field: Option<ByteField>| field.map(|field| inlet.take(field)).transpose();
    let head = field(output.head).within("head")?.unwrap_or_default();
    let tail = field(output.tail).within("tail")?.unwrap_or_default();
    inlet.finish()?;
    Ok(core::Output {
        head,
        tail,
        dropped: output.dropped,
        total: output.total,
        unlogged: output.unlogged,
        log_failure: output.log_failure,
    })
}

impl wire::ExitReport {
    pub(crate) fn encode(report: core::ExitReport) -> Self {
        let survivor = |survivor: core::Survivor| wire::Survivor {
            pid: survivor.pid,
            name: survivor.name,
        };
        Self {
            status: match report.status {
                core::Status::Exited(code) => wire::Status::Exited(wire::Exited { code }),
                core::Status::Signalled { signal, core } => {
                    wire::Status::Signalled(wire::Signalled { signal, core })
                }
                core::Status::TimedOut => wire::Status::TimedOut,
                core::Status::Cancelled => wire::Status::Cancelled,
                core::Status::OutputLimit => wire::Status::OutputLimit,
                core::Status::MemoryLimit => wire::Status::MemoryLimit,
                core::Status::Lost => wire::Status::Lost,
            },
            duration_us: microseconds(report.duration),
            usage: wire::Usage {
                user_us: microseconds(report.usage.user),
                system_us: microseconds(report.usage.system),
                peak_memory: report.usage.peak_memory,
            },
            survivors: wire::Survivors {
                killed: report.survivors.killed,
                left: report.survivors.left.into_iter().map(survivor).collect(),
                left_total: report.survivors.left_total,
            },
        }
    }

    /// A status that is not known, or names a signal that there is not, is `Lost`: it says that how the
    /// process ended is not known.
    pub(crate) fn decode(self) -> core::ExitReport {
        let survivor = |survivor: wire::Survivor| core::Survivor {
            pid: survivor.pid,
            name: survivor.name,
        };
        core::ExitReport {
            status: match self.status {
                wire::Status::Exited(wire::Exited { code }) => core::Status::Exited(code),
                wire::Status::Signalled(wire::Signalled {
                    signal: signal @ 1..=64,
                    core,
                }) => core::Status::Signalled { signal, core },
                wire::Status::TimedOut => core::Status::TimedOut,
                wire::Status::Cancelled => core::Status::Cancelled,
                wire::Status::OutputLimit => core::Status::OutputLimit,
                wire::Status::MemoryLimit => core::Status::MemoryLimit,
                wire::Status::Lost | wire::Status::Signalled(_) | wire::Status::Unknown(_) => {
                    core::Status::Lost
                }
            },
            duration: Duration::from_micros(self.duration_us),
            usage: core::Usage {
                user: Duration::from_micros(self.usage.user_us),
                system: Duration::from_micros(self.usage.system_us),
                peak_memory: self.usage.peak_memory,
            },
            survivors: core::Survivors {
                killed: self.survivors.killed,
                left: self.survivors.left.into_iter().map(survivor).collect(),
                left_total: self.survivors.left_total,
            },
        }
    }
}

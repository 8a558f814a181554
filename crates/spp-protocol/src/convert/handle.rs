//! The verbs with a handle: `spawn`, `proc_read`, `proc_stdin`, `proc_stop`.

use std::time::Duration;

use sandbox_core::process as core;
use sandbox_core::{Error, ErrorKind, Result, Verb};

use super::value::{Inlet, Outlet, proc_id};
use super::{Invalid, Mirror, Target, Within, integer, milliseconds, mirror};
use crate::message::process as wire;
use crate::message::value::StreamId;

mirror! {
    wire::SpawnStdin = core::SpawnStdin { Null, Open }
    wire::Detach = core::Detach { No, Yes }
    wire::OutputStream = core::OutputStream { Stdout, Stderr }
}

impl wire::SpawnParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target, request: &core::SpawnRequest) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            id: request.id.to_string(),
            process: wire::ProcessSpec::encode(&request.process),
            stdin: request.stdin.into(),
            detach: request.detach.into(),
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::SpawnRequest> {
        let request = || {
            Ok(core::SpawnRequest {
                id: proc_id(&self.id).within("id")?,
                process: self.process.decode().within("process")?,
                stdin: self.stdin.decode().within("stdin")?,
                detach: self.detach.decode().within("detach")?,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::Spawn))
    }
}

impl From<core::SpawnReceipt> for wire::SpawnResult {
    fn from(receipt: core::SpawnReceipt) -> Self {
        Self {
            id: receipt.id.to_string(),
            pid: receipt.pid,
        }
    }
}

impl wire::SpawnResult {
    /// The receipt.
    ///
    /// # Errors
    ///
    /// `Protocol` if the id is none.
    pub fn decode(self) -> Result<core::SpawnReceipt> {
        let id = proc_id(&self.id).within("id");
        Ok(core::SpawnReceipt {
            id: id.map_err(|invalid| invalid.broken(Verb::Spawn))?,
            pid: self.pid,
        })
    }
}

impl wire::ProcReadParams {
    /// The wire form; a content that does not fit the line comes on stream `content`.
    #[must_use]
    pub fn encode(
        target: &Target,
        request: &core::ProcReadRequest,
        content: Option<StreamId>,
    ) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            id: request.id.to_string(),
            stream: request.stream.into(),
            from: integer(request.from),
            max: integer(request.max),
            wait_ms: milliseconds(request.wait),
            content,
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::ProcReadRequest> {
        let request = || {
            Ok(core::ProcReadRequest {
                id: proc_id(&self.id).within("id")?,
                stream: self.stream.decode().within("stream")?,
                from: self.from,
                max: self.max.min(core::MAX_PROC_READ_BYTES),
                wait: Duration::from_millis(self.wait_ms),
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::ProcRead))
    }
}

impl wire::ProcReadResult {
    /// The wire form.
    #[must_use]
    pub fn encode(chunk: core::ProcChunk, outlet: &mut Outlet) -> Self {
        Self {
            offset: chunk.offset,
            content: outlet.field(chunk.bytes),
            total: chunk.total,
            end: chunk.end,
            status: wire::ProcStatus::encode(chunk.status),
        }
    }

    /// The chunk.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::ProcChunk> {
        let chunk = || {
            let bytes = inlet.take(self.content).within("content")?;
            inlet.finish()?;
            Ok(core::ProcChunk {
                offset: self.offset,
                bytes,
                total: self.total,
                end: self.end,
                status: self.status.decode().within("status")?,
            })
        };
        chunk().map_err(|invalid: Invalid| invalid.broken(Verb::ProcRead))
    }
}

impl wire::ProcStatus {
    fn encode(status: core::ProcStatus) -> Self {
        match status {
            core::ProcStatus::Running => Self::Running,
            core::ProcStatus::Ended(report) => Self::Ended(wire::ExitReport::encode(report)),
        }
    }

    /// Neither that it runs nor that it ended may be guessed.
    fn decode(self) -> Result<core::ProcStatus, Invalid> {
        match self {
            Self::Running => Ok(core::ProcStatus::Running),
            Self::Ended(report) => Ok(core::ProcStatus::Ended(report.decode())),
            Self::Unknown(name) => Err(Invalid::new(format_args!("`{name}` is not known here"))),
        }
    }
}

impl wire::ProcStdinParams {
    /// The wire form; bytes that do not fit the line go to `outlet`.
    #[must_use]
    pub fn encode(target: &Target, request: core::ProcStdinRequest, outlet: &mut Outlet) -> Self {
        let some = !request.bytes.is_empty();
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            id: request.id.to_string(),
            offset: integer(request.offset),
            content: some.then(|| outlet.field(request.bytes)),
            close: request.close,
            resize: request.resize.map(Into::into),
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member; `TooLarge` for more than
    /// [`MAX_PROC_STDIN_BYTES`](core::MAX_PROC_STDIN_BYTES).
    pub fn decode(self, inlet: &mut Inlet) -> Result<core::ProcStdinRequest> {
        let request = || {
            let content = self.content.map(|content| inlet.take(content));
            let bytes = content.transpose().within("content")?.unwrap_or_default();
            inlet.finish()?;
            Ok(core::ProcStdinRequest {
                id: proc_id(&self.id).within("id")?,
                offset: self.offset,
                bytes,
                close: self.close,
                resize: self.resize.map(Into::into),
            })
        };
        let request = request().map_err(|invalid: Invalid| invalid.refuse(Verb::ProcStdin))?;
        if request.bytes.len() > core::MAX_PROC_STDIN_BYTES {
            return Err(
                Error::refused(Verb::ProcStdin, ErrorKind::TooLarge).detail(format_args!(
                    "{} bytes were sent, and one call takes {}; send the rest with the next",
                    request.bytes.len(),
                    core::MAX_PROC_STDIN_BYTES
                )),
            );
        }
        Ok(request)
    }
}

impl From<core::StdinReceipt> for wire::ProcStdinResult {
    fn from(receipt: core::StdinReceipt) -> Self {
        Self {
            next: receipt.next,
            closed: receipt.closed,
        }
    }
}

impl From<wire::ProcStdinResult> for core::StdinReceipt {
    fn from(result: wire::ProcStdinResult) -> Self {
        Self {
            next: result.next,
            closed: result.closed,
        }
    }
}

impl wire::ProcStopParams {
    /// The wire form.
    #[must_use]
    pub fn encode(target: &Target, request: &core::ProcStopRequest) -> Self {
        Self {
            sandbox: target.sandbox.to_string(),
            generation: target.generation.0,
            id: request.id.to_string(),
            stop: match request.stop {
                core::Stop::Signal(signal) => wire::Stop::Signal(signal),
                core::Stop::Graceful { grace } => wire::Stop::Graceful(wire::Graceful {
                    grace_ms: milliseconds(grace),
                }),
                core::Stop::Kill => wire::Stop::Kill,
            },
            meta: target.meta.clone(),
        }
    }

    /// The request.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the member.
    pub fn decode(self) -> Result<core::ProcStopRequest> {
        let request = || {
            Ok(core::ProcStopRequest {
                id: proc_id(&self.id).within("id")?,
                stop: decode_stop(self.stop).within("stop")?,
            })
        };
        request().map_err(|invalid: Invalid| invalid.refuse(Verb::ProcStop))
    }
}

fn decode_stop(stop: wire::Stop) -> Result<core::Stop, Invalid> {
    match stop {
        wire::Stop::Signal(signal @ 1..=64) => Ok(core::Stop::Signal(signal)),
        wire::Stop::Signal(signal) => {
            Err(Invalid::new(format_args!("there is no signal {signal}"))).within("signal")
        }
        wire::Stop::Graceful(wire::Graceful { grace_ms }) => Ok(core::Stop::Graceful {
            grace: Duration::from_millis(grace_ms),
        }),
        wire::Stop::Kill => Ok(core::Stop::Kill),
        wire::Stop::Unknown(name) => Err(Invalid::new(format_args!("`{name}` is not known here"))),
    }
}

impl wire::ProcStopResult {
    /// The wire form.
    #[must_use]
    pub fn encode(receipt: core::StopReceipt) -> Self {
        Self {
            status: wire::ProcStatus::encode(receipt.status),
        }
    }

    /// The receipt.
    ///
    /// # Errors
    ///
    /// `Protocol`, naming the member.
    pub fn decode(self) -> Result<core::StopReceipt> {
        let status = self.status.decode().within("status");
        Ok(core::StopReceipt {
            status: status.map_err(|invalid| invalid.broken(Verb::ProcStop))?,
        })
    }
}

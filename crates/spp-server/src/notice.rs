//! The lines that a provider sends unasked: progress, the end of a sandbox, the end of a stream.

use sandbox_core::{Closed, Progress, Result};
use spp_link::Sender;
use spp_protocol::codec::write_notification;
use spp_protocol::error::ErrorObject;
use spp_protocol::message::Notification;
use spp_protocol::message::stream::{Progress as WireProgress, SandboxClosed, StreamEnd};
use spp_protocol::message::value::StreamId;

pub(crate) fn sandbox_closed(sandbox: &str, generation: u64, closed: &Closed) -> Vec<u8> {
    line(&SandboxClosed::encode(sandbox.into(), generation, closed))
}

pub(crate) fn progress(id: u64, progress: Progress) -> Vec<u8> {
    line(&WireProgress {
        id,
        phase: progress.phase,
        message: progress.message,
    })
}

pub(crate) fn stream_end(sender: &Sender, result: Result<()>) -> Vec<u8> {
    line(&StreamEnd {
        stream: StreamId(sender.id()),
        bytes: result.is_ok().then(|| sender.sent()),
        error: result.err().as_ref().map(ErrorObject::encode),
    })
}

fn line<N: Notification>(params: &N) -> Vec<u8> {
    let mut line = Vec::with_capacity(160);
    write_notification(&mut line, params);
    line
}

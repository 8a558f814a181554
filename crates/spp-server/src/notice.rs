//! The lines that a provider sends unasked: progress, the end of a sandbox, the end of a stream.
//! What a provider says in them is cut to what fits a line.

use sandbox_core::{Closed, Progress, Result};
use spp_link::Sender;
use spp_protocol::codec::write_notification;
use spp_protocol::message::Notification;
use spp_protocol::message::stream::{Progress as WireProgress, SandboxClosed, StreamEnd};
use spp_protocol::message::value::StreamId;

use crate::failure::{TEXT_BYTES, beginning, object};

pub(crate) fn sandbox_closed(sandbox: &str, generation: u64, closed: &Closed) -> Vec<u8> {
    let mut message = SandboxClosed::encode(sandbox.into(), generation, closed);
    message.detail = beginning(&message.detail, TEXT_BYTES).into();
    line(&message)
}

pub(crate) fn progress(id: u64, progress: &Progress) -> Vec<u8> {
    line(&WireProgress {
        id,
        phase: beginning(&progress.phase, TEXT_BYTES).into(),
        message: beginning(&progress.message, TEXT_BYTES).into(),
    })
}

pub(crate) fn stream_end(sender: &Sender, result: Result<()>) -> Vec<u8> {
    line(&StreamEnd {
        stream: StreamId(sender.id()),
        bytes: result.is_ok().then(|| sender.sent()),
        error: result.err().as_ref().map(object),
    })
}

fn line<N: Notification>(params: &N) -> Vec<u8> {
    let mut line = Vec::with_capacity(160);
    write_notification(&mut line, params);
    line
}

//! The two ends that the JSON-RPC client behind us sees: our lanes and our reader.
//!
//! It is handed nothing but answers to calls under way, and gives us nothing but requests. Stream
//! data never passes through it, because it would have to lose some of it whenever a consumer
//! stalls.

use std::sync::Arc;

use jsonrpsee::core::client::{ReceivedMessage, TransportReceiverT, TransportSenderT};
use spp_link::LineReader;
use tokio::io::AsyncRead;

use crate::options::ConnectionEnd;
use crate::shared::{Shared, cancel_line};

/// How much of one line may come, in bytes, before it counts as one without end: more than any answer
/// has that was only too long.
const ENDLESS_BYTES: u64 = 256 * 1024 * 1024;

/// How often is read before others get their turn. A peer that floods always has more to read, and
/// each read may hold a thousand lines.
const READS_AT_ONCE: u32 = 16;

/// The connection has ended; why is in [`Shared`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection ended")]
pub(crate) struct Ended;

/// Takes requests.
pub(crate) struct Requests(pub(crate) Arc<Shared>);

impl TransportSenderT for Requests {
    type Error = Ended;

    async fn send(&mut self, request: String) -> Result<(), Ended> {
        let shared = &self.0;
        // The caller may have given up, and the end may have come, since the request was made.
        let Some((taken, cancelled)) = id_of(&request).and_then(|id| {
            let (taken, cancelled) = shared.calls.sent(id)?;
            Some((taken, cancelled.then_some(id)))
        }) else {
            return Ok(());
        };
        let mut line = request.into_bytes();
        line.push(b'\n');
        // If the writer is gone, whoever watches it ends the connection and fails the call.
        let _ = shared.lanes.control_tracked(line, taken);
        if let Some(id) = cancelled {
            let _ = shared.lanes.control(cancel_line(id));
        }
        Ok(())
    }
}

/// The id of a request, as the JSON-RPC library spells it.
fn id_of(request: &str) -> Option<u64> {
    let rest = request.strip_prefix(r#"{"jsonrpc":"2.0","id":"#)?;
    let end = rest.find(|character: char| !character.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// Gives answers.
pub(crate) struct Answers<R> {
    pub(crate) lines: LineReader<R>,
    pub(crate) shared: Arc<Shared>,
    /// How often was read so far.
    pub(crate) reads: u32,
}

impl<R: AsyncRead + Send + Unpin + 'static> TransportReceiverT for Answers<R> {
    type Error = Ended;

    async fn receive(&mut self) -> Result<ReceivedMessage, Ended> {
        loop {
            while let Some(line) = self.lines.buffered() {
                let answer = self.shared.line(&line);
                if self.shared.end().is_some() {
                    return Err(Ended);
                }
                if let Some(answer) = answer {
                    return Ok(ReceivedMessage::Bytes(answer));
                }
            }
            if self.lines.discarded() > ENDLESS_BYTES {
                self.shared.endless();
                return Err(Ended);
            }
            let filled = tokio::select! {
                biased;
                filled = self.lines.fill() => filled,
                _ = self.shared.ended() => return Err(Ended),
            };
            match filled {
                Ok(0) => {
                    let end = ConnectionEnd::disconnected("the provider closed its output");
                    self.shared.finish(end);
                    return Err(Ended);
                }
                Ok(_) => {
                    self.shared.heard();
                    self.reads = self.reads.wrapping_add(1);
                    if self.reads.is_multiple_of(READS_AT_ONCE) {
                        tokio::task::yield_now().await;
                    }
                }
                Err(error) => {
                    self.shared.finish(ConnectionEnd::disconnected(format!(
                        "reading from the provider failed: {error}"
                    )));
                    return Err(Ended);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_read_from_a_request_as_the_library_spells_it() {
        let request = jsonrpsee::types::Request::borrowed(
            "read",
            None,
            jsonrpsee::types::Id::Number(9_007_199_254_740_991),
        );
        let text = serde_json::to_string(&request).expect("a request is JSON");
        assert_eq!(id_of(&text), Some(9_007_199_254_740_991));
        assert_eq!(id_of(r#"{"jsonrpc":"2.0","method":"x"}"#), None);
    }
}

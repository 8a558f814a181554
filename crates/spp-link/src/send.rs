//! Streams that this side sends: data under byte credit.
//!
//! A [`Sender`] may have at most the receiver's stream window outstanding, and all senders of a
//! connection together at most its connection window; then it waits until the receiver gives some
//! back. Waiting is the back-pressure: whoever feeds the stream is not asked for more meanwhile.
//!
//! **Invariants.** What a chunk costs is its length plus [`CHUNK_OVERHEAD_BYTES`]. When a stream ends, what
//! was outstanding on it returns to the connection window, here and at the receiver, without a
//! message. Credit for a stream that has ended is ignored, and credit beyond what is outstanding
//! is not believed.
//!
//! Not here: when a stream ends. Whoever owns the [`Sender`] says so by a message of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sandbox_core::output::incomplete_end;
use spp_protocol::codec::write_stream_data;
use spp_protocol::limits::{CHUNK_OVERHEAD_BYTES, Window};
use spp_protocol::message::value::StreamId;
use tokio::sync::Notify;

use crate::CHUNK_BYTES;
use crate::lane::{Lanes, lock};

/// The sending half of all streams of a connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Senders(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lanes: Lanes,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    window: Window,
    outstanding: u64,
    streams: HashMap<u64, Arc<Mutex<Stream>>>,
    /// Senders that wait because the connection window is used up.
    starved: Vec<Arc<Notify>>,
    closed: bool,
}

#[derive(Debug)]
struct Stream {
    outstanding: u64,
    stopped: bool,
    wake: Arc<Notify>,
}

/// Why no more can be sent on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEnd {
    /// The receiver wants no more.
    Stopped,
    /// The connection is gone.
    Closed,
}

/// The id is in use by another stream of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdInUse;

impl Senders {
    /// No streams yet; `window` are the receiver's.
    #[must_use]
    pub fn new(lanes: Lanes, window: Window) -> Self {
        Self(Arc::new(Inner {
            lanes,
            state: Mutex::new(State {
                window,
                outstanding: 0,
                streams: HashMap::new(),
                starved: Vec::new(),
                closed: false,
            }),
        }))
    }

    /// Replaces the window, once the receiver has said what they are.
    pub fn set_window(&self, window: Window) {
        lock(&self.0.state).window = window;
    }

    /// Starts a stream.
    ///
    /// # Errors
    ///
    /// [`IdInUse`].
    pub fn open(&self, id: u64) -> Result<Sender, IdInUse> {
        let mut state = lock(&self.0.state);
        if state.streams.contains_key(&id) {
            return Err(IdInUse);
        }
        let wake = Arc::new(Notify::new());
        let stream = Arc::new(Mutex::new(Stream {
            outstanding: 0,
            stopped: false,
            wake: Arc::clone(&wake),
        }));
        state.streams.insert(id, Arc::clone(&stream));
        let largest = state.window.stream.saturating_sub(CHUNK_OVERHEAD_BYTES);
        drop(state);
        Ok(Sender {
            senders: self.clone(),
            id,
            stream,
            wake,
            largest: usize::try_from(largest)
                .unwrap_or(CHUNK_BYTES)
                .clamp(1, CHUNK_BYTES),
            seq: 0,
            offset: 0,
        })
    }

    /// The receiver gives back `bytes` of credit.
    pub fn credit(&self, id: u64, bytes: u64) {
        let mut state = lock(&self.0.state);
        let Some(stream) = state.streams.get(&id).cloned() else {
            return;
        };
        let mut stream = lock(&stream);
        let bytes = bytes.min(stream.outstanding);
        if bytes == 0 {
            // Nobody can send more for it, and a woken sender would only queue up once more.
            return;
        }
        stream.outstanding -= bytes;
        stream.wake.notify_one();
        state.release(bytes);
    }

    /// The receiver wants no more of a stream.
    pub fn stop(&self, id: u64) {
        if let Some(stream) = lock(&self.0.state).streams.get(&id) {
            let mut stream = lock(stream);
            stream.stopped = true;
            stream.wake.notify_one();
        }
    }

    /// The connection is gone: every sender ends.
    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        for stream in state.streams.values() {
            lock(stream).wake.notify_one();
        }
        state.starved.drain(..).for_each(|wake| wake.notify_one());
    }
}

impl State {
    fn release(&mut self, bytes: u64) {
        self.outstanding -= bytes;
        if bytes > 0 {
            self.starved.drain(..).for_each(|wake| wake.notify_one());
        }
    }
}

/// One stream. Dropping it gives its credit back to the connection.
#[derive(Debug)]
pub struct Sender {
    senders: Senders,
    id: u64,
    stream: Arc<Mutex<Stream>>,
    wake: Arc<Notify>,
    largest: usize,
    seq: u64,
    offset: u64,
}

impl Sender {
    /// Sends `bytes` in as many chunks as they need, and waits for credit and for the writer.
    ///
    /// # Errors
    ///
    /// [`SendEnd`]; how much was sent before is [`sent`](Self::sent).
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), SendEnd> {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(self.chunk_of(&bytes));
            self.reserve(chunk.len() as u64 + CHUNK_OVERHEAD_BYTES)
                .await?;
            let mut line = self.senders.0.lanes.buffer();
            write_stream_data(&mut line, StreamId(self.id), self.seq, self.offset, &chunk);
            if self.senders.0.lanes.data(line).await.is_err() {
                return Err(SendEnd::Closed);
            }
            self.seq += 1;
            self.offset += chunk.len() as u64;
        }
        Ok(())
    }

    /// Resolves when the receiver wants no more, or when the connection is gone.
    pub async fn ended(&self) -> SendEnd {
        loop {
            if let Err(end) = self.check() {
                return end;
            }
            self.wake.notified().await;
        }
    }

    /// Bytes sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.offset
    }

    /// The stream's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    fn check(&self) -> Result<(), SendEnd> {
        if lock(&self.stream).stopped {
            Err(SendEnd::Stopped)
        } else if lock(&self.senders.0.state).closed {
            Err(SendEnd::Closed)
        } else {
            Ok(())
        }
    }

    /// How much of `bytes` goes into the next chunk: text is not cut within a character, because a
    /// torn one would make the codec fall back to base64.
    fn chunk_of(&self, bytes: &Bytes) -> usize {
        if bytes.len() <= self.largest {
            return bytes.len();
        }
        let torn = incomplete_end(&bytes[..self.largest]);
        if torn < self.largest {
            self.largest - torn
        } else {
            self.largest
        }
    }

    async fn reserve(&self, cost: u64) -> Result<(), SendEnd> {
        loop {
            if self.try_reserve(cost)? {
                return Ok(());
            }
            self.wake.notified().await;
        }
    }

    fn try_reserve(&self, cost: u64) -> Result<bool, SendEnd> {
        let mut state = lock(&self.senders.0.state);
        let mut stream = lock(&self.stream);
        if stream.stopped {
            return Err(SendEnd::Stopped);
        }
        if state.closed {
            return Err(SendEnd::Closed);
        }
        if stream.outstanding + cost > state.window.stream {
            return Ok(false);
        }
        if state.outstanding + cost > state.window.connection {
            state.starved.push(Arc::clone(&self.wake));
            return Ok(false);
        }
        stream.outstanding += cost;
        state.outstanding += cost;
        Ok(true)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = lock(&self.senders.0.state);
        state.streams.remove(&self.id);
        let outstanding = lock(&self.stream).outstanding;
        state.release(outstanding);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt, StreamExt, future::join_all};
    use sandbox_core::Verb;
    use spp_protocol::codec::{Envelope, Line, StreamChunk};
    use spp_protocol::message::Notification;
    use spp_protocol::message::stream::{StreamCredit, StreamStop};
    use tokio::io::DuplexStream;

    use super::*;
    use crate::lane::lanes;
    use crate::{LineReader, Receivers};

    const WINDOW: Window = Window {
        stream: 64 * 1024,
        connection: 128 * 1024,
    };

    /// Two ends that are connected by two small pipes.
    fn connected() -> (Senders, Receivers) {
        let (near, near_writer) = lanes(1 << 20);
        let (far, far_writer) = lanes(1 << 20);
        let senders = Senders::new(near, WINDOW);
        let receivers = Receivers::new(far, WINDOW);
        let (to_far, from_near) = tokio::io::duplex(4096);
        let (to_near, from_far) = tokio::io::duplex(4096);
        tokio::spawn(near_writer.run(to_far));
        tokio::spawn(far_writer.run(to_near));
        let sink = receivers.clone();
        tokio::spawn(lines(from_near, move |line| {
            let chunk = StreamChunk::parse_line(line).expect("our own spelling");
            let bytes = chunk.payload.into_bytes().expect("our own spelling");
            sink.data(chunk.stream.0, chunk.seq, chunk.offset, bytes)
                .expect("what is sent is covered and follows");
        }));
        let source = senders.clone();
        tokio::spawn(lines(from_far, move |line| {
            let envelope = Envelope::parse(line).expect("JSON");
            let params = envelope.params.expect("parameters").get();
            match envelope.method.as_deref() {
                Some(StreamCredit::METHOD) => {
                    let it: StreamCredit = serde_json::from_str(params).expect("credit");
                    source.credit(it.stream.0, it.bytes);
                }
                _ => {
                    let it: StreamStop = serde_json::from_str(params).expect("a stop");
                    source.stop(it.stream.0);
                }
            }
        }));
        (senders, receivers)
    }

    async fn lines(pipe: DuplexStream, mut each: impl FnMut(&[u8])) {
        let mut lines = LineReader::new(pipe, 1 << 20);
        loop {
            while let Some(line) = lines.buffered() {
                match line {
                    Line::Complete(line) => each(line),
                    Line::TooLong { .. } => panic!("no line is that long"),
                }
            }
            if lines.fill().await.expect("a pipe in memory") == 0 {
                return;
            }
        }
    }

    #[tokio::test]
    async fn many_streams_under_a_small_window_all_arrive_whole_beside_one_that_stalls() {
        let (senders, receivers) = connected();
        let stall = |id| {
            let mut sender = senders.open(id).expect("a new id");
            let receiver = receivers.open(id, Verb::Exec).expect("a new id");
            let sending = tokio::spawn(async move {
                let end = sender.send(vec![b's'; 1 << 20].into()).await;
                (end, sender.sent())
            });
            (receiver, sending)
        };
        let stalled = [stall(1000)];
        let lengths = (0..50).map(|number: usize| 1_000 * number + 1);
        let transfers = (0..50u64).zip(lengths).map(|(id, length)| {
            let mut sender = senders.open(id).expect("a new id");
            let mut receiver = receivers.open(id, Verb::Exec).expect("a new id");
            let receivers = receivers.clone();
            async move {
                let sending = async {
                    for piece in [1, length, 70_000] {
                        sender
                            .send(vec![b'd'; piece].into())
                            .await
                            .expect("it is read");
                    }
                    sender.sent()
                };
                let reading = async {
                    let mut received = 0;
                    while received < 1 + length + 70_000 {
                        let chunk = receiver.next().await.expect("more").expect("no failure");
                        received += chunk.len();
                        tokio::task::yield_now().await;
                    }
                    received
                };
                let (sent, received) = futures_util::join!(sending, reading);
                assert_eq!(sent, received as u64);
                receivers.end(id, Some(sent), Ok(()));
                drop(sender);
            }
        });
        join_all(transfers).await;
        for (receiver, sending) in stalled {
            assert!(!sending.is_finished(), "nobody read it");
            drop(receiver);
            let (end, sent) = sending.await.expect("no panic");
            assert_eq!(end, Err(SendEnd::Stopped));
            assert!(sent <= WINDOW.stream, "{sent} bytes had credit");
        }
    }

    #[tokio::test]
    async fn text_is_not_cut_within_a_character() {
        let (lanes, _writer) = lanes(1 << 20);
        let senders = Senders::new(lanes, WINDOW);
        let sender = senders.open(1).expect("a new id");
        let text: Bytes = "\u{754c}".repeat(20_000).into();
        assert_eq!(sender.chunk_of(&text), CHUNK_BYTES - CHUNK_BYTES % 3);
        let noise: Bytes = vec![0x80; 100_000].into();
        assert_eq!(sender.chunk_of(&noise), CHUNK_BYTES);
        assert!(senders.open(1).is_err(), "the id is in use");
    }

    #[tokio::test]
    async fn credit_that_was_not_spent_is_not_believed() {
        let (lanes, _writer) = lanes(1 << 20);
        let senders = Senders::new(lanes, WINDOW);
        let sender = senders.open(1).expect("a new id");
        senders.credit(1, u64::MAX);
        senders.credit(2, 5);
        let mut spent = 0;
        while sender.try_reserve(1_000).expect("open") {
            spent += 1_000;
        }
        assert!(spent <= WINDOW.stream, "{spent} were spent");
        let other = senders.open(3).expect("a new id");
        while other.try_reserve(1_000).expect("open") {}
        let waiting = senders.open(4).expect("a new id");
        let mut waits = pin!(waiting.reserve(3_000));
        for _ in 0..1_000 {
            // Nothing is given back, so nobody wakes to queue up once more.
            senders.credit(4, 0);
            assert_eq!((&mut waits).now_or_never(), None);
        }
        let starved = lock(&senders.0.state).starved.len();
        assert!(starved <= 3, "{starved} entries for three senders");
        senders.close();
        assert_eq!(sender.ended().now_or_never(), Some(SendEnd::Closed));
    }
}

//! Streams that this side receives: bounded buffers between one reader and many consumers.
//!
//! The connection's reader hands every chunk to [`Receivers::data`] and never waits. What a
//! consumer has not taken yet is held here, at most one stream window each and one connection
//! window in all, because no more was ever granted. Taking a chunk earns credit, which goes back
//! to the sender once half a window was taken, or at once when the connection window runs low.
//!
//! **Invariants.** A chunk that was not covered by credit, or that does not follow the one before
//! it, ends its stream with [`ErrorKind::Protocol`] and nobody else's. Dropping a [`Receiver`] tells the
//! sender to stop; what is under way by then is discarded and its credit given back. A stream that
//! was ended cleanly delivers everything it held before it ends.
//!
//! Not here: who may open a stream. The side that names the ids opens before it sends them.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use sandbox_core::output::OutputKeeper;
use sandbox_core::{Error, ErrorKind, Result, Verb};
use spp_protocol::codec::write_notification;
use spp_protocol::limits::{CHUNK_OVERHEAD_BYTES, Window};
use spp_protocol::message::stream::{StreamCredit, StreamStop};
use spp_protocol::message::value::StreamId;

use crate::lane::{Lanes, lock};
use crate::send::IdInUse;

/// The receiving half of all streams of a connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receivers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lanes: Lanes,
    window: Window,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outstanding: u64,
    streams: HashMap<u64, Stream>,
    /// Streams with taken chunks whose credit was not given back yet.
    owing: Vec<u64>,
    closed: Option<Fault>,
}

#[derive(Debug, Default)]
struct Stream {
    chunks: VecDeque<Bytes>,
    seq: u64,
    offset: u64,
    /// Cost of what arrived and was not credited: held here, or taken and still owed.
    outstanding: u64,
    owed: u64,
    end: Option<Result<(), Fault>>,
    /// No more will arrive; only the consumer keeps the entry.
    finished: bool,
    /// Nobody will take anything.
    abandoned: bool,
    keeper: Option<Kept>,
    waker: Option<Waker>,
}

/// Head and tail of a stream, kept while it passes.
pub type Kept = Arc<Mutex<OutputKeeper>>;

/// How a stream failed. Turned into an [`Error`] for whoever reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub kind: ErrorKind,
    /// One sentence about it.
    pub detail: String,
}

/// What was wrong with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nobody opened this stream, or it has ended.
    Unknown,
    /// It was not covered by credit. The stream has failed.
    Overrun,
    /// It does not follow the chunk before it. The stream has failed.
    Gap,
}

impl Receivers {
    /// No streams yet; `window` are what this side grants.
    #[must_use]
    pub fn new(lanes: Lanes, window: Window) -> Self {
        Self(Arc::new(Inner {
            lanes,
            window,
            state: Mutex::default(),
        }))
    }

    /// Opens a stream, whose errors will name `verb`.
    ///
    /// # Errors
    ///
    /// [`IdInUse`].
    pub fn open(&self, id: u64, verb: Verb) -> Result<Receiver, IdInUse> {
        self.open_stream(id, verb, None)
    }

    /// As [`open`](Self::open), and shows `keeper` every byte as it arrives, until the consumer is
    /// dropped.
    ///
    /// # Errors
    ///
    /// [`IdInUse`].
    pub fn open_kept(&self, id: u64, verb: Verb, keeper: Kept) -> Result<Receiver, IdInUse> {
        self.open_stream(id, verb, Some(keeper))
    }

    fn open_stream(&self, id: u64, verb: Verb, keeper: Option<Kept>) -> Result<Receiver, IdInUse> {
        let mut state = lock(&self.0.state);
        if state.streams.contains_key(&id) {
            return Err(IdInUse);
        }
        let end = state.closed.clone().map(Err);
        state.streams.insert(
            id,
            Stream {
                end,
                keeper,
                ..Stream::default()
            },
        );
        Ok(Receiver {
            receivers: self.clone(),
            id,
            verb,
        })
    }

    /// A chunk arrived.
    ///
    /// # Errors
    ///
    /// [`Refused`]; a stream that fails by it tells its sender to stop.
    pub fn data(&self, id: u64, seq: u64, offset: u64, bytes: Bytes) -> Result<(), Refused> {
        let mut state = lock(&self.0.state);
        let State {
            outstanding: all,
            streams,
            ..
        } = &mut *state;
        let Some(stream) = streams.get_mut(&id).filter(|stream| !stream.finished) else {
            return Err(Refused::Unknown);
        };
        let cost = bytes.len() as u64 + CHUNK_OVERHEAD_BYTES;
        let window = self.0.window;
        let discard = stream.abandoned || stream.end.is_some();
        if stream.outstanding + cost > window.stream || *all + cost > window.connection {
            if !discard {
                self.fail(stream, id, "the peer sent more than it had credit for");
            }
            return Err(Refused::Overrun);
        }
        if (stream.seq, stream.offset) != (seq, offset) {
            if !discard {
                self.fail(stream, id, "a piece of the stream is missing or came twice");
            }
            return Err(Refused::Gap);
        }
        stream.seq += 1;
        stream.offset += bytes.len() as u64;
        stream.outstanding += cost;
        *all += cost;
        if discard {
            stream.owed += cost;
            state.settle(&self.0, id);
        } else {
            if let Some(keeper) = &stream.keeper {
                lock(keeper).push(&bytes);
            }
            stream.chunks.push_back(bytes);
            wake(&mut stream.waker);
            state.relieve(&self.0);
        }
        Ok(())
    }

    /// The sender says that nothing more will come, or that the stream has failed. Returns how
    /// many bytes came, or `None` if no such stream is open.
    ///
    /// - `bytes`: how many there were, if the sender said so. If others came the stream has failed.
    pub fn end(&self, id: u64, bytes: Option<u64>, result: Result<(), Fault>) -> Option<u64> {
        let mut state = lock(&self.0.state);
        let State {
            outstanding: all,
            streams,
            ..
        } = &mut *state;
        let stream = streams.get_mut(&id).filter(|stream| !stream.finished)?;
        let received = stream.offset;
        // What was outstanding returns to the connection on both sides, without a message.
        *all -= stream.outstanding;
        stream.outstanding = 0;
        stream.owed = 0;
        stream.finished = true;
        let result = match bytes {
            Some(bytes) if result.is_ok() && bytes != received => Err(Fault {
                kind: ErrorKind::Protocol,
                detail: format!("{received} bytes of the stream came, and {bytes} were sent"),
            }),
            _ => result,
        };
        stream.end.get_or_insert(result);
        wake(&mut stream.waker);
        if stream.abandoned {
            streams.remove(&id);
        }
        Some(received)
    }

    /// The connection is gone: every open stream fails with `fault` behind what it holds, and so
    /// does every stream opened from now on.
    pub fn close(&self, fault: &Fault) {
        let mut state = lock(&self.0.state);
        state.closed = Some(fault.clone());
        state.outstanding = 0;
        state.streams.retain(|_, stream| {
            stream.outstanding = 0;
            stream.owed = 0;
            if !stream.finished {
                stream.finished = true;
                stream.end.get_or_insert_with(|| Err(fault.clone()));
            }
            wake(&mut stream.waker);
            !stream.abandoned
        });
    }

    /// A chunk arrived that cannot be read: its stream fails, and its sender is told to stop.
    pub fn spoil(&self, id: u64, detail: &str) {
        let mut state = lock(&self.0.state);
        if let Some(stream) = state
            .streams
            .get_mut(&id)
            .filter(|stream| stream.end.is_none())
        {
            self.fail(stream, id, detail);
        }
    }

    fn fail(&self, stream: &mut Stream, id: u64, detail: &str) {
        stream.end = Some(Err(Fault {
            kind: ErrorKind::Protocol,
            detail: detail.into(),
        }));
        wake(&mut stream.waker);
        let _ = self.0.lanes.control(stop_line(id));
    }

    fn abandon(&self, id: u64) {
        let mut state = lock(&self.0.state);
        let Some(stream) = state.streams.get_mut(&id) else {
            return;
        };
        stream.chunks.clear();
        if stream.finished {
            state.streams.remove(&id);
            return;
        }
        stream.abandoned = true;
        stream.waker = None;
        stream.owed = stream.outstanding;
        if stream.end.is_none() {
            let _ = self.0.lanes.control(stop_line(id));
        }
        state.give_back(&self.0, id);
    }
}

impl State {
    /// Gives credit back where enough of it is owed.
    fn settle(&mut self, inner: &Inner, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.owed >= inner.window.stream / 2 {
            self.give_back(inner, id);
        } else {
            if !self.owing.contains(&id) {
                self.owing.push(id);
            }
            self.relieve(inner);
        }
    }

    /// Gives back whatever is owed while the connection window runs low, so that credit parked in
    /// many streams never starves one.
    fn relieve(&mut self, inner: &Inner) {
        if self.outstanding > inner.window.connection / 2 {
            for id in std::mem::take(&mut self.owing) {
                self.give_back(inner, id);
            }
        }
    }

    fn give_back(&mut self, inner: &Inner, id: u64) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.finished) else {
            return;
        };
        let owed = std::mem::take(&mut stream.owed);
        if owed > 0 {
            stream.outstanding -= owed;
            self.outstanding -= owed;
            let _ = inner.lanes.control(credit_line(id, owed));
        }
    }
}

/// The consumer's side of one stream, itself a stream of chunks.
#[derive(Debug)]
pub struct Receiver {
    receivers: Receivers,
    id: u64,
    verb: Verb,
}

impl Receiver {
    /// The stream's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The verb that its errors name.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.verb
    }
}

impl futures_core::Stream for Receiver {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let this = self.get_mut();
        let inner = &this.receivers.0;
        let mut state = lock(&inner.state);
        let Some(stream) = state.streams.get_mut(&this.id) else {
            return Poll::Ready(None);
        };
        if let Some(chunk) = stream.chunks.pop_front() {
            if !stream.finished {
                stream.owed += chunk.len() as u64 + CHUNK_OVERHEAD_BYTES;
                state.settle(inner, this.id);
            }
            return Poll::Ready(Some(Ok(chunk)));
        }
        match &mut stream.end {
            None => {
                stream.waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(fault)) => {
                let error = Error::new(this.verb, fault.kind).detail(&fault.detail);
                stream.end = Some(Ok(()));
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.receivers.abandon(self.id);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

fn credit_line(id: u64, bytes: u64) -> Vec<u8> {
    let mut line = Vec::with_capacity(96);
    let stream = StreamId(id);
    write_notification(&mut line, &StreamCredit { stream, bytes });
    line
}

fn stop_line(id: u64) -> Vec<u8> {
    let mut line = Vec::with_capacity(80);
    let stream = StreamId(id);
    write_notification(&mut line, &StreamStop { stream });
    line
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};
    use serde_json::Value;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::lane::{LaneWriter, lanes};

    const WINDOW: Window = Window {
        stream: 10_000,
        connection: 20_000,
    };
    /// Half a stream's window, as cost.
    const HALF: usize = 5_000 - 512;

    fn receivers() -> (Receivers, Lanes, LaneWriter) {
        let (lanes, writer) = lanes(1 << 20);
        (Receivers::new(lanes.clone(), WINDOW), lanes, writer)
    }

    fn bytes(length: usize) -> Bytes {
        vec![b'x'; length].into()
    }

    /// Method, stream and bytes of everything that was told to the sender.
    async fn told(lanes: &Lanes, writer: LaneWriter) -> Vec<(String, u64, u64)> {
        let (mut near, far) = tokio::io::duplex(1 << 20);
        lanes.close();
        writer.run(far).await.expect("the pipe holds everything");
        let mut text = String::new();
        near.read_to_string(&mut text).await.expect("UTF-8");
        text.lines()
            .map(|line| {
                let message: Value = serde_json::from_str(line).expect("JSON");
                let number = |name: &str| message["params"][name].as_u64().unwrap_or(0);
                let method = message["method"].as_str().expect("a method").to_owned();
                (method, number("stream"), number("bytes"))
            })
            .collect()
    }

    fn credit(stream: u64, bytes: u64) -> (String, u64, u64) {
        ("stream/credit".into(), stream, bytes)
    }

    #[tokio::test]
    async fn credit_is_given_back_once_half_a_window_was_taken() {
        let (receivers, lanes, writer) = receivers();
        let mut receiver = receivers.open(1, Verb::Exec).expect("a new id");
        receivers.data(1, 0, 0, bytes(HALF - 1)).expect("covered");
        assert_eq!(
            receiver.next().await.expect("data").expect("data").len(),
            HALF - 1
        );
        receivers
            .data(1, 1, HALF as u64 - 1, bytes(10))
            .expect("covered");
        receiver.next().await.expect("data").expect("data");
        receivers.end(1, Some(HALF as u64 + 9), Ok(()));
        assert!(receiver.next().await.is_none());
        drop(receiver);
        let all = HALF as u64 + 9 + 2 * 512;
        assert_eq!(told(&lanes, writer).await, [credit(1, all)]);
    }

    #[tokio::test]
    async fn credit_parked_in_many_streams_starves_none() {
        let (receivers, lanes, writer) = receivers();
        let mut readers: Vec<_> = (0..5)
            .map(|id| receivers.open(id, Verb::Exec).expect("a new id"))
            .collect();
        // Each takes less than half a window, so none would give credit back by itself.
        for (id, reader) in (0..).zip(&mut readers) {
            receivers.data(id, 0, 0, bytes(3_000)).expect("covered");
            reader.next().await.expect("data").expect("data");
        }
        let given: u64 = told(&lanes, writer).await.iter().map(|told| told.2).sum();
        assert!(given >= 3 * 3_512, "{given} came back");
    }

    #[tokio::test]
    async fn what_arrives_for_a_dropped_reader_is_discarded_and_its_credit_given_back() {
        let (receivers, lanes, writer) = receivers();
        let receiver = receivers.open(1, Verb::Exec).expect("a new id");
        receivers.data(1, 0, 0, bytes(1_000)).expect("covered");
        drop(receiver);
        for seq in 1..100 {
            receivers
                .data(1, seq, seq * 1_000, bytes(1_000))
                .expect("credit comes back");
        }
        let told = told(&lanes, writer).await;
        assert_eq!(told[0], ("stream/stop".into(), 1, 0));
        assert_eq!(told[1], credit(1, 1_512));
        let given: u64 = told.iter().map(|told| told.2).sum();
        assert!(given > 90 * 1_512, "{given} came back");
    }

    #[tokio::test]
    async fn an_end_returns_what_was_outstanding_and_keeps_what_was_not_read() {
        let (receivers, _lanes, _writer) = receivers();
        let mut first = receivers.open(1, Verb::Exec).expect("a new id");
        let _second = receivers.open(2, Verb::Exec).expect("a new id");
        receivers.data(1, 0, 0, bytes(9_000)).expect("covered");
        receivers.data(2, 0, 0, bytes(9_000)).expect("covered");
        let _third = receivers.open(3, Verb::Exec).expect("a new id");
        assert_eq!(
            receivers.data(3, 0, 0, bytes(5_000)),
            Err(Refused::Overrun),
            "the connection's window is used up"
        );
        assert_eq!(receivers.end(1, Some(9_000), Ok(())), Some(9_000));
        assert_eq!(receivers.end(1, None, Ok(())), None);
        assert_eq!(receivers.data(1, 1, 9_000, bytes(1)), Err(Refused::Unknown));
        let _fourth = receivers.open(4, Verb::Exec).expect("a new id");
        receivers
            .data(4, 0, 0, bytes(5_000))
            .expect("there is room again");
        assert_eq!(
            first.next().await.expect("data").expect("data").len(),
            9_000
        );
        assert!(first.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken_by_data_by_an_end_and_by_the_end_of_all() {
        let (receivers, _lanes, _writer) = receivers();
        let mut receiver = receivers.open(1, Verb::Exec).expect("a new id");
        assert!(receiver.next().now_or_never().is_none());
        let reading = tokio::spawn(async move {
            let first = receiver.next().await.expect("data");
            let second = receiver.next().await.expect("an error");
            (first, second, receiver.next().await)
        });
        tokio::task::yield_now().await;
        receivers.data(1, 0, 0, bytes(3)).expect("covered");
        tokio::task::yield_now().await;
        receivers.close(&Fault {
            kind: ErrorKind::Disconnected,
            detail: "gone".into(),
        });
        let (first, second, third) = reading.await.expect("no panic");
        assert_eq!(first.expect("data").len(), 3);
        let error = second.expect_err("the connection is gone");
        assert_eq!(
            (error.kind(), error.verb()),
            (ErrorKind::Disconnected, Verb::Exec)
        );
        assert!(third.is_none(), "an error is the last item");
        let mut late = receivers.open(2, Verb::Exec).expect("a new id");
        late.next()
            .await
            .expect("an error")
            .expect_err("the connection is gone");
    }
}

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
pub type Kept = Arc<Mutex<Keeping>>;

/// What is kept of a stream.
#[derive(Debug)]
pub struct Keeping {
    /// What has passed so far.
    pub keeper: OutputKeeper,
    /// Whether the stream went on, or was to go on, beyond what has passed: its consumer was
    /// dropped before its end, or it failed.
    pub is_cut: bool,
}

impl Keeping {
    /// Nothing has passed yet.
    #[must_use]
    pub fn new(keeper: OutputKeeper) -> Kept {
        Arc::new(Mutex::new(Self {
            keeper,
            is_cut: false,
        }))
    }
}

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

impl Refused {
    /// What is wrong, in a few words.
    #[must_use]
    pub fn problem(self) -> &'static str {
        match self {
            Self::Unknown => "no such stream is open",
            Self::Overrun => "the peer sent more than it had credit for",
            Self::Gap => "a piece of the stream is missing or came twice",
        }
    }
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
                self.fail(stream, id, Refused::Overrun.problem());
            }
            return Err(Refused::Overrun);
        }
        if (stream.seq, stream.offset) != (seq, offset) {
            if !discard {
                self.fail(stream, id, Refused::Gap.problem());
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
                lock(keeper).keeper.push(&bytes);
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
        if result.is_err() {
            stream.cut();
        }
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
                stream.cut();
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
        stream.cut();
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
        stream.cut();
        stream.waker = None;
        stream.owed = stream.outstanding;
        if stream.end.is_none() {
            let _ = self.0.lanes.control(stop_line(id));
        }
        state.give_back(&self.0, id);
    }
}

impl Stream {
    /// Not everything will have passed the keeper.
    fn cut(&self) {
        if let Some(keeper) = &self.keeper {
            lock(keeper).is_cut = true;
        }
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
mod tests;

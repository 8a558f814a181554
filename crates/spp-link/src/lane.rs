//! The two lanes of a writer: short control lines pass bulk data.
//!
//! Control lines (requests, short answers, credit, cancellation) are queued without waiting, so
//! that a reader can answer while the pipe is full. Data lines wait for a place in a queue of two,
//! which is what makes the producers of bulk slow down to the pipe. Between two control lines goes
//! at most one data line, and at most [`CONTROL_BURST`] bytes of control before data gets its turn,
//! so neither lane starves the other.
//!
//! **Invariants.** Within a lane, lines keep their order: an answer on the data lane arrives behind
//! the data that was queued before it. A peer that does not read cannot make the control queue
//! grow beyond its limit: the writer gives up instead.
//!
//! Not here: credit, which decides what may be queued as data ([`send`](crate::send)).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

/// Bytes of control lines that are written before a data line gets its turn.
pub const CONTROL_BURST: usize = 16 * 1024;

/// A longer answer is bulk and takes the data lane, in bytes.
pub const BULK_LINE: usize = 32 * 1024;

/// Bytes of control lines that wait while a peer is only slow.
const CONGESTED_BYTES: usize = 1024 * 1024;

/// Data lines that wait for the writer.
const DATA_QUEUE: usize = 2;

/// Buffers kept for reuse, and the largest that is kept, in bytes.
const SPARE_BUFFERS: usize = 8;
const SPARE_BYTES: usize = 128 * 1024;

/// The queue side. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lanes {
    control: mpsc::UnboundedSender<Control>,
    data: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

/// The writing side; [`run`](LaneWriter::run) is the writer.
#[derive(Debug)]
pub struct LaneWriter {
    control: mpsc::UnboundedReceiver<Control>,
    data: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
}

/// The writer is gone, so nothing will be written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Tells whether the writer has taken a line: from then on the peer may have seen it.
#[derive(Debug, Default)]
pub struct Taken {
    taken: AtomicBool,
    notify: Notify,
}

impl Taken {
    /// Whether the line was taken.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// Resolves once the line was taken. One task may wait.
    pub async fn wait(&self) {
        while !self.is_set() {
            self.notify.notified().await;
        }
    }

    /// Says that the line was taken.
    pub fn set(&self) {
        self.taken.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }
}

#[derive(Debug)]
struct Control {
    line: Vec<u8>,
    taken: Option<Arc<Taken>>,
}

#[derive(Debug)]
struct Shared {
    queued: AtomicUsize,
    limit: usize,
    overflow: Notify,
    closing: AtomicBool,
    close: Notify,
    spare: std::sync::Mutex<Vec<Vec<u8>>>,
}

/// Makes the two ends of a pair of lanes.
///
/// - `control_limit`: most bytes of control lines that may wait. A line beyond it is not queued, and
///   the writer ends with an error, because the peer has stopped reading.
#[must_use]
pub fn lanes(control_limit: usize) -> (Lanes, LaneWriter) {
    let (control, control_queue) = mpsc::unbounded_channel();
    let (data, data_queue) = mpsc::channel(DATA_QUEUE);
    let shared = Arc::new(Shared {
        queued: AtomicUsize::new(0),
        limit: control_limit,
        overflow: Notify::new(),
        closing: AtomicBool::new(false),
        close: Notify::new(),
        spare: std::sync::Mutex::default(),
    });
    let writer = LaneWriter {
        control: control_queue,
        data: data_queue,
        shared: Arc::clone(&shared),
    };
    let lanes = Lanes {
        control,
        data,
        shared,
    };
    (lanes, writer)
}

impl Lanes {
    /// Queues a control line, its end included. Never waits.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the writer is gone, or ends because too much waits already.
    pub fn control(&self, line: Vec<u8>) -> Result<(), Closed> {
        self.push(line, None)
    }

    /// As [`control`](Self::control), and sets `taken` once the writer has taken the line. It does
    /// not count against the limit of the queue: the caller bounds what it tracks.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the writer is gone.
    pub fn control_tracked(&self, line: Vec<u8>, taken: Arc<Taken>) -> Result<(), Closed> {
        self.push(line, Some(taken))
    }

    /// Queues a data line, its end included, once there is a place for it.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the writer is gone.
    pub async fn data(&self, line: Vec<u8>) -> Result<(), Closed> {
        self.data.send(line).await.map_err(|_| Closed)
    }

    /// Whether so much control is waiting that what is only informative is better left out.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.shared.queued.load(Ordering::Relaxed) > CONGESTED_BYTES
    }

    /// An empty buffer for a line, reused where possible.
    #[must_use]
    pub fn buffer(&self) -> Vec<u8> {
        lock(&self.shared.spare).pop().unwrap_or_default()
    }

    /// Lets the writer end once everything queued is written.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.shared.close.notify_one();
    }

    fn push(&self, line: Vec<u8>, taken: Option<Arc<Taken>>) -> Result<(), Closed> {
        let counted = if taken.is_none() { line.len() } else { 0 };
        let queued = self.shared.queued.fetch_add(counted, Ordering::Relaxed) + counted;
        if queued > self.shared.limit {
            // Whoever queues in a loop is told at once, before the writer gets its turn.
            self.shared.overflow.notify_one();
            return Err(Closed);
        }
        self.control
            .send(Control { line, taken })
            .map_err(|_| Closed)
    }
}

impl LaneWriter {
    /// Writes what is queued until [`Lanes::close`], or until every [`Lanes`] is gone, then shuts
    /// `writer` down.
    ///
    /// # Errors
    ///
    /// The writer's own error; [`io::ErrorKind::WriteZero`] and others as they come;
    /// [`io::ErrorKind::TimedOut`] if the peer let the control queue grow beyond its limit.
    pub async fn run(mut self, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let written = async {
            self.pump(&mut writer).await?;
            writer.shutdown().await
        };
        tokio::select! {
            result = written => result,
            () = shared.overflow.notified() => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the peer does not read: more than {} bytes wait for it", shared.limit),
            )),
        }
    }

    async fn pump(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut batch = Vec::with_capacity(2 * CONTROL_BURST);
        loop {
            batch.clear();
            let mut bulk = None;
            if self.shared.closing.load(Ordering::SeqCst) {
                // Not `recv`: it may report an empty queue when the task has used up its turn.
                if let Ok(control) = self.control.try_recv() {
                    self.append(&mut batch, control);
                } else if let Ok(line) = self.data.try_recv() {
                    bulk = Some(line);
                } else {
                    return Ok(());
                }
            } else {
                tokio::select! {
                    biased;
                    control = self.control.recv() => match control {
                        Some(control) => self.append(&mut batch, control),
                        None => return Ok(()),
                    },
                    data = self.data.recv() => bulk = data,
                    () = self.shared.close.notified() => continue,
                }
            }
            while batch.len() < CONTROL_BURST
                && let Ok(control) = self.control.try_recv()
            {
                self.append(&mut batch, control);
            }
            if bulk.is_none() {
                bulk = self.data.try_recv().ok();
            }
            match bulk {
                // One write for both, unless copying costs more than a second write.
                Some(line) if batch.is_empty() => {
                    writer.write_all(&line).await?;
                    self.keep(line);
                }
                Some(line) if line.len() <= CONTROL_BURST => {
                    batch.extend_from_slice(&line);
                    writer.write_all(&batch).await?;
                    self.keep(line);
                }
                Some(line) => {
                    writer.write_all(&batch).await?;
                    writer.write_all(&line).await?;
                    self.keep(line);
                }
                None => writer.write_all(&batch).await?,
            }
            writer.flush().await?;
            if batch.capacity() > SPARE_BYTES {
                batch = Vec::with_capacity(2 * CONTROL_BURST);
            }
        }
    }

    fn append(&self, batch: &mut Vec<u8>, control: Control) {
        match control.taken {
            Some(taken) => taken.set(),
            None => {
                let length = control.line.len();
                self.shared.queued.fetch_sub(length, Ordering::Relaxed);
            }
        }
        batch.extend_from_slice(&control.line);
        self.keep(control.line);
    }

    fn keep(&self, mut line: Vec<u8>) {
        if line.capacity() > SPARE_BYTES {
            return;
        }
        let mut spare = lock(&self.shared.spare);
        if spare.len() < SPARE_BUFFERS {
            line.clear();
            spare.push(line);
        }
    }
}

pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No critical section of this crate can panic half-way, so a poisoned state is a good one.
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn everything(lanes: &Lanes, writer: LaneWriter) -> String {
        let (mut near, far) = tokio::io::duplex(1 << 20);
        let write = tokio::spawn(writer.run(far));
        lanes.close();
        let mut text = String::new();
        near.read_to_string(&mut text)
            .await
            .expect("the lines are UTF-8");
        write
            .await
            .expect("the writer does not panic")
            .expect("the pipe holds everything");
        text
    }

    #[tokio::test]
    async fn a_control_line_passes_data_that_was_queued_before_it() {
        let (lanes, writer) = lanes(1 << 20);
        lanes.data(b"bulk 1\n".to_vec()).await.expect("open");
        lanes.data(b"bulk 2\n".to_vec()).await.expect("open");
        lanes.control(b"answer\n".to_vec()).expect("open");
        assert_eq!(everything(&lanes, writer).await, "answer\nbulk 1\nbulk 2\n");
    }

    #[tokio::test]
    async fn control_does_not_starve_data() {
        let (lanes, writer) = lanes(1 << 20);
        for _ in 0..40 {
            lanes
                .control([&[b'c'; 1023][..], b"\n"].concat())
                .expect("open");
        }
        lanes.data(b"data\n".to_vec()).await.expect("open");
        let text = everything(&lanes, writer).await;
        let position = text
            .lines()
            .position(|line| line == "data")
            .expect("the data line was written");
        assert!(
            (1..=17).contains(&position),
            "data came after {position} control lines"
        );
    }

    #[tokio::test]
    async fn a_peer_that_never_reads_ends_the_writer_instead_of_filling_memory() {
        let (lanes, writer) = lanes(10_000);
        let (_near, far) = tokio::io::duplex(16);
        let write = tokio::spawn(writer.run(far));
        // Refused before the writer had a turn, so that no loop can queue without end.
        let refused = (0..200).find(|_| lanes.control(vec![b'x'; 100]).is_err());
        assert_eq!(refused, Some(100));
        let error = write
            .await
            .expect("the writer does not panic")
            .expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_line_is_marked_when_the_peer_may_have_seen_it() {
        let (lanes, writer) = lanes(1 << 20);
        let taken = Arc::new(Taken::default());
        lanes
            .control_tracked(b"request\n".to_vec(), Arc::clone(&taken))
            .expect("open");
        assert!(!taken.is_set());
        everything(&lanes, writer).await;
        assert!(taken.is_set());
    }
}

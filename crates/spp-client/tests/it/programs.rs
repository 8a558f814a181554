//! The programs of the provider in memory, and bytes that can be predicted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, join, stream};
use sandbox_core::output::OutputKeeper;
use sandbox_core::process::*;
use sandbox_core::search::{Changes, Completeness};
use sandbox_core::*;

/// Counts what the provider was asked and what became of it.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) produced: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) verbs: AtomicU64,
    pub(crate) released: AtomicU64,
}

impl Counts {
    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }
}

/// Predictable bytes: every position of a stream has its own.
pub(crate) fn pattern(from: u64, length: usize) -> Bytes {
    (from..from + length as u64)
        .map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0])
        .collect::<Vec<u8>>()
        .into()
}

/// What is compared instead of the bytes.
#[derive(Default)]
pub(crate) struct Sum {
    hasher: blake3::Hasher,
    pub(crate) bytes: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.bytes, self.hasher.finalize())
    }

    /// The sum of the first bytes of the pattern.
    pub(crate) fn of_pattern(length: u64) -> String {
        let mut sum = Self::default();
        for from in (0..length).step_by(1 << 16) {
            let piece = (length - from).min(1 << 16);
            sum.add(&pattern(from, usize::try_from(piece).expect("small")));
        }
        sum.text()
    }
}

/// The pattern as a stream of pieces, counted when they are pulled.
pub(crate) fn pattern_stream(length: u64, piece: usize, counts: Arc<Counts>) -> ByteStream {
    Box::pin(stream::unfold(0, move |from| {
        let counts = Arc::clone(&counts);
        async move {
            if from >= length {
                return None;
            }
            let size = piece.min(usize::try_from(length - from).unwrap_or(usize::MAX));
            counts.produced.fetch_add(size as u64, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Some((Ok(pattern(from, size)), from + size as u64))
        }
    }))
}

pub(crate) async fn sum_of(mut stream: ByteStream) -> Result<Sum> {
    let mut sum = Sum::default();
    while let Some(chunk) = stream.next().await {
        sum.add(&chunk?);
    }
    Ok(sum)
}

pub(crate) fn exited(code: u8) -> ExitReport {
    report(Status::Exited(code))
}

pub(crate) fn report(status: Status) -> ExitReport {
    ExitReport {
        status,
        duration: Duration::from_millis(3),
        usage: Usage::default(),
        survivors: Survivors::default(),
    }
}

pub(crate) type Lines = futures_util::future::BoxFuture<'static, Result<(Bytes, ExitReport)>>;

/// Sends `text` on standard output when it is there, then ends.
pub(crate) fn simple(id: ProcId, request: &ExecRequest, text: Lines) -> Execution {
    let policy = request.process.output;
    let live = request.delivery == Delivery::Live;
    let changes = request.track.as_ref().map(|scope| created(scope.limit));
    let (send, receive) = tokio::sync::oneshot::channel::<Bytes>();
    let outcome_id = id.clone();
    Execution {
        id,
        stdout: Box::pin(stream::once(receive).filter_map(|text| async { text.ok().map(Ok) })),
        stderr: Box::pin(stream::empty()),
        outcome: Box::pin(async move {
            let (text, exit) = text.await?;
            let mut keeper = OutputKeeper::new(&policy);
            keeper.push(&text);
            if live {
                // The reader may have dropped its stream.
                let _ = send.send(text);
            }
            Ok(Outcome {
                id: outcome_id,
                exit,
                stdout: keeper.finish(),
                stderr: Output::default(),
                changes,
            })
        }),
    }
}

/// So many new entries, and nothing else.
pub(crate) fn created(entries: u64) -> Changes {
    let path = |number| SandboxPath::parse(format!("entry-{number}")).expect("a valid path");
    Changes {
        created: (0..entries).map(path).collect(),
        modified: Vec::new(),
        removed: Vec::new(),
        complete: Completeness::Complete,
    }
}

/// Writes `length` bytes of the pattern to both outputs.
pub(crate) fn producer(
    id: ProcId,
    request: &ExecRequest,
    length: u64,
    counts: &Arc<Counts>,
) -> Execution {
    let policy = request.process.output;
    let live = request.delivery == Delivery::Live;
    let source = || pattern_stream(length, 4096, Arc::clone(counts));
    let kept = move |source: ByteStream| async move {
        let mut keeper = OutputKeeper::new(&policy);
        let mut source = source;
        while let Some(chunk) = source.next().await {
            keeper.push(&chunk.expect("the pattern does not fail"));
        }
        keeper.finish()
    };
    let (live_out, live_err): (ByteStream, ByteStream) = if live {
        (source(), source())
    } else {
        (Box::pin(stream::empty()), Box::pin(stream::empty()))
    };
    let quiet = Arc::new(Counts::default());
    let outcome_id = id.clone();
    Execution {
        id,
        stdout: live_out,
        stderr: live_err,
        outcome: Box::pin(async move {
            let (stdout, stderr) = join!(
                kept(pattern_stream(length, 4096, Arc::clone(&quiet))),
                kept(pattern_stream(length, 4096, Arc::clone(&quiet))),
            );
            Ok(Outcome {
                id: outcome_id,
                exit: exited(0),
                stdout,
                stderr,
                changes: None,
            })
        }),
    }
}

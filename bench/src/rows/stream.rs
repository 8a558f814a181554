//! An `exec` that writes 256 MiB to a live reader, against reading the same from a pipe: once as
//! text, which travels as it is, and once as random bytes, which travel as base64.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use sandbox_core::Ctx;
use sandbox_core::process::{Delivery, ExecRequest};
use tokio::io::AsyncReadExt as _;

use super::{Place, Result, process};
use crate::harness::{ours_first, quiet, time};
use crate::memory;
use crate::report::{Row, rate, ratio, size};
use crate::tree::command;

const BYTES: usize = 256 << 20;
const ROUNDS: usize = 5;
const LEAST_MB_S: f64 = 300.0;
const MOST_GROWTH: u64 = 16 << 20;

pub(super) async fn run(place: &Place) -> Result<Vec<Row>> {
    let mut rows = compare(
        place,
        ["stream of text", "memory while streaming text"],
        text(),
    )
    .await?;
    rows.extend(
        compare(
            place,
            ["stream of bytes", "memory while streaming bytes"],
            random(),
        )
        .await?,
    );
    Ok(rows)
}

/// Text without end.
pub(super) fn text() -> impl Iterator<Item = u8> {
    let line = "the quick brown fox jumps over the lazy dog, 0123456789 times\n";
    line.bytes().cycle()
}

/// Bytes that are no text, without end, and the same in every run.
pub(super) fn random() -> impl Iterator<Item = u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

async fn compare(
    place: &Place,
    names: [&'static str; 2],
    content: impl Iterator<Item = u8>,
) -> Result<Vec<Row>> {
    let file = place.root.join(names[0].replace(' ', "-"));
    std::fs::write(&file, content.take(BYTES).collect::<Vec<u8>>())?;
    let (mut ours, mut peer, mut growth) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        for turn in [ours_first(round), !ours_first(round)] {
            quiet().await;
            if turn {
                let watch = Watch::start(place.provider);
                ours.push(sandboxed(place, &file).await?);
                growth = growth.max(watch.stop());
            } else {
                let (taken, read) = bare("cat", [&file]).await?;
                whole(read)?;
                peer.push(taken);
            }
        }
    }
    let (ours, peer) = (
        megabytes_per_second(BYTES, ours),
        megabytes_per_second(BYTES, peer),
    );
    Ok(vec![
        Row {
            row: names[0],
            ours: rate(ours),
            peer: Some(rate(peer)),
            ratio: ratio(ours, peer),
            bar: "at least 300 MB/s",
            holds: ours >= LEAST_MB_S,
        },
        Row {
            row: names[1],
            ours: format!("+{}", size(growth)),
            peer: None,
            ratio: None,
            bar: "host and provider grow by less than 16 MiB each",
            holds: growth < MOST_GROWTH,
        },
    ])
}

/// The rate of the median of several runs that each moved `bytes`.
pub(super) fn megabytes_per_second(bytes: usize, mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "a size far below 2^52")]
    let megabytes = bytes as f64 / 1e6;
    megabytes / times[times.len() / 2].as_secs_f64()
}

async fn sandboxed(place: &Place, file: &Path) -> Result<Duration> {
    let argv = [b"cat".as_slice(), file.as_os_str().as_encoded_bytes()];
    let request = ExecRequest::new(process(argv)).delivery(Delivery::Live);
    let (taken, read) = time(async {
        let mut execution = place.sandbox.exec(&Ctx::new(), request).await?;
        let (mut stdout, outcome) = (execution.stdout, execution.outcome);
        execution.stderr = Box::pin(futures_util::stream::empty());
        let read = async {
            let mut read = 0;
            while let Some(chunk) = stdout.next().await {
                read += chunk?.len();
            }
            Ok::<_, sandbox_core::Error>(read)
        };
        let (read, outcome) = futures_util::future::join(read, outcome).await;
        outcome?;
        read
    })
    .await;
    whole(read?)?;
    Ok(taken)
}

/// Runs a program and reads all that it writes: how long that took, and how much it was.
pub(super) async fn bare(
    program: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<(Duration, usize)> {
    let mut command = command(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let (taken, read) = time(async {
        let mut child = command.spawn()?;
        let mut stdout = child
            .stdout
            .take()
            .ok_or_else(|| std::io::Error::other("no pipe"))?;
        let mut buffer = vec![0; 64 * 1024];
        let mut read = 0;
        loop {
            match stdout.read(&mut buffer).await? {
                0 => break,
                some => read += some,
            }
        }
        child.wait().await?;
        Ok::<_, std::io::Error>(read)
    })
    .await;
    Ok((taken, read?))
}

fn whole(read: usize) -> Result<()> {
    if read == BYTES {
        Ok(())
    } else {
        Err(format!("{read} of {BYTES} bytes arrived").into())
    }
}

/// Samples the memory of this process and of the provider while something runs. A thread of its
/// own, so that a busy runtime does not hide a peak.
pub(super) struct Watch {
    done: Arc<AtomicBool>,
    growth: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    pub(super) fn start(provider: u32) -> Self {
        let pids = [std::process::id(), provider];
        let before = pids.map(memory::resident);
        let done = Arc::new(AtomicBool::new(false));
        let growth = Arc::new(AtomicU64::new(0));
        let thread = std::thread::spawn({
            let (done, growth) = (Arc::clone(&done), Arc::clone(&growth));
            move || {
                while !done.load(Ordering::Relaxed) {
                    for (pid, before) in pids.into_iter().zip(before) {
                        let grown = memory::resident(pid).saturating_sub(before);
                        growth.fetch_max(grown, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        Self {
            done,
            growth,
            thread,
        }
    }

    /// The larger growth of the two, in bytes.
    pub(super) fn stop(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.growth.load(Ordering::Relaxed)
    }
}

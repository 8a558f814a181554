//! What the tests of processes share: a place to run in, and looks at it from outside.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sandbox_core::process::{
    Delivery, ExecRequest, ExitReport, Outcome, OutputStream, ProcChunk, ProcReadRequest,
    ProcStatus, ProcessSpec, SpawnReceipt, SpawnRequest,
};
use sandbox_core::{ByteStream, Ctx, EnvChange, Error, ProcId, Verb, collect};
use sandbox_engine::process::environment::Environment;
use sandbox_engine::process::{Processes, Settings};
use sandbox_engine::supervisor::{Pool, PoolOptions};

/// Longest that anything may take that is meant to end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory and the processes of one sandbox.
pub(crate) struct Place {
    pub(crate) processes: Processes,
    pub(crate) root: PathBuf,
    _directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut environment = Environment::default();
        let path = EnvChange::set("PATH", "/usr/local/bin:/usr/bin:/bin");
        environment.change(Verb::Acquire, &[path]).expect("valid");
        let mut settings = Settings::new(environment);
        change(&mut settings);
        let pool = Pool::new(PoolOptions::default()).expect("a pool");
        let root = directory.path().to_owned();
        Place {
            processes: Processes::new(pool, settings),
            root,
            _directory: directory,
        }
    }

    pub(crate) fn directory(&self) -> OwnedFd {
        File::open(&self.root).expect("the root is there").into()
    }

    pub(crate) async fn exec(&self, request: ExecRequest) -> Result<Outcome, Error> {
        let execution = self
            .processes
            .exec(&Ctx::new(), request, self.directory())?;
        within(execution.outcome).await
    }

    /// Runs a script to its end.
    pub(crate) async fn sh(&self, script: &str) -> Outcome {
        self.exec(ExecRequest::new(sh(script)))
            .await
            .expect("the script runs")
    }

    pub(crate) async fn spawn(&self, request: SpawnRequest) -> Result<SpawnReceipt, Error> {
        within(self.processes.spawn(&Ctx::new(), request, self.directory())).await
    }

    pub(crate) async fn read(&self, id: &ProcId, stream: OutputStream, from: u64) -> ProcChunk {
        let request = ProcReadRequest {
            id: id.clone(),
            stream,
            from,
            max: u64::MAX,
            wait: PATIENCE,
        };
        within(self.processes.proc_read(&Ctx::new(), request))
            .await
            .expect("readable")
    }

    /// Reads a stream from its start to its end.
    pub(crate) async fn read_all(&self, id: &ProcId, stream: OutputStream) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let chunk = self.read(id, stream, all.len() as u64).await;
            assert_eq!(chunk.offset, all.len() as u64, "a gap");
            all.extend_from_slice(&chunk.bytes);
            if chunk.end {
                return all;
            }
        }
    }

    pub(crate) async fn report(&self, id: &ProcId) -> ExitReport {
        loop {
            let chunk = self.read(id, OutputStream::Stdout, u64::MAX).await;
            if let ProcStatus::Ended(report) = chunk.status {
                return report;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).unwrap_or_default()
    }
}

pub(crate) fn sh(script: &str) -> ProcessSpec {
    ProcessSpec::new(["sh", "-c", script])
}

pub(crate) fn bash(script: &str) -> ProcessSpec {
    ProcessSpec::new(["bash", "-c", script])
}

pub(crate) fn id(text: &str) -> ProcId {
    ProcId::new(text).expect("a plain name")
}

/// Fails instead of waiting for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it hangs")
}

/// Runs with live output, read to the end.
pub(crate) async fn live(place: &Place, spec: ProcessSpec) -> (Vec<u8>, Vec<u8>, Outcome) {
    let request = ExecRequest::new(spec).delivery(Delivery::Live);
    let execution = place
        .processes
        .exec(&Ctx::new(), request, place.directory())
        .expect("admitted");
    let all = |stream: ByteStream| collect(Verb::Exec, stream, u64::MAX);
    let (stdout, stderr, outcome) = within(async {
        tokio::join!(
            all(execution.stdout),
            all(execution.stderr),
            execution.outcome
        )
    })
    .await;
    let bytes = |stream: Result<bytes::Bytes, Error>| stream.expect("the stream is whole").to_vec();
    (bytes(stdout), bytes(stderr), outcome.expect("it ran"))
}

/// A number that no other test uses, to find processes by.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{next}", 100_000 + std::process::id())
}

/// Living processes whose command line contains this text.
pub(crate) fn running(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text) && !is_zombie(*pid)
    })
    .collect()
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_none_or(|rest| rest.starts_with('Z') || rest.is_empty())
}

/// Children of this process that have ended and were not waited for.
pub(crate) fn zombies() -> usize {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            fields.next() == Some("Z") && fields.next() == Some(&own)
        })
        .count()
}

pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

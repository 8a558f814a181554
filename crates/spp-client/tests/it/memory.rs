//! A provider that lives in memory: real traits, real streams, no operating system.
//!
//! Programs are built in: `produce N` writes N bytes that can be predicted, `digest` says what it
//! read, `sleep` waits for its cancellation, and so on ([`MemorySandbox::exec`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, join, stream};
use sandbox_core::file::*;
use sandbox_core::output::OutputKeeper;
use sandbox_core::process::*;
use sandbox_core::search::*;
use sandbox_core::transfer::*;
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

pub(crate) struct Memory {
    info: Arc<ProviderInfo>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) sandboxes: Mutex<BTreeMap<SandboxId, Arc<MemorySandbox>>>,
    generation: AtomicU64,
}

impl Memory {
    pub(crate) fn new(capabilities: Capabilities) -> Arc<Self> {
        Arc::new(Self {
            info: Arc::new(ProviderInfo {
                name: "memory".into(),
                version: "1.2.3".into(),
                capabilities,
            }),
            counts: Arc::default(),
            sandboxes: Mutex::default(),
            generation: AtomicU64::new(1),
        })
    }

    /// Everything is declared.
    pub(crate) fn whole() -> Arc<Self> {
        Self::new(Capability::ALL.into_iter().collect())
    }

    pub(crate) fn sandbox(&self, id: &str) -> Arc<MemorySandbox> {
        let id = SandboxId::new(id).expect("a valid id");
        Arc::clone(&self.sandboxes.lock().expect("not poisoned")[&id])
    }
}

#[async_trait]
impl Provider for Memory {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::clone(&self.info)
    }

    async fn probe(&self, _: &Ctx, spec: &AcquireSpec) -> Result<Probe> {
        Ok(match &spec.root {
            None => Probe::Works {
                notes: vec!["it is only memory".into()],
            },
            Some(root) => Probe::Fails {
                reason: format!("there is no `{root}`"),
                remedy: "leave it out".into(),
            },
        })
    }

    async fn acquire(&self, ctx: &Ctx, spec: &AcquireSpec) -> Result<Arc<dyn Sandbox>> {
        ctx.report(Progress {
            phase: "place".into(),
            message: "making room".into(),
        });
        if spec.template.as_deref() == Some("never") {
            ctx.cancel().cancelled().await;
            return Err(Error::refused(Verb::Acquire, ErrorKind::Cancelled));
        }
        let mut sandboxes = self.sandboxes.lock().expect("not poisoned");
        if let Some(known) = sandboxes.get(&spec.id)
            && !known.gone.is_cancelled()
        {
            return Ok(Arc::clone(known) as Arc<dyn Sandbox>);
        }
        let sandbox = Arc::new(MemorySandbox::new(
            spec.id.clone(),
            self.generation.fetch_add(1, Ordering::SeqCst),
            &self.info,
            Arc::clone(&self.counts),
        ));
        sandboxes.insert(spec.id.clone(), Arc::clone(&sandbox));
        Ok(sandbox)
    }

    async fn attach(&self, _: &Ctx, state: &SandboxState) -> Result<Arc<dyn Sandbox>> {
        let sandboxes = self.sandboxes.lock().expect("not poisoned");
        match sandboxes.get(&state.id) {
            Some(known) if known.descriptor.generation == state.generation => {
                Ok(Arc::clone(known) as Arc<dyn Sandbox>)
            }
            _ => Err(Error::refused(Verb::Attach, ErrorKind::Lost).on(&state.id)),
        }
    }

    async fn release(
        &self,
        _: &Ctx,
        id: &SandboxId,
        disposition: Disposition,
    ) -> Result<ReleaseReceipt> {
        let removed = self.sandboxes.lock().expect("not poisoned").remove(id);
        if removed.is_some() {
            self.counts.released.fetch_add(1, Ordering::SeqCst);
        }
        Ok(ReleaseReceipt {
            existed: removed.is_some(),
            disposition,
        })
    }

    async fn list(&self, _: &Ctx) -> Result<Vec<SandboxEntry>> {
        let sandboxes = self.sandboxes.lock().expect("not poisoned");
        Ok(sandboxes
            .keys()
            .map(|id| SandboxEntry {
                id: id.clone(),
                labels: BTreeMap::new(),
                running: true,
            })
            .collect())
    }

    async fn prepare(&self, _: &Ctx, template: &TemplateSpec) -> Result<TemplateReceipt> {
        Ok(TemplateReceipt {
            key: template.name.clone(),
            reused: false,
        })
    }

    async fn update(&self, _: &Ctx, id: &SandboxId, _: &Update) -> Result<()> {
        match self.sandboxes.lock().expect("not poisoned").get(id) {
            Some(_) => Ok(()),
            None => Err(Error::refused(Verb::Update, ErrorKind::SandboxNotFound).on(id)),
        }
    }
}

pub(crate) struct MemorySandbox {
    descriptor: Arc<Descriptor>,
    files: Mutex<BTreeMap<SandboxPath, Bytes>>,
    counts: Arc<Counts>,
    gone: Cancel,
}

impl MemorySandbox {
    fn new(id: SandboxId, generation: u64, info: &ProviderInfo, counts: Arc<Counts>) -> Self {
        let root = SandboxPath::parse("/workspace").expect("a valid path");
        Self {
            descriptor: Arc::new(Descriptor {
                location: "memory".into(),
                provider: info.name.clone(),
                id,
                generation: Generation(generation),
                platform: Platform {
                    os: "linux".into(),
                    arch: "x86_64".into(),
                },
                root,
                home: None,
                shell: None,
                network: Network::None,
                guarantees: BTreeMap::from([(Restriction::NetworkDenied, Grade::Full)]),
                limits: BTreeMap::new(),
                capabilities: info.capabilities.clone(),
                notes: vec![],
            }),
            files: Mutex::default(),
            counts,
            gone: Cancel::new(),
        }
    }

    /// The sandbox dies.
    pub(crate) fn lose(&self) {
        self.gone.cancel();
    }

    fn content(&self, verb: Verb, path: &SandboxPath) -> Result<FileContent> {
        let files = self.files.lock().expect("not poisoned");
        let bytes = files
            .get(path)
            .cloned()
            .ok_or_else(|| Error::refused(verb, ErrorKind::NotFound).on(path))?;
        Ok(FileContent {
            offset: 0,
            total_bytes: bytes.len() as u64,
            total_lines: None,
            digest: None,
            mode: 0o644,
            modified: Some(std::time::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789)),
            text: TextFacts {
                encoding: Encoding::Utf8,
                bom: false,
                newline: Newline::Lf,
            },
            bytes,
        })
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

async fn sum_of(mut stream: ByteStream) -> Result<Sum> {
    let mut sum = Sum::default();
    while let Some(chunk) = stream.next().await {
        sum.add(&chunk?);
    }
    Ok(sum)
}

fn exited(code: u8) -> ExitReport {
    report(Status::Exited(code))
}

fn report(status: Status) -> ExitReport {
    ExitReport {
        status,
        duration: Duration::from_millis(3),
        usage: Usage::default(),
        survivors: Survivors::default(),
    }
}

type Lines = futures_util::future::BoxFuture<'static, Result<(Bytes, ExitReport)>>;

/// Sends `text` on standard output when it is there, then ends.
fn simple(id: ProcId, request: &ExecRequest, text: Lines) -> Execution {
    let policy = request.process.output;
    let live = request.delivery == Delivery::Live;
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
                changes: None,
            })
        }),
    }
}

/// Writes `length` bytes of the pattern to both outputs.
fn producer(id: ProcId, request: &ExecRequest, length: u64, counts: &Arc<Counts>) -> Execution {
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

#[async_trait]
impl Sandbox for MemorySandbox {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    async fn closed(&self) -> Closed {
        self.gone.cancelled().await;
        Closed::Lost {
            reason: "the memory was needed elsewhere".into(),
        }
    }

    async fn capture_state(&self, _: &Ctx) -> Result<SandboxState> {
        Ok(SandboxState {
            provider: "memory".into(),
            id: self.descriptor.id.clone(),
            generation: self.descriptor.generation,
            data: r#"{"n":12345678901234567890123}"#.into(),
        })
    }

    async fn read(&self, ctx: &Ctx, request: ReadRequest) -> Result<FileContent> {
        self.counts.verbs.fetch_add(1, Ordering::SeqCst);
        match request.path.as_str() {
            // Waits for its cancellation.
            Some("wait") => {
                self.counts.started.fetch_add(1, Ordering::SeqCst);
                ctx.cancel().cancelled().await;
                self.counts.cancelled.fetch_add(1, Ordering::SeqCst);
                Err(Error::refused(Verb::Read, ErrorKind::Cancelled))
            }
            // Does not care.
            Some("stuck") => std::future::pending().await,
            Some("panic") => panic!("this defect is deliberate"),
            _ => self.content(Verb::Read, &request.path),
        }
    }

    async fn read_many(&self, _: &Ctx, request: ReadManyRequest) -> Result<ReadManyResult> {
        Ok(request
            .paths
            .iter()
            .map(|path| self.content(Verb::ReadMany, path))
            .collect())
    }

    async fn write(&self, _: &Ctx, request: WriteRequest) -> Result<WriteResult> {
        self.counts.verbs.fetch_add(1, Ordering::SeqCst);
        let mut files = self.files.lock().expect("not poisoned");
        Ok(request
            .changes
            .into_iter()
            .map(|change| match change {
                Change::Put { path, content, .. } => {
                    let bytes = content.len() as u64;
                    let existed = files.insert(path, content).is_some();
                    Ok(WriteReceipt {
                        existed,
                        bytes,
                        line_delta: 0,
                        digest: None,
                        replaced: 0,
                    })
                }
                other => Err(Error::refused(Verb::Write, ErrorKind::NotFound).on(other.path())),
            })
            .collect())
    }

    async fn remove(&self, _: &Ctx, request: RemoveRequest) -> Result<RemoveReceipt> {
        let removed = self
            .files
            .lock()
            .expect("not poisoned")
            .remove(&request.path);
        Ok(RemoveReceipt {
            existed: removed.is_some(),
            entries: u64::from(removed.is_some()),
        })
    }

    async fn stat_many(&self, _: &Ctx, request: StatManyRequest) -> Result<StatManyResult> {
        self.counts.verbs.fetch_add(1, Ordering::SeqCst);
        let files = self.files.lock().expect("not poisoned");
        Ok(request
            .paths
            .iter()
            .map(|path| {
                Ok(files.get(path).map(|bytes| Stat {
                    kind: EntryKind::File,
                    size: bytes.len() as u64,
                    mode: 0o644,
                    modified: None,
                    changed: None,
                    inode: u64::MAX,
                    links: 1,
                    target: None,
                }))
            })
            .collect())
    }

    async fn glob(&self, _: &Ctx, request: GlobRequest) -> Result<GlobResult> {
        // Asked for many entries it gives many: an answer longer than any line.
        let entries = (0..request.limit)
            .map(|number| FoundEntry {
                path: SandboxPath::parse(format!("{number:0200}")).expect("a valid path"),
                stat: None,
            })
            .collect();
        Ok(GlobResult {
            entries,
            complete: Completeness::Complete,
        })
    }

    async fn grep(&self, _: &Ctx, _: GrepRequest) -> Result<GrepResult> {
        Ok(GrepResult {
            files: vec![],
            searched: 0,
            complete: Completeness::Complete,
        })
    }

    async fn fingerprint(&self, _: &Ctx, _: FingerprintRequest) -> Result<Fingerprint> {
        Ok(Fingerprint {
            digest: Digest::from_bytes([7; 32]),
            entries: 0,
            complete: Completeness::Complete,
            changes: None,
        })
    }

    async fn exec(&self, ctx: &Ctx, mut request: ExecRequest) -> Result<Execution> {
        self.counts.verbs.fetch_add(1, Ordering::SeqCst);
        let id = request
            .id
            .clone()
            .unwrap_or_else(|| ProcId::new("p1").expect("a valid id"));
        let argv: Vec<String> = request
            .process
            .argv
            .iter()
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect();
        let number = || {
            let text = argv.get(1).expect("a number");
            text.parse::<u64>().expect("a number")
        };
        let stdin: ByteStream = match std::mem::replace(&mut request.stdin, Stdin::Null) {
            Stdin::Null => Box::pin(stream::empty()),
            Stdin::Bytes(bytes) => Box::pin(stream::iter([Ok(bytes)])),
            Stdin::Stream(stream) => stream,
        };
        let counts = Arc::clone(&self.counts);
        let text: Lines = match argv[0].as_str() {
            "echo" => {
                let line = argv[1..].join(" ") + "\n";
                Box::pin(async move { Ok((line.into(), exited(0))) })
            }
            "exit" => {
                let code = u8::try_from(number()).expect("a code");
                Box::pin(async move { Ok((Bytes::new(), exited(code))) })
            }
            "digest" => {
                Box::pin(async move { Ok((sum_of(stdin).await?.text().into(), exited(0))) })
            }
            // Takes that many bytes of its input and no more.
            "take" => {
                let wanted = number();
                Box::pin(async move {
                    let mut stdin = stdin;
                    let mut sum = Sum::default();
                    while sum.bytes < wanted {
                        let Some(chunk) = stdin.next().await else {
                            break;
                        };
                        sum.add(&chunk?);
                    }
                    drop(stdin);
                    Ok((Bytes::new(), exited(0)))
                })
            }
            "sleep" => {
                counts.started.fetch_add(1, Ordering::SeqCst);
                let cancel = ctx.cancel().clone();
                Box::pin(async move {
                    cancel.cancelled().await;
                    counts.cancelled.fetch_add(1, Ordering::SeqCst);
                    Ok((Bytes::from_static(b"so far"), report(Status::Cancelled)))
                })
            }
            "missing" => {
                return Err(Error::refused(Verb::Exec, ErrorKind::NotFound).on(&argv[0]));
            }
            "broken" => Box::pin(async {
                Err(Error::new(Verb::Exec, ErrorKind::Io).detail("the disk is on fire"))
            }),
            "produce" => return Ok(producer(id, &request, number(), &self.counts)),
            other => panic!("there is no program {other}"),
        };
        Ok(simple(id, &request, text))
    }

    async fn spawn(&self, _: &Ctx, request: SpawnRequest) -> Result<SpawnReceipt> {
        Ok(SpawnReceipt {
            id: request.id,
            pid: 42,
        })
    }

    async fn proc_read(&self, _: &Ctx, request: ProcReadRequest) -> Result<ProcChunk> {
        let bytes = pattern(request.from, usize::try_from(request.max).expect("small"));
        Ok(ProcChunk {
            offset: request.from,
            total: request.from + bytes.len() as u64,
            bytes,
            end: false,
            status: ProcStatus::Running,
        })
    }

    async fn proc_stdin(&self, _: &Ctx, request: ProcStdinRequest) -> Result<StdinReceipt> {
        let expected = pattern(request.offset, request.bytes.len());
        if request.bytes != expected {
            return Err(Error::refused(Verb::ProcStdin, ErrorKind::Conflict));
        }
        Ok(StdinReceipt {
            next: request.offset + request.bytes.len() as u64,
            closed: request.close,
        })
    }

    async fn proc_stop(&self, _: &Ctx, _: ProcStopRequest) -> Result<StopReceipt> {
        Ok(StopReceipt {
            status: ProcStatus::Ended(exited(0)),
        })
    }

    async fn push_tree(&self, _: &Ctx, request: PushRequest) -> Result<PushReceipt> {
        let sum = sum_of(request.archive).await?;
        Ok(PushReceipt {
            applied: 1,
            removed: 0,
            bytes: sum.bytes,
            manifest: Manifest {
                entries: vec![ManifestEntry {
                    path: SandboxPath::parse(sum.text()).expect("a valid path"),
                    kind: EntryKind::File,
                    mode: 0o644,
                    size: sum.bytes,
                    digest: None,
                }],
            },
        })
    }

    async fn pull_tree(&self, _: &Ctx, request: PullRequest) -> Result<Pull> {
        let length = u64::from(request.scopes[0].max_depth.expect("a number"));
        let entry = |number: u64| ManifestEntry {
            path: SandboxPath::parse(format!("file-{number}")).expect("a valid path"),
            kind: EntryKind::File,
            mode: 0o600,
            size: number,
            digest: Some(Digest::from_bytes([1; 32])),
        };
        Ok(Pull {
            archive: pattern_stream(length, 10_000, Arc::clone(&self.counts)),
            receipt: Box::pin(async move {
                Ok(PullReceipt {
                    entries: 3,
                    removed: vec![],
                    manifest: Manifest {
                        entries: (0..2000).map(entry).collect(),
                    },
                })
            }),
        })
    }
}

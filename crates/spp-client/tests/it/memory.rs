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
use futures_util::{StreamExt, stream};
use sandbox_core::file::*;
use sandbox_core::process::*;
use sandbox_core::search::*;
use sandbox_core::transfer::*;
use sandbox_core::*;

pub(crate) use crate::programs::Counts;
use crate::programs::{
    Lines, Sum, created, exited, pattern, pattern_stream, producer, report, simple, sum_of,
};

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

    async fn list(&self, _: &Ctx, _: Option<&str>) -> Result<Vec<SandboxEntry>> {
        let sandboxes = self.sandboxes.lock().expect("not poisoned");
        Ok(sandboxes
            .keys()
            .map(|id| SandboxEntry {
                id: id.clone(),
                labels: BTreeMap::new(),
                running: true,
                claim: Claim::Held,
                detail: String::new(),
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
    pub(crate) files: Mutex<BTreeMap<SandboxPath, Bytes>>,
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

    async fn fingerprint(&self, _: &Ctx, request: FingerprintRequest) -> Result<Fingerprint> {
        Ok(Fingerprint {
            digest: Digest::from_bytes([7; 32]),
            entries: 0,
            complete: Completeness::Complete,
            changes: request.base.map(|_| created(request.scope.limit)),
            uncompared: None,
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
                    flaws: vec![],
                    manifest: Manifest {
                        entries: (0..2000).map(entry).collect(),
                    },
                })
            }),
        })
    }
}

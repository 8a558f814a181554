//! What is not declared answers `Unsupported`, and has no effect.
//!
//! A capability that is missing must be missed by name: a caller that finds out by a crash, a hang or a
//! half-done change cannot work around it. So in place of each check whose need is not declared, this
//! is checked.

use futures_util::stream;
use sandbox_core::file::{
    Change, Durability, Existing, Precondition, ReadManyRequest, WriteRequest,
};
use sandbox_core::process::{
    ExecRequest, OutputStream, ProcStdinRequest, ProcStopRequest, ProcessSpec, PtySize,
    SpawnRequest, Stdin, Stop,
};
use sandbox_core::search::{
    Case, FingerprintDepth, FingerprintRequest, FingerprintScope, GlobRequest, GrepRequest, Lines,
    Pattern, PatternSyntax, Scope, Sort, WithStat,
};
use sandbox_core::transfer::{Compression, PullRequest, PushRequest};
use sandbox_core::{
    Capability, Error, ErrorKind, Generation, Result, SandboxExt, SandboxPath, SandboxState,
    TemplateSpec, Update,
};

use crate::check::Verdict;
use crate::harness::{Place, fresh_id};
use crate::support::{path, proc_id, read_log, refused};

/// Asks, with the smallest request there is, for each thing that is not declared.
pub(crate) async fn what_is_not_declared_answers_unsupported(place: &Place) -> Verdict {
    let declared = &place.provider.info().capabilities;
    for capability in Capability::ALL {
        if !declared.has(capability) {
            answers_unsupported(place, capability).await?;
        }
    }
    Ok(())
}

/// Fails unless what needs `capability` answers `Unsupported` without effect.
pub(crate) async fn answers_unsupported(place: &Place, capability: Capability) -> Verdict {
    for answer in ask(place, capability).await? {
        refused(
            answer,
            ErrorKind::Unsupported,
            &format!("{capability:?}, which is not declared,"),
        )?;
    }
    Ok(())
}

/// What is answered to the smallest requests that need `capability`.
async fn ask(place: &Place, capability: Capability) -> Result<Vec<Result<()>>, crate::Failure> {
    let ctx = place.ctx();
    let (sandbox, provider) = (&place.sandbox, &place.provider);
    let nothing = || ProcessSpec::new(["true"]);
    let change = async |change: Change| sandbox.change(&ctx, change).await.map(drop);
    let run = async |request: ExecRequest| match sandbox.exec(&ctx, request).await {
        Ok(execution) => execution.outcome.await.map(drop),
        Err(error) => Err(error),
    };
    let answer = match capability {
        Capability::ReadMany => {
            let request = ReadManyRequest {
                paths: vec![path("file")],
                total_max: 1,
            };
            sandbox.read_many(&ctx, request).await.map(drop)
        }
        Capability::Edit => change(Change::edit(path("file"), "a", "b")).await,
        Capability::MakeDirectory => {
            change(Change::MakeDirectory {
                path: path("made"),
                mode: None,
            })
            .await
        }
        Capability::Rename => {
            change(Change::Rename {
                from: path("file"),
                to: path("name"),
                existing: Existing::Keep,
            })
            .await
        }
        Capability::SetMode => {
            change(Change::SetMode {
                path: path("file"),
                mode: 0o600,
            })
            .await
        }
        Capability::Link => {
            change(Change::Link {
                path: path("linked"),
                target: "file".into(),
            })
            .await
        }
        Capability::Precondition => {
            change(Change::Put {
                path: path("put"),
                content: "content".into(),
                mode: None,
                precondition: Precondition::Absent,
            })
            .await
        }
        Capability::Durable => {
            let request = WriteRequest {
                changes: vec![Change::put(path("put"), "content")],
                durability: Durability::Durable,
            };
            match sandbox.write(&ctx, request).await {
                Ok(mut answers) => answers.remove(0).map(drop),
                Err(error) => Err(error),
            }
        }
        Capability::Glob => {
            let request = GlobRequest {
                scope: Scope::new(SandboxPath::root()),
                sort: Sort::None,
                limit: 1,
                stat: WithStat::No,
            };
            sandbox.glob(&ctx, request).await.map(drop)
        }
        Capability::Grep => sandbox.grep(&ctx, grep()).await.map(drop),
        Capability::Fingerprint => {
            let request = FingerprintRequest {
                scope: everything(),
                base: None,
            };
            sandbox.fingerprint(&ctx, request).await.map(drop)
        }
        Capability::Track => {
            run(ExecRequest {
                track: Some(everything()),
                ..ExecRequest::new(nothing())
            })
            .await
        }
        Capability::Stdin => run(ExecRequest::new(nothing()).stdin(Stdin::Bytes("x".into()))).await,
        Capability::Pty => {
            let mut process = nothing();
            process.pty = Some(PtySize {
                rows: 24,
                columns: 80,
            });
            run(ExecRequest::new(process)).await
        }
        Capability::Spawn => return Ok(ask_for_processes(place).await),
        Capability::PushTree => {
            let request = PushRequest {
                destination: path("pushed"),
                archive: Box::pin(stream::empty()),
                compression: Compression::None,
                base: None,
                removed: Vec::new(),
            };
            sandbox.push_tree(&ctx, request).await.map(drop)
        }
        Capability::PullTree => {
            let request = PullRequest {
                scopes: vec![Scope::new(SandboxPath::root())],
                compression: Compression::None,
                base: None,
            };
            match sandbox.pull_tree(&ctx, request).await {
                Ok(pull) => {
                    drop(pull.archive);
                    pull.receipt.await.map(drop)
                }
                Err(error) => Err(error),
            }
        }
        Capability::Probe => provider.probe(&ctx, &place.spec).await.map(drop),
        Capability::Attach => {
            let state = SandboxState {
                provider: provider.info().name.clone(),
                id: fresh_id(),
                generation: Generation(1),
                data: "{}".to_owned(),
            };
            let captured = sandbox.capture_state(&ctx).await.map(drop);
            return Ok(vec![
                captured,
                provider.attach(&ctx, &state).await.map(drop),
            ]);
        }
        Capability::List => provider.list(&ctx, None).await.map(drop),
        Capability::Prepare => {
            let template = TemplateSpec {
                name: "template".to_owned(),
                options: None,
            };
            provider.prepare(&ctx, &template).await.map(drop)
        }
        Capability::Update => {
            let update = Update::default();
            provider.update(&ctx, &place.spec.id, &update).await
        }
        Capability::Lease => {
            let mut leased = place.spec.clone();
            leased.id = fresh_id();
            leased.lease = Some(std::time::Duration::from_secs(60));
            provider.acquire(&ctx, &leased).await.map(drop)
        }
        // A wish that accompanies an acquire, and no verb: what cannot linger is not asked to.
        Capability::Linger => return Ok(Vec::new()),
    };
    Ok(vec![answer])
}

async fn ask_for_processes(place: &Place) -> Vec<Result<(), Error>> {
    let (ctx, sandbox, id) = (place.ctx(), &place.sandbox, proc_id("asked"));
    let spawn = SpawnRequest::new(id.clone(), ProcessSpec::new(["true"]));
    let read = read_log(&id, OutputStream::Stdout, 0, std::time::Duration::ZERO);
    let stdin = ProcStdinRequest {
        id: id.clone(),
        offset: 0,
        bytes: "x".into(),
        close: false,
        resize: None,
    };
    let stop = ProcStopRequest {
        id,
        stop: Stop::Kill,
    };
    vec![
        sandbox.spawn(&ctx, spawn).await.map(drop),
        sandbox.proc_read(&ctx, read).await.map(drop),
        sandbox.proc_stdin(&ctx, stdin).await.map(drop),
        sandbox.proc_stop(&ctx, stop).await.map(drop),
    ]
}

fn grep() -> GrepRequest {
    GrepRequest {
        scope: Scope::new(SandboxPath::root()),
        pattern: Pattern {
            text: "x".to_owned(),
            syntax: PatternSyntax::Literal,
            case: Case::Sensitive,
            lines: Lines::Single,
        },
        before: 0,
        after: 0,
        max_per_file: None,
        limit: 1,
        max_line_bytes: 1,
    }
}

fn everything() -> FingerprintScope {
    FingerprintScope {
        scope: Scope::new(SandboxPath::root()),
        depth: FingerprintDepth::Metadata,
        limit: 1,
    }
}

//! Every verb goes to the provider and its answer comes back as it was.

use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_core::file::*;
use sandbox_core::process::*;
use sandbox_core::search::*;
use sandbox_core::transfer::*;
use sandbox_core::*;

use crate::memory::Memory;
use crate::programs::pattern;
use crate::{connect, path, sandbox, spec};

#[tokio::test]
async fn the_handshake_says_who_is_there_and_what_it_can_do() {
    let (connection, _) = connect(Memory::whole()).await;
    let info = connection.info();
    assert_eq!((&*info.name, &*info.version), ("memory", "1.2.3"));
    assert!(Capability::ALL.iter().all(|it| info.capabilities.has(*it)));
    assert_eq!(connection.instance().len(), 16);
}

#[tokio::test]
async fn the_life_of_a_sandbox() {
    let provider = Memory::whole();
    let (connection, _) = connect(provider).await;
    let ctx = Ctx::new();
    assert!(matches!(
        connection.probe(&ctx, &spec("a")).await,
        Ok(Probe::Works { .. })
    ));
    let first = connection.acquire(&ctx, &spec("a")).await.expect("room");
    let again = connection.acquire(&ctx, &spec("a")).await.expect("room");
    assert_eq!(first.descriptor(), again.descriptor());
    assert_eq!(first.descriptor().root, path("/workspace"));

    let state = first.capture_state(&ctx).await.expect("a state");
    assert_eq!(state.data, r#"{"n":12345678901234567890123}"#);
    let attached = connection.attach(&ctx, &state).await.expect("it is there");
    assert_eq!(attached.descriptor().id, first.descriptor().id);

    let entries = connection.list(&ctx, None).await.expect("a list");
    assert_eq!(entries.len(), 1);
    let id = first.descriptor().id.clone();
    connection
        .update(&ctx, &id, &Update::default())
        .await
        .expect("it is there");

    let release = || connection.release(&ctx, &id, Disposition::Destroy);
    assert!(release().await.expect("released").existed);
    assert!(!release().await.expect("released already").existed);
    assert_eq!(first.closed().await, Closed::Released);
    let error = first
        .read(&ctx, ReadRequest::new(path("x")))
        .await
        .expect_err("it was released");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::SandboxNotFound, Effect::None)
    );
}

#[tokio::test]
async fn files_of_any_size_and_content_come_back_as_they_went() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let contents = [
        Bytes::new(),
        Bytes::from_static("na\u{ef}ve \u{1f600}\n\"\\".as_bytes()),
        pattern(0, 100),
        pattern(0, 32 * 1024),
        pattern(0, 32 * 1024 + 1),
        Bytes::from(vec![b'x'; 3 << 20]),
        pattern(0, 5 << 20),
    ];
    // One request with all of them, then each by itself.
    let changes = contents
        .iter()
        .enumerate()
        .map(|(number, content)| Change::put(path(&format!("f{number}")), content.clone()));
    let receipts = sandbox.write(&ctx, WriteRequest::new(changes)).await;
    for (receipt, content) in receipts.expect("all are written").iter().zip(&contents) {
        let receipt = receipt.as_ref().expect("each is written");
        assert_eq!(receipt.bytes, content.len() as u64);
    }
    for (number, content) in contents.iter().enumerate() {
        let name = path(&format!("f{number}"));
        let read = sandbox.read_file(&ctx, name).await.expect("it is there");
        assert_eq!(read.bytes, content);
        assert_eq!(read.text.newline, Newline::Lf);
        let since = read
            .modified
            .expect("a time")
            .duration_since(std::time::UNIX_EPOCH);
        assert_eq!(since.expect("after").as_nanos(), 1_234_567_890_123_456_789);
    }
    let paths = ["f6", "nothing", "f1", "f5"].map(path).to_vec();
    let request = ReadManyRequest {
        paths,
        total_max: 64 << 20,
    };
    let items = sandbox.read_many(&ctx, request).await.expect("an answer");
    assert_eq!(items[0].as_ref().expect("there").bytes, contents[6]);
    assert_eq!(
        items[1].as_ref().expect_err("not there").kind(),
        ErrorKind::NotFound
    );
    assert_eq!(items[2].as_ref().expect("there").bytes, contents[1]);
    assert_eq!(items[3].as_ref().expect("there").bytes, contents[5]);
}

#[tokio::test]
async fn the_small_verbs() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    sandbox
        .put(&ctx, path("caf\u{e9}"), Bytes::from_static(b"x"))
        .await
        .expect("written");
    let request = StatManyRequest {
        paths: vec![path("caf\u{e9}"), path("none")],
    };
    let stats = sandbox.stat_many(&ctx, request).await.expect("stats");
    let stat = stats[0]
        .as_ref()
        .expect("looked at")
        .as_ref()
        .expect("there");
    assert_eq!((stat.size, stat.inode), (1, u64::MAX));
    assert_eq!(*stats[1].as_ref().expect("looked at"), None);

    let request = RemoveRequest {
        path: path("caf\u{e9}"),
        recursion: Recursion::No,
    };
    let receipt = sandbox.remove(&ctx, request).await.expect("removed");
    assert!(receipt.existed);

    let scope = Scope::new(SandboxPath::root());
    let glob = GlobRequest {
        scope: scope.clone(),
        sort: Sort::Path,
        limit: 10,
        stat: WithStat::No,
    };
    let found = sandbox.glob(&ctx, glob).await.expect("found");
    assert_eq!(found.entries.len(), 10);
    let request = FingerprintRequest {
        scope: FingerprintScope {
            scope,
            depth: FingerprintDepth::Metadata,
            limit: 1,
        },
        base: None,
    };
    let fingerprint = sandbox.fingerprint(&ctx, request).await.expect("a digest");
    assert_eq!(fingerprint.digest, Digest::from_bytes([7; 32]));
}

/// More changes than a line holds: what could be told of them is worth more than a refusal.
#[tokio::test]
async fn changes_that_no_line_holds_are_cut_and_lose_no_outcome() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    for (entries, whole) in [(1000, true), (200_000, false)] {
        let scope = FingerprintScope {
            scope: Scope::new(SandboxPath::root()),
            depth: FingerprintDepth::Metadata,
            limit: entries,
        };
        let request = ExecRequest {
            track: Some(scope.clone()),
            ..ExecRequest::new(ProcessSpec::new(["echo", "done"]))
        };
        let execution = sandbox.exec(&ctx, request).await.expect("it runs");
        let outcome = execution.outcome.await.expect("an outcome");
        assert_eq!(outcome.stdout.head, "done\n");
        let request = FingerprintRequest {
            scope,
            base: Some(Digest::from_bytes([1; 32])),
        };
        let fingerprint = sandbox.fingerprint(&ctx, request).await.expect("an answer");
        for changes in [outcome.changes, fingerprint.changes] {
            let changes = changes.expect("they were asked for");
            assert_eq!(changes.created.len() as u64 == entries, whole);
            assert_eq!(changes.complete == Completeness::Complete, whole);
            assert!(!changes.created.is_empty());
        }
    }
}

#[tokio::test]
async fn an_outcome_is_the_same_however_it_is_delivered() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    for length in ["10", "40000", "1000000", "3000000"] {
        let request = |delivery| {
            let mut process = ProcessSpec::new(["produce", length]);
            process.output.head = 100_000;
            ExecRequest::new(process).delivery(delivery)
        };
        let quiet = sandbox.exec(&ctx, request(Delivery::AtEnd)).await;
        let quiet = quiet.expect("started").outcome.await.expect("an outcome");
        let live = sandbox.exec(&ctx, request(Delivery::Live)).await;
        let Execution {
            stdout,
            stderr,
            outcome,
            ..
        } = live.expect("started");
        let (_, _, live) = futures_util::join!(
            collect(Verb::Exec, stdout, u64::MAX),
            collect(Verb::Exec, stderr, u64::MAX),
            outcome
        );
        let live = live.expect("an outcome");
        assert_eq!(live.stdout, quiet.stdout);
        assert_eq!(live.stderr, quiet.stderr);
        assert_eq!(live.exit, quiet.exit);
        assert_eq!(live.stdout.total, length.parse::<u64>().expect("a number"));
    }
}

#[tokio::test]
async fn failures_to_start_come_from_the_outcome_and_end_the_streams() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let request = ExecRequest::new(ProcessSpec::new(["missing"])).delivery(Delivery::Live);
    let mut execution = sandbox.exec(&ctx, request).await.expect("on its way");
    let error = execution.outcome.await.expect_err("there is no program");
    assert_eq!(
        (error.kind(), error.effect(), error.subject()),
        (ErrorKind::NotFound, Effect::None, "missing")
    );
    assert!(execution.stdout.next().await.is_none());

    let request = ExecRequest::new(ProcessSpec::new(["broken"])).delivery(Delivery::Live);
    let mut execution = sandbox.exec(&ctx, request).await.expect("on its way");
    let error = execution.outcome.await.expect_err("it broke");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Io, Effect::Unknown)
    );
    // Its output ended well; that the run did not is the outcome's to say.
    assert!(execution.stdout.next().await.is_none());
}

#[tokio::test]
async fn processes_that_run_on() {
    let provider = Memory::whole();
    let (sandbox, _connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let id = ProcId::new("server").expect("a valid id");
    let request = SpawnRequest::new(id.clone(), ProcessSpec::new(["x"]));
    assert_eq!(sandbox.spawn(&ctx, request).await.expect("started").pid, 42);
    for max in [0, 100, MAX_PROC_READ_BYTES] {
        let request = ProcReadRequest {
            id: id.clone(),
            stream: OutputStream::Stdout,
            from: 17,
            max,
            wait: std::time::Duration::ZERO,
        };
        let chunk = sandbox.proc_read(&ctx, request).await.expect("a chunk");
        assert_eq!(
            chunk.bytes,
            pattern(17, usize::try_from(max).expect("small"))
        );
    }
    for length in [0, 10, MAX_PROC_STDIN_BYTES] {
        let request = ProcStdinRequest {
            id: id.clone(),
            offset: 5,
            bytes: pattern(5, length),
            close: true,
            resize: None,
        };
        let receipt = sandbox.proc_stdin(&ctx, request).await.expect("taken");
        assert_eq!((receipt.next, receipt.closed), (5 + length as u64, true));
    }
    let request = ProcStopRequest {
        id,
        stop: Stop::Kill,
    };
    let receipt = sandbox.proc_stop(&ctx, request).await.expect("stopped");
    assert!(matches!(receipt.status, ProcStatus::Ended(_)));
}

#[tokio::test]
async fn what_is_not_declared_is_refused_before_the_provider_is_asked() {
    let provider = Memory::new(Capabilities::mandatory());
    let (sandbox, connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    let unsupported = |error: &Error| {
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unsupported, Effect::None),
            "{error}"
        );
    };
    let request = ReadManyRequest {
        paths: vec![path("x")],
        total_max: 1,
    };
    unsupported(
        &sandbox
            .read_many(&ctx, request)
            .await
            .expect_err("undeclared"),
    );
    unsupported(&connection.list(&ctx, None).await.expect_err("undeclared"));
    let edit = sandbox.edit(&ctx, path("x"), "a".into(), "b".into()).await;
    unsupported(&edit.expect_err("undeclared"));
    let stdin = ExecRequest::new(ProcessSpec::new(["digest"]))
        .stdin(Stdin::Bytes(Bytes::from_static(b"x")));
    let outcome = sandbox.exec(&ctx, stdin).await.expect("on its way").outcome;
    unsupported(&outcome.await.expect_err("undeclared"));
    let push = PushRequest {
        destination: SandboxPath::root(),
        archive: Box::pin(futures_util::stream::iter([Ok(pattern(0, 100_000))])),
        compression: Compression::None,
        base: None,
        removed: vec![],
    };
    unsupported(&sandbox.push_tree(&ctx, push).await.expect_err("undeclared"));
    assert_eq!(
        provider
            .counts
            .verbs
            .load(std::sync::atomic::Ordering::SeqCst),
        0
    );
    // What is mandatory still works.
    let outcome = sandbox.run(&ctx, ProcessSpec::new(["echo", "hi"])).await;
    assert_eq!(&outcome.expect("it ran").stdout.head[..], b"hi\n");
}

#[tokio::test]
async fn progress_is_told_while_the_call_is_under_way() {
    let (connection, _) = connect(Memory::whole()).await;
    let (told, heard) = std::sync::mpsc::channel();
    let ctx = Ctx::new().with_progress(move |step| {
        told.send(step.phase).expect("the test listens");
    });
    connection.acquire(&ctx, &spec("a")).await.expect("room");
    assert_eq!(heard.try_recv().as_deref(), Ok("place"));
}

#[tokio::test]
async fn a_sandbox_that_dies_is_lost_for_ever_and_its_successor_is_another() {
    let provider = Memory::whole();
    let (old, connection) = sandbox(&provider).await;
    let ctx = Ctx::new();
    provider.sandbox("s1").lose();
    let Closed::Lost { reason } = crate::soon(old.closed()).await else {
        panic!("it was lost, not released");
    };
    assert!(reason.contains("needed elsewhere"));
    let new = connection.acquire(&ctx, &spec("s1")).await.expect("room");
    assert!(new.descriptor().generation > old.descriptor().generation);
    new.put(&ctx, path("x"), Bytes::new())
        .await
        .expect("it lives");
    let error = old
        .read_file(&ctx, path("x"))
        .await
        .expect_err("it is gone");
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Lost, Effect::None)
    );
}

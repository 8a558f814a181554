//! Limits on a container: what is beyond them is stopped and named, a neighbour does not notice, and what cannot be had is
//! said.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_core::file::ReadRequest;
use sandbox_core::process::{Outcome, ProcessSpec, Status};
use sandbox_core::{
    Closed, Ctx, EnforcedBy, ErrorKind, Limit, LimitKind, Policy, Sandbox, SandboxExt as _,
    SandboxPath, Strength,
};
use sandbox_host::{Host, OpenRequest, Opened};

use super::support::{IMAGE, Scratch, docker, end, sh};

const MEMORY: u64 = 64 << 20;
/// Uses up memory by itself.
const HOG: &str = "exec dd if=/dev/zero of=/dev/null bs=256M count=1 2>&1";

fn policy(kind: LimitKind, value: u64, strength: Strength) -> Policy {
    let mut policy = Policy::default();
    policy.limits.insert(kind, Limit { value, strength });
    policy
}

async fn limited(scratch: &Scratch, host: &Host, policy: Policy) -> Opened {
    let request = OpenRequest {
        policy: Some(policy),
        ..scratch.request()
    };
    let opened = host.open(&Ctx::new(), None, request).await;
    opened.unwrap_or_else(|error| panic!("{}", super::support::told(&error)))
}

fn enforced_by(opened: &Opened, kind: LimitKind) -> EnforcedBy {
    opened.sandbox.descriptor().limits[&kind].enforced_by
}

/// What becomes of a script.
async fn run(sandbox: &dyn Sandbox, script: &str, timeout: Duration) -> Outcome {
    let mut spec = ProcessSpec::new(["sh", "-c", script]);
    spec.timeout = Some(timeout);
    spec.grace = Duration::ZERO;
    let outcome = sandbox.run(&Ctx::new(), spec).await;
    outcome.unwrap_or_else(|error| panic!("{script}: {error}"))
}

async fn status(sandbox: &dyn Sandbox, script: &str) -> Status {
    run(sandbox, script, Duration::from_secs(30))
        .await
        .exit
        .status
}

/// How many processes are in the one container of a sandbox.
fn processes(opened: &Opened) -> usize {
    let containers = super::support::containers(&opened.sandbox.descriptor().id);
    let [container] = &*containers else {
        panic!("one container: {containers:?}")
    };
    // The first line names columns.
    docker(&["top", container, "-o", "pid"]).lines().count() - 1
}

#[tokio::test]
async fn a_fork_bomb_stops_at_the_limit_and_a_neighbour_does_not_notice() {
    const MOST: usize = 60;
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let policy = policy(LimitKind::Processes, MOST as u64, Strength::Required);
    let opened = limited(&scratch, &host, policy).await;
    assert_eq!(
        enforced_by(&opened, LimitKind::Processes),
        EnforcedBy::Container
    );
    let beside = scratch.open(&host).await;
    // Whoever is told its outcome makes no process any more.
    let bomb = "bomb() { bomb | bomb & sleep 1000; }; bomb & exec sleep 1000";
    let bomb = run(&*opened.sandbox, bomb, Duration::from_secs(4));
    let watch = async {
        let (began, mut most) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(3) {
            let asked = Instant::now();
            assert_eq!(sh(&*beside.sandbox, "echo up").await, "up\n");
            assert!(asked.elapsed() < Duration::from_secs(2), "it noticed");
            most = most.max(processes(&opened));
        }
        most
    };
    let (outcome, most) = tokio::join!(bomb, watch);
    assert_eq!(outcome.exit.status, Status::TimedOut);
    assert!((20..=MOST).contains(&most), "{most} processes");
    // The sandbox goes on, and everything has gone.
    assert_eq!(status(&*opened.sandbox, "exit 3").await, Status::Exited(3));
    beside
        .release(&Ctx::new(), sandbox_core::Disposition::Destroy)
        .await
        .expect("it ends");
    end(opened, &host).await;
}

#[tokio::test]
async fn memory_beyond_the_limit_ends_the_command_by_that_name_and_the_sandbox_goes_on() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let policy = policy(LimitKind::Memory, MEMORY, Strength::Required);
    let opened = limited(&scratch, &host, policy).await;
    assert_eq!(
        enforced_by(&opened, LimitKind::Memory),
        EnforcedBy::Container
    );
    let sandbox = &*opened.sandbox;
    let limits = "cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes /sys/fs/cgroup/memory.swap.max 2>/dev/null";
    let swap = sh(sandbox, limits).await;
    assert!(
        [format!("{MEMORY}\n"), "0\n".to_owned()].contains(&swap),
        "no swap: {swap}"
    );
    for _ in 0..3 {
        assert_eq!(status(sandbox, HOG).await, Status::MemoryLimit);
    }
    assert_eq!(status(sandbox, "true").await, Status::Exited(0));
    let killed = Status::Signalled {
        signal: 9,
        core: false,
    };
    assert_eq!(
        status(sandbox, "kill -KILL $$").await,
        killed,
        "nobody's memory"
    );
    // Many small ones are ended too, and never the engine, whose share is smaller than theirs.
    let many = "for i in $(seq 40); do (x=$(head -c 4000000 /dev/zero | tr '\\0' x); sleep 2) & done; wait";
    status(sandbox, many).await;
    assert_eq!(status(sandbox, "true").await, Status::Exited(0));
    let unlimited = scratch.open(&host).await;
    assert_eq!(status(&*unlimited.sandbox, HOG).await, Status::Exited(0));
    unlimited
        .release(&Ctx::new(), sandbox_core::Disposition::Destroy)
        .await
        .expect("it ends");
    end(opened, &host).await;
}

#[tokio::test]
async fn an_engine_that_memory_is_taken_from_is_lost_by_the_name_of_the_limit() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let policy = policy(LimitKind::Memory, MEMORY / 2, Strength::Required);
    let opened = limited(&scratch, &host, policy).await;
    let file = std::fs::File::create(scratch.workspace().join("big")).expect("a file");
    file.set_len(MEMORY).expect("room for holes");
    // What a file verb needs is the engine's own, and nobody else is there who could be killed for it.
    let read = ReadRequest {
        max: u64::MAX,
        ..ReadRequest::new(SandboxPath::parse("big").expect("valid"))
    };
    let read = opened.sandbox.read(&Ctx::new(), read).await.map(drop);
    let error = read.expect_err("there is no memory for it");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    let closed = tokio::time::timeout(Duration::from_secs(30), opened.sandbox.closed()).await;
    let Ok(Closed::Lost { reason }) = closed else {
        panic!("{closed:?}")
    };
    assert!(reason.contains("raise the limit `memory`"), "{reason}");
    let error = opened
        .sandbox
        .run(&Ctx::new(), ProcessSpec::new(["true"]))
        .await;
    assert_eq!(error.expect_err("it is gone").kind(), ErrorKind::Lost);
    host.shutdown().await;
}

#[tokio::test]
async fn time_on_processors_is_bounded() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let opened = limited(
        &scratch,
        &host,
        policy(LimitKind::Cpu, 200, Strength::Required),
    )
    .await;
    assert_eq!(enforced_by(&opened, LimitKind::Cpu), EnforcedBy::Container);
    let loops = "while :; do :; done & while :; do :; done";
    let outcome = run(&*opened.sandbox, loops, Duration::from_secs(2)).await;
    assert_eq!(outcome.exit.status, Status::TimedOut);
    let used = outcome.exit.usage.user + outcome.exit.usage.system;
    // Two loops would have had two seconds and more; a fifth of a processor is 0.4 s of them.
    let bounds = Duration::from_millis(50)..Duration::from_secs(1);
    assert!(bounds.contains(&used), "{used:?}");
    end(opened, &host).await;
    // More than the machine has is no reason to have nothing.
    let many = policy(LimitKind::Cpu, 1_000_000, Strength::Required);
    let opened = limited(&scratch, &host, many).await;
    assert_eq!(enforced_by(&opened, LimitKind::Cpu), EnforcedBy::Container);
    end(opened, &host).await;
}

#[tokio::test]
async fn files_and_their_sizes_are_limited_as_everywhere() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    let mut policy = policy(LimitKind::FileSize, 1 << 20, Strength::Required);
    let open_files = Limit {
        value: 40,
        strength: Strength::Required,
    };
    policy.limits.insert(LimitKind::OpenFiles, open_files);
    let opened = limited(&scratch, &host, policy).await;
    assert_eq!(
        enforced_by(&opened, LimitKind::FileSize),
        EnforcedBy::Rlimit
    );
    let script = "ulimit -n; dd if=/dev/zero of=big bs=64K count=32 2>/dev/null; wc -c < big";
    assert_eq!(sh(&*opened.sandbox, script).await, "40\n1048576\n");
    end(opened, &host).await;
}

#[tokio::test]
async fn a_limit_that_is_too_little_to_start_with_or_that_nobody_keeps_is_refused() {
    let scratch = Scratch::new();
    let host = scratch.host(&Scratch::options(IMAGE));
    for (kind, value, says) in [
        (LimitKind::Memory, 1 << 20, "16777216 or more"),
        (LimitKind::Processes, 2, "16 or more"),
        (LimitKind::Disk, 1 << 30, "best effort"),
    ] {
        let refused = scratch
            .refused(&host, policy(kind, value, Strength::Required))
            .await;
        assert!(
            refused.contains(kind.name()) && refused.contains(says),
            "{refused}"
        );
        let opened = limited(&scratch, &host, policy(kind, value, Strength::BestEffort)).await;
        assert_eq!(enforced_by(&opened, kind), EnforcedBy::None);
        opened
            .release(&Ctx::new(), sandbox_core::Disposition::Destroy)
            .await
            .expect("it ends");
    }
    host.shutdown().await;
}

/// A program that is docker, with a warning as a daemon gives it whose kernel cannot limit swap.
fn warning_program(scratch: &Scratch) -> PathBuf {
    let program = scratch.workspace().with_file_name("docker-that-warns");
    let script = "#!/bin/sh\ncase \"$*\" in *' create '*) echo 'WARNING: Your kernel does not support swap limit capabilities or \
                  the cgroup is not mounted. Memory limited without swap.' >&2;; esac\nexec docker \"$@\"\n";
    std::fs::write(&program, script).expect("a file");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("it is ours");
    program
}

#[tokio::test]
async fn what_the_daemon_warns_of_is_refused_if_required_and_told_if_not() {
    let scratch = Scratch::new();
    let program = warning_program(&scratch);
    let options = format!(
        "{}program = '{}'\n",
        Scratch::options(IMAGE),
        program.display()
    );
    let host = scratch.host(&options);
    let required = policy(LimitKind::Memory, MEMORY, Strength::Required);
    let refused = scratch.refused(&host, required).await;
    assert!(refused.contains("Memory limited without swap"), "{refused}");
    assert!(refused.contains("ask for no limit"), "{refused}");
    let opened = limited(
        &scratch,
        &host,
        policy(LimitKind::Memory, MEMORY, Strength::BestEffort),
    )
    .await;
    assert_eq!(enforced_by(&opened, LimitKind::Memory), EnforcedBy::None);
    let descriptor = opened.sandbox.descriptor();
    let told = descriptor
        .notes
        .iter()
        .any(|note| note.contains("cannot keep the limit memory"));
    assert!(told, "{:?}", descriptor.notes);
    // Who asks for none is not bothered.
    let other = scratch.open(&host).await;
    other
        .release(&Ctx::new(), sandbox_core::Disposition::Destroy)
        .await
        .expect("it ends");
    end(opened, &host).await;
}
